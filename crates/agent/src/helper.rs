//! Ends the commands of agents together with the program, also when it is killed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_process::{Helper, SupervisorConfig, helper_main};
use deputize_tools::Processes;

/// The only argument of a helper process.
const HELPER: &str = "__deputize_helper";

/// Whether this program starts helpers of itself.
static HAS_HELPER: AtomicBool = AtomicBool::new(false);

/// Makes commands end with this program, also when it is killed. Call it first in `main`, before
/// any thread starts: the program starts itself once more as a helper that owns the commands, and
/// in that process this function returns the exit code.
///
/// Without this call commands end with the agent, and go on when the program is killed by
/// `kill -9`.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     if let Some(code) = deputize_agent::run_as_helper() {
///         return code;
///     }
///     // ...
///     std::process::ExitCode::SUCCESS
/// }
/// ```
#[must_use]
pub fn run_as_helper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let is_helper = arguments.next().is_some_and(|first| first == HELPER);
    if is_helper && arguments.next().is_none() {
        return Some(helper_main());
    }
    HAS_HELPER.store(true, Ordering::Relaxed);
    None
}

/// What owns the commands of an agent.
pub(crate) fn processes() -> Processes {
    let helper = || Helper::this_program([HELPER]);
    let helper = HAS_HELPER.load(Ordering::Relaxed).then(helper).flatten();
    Processes::with(SupervisorConfig { helper, ..SupervisorConfig::default() })
}
