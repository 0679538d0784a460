//! Ends the commands of agents together with the program, also when it is killed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_process::{Helper, SupervisorConfig, helper_main};
use deputize_tools::Processes;
#[cfg(feature = "web")]
use deputize_tools::web::{Converter, converter_main};

/// The only argument of a helper process.
const HELPER: &str = "__deputize_helper";
/// The only argument of the process of a plugin.
#[cfg(feature = "plugins")]
pub(crate) const PLUGIN_HOST: &str = "__deputize_plugin_host";

/// The only argument of a process that turns a document of the web into text.
#[cfg(feature = "web")]
const CONVERTER: &str = "__deputize_converter";

/// Whether this program starts helpers of itself.
static HAS_HELPER: AtomicBool = AtomicBool::new(false);

/// Makes commands end with this program, also when it is killed, and gives plugins processes of
/// their own. Call it first in `main`, before any thread starts: the program starts itself once more
/// as such a process, and there this function returns the exit code.
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
    if let (Some(only), None) = (arguments.next(), arguments.next()) {
        if only == HELPER {
            return Some(helper_main());
        }
        #[cfg(feature = "web")]
        if only == CONVERTER {
            return Some(converter_main());
        }
        #[cfg(feature = "plugins")]
        if only == PLUGIN_HOST {
            return Some(deputize_plugin_host::host_main());
        }
    }
    HAS_HELPER.store(true, Ordering::Relaxed);
    None
}

/// Returns whether this program starts helpers of itself.
#[cfg(feature = "plugins")]
pub(crate) fn is_available() -> bool {
    HAS_HELPER.load(Ordering::Relaxed)
}

/// How the processes of an agent are owned.
pub(crate) fn supervisor_config() -> SupervisorConfig {
    let helper = || Helper::this_program([HELPER]);
    let helper = HAS_HELPER.load(Ordering::Relaxed).then(helper).flatten();
    SupervisorConfig { helper, ..SupervisorConfig::default() }
}

/// Returns the owner of an agent's commands.
pub(crate) fn processes() -> Processes {
    Processes::with(supervisor_config())
}

/// Where web pages and PDF files become text.
#[cfg(feature = "web")]
pub(crate) fn converter() -> Converter {
    let helper = || Helper::this_program([CONVERTER]);
    match HAS_HELPER.load(Ordering::Relaxed).then(helper).flatten() {
        Some(helper) => Converter::Process { program: helper.program, args: helper.args },
        None => Converter::Thread,
    }
}
