//! How a person names an agent: one reader for every command.

use deputize_core::{AgentId, SessionId};

/// An agent as a person names it: `SESSION` (its top agent), `SESSION/1.0.0` as `agents` shows
/// it, or, where the session is known, `top` or `1.0.0` as `sessions show` has it. Of the session
/// its beginning will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentName {
    /// The session, or the beginning of its name, where one is named.
    pub(crate) session: Option<String>,
    /// The way down from the top agent; empty for that one.
    path: String,
}

/// Why a name is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no agent: it is called SESSION or SESSION/STEP.SLOT.INDEX, and in a session that is \
     known `top` or STEP.SLOT.INDEX"
)]
pub(crate) struct BadName(String);

/// The top agent, in a session that is known.
const TOP: &str = "top";

impl AgentName {
    /// Reads a name.
    pub(crate) fn read(text: &str) -> Result<Self, BadName> {
        let (first, rest) = text.split_once('/').unwrap_or((text, ""));
        let (session, path) = match first {
            TOP => (None, rest),
            first if is_step(first) => (None, text),
            "" => return Err(BadName(text.to_owned())),
            first => (Some(first.to_owned()), if rest == TOP { "" } else { rest }),
        };
        if !path.is_empty() && !path.split('/').all(is_step) {
            return Err(BadName(text.to_owned()));
        }
        Ok(Self { session, path: path.to_owned() })
    }

    /// Returns the id that it means in a session; `None` if it is of another session.
    pub(crate) fn within(&self, session: &SessionId) -> Option<String> {
        let named = self.session.as_deref().unwrap_or_default();
        session.as_str().starts_with(named).then(|| match self.path.as_str() {
            "" => session.to_string(),
            path => format!("{session}/{path}"),
        })
    }

    /// Whether it names nothing below a session.
    pub(crate) const fn is_top(&self) -> bool {
        self.path.is_empty()
    }
}

/// An id without the session's, as a tree of agents names it.
pub(crate) fn short(id: &AgentId) -> &str {
    id.as_str().split_once('/').map_or(TOP, |(_, path)| path)
}

/// Returns the path in the text of an id, or the whole text if it has no path.
pub(crate) fn path_of(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, path)| path)
}

/// `STEP.SLOT.INDEX`.
fn is_step(part: &str) -> bool {
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    part.split('.').count() == 3 && part.split('.').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(name: &str) -> Option<String> {
        AgentName::read(name).unwrap().within(&SessionId::literal("20260102-abc"))
    }

    #[test]
    fn an_agent_has_the_same_names_everywhere() {
        let session = Some("20260102-abc".to_owned());
        for name in ["20260102-abc", "2026", "top", "20260102-abc/top"] {
            assert_eq!(within(name), session, "{name}");
        }
        let below = Some("20260102-abc/1.0.2/3.1.0".to_owned());
        for name in ["20260102-abc/1.0.2/3.1.0", "2026/1.0.2/3.1.0", "1.0.2/3.1.0"] {
            assert_eq!(within(name), below, "{name}");
        }
        assert_eq!(within("20260103/1.0.2"), None, "it is of another session");
    }

    #[test]
    fn what_names_no_agent_is_said() {
        for name in ["", "/1.0.0", "s/1.0", "1.0/0", "s/1.0.0/x", "s/../x", "s/1.0.0/"] {
            let error = AgentName::read(name).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{name}` is no agent: it is called ")), "{error}");
        }
    }
}
