//! The place of a text among all sessions.

use std::fmt;
use std::str::FromStr;

use deputize_core::SessionId;

use crate::error::IndexError;

/// The place of a text: a session, and the number of a record in it. As text it is
/// `SESSION#NUMBER`; `SESSION` alone is its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPlace {
    /// ID of the session.
    pub session: SessionId,
    /// The number of the record, from 0.
    pub record: u64,
}

impl FromStr for SessionPlace {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Self, IndexError> {
        let failed = || IndexError::Place(deputize_core::sanitize::for_terminal_line(text, 100));
        let (session, record) = match text.trim().split_once('#') {
            Some((session, record)) => (session, record.parse().map_err(|_| failed())?),
            None => (text.trim(), 0),
        };
        let session = SessionId::new(session.to_owned()).map_err(|_| failed())?;
        Ok(Self { session, record })
    }
}

impl fmt::Display for SessionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.session, self.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let read = |text: &str| text.parse::<SessionPlace>().map(|place| place.to_string());
        assert_eq!(read(" s1#7 ").unwrap(), "s1#7");
        assert_eq!(read("s1").unwrap(), "s1#0");
        for bad in ["", "#3", "s1#", "s1#x", "s1#-1", "../s#1", "s1#1#2"] {
            let actual = read(bad).unwrap_err().to_string();
            assert!(
                actual.ends_with("names no text of a session: SESSION#NUMBER does"),
                "{actual}"
            );
        }
    }
}
