//! Whether agents can use a browser: it is asked for its version.

use deputize_browser::{ChromiumProgram, runs_without_sandbox};
use deputize_process::{Command, Exit, base_env};

use super::Check;
use super::python::{one_line, run};
use crate::compose::AssembledProgram;
use crate::process_env::ProcessEnv;

const WHAT: &str = "browser";
/// Says what the browser says of its version with a mark before it. A script that starts the browser
/// may complain beside it.
const VERSION: &str = r#"said=$("$0" --version) && printf '\nversion: %s\n' "$said""#;

/// Checks the browser, if it is turned on.
pub(super) fn check(composition: &AssembledProgram, env: &ProcessEnv) -> Option<Check> {
    if !composition.config.browser.enabled {
        return None;
    }
    let found = match ChromiumProgram::find(&composition.tool_settings()) {
        Ok(found) => found,
        Err(why) => return Some(Check::less(WHAT, why)),
    };
    let mut command = Command::new("/bin/sh", "/");
    command.args = vec!["-c".into(), VERSION.into(), found.path().into()];
    command.env = base_env(&env.os_env);
    let path = found.path().display();
    let version = |said: &str| {
        let marked = said.lines().find_map(|line| line.strip_prefix("version: "));
        one_line(marked.unwrap_or_default())
    };
    let ended = run(command, env).map(|(exit, said)| match exit {
        Exit::Code(0) => (exit, version(&said)),
        exit => (exit, one_line(&said)),
    });
    Some(match ended {
        Ok((Exit::Code(0), version)) if runs_without_sandbox() => {
            let found = format!(
                "{version}, {path}: as root it runs without its own sandbox; use another user"
            );
            Check::less(WHAT, found)
        }
        Ok((Exit::Code(0), version)) => Check::new(WHAT, Ok(format!("{version}, {path}"))),
        Ok((exit, said)) => Check::less(WHAT, format!("{path} does not run: {exit}: {said}")),
        Err(why) => Check::less(WHAT, format!("{path} does not run: {why}")),
    })
}
