//! What owns the processes of a program's agents.

use std::fmt;
use std::sync::Arc;

use deputize_core::{Resource, ToolCx};
use deputize_process::{Supervisor, SupervisorConfig, SupervisorError};
use parking_lot::Mutex;

/// The supervisor of all processes that a session's agents start. A program with several sessions,
/// or with processes of its own, puts its supervisor into each session's settings; otherwise a
/// session starts one at its first command. [`SupervisorConfig::helper`] says what that one lacks
/// without a helper; [`Self::with`] gives it one.
///
/// ```
/// use std::sync::Arc;
/// use deputize_core::ResourceMap;
/// use deputize_tools::Processes;
/// let supervisor = Arc::new(deputize_process::Supervisor::start()?);
/// let settings = ResourceMap::default();
/// settings.get_or_insert_with(|| Processes::of(Arc::clone(&supervisor)));
/// # Ok::<(), deputize_process::SupervisorError>(())
/// ```
#[derive(Default)]
pub struct Processes {
    setup: SupervisorConfig,
    supervisor: Mutex<Option<Arc<Supervisor>>>,
}

impl Processes {
    /// Creates the processes of a supervisor.
    #[must_use]
    pub fn of(supervisor: Arc<Supervisor>) -> Self {
        Self { setup: SupervisorConfig::default(), supervisor: Mutex::new(Some(supervisor)) }
    }

    /// Creates the processes of a supervisor that is started with this setup at the first command.
    #[must_use]
    pub fn with(setup: SupervisorConfig) -> Self {
        Self { setup, supervisor: Mutex::default() }
    }

    /// The supervisor of the session that a call belongs to.
    pub(crate) fn supervisor(cx: &ToolCx) -> Result<Arc<Supervisor>, SupervisorError> {
        cx.agent.session.settings.get_or_insert_with(Self::default).shared()
    }

    /// Returns the supervisor, started if it is not yet: for what else the program starts.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn shared(&self) -> Result<Arc<Supervisor>, SupervisorError> {
        let mut held = self.supervisor.lock();
        if let Some(supervisor) = &*held {
            return Ok(Arc::clone(supervisor));
        }
        let started = Arc::new(Supervisor::with(self.setup.clone())?);
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
