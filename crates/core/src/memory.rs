//! Memory that a program keeps across sessions.

use std::error::Error;

use crate::future::BoxFuture;
use crate::name::AgentId;
use crate::outcome::Outcome;
use crate::source::Source;
use crate::source_set::SourceSet;

/// Why a memory failed to store something. It is recorded and stops nothing.
pub type MemoryError = Box<dyn Error + Send + Sync>;

/// Stores what is worth keeping beyond a session. Children get no part of it.
///
/// ```
/// use std::sync::Mutex;
/// use deputize_core::{AgentId, BoxFuture, Outcome};
/// use deputize_core::memory::{Memory, MemoryError};
///
/// #[derive(Default)]
/// struct Notes(Mutex<Vec<String>>);
///
/// impl Memory for Notes {
///     fn on_delegation<'a>(
///         &'a self,
///         task: &'a str,
///         result: &'a Outcome,
///         child_session_id: &'a AgentId,
///     ) -> BoxFuture<'a, Result<(), MemoryError>> {
///         Box::pin(async move {
///             let answer = result.text.as_deref().unwrap_or("no answer");
///             let mut notes = self.0.lock().map_err(|_| "the notes are lost")?;
///             notes.push(format!("{child_session_id}: {task}: {answer}"));
///             Ok(())
///         })
///     }
/// }
/// # let _: &dyn Memory = &Notes::default();
/// ```
///
/// Passed to `deputize_runtime::SessionConfig::memory`.
pub trait Memory: Send + Sync {
    /// Called after a child of any kind has ended in any way and its end is recorded, with its
    /// task, its outcome and its ID in the session file. Called once for each end, before it is
    /// reported to the parent; and possibly again if the program ended before that. Failures,
    /// panics and running longer than [`MEMORY_SECONDS`] are recorded and have no other effect.
    fn on_delegation<'a>(
        &'a self,
        task: &'a str,
        result: &'a Outcome,
        child_session_id: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), MemoryError>>;

    /// Returns the memory's part of a top agent's system text, where it is quoted with its source.
    /// Called once, when the runtime's `Session::top_agent` creates the agent.
    fn snapshot(&self) -> Option<MemorySnapshot> {
        None
    }
}

/// What a memory has for the system text of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// Its text.
    pub text: String,
    /// The sources of the text. Those that are outside count as read by each top agent.
    pub sources: SourceSet,
}

impl From<String> for MemorySnapshot {
    /// Returns the text as the memory's own, without a source outside.
    fn from(text: String) -> Self {
        Self { text, sources: [Source::memory("snapshot")].into() }
    }
}

/// Time limit for storing one item, in seconds.
pub const MEMORY_SECONDS: u64 = 10;

const fn _object_safe(_: &dyn Memory) {}
