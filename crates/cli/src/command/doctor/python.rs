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
pub(super) fn check(around: &ProcessEnv) -> Check {
    let settings = ResourceMap::default();
    let commands = CommandSettings { env: around.os_env.clone(), ..CommandSettings::default() };
    settings.get_or_insert_with(|| Settings { commands, ..Settings::default() });
    let found = match find_python(&settings) {
        Ok(path) => path,
        Err(why) => return Check::less(WHAT, why),
    };
    let mut command = Command::new(&found, "/");
    command.args = ["-I", "-c", PROGRAM].map(Into::into).into();
    command.env = base_env(&around.os_env);
    let path = found.display();
    match run(command, around) {
        Ok((Exit::Code(0), version)) => Check::new(WHAT, Ok(format!("{version}, {path}"))),
        Ok((Exit::Code(1), version)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            let found = format!("{version}, {path}: scripts need 3.7 or later");
            Check::less(WHAT, found)
        }
        Ok((exit, said)) => Check::less(WHAT, format!("{path} does not run: {exit}: {said}")),
        Err(why) => Check::less(WHAT, format!("{path} does not run: {why}")),
    }
}

/// Runs a command, and returns its end with the beginning of its output.
pub(super) fn run(command: Command, around: &ProcessEnv) -> Result<(Exit, String), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let processes = Processes::with(setup(around.open_files));
    let supervisor = processes.shared().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let owner = supervisor.owner();
        let ended = owner.run(command, Cancel::new().token()).await;
        let ended = ended.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&ended.output.head);
        Ok((ended.exit, for_terminal_line(said.trim(), SHOWN_CHARS)))
    })
}
