//! Names and IDs, validated once, where the text enters the program.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::escape::for_exact_line;

/// Maximum characters shown of an invalid name.
const SHOWN_CHARS: usize = 80;

/// An invalid name, and its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a {kind}: use 1 to 64 of the characters A-Z a-z 0-9 _ -")]
pub struct NameError {
    kind: &'static str,
    found: String,
}

const fn is_name(bytes: &[u8]) -> bool {
    if bytes.is_empty() || bytes.len() > 64 {
        return false;
    }
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        if !(first.is_ascii_alphanumeric() || *first == b'_' || *first == b'-') {
            return false;
        }
        rest = tail;
    }
    true
}

/// The text of a name, which copies share: each agent has the names of its tools.
#[derive(Clone)]
enum NameText {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Deref for NameText {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for NameText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for NameText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for NameText {}

impl PartialOrd for NameText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NameText {
    fn cmp(&self, other: &Self) -> Ordering {
        str::cmp(self, other)
    }
}

impl Hash for NameText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        str::hash(self, state);
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NameText);

        impl $name {
            /// Creates a name known at compile time; an invalid one in a `const` does not compile.
            #[must_use]
            pub const fn literal(name: &'static str) -> Self {
                if !is_name(name.as_bytes()) {
                    panic!("not a name: use 1 to 64 of the characters A-Z a-z 0-9 _ -");
                }
                Self(NameText::Static(name))
            }

            /// Validates a name from outside.
            ///
            /// # Errors
            /// If it is empty, longer than 64 bytes, or contains another character.
            pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
                let name = name.into();
                if is_name(name.as_bytes()) {
                    Ok(Self(NameText::Shared(name.into())))
                } else {
                    Err(NameError { kind: $kind, found: for_exact_line(&name, SHOWN_CHARS) })
                }
            }

            /// Returns the name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(d)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

name! {
    /// The name of a tool, as the model writes it.
    ToolName, "tool name"
}
name! {
    /// The name of a set of tools that are granted or withheld together.
    ToolsetName, "toolset name"
}
name! {
    /// The name of a stored session; it is also a file name.
    SessionId, "session id"
}

/// ID of a call, derived by this program, so that it is the same after a resume: that of one call
/// of one step, or of a call that such a call made itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The step (model request) whose reply made the call, from 1.
    pub step: u32,
    /// Index of the call in that step, from 0.
    pub slot: u32,
    /// For a nested call, its number among those of the call that made it, from 1; `None` for a
    /// call of the model.
    pub nested: Option<u32>,
}

impl CallId {
    /// Returns the ID of a call of the model.
    #[must_use]
    pub const fn new(step: u32, slot: u32) -> Self {
        Self { step, slot, nested: None }
    }

    /// Returns the ID of the nested call with this number, from 1, of a call of the model.
    ///
    /// ```
    /// use deputize_core::CallId;
    /// let nested = CallId::new(3, 0).nested_call(2);
    /// assert_eq!(nested.to_string(), "call_3_0_2");
    /// assert_eq!(nested.outer_call(), Some(CallId::new(3, 0)));
    /// ```
    #[must_use]
    pub const fn nested_call(self, number: u32) -> Self {
        Self { nested: Some(number), ..self }
    }

    /// Returns the call that made this one; `None` for a call of the model.
    #[must_use]
    pub fn outer_call(self) -> Option<Self> {
        self.nested.map(|_| Self::new(self.step, self.slot))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call_{}_{}", self.step, self.slot)?;
        self.nested.map_or(Ok(()), |number| write!(f, "_{number}"))
    }
}

impl std::str::FromStr for CallId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (step, rest) = text.strip_prefix("call_")?.split_once('_')?;
            let (slot, nested) = match rest.split_once('_') {
                Some((slot, number)) => (slot, Some(number.parse().ok()?)),
                None => (rest, None),
            };
            Some(Self { nested, ..Self::new(step.parse().ok()?, slot.parse().ok()?) })
        };
        parse()
            .ok_or_else(|| NameError { kind: "call id", found: for_exact_line(text, SHOWN_CHARS) })
    }
}

impl Serialize for CallId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CallId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// ID of an agent of a session. The top agent has the ID of the session, a child
/// `PARENT/STEP.SLOT.INDEX`: derived from the call that spawned it, so that the same call always
/// names the same child.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentId(Arc<str>);

impl AgentId {
    /// Returns the ID of a session's top agent.
    #[must_use]
    pub fn root(session: &SessionId) -> Self {
        Self(session.as_str().into())
    }

