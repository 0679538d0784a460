//! Ids of new sessions.

use deputize_core::SessionId;
use jiff::Timestamp;

/// Returns an id for a session that begins at a time in milliseconds since 1970: the time in UTC
/// and six random letters. Ids sort by time.
///
/// ```
/// let id = deputize_agent::new_session_id(1_767_323_045_006);
/// assert!(id.as_str().starts_with("20260102-030405-"));
/// ```
#[must_use]
pub fn new_session_id(now_ms: u64) -> SessionId {
    let now = i64::try_from(now_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let time = now.unwrap_or(Timestamp::UNIX_EPOCH).strftime("%Y%m%d-%H%M%S").to_string();
    let unique: String = (0..6).map(|_| fastrand::lowercase()).collect();
    SessionId::new(format!("{time}-{unique}")).unwrap_or(SessionId::literal("session"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_differ() {
        let first = new_session_id(1_767_323_045_006);
        assert_ne!(first, new_session_id(1_767_323_045_006));
        assert!(first < new_session_id(1_767_323_046_006));
        assert!(new_session_id(u64::MAX).as_str().starts_with("19700101-"));
    }
}
