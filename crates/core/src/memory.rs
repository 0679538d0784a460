//! What a program keeps across sessions.

use std::error::Error;

use crate::model::BoxFuture;
use crate::name::AgentId;
use crate::outcome::Outcome;

/// Why a memory could not take something. It is put on record and stops nothing.
pub type MemoryError = Box<dyn Error + Send + Sync>;

/// Keeps what is worth keeping beyond a session. Children never get any of it.
///
/// ```
/// use std::sync::Mutex;
/// use deputize_core::{AgentId, BoxFuture, Memory, MemoryError, Outcome};
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
/// It is given to `deputize_runtime::SessionConfig::memory`.
pub trait Memory: Send + Sync {
    /// A child finished, whatever it was and however it ended: its task, what it gave, and its
    /// id, by which the session file knows it. The child's end is on record by then. Called once
    /// for each end, before the parent is told, and perhaps again when the program was ended before
    /// the parent was; a failure, a panic and more than [`MEMORY_SECONDS`] are put on record and
    /// harm nothing.
    fn on_delegation<'a>(
        &'a self,
        task: &'a str,
        result: &'a Outcome,
        child_session_id: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), MemoryError>>;

    /// What the system text of a top agent is to hold of the memory: a quote in it, that tells
    /// where it is from. Asked once, when the runtime's `Session::top_agent` makes the agent.
    fn snapshot(&self) -> Option<String> {
        None
    }
}

/// Seconds that a memory has to take one thing in.
pub const MEMORY_SECONDS: u64 = 10;

const fn _object_safe(_: &dyn Memory) {}