    /// Returns the ID of the child that task `index` of `call` spawns.
    #[must_use]
    pub fn child(&self, call: CallId, index: u32) -> Self {
        Self(format!("{}/{}.{}.{index}", self.0, call.step, call.slot).into())
    }

    /// Returns the session that it belongs to.
    ///
    /// ```
    /// use deputize_core::{AgentId, CallId, SessionId};
    /// let session = SessionId::new("s1")?;
    /// let child = AgentId::root(&session).child(CallId::new(1, 0), 0);
    /// assert_eq!(child.session(), session);
    /// # Ok::<(), deputize_core::name::NameError>(())
    /// ```
    #[must_use]
    pub fn session(&self) -> SessionId {
        let root = self.0.split('/').next().unwrap_or_default();
        SessionId(NameText::Shared(root.into()))
    }

    /// Returns the agents above it, the nearest first.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        let up = |id: &Self| id.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()));
        std::iter::successors(up(self), up)
    }

    /// Returns the ID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// ID of an end of a child. A child that is continued ends again. As text it is the child's ID,
/// from the second end on with `#` and the number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ChildEndId {
    /// ID of the child.
    pub child: AgentId,
    /// Number of the end, from 1.
    pub number: u32,
}

impl From<String> for ChildEndId {
    fn from(text: String) -> Self {
        let parsed = text.rsplit_once('#').and_then(|(child, number)| {
            let number = number.parse().ok().filter(|number| *number > 1)?;
            Some(Self { child: AgentId(child.into()), number })
        });
        parsed.unwrap_or_else(|| Self { child: AgentId(text.into()), number: 1 })
    }
}

impl From<ChildEndId> for String {
    fn from(end: ChildEndId) -> Self {
        end.to_string()
    }
}

impl fmt::Display for ChildEndId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            1 => self.child.fmt(f),
            number => write!(f, "{}#{number}", self.child),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_foreign_character_is_refused_and_named() {
        let error = ToolName::new("read file").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`read file` is not a tool name: use 1 to 64 of the characters A-Z a-z 0-9 _ -"
        );
        // The text goes to terminals: nothing in a name moves their cursor.
        assert!(
            ToolName::new("a\u{7f}\n\u{1b}")
                .unwrap_err()
                .to_string()
                .starts_with("`a\\u{7f}\\n\\u{1b}` is not")
        );
        assert!(ToolName::new("").is_err());
        assert!(ToolName::new("a".repeat(65)).is_err());
        assert!(ToolName::new("a".repeat(64)).is_ok());
        assert!(serde_json::from_str::<SessionId>("\"../x\"").is_err());
    }

    #[test]
    fn a_call_id_survives_its_text_form() {
        let id = CallId::new(3, 11);
        assert_eq!(id.to_string(), "call_3_11");
        assert_eq!("call_3_11".parse::<CallId>().unwrap(), id);
        let nested = id.nested_call(2);
        assert_eq!(nested.to_string(), "call_3_11_2");
        assert_eq!("call_3_11_2".parse::<CallId>().unwrap(), nested);
        assert_eq!((nested.outer_call(), id.outer_call()), (Some(id), None));
        assert!(id < nested && nested < CallId::new(3, 12));
        assert!("call_3".parse::<CallId>().is_err());
        assert!("call_3_1_".parse::<CallId>().is_err());
        assert!("call_3_1_1_1".parse::<CallId>().is_err());
        assert!("call_-1_2".parse::<CallId>().is_err());
    }

    #[test]
    fn a_child_is_named_by_the_call_that_spawned_it() {
        let root = AgentId::root(&SessionId::literal("s1"));
        let child = root.child(CallId::new(2, 0), 1);
        let grandchild = child.child(CallId::new(1, 3), 0);
        assert_eq!(grandchild.as_str(), "s1/2.0.1/1.3.0");
        assert_eq!(grandchild.ancestors().collect::<Vec<_>>(), [child, root]);
    }

    #[test]
    fn the_first_end_of_a_child_is_written_as_its_id() {
        let child = AgentId::root(&SessionId::literal("s1")).child(CallId::new(2, 0), 1);
        for (number, text) in [(1, "s1/2.0.1"), (2, "s1/2.0.1#2"), (31, "s1/2.0.1#31")] {
            let end = ChildEndId { child: child.clone(), number };
            assert_eq!(serde_json::to_value(&end).unwrap(), text);
            assert_eq!(serde_json::from_value::<ChildEndId>(text.into()).unwrap(), end);
        }
    }
}
