//! What owns the processes of a program's agents.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use deputize_core::{Resource, ToolCx};
use deputize_process::{Supervisor, SupervisorError};

/// The supervisor of all processes that a session's agents start. A program with several
/// sessions, or with processes of its own, puts the one it has into each session's settings;
/// otherwise a session starts one at its first command.
///
/// ```
/// use std::sync::Arc;
/// use deputize_core::Store;
/// use deputize_tools::Processes;
/// let supervisor = Arc::new(deputize_process::Supervisor::start()?);
/// let settings = Store::default();
/// settings.get_or_insert_with(|| Processes::of(Arc::clone(&supervisor)));
/// # Ok::<(), deputize_process::SupervisorError>(())
/// ```
#[derive(Default)]
pub struct Processes(Mutex<Option<Arc<Supervisor>>>);

impl Processes {
    /// Those of a supervisor.
    #[must_use]
    pub fn of(supervisor: Arc<Supervisor>) -> Self {
        Self(Mutex::new(Some(supervisor)))
    }

    /// The supervisor of the session that a call belongs to.
    pub(crate) fn supervisor(cx: &ToolCx) -> Result<Arc<Supervisor>, SupervisorError> {
        let processes = cx.agent.session.settings.get_or_insert_with(Self::default);
        let mut held = processes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(supervisor) = &*held {
            return Ok(Arc::clone(supervisor));
        }
        let started = Arc::new(Supervisor::start()?);
        *held = Some(Arc::clone(&started));
        Ok(started)
    }
}

impl Resource for Processes {}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Processes(..)")
    }
}
