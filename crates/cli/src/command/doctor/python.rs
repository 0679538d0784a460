//! Whether scripts can run: Python is really started.

use deputize_core::sanitize::for_terminal_line;
use deputize_core::{Cancel, ResourceMap};
use deputize_process::{Command, Exit, base_env};
use deputize_tools::{CommandSettings, Processes, Settings, find_python};

use super::Check;
use crate::process_env::ProcessEnv;
use crate::processes::setup;

const WHAT: &str = "python3";
/// Characters that are shown of what Python says.
const SHOWN_CHARS: usize = 200;
/// Ends with an error where scripts cannot run.
const PROGRAM: &str = "import sys\n\
    print(sys.version.split()[0])\n\
    sys.exit(sys.version_info < (3, 7))";

/// Starts Python as a script would, and returns its version.
pub(super) fn check(env: &ProcessEnv) -> Check {
    let settings = ResourceMap::default();
    let commands = CommandSettings { env: env.os_env.clone(), ..CommandSettings::default() };
    settings.get_or_insert_with(|| Settings { commands, ..Settings::default() });
    let found = match find_python(&settings) {
        Ok(path) => path,
        Err(why) => return Check::less(WHAT, why),
    };
    let mut command = Command::new(&found, "/");
    command.args = ["-I", "-c", PROGRAM].map(Into::into).into();
    command.env = base_env(&env.os_env);
    let path = found.display();
    // Before it, a program that stands in for Python may say something.
    let last_line = |said: &str| one_line(said.lines().next_back().unwrap_or_default());
    match run(command, env).map(|(exit, said)| (exit, last_line(&said), said)) {
        Ok((Exit::Code(0), version, _)) => Check::new(WHAT, Ok(format!("{version}, {path}"))),
        Ok((Exit::Code(1), version, _)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            let found = format!("{version}, {path}: scripts need 3.7 or later");
            Check::less(WHAT, found)
        }
        Ok((exit, _, said)) => {
            Check::less(WHAT, format!("{path} does not run: {exit}: {}", one_line(&said)))
        }
        Err(why) => Check::less(WHAT, format!("{path} does not run: {why}")),
    }
}

/// Runs a command, and returns its end with the beginning of its output.
pub(super) fn run(command: Command, env: &ProcessEnv) -> Result<(Exit, String), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let processes = Processes::with(setup(env.open_files));
    let supervisor = processes.shared().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let owner = supervisor.owner();
        let ended = owner.run(command, Cancel::new().token()).await;
        let ended = ended.map_err(|error| error.to_string())?;
        Ok((ended.exit, String::from_utf8_lossy(&ended.output.head).trim().to_owned()))
    })
}

/// Returns a text of a program on one line.
pub(super) fn one_line(said: &str) -> String {
    for_terminal_line(said, SHOWN_CHARS)
}
