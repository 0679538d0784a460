//! `terminal`: one command after the other in a shell that keeps its place.

use std::path::PathBuf;

use deputize_core::shell_directory::ShellPlace;
use deputize_core::tool::{CallCheck, spec_of};
use deputize_core::{
    AgentView, ArgumentRole, BoxFuture, Effects, Example, Resource, Subject, ToolCallResult,
    ToolCx, ToolError, ToolKind, ToolSpec, TypedTool,
};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use self::args::Args;
use self::running_shell::{RunningShell, first_directory};
use crate::Settings;
use crate::background::BackgroundCommands;

mod args;
mod running_shell;

const DESCRIPTION: &str = "Run a bash command without input. Directory and exported variables \
    stay. Use background for servers and long work; they end with your turn.";

/// What a person who is asked about a durable command reads.
const OUTLIVES: &str = "it goes on after this session, until you end it";

#[derive(Debug)]
pub(crate) struct TerminalTool;

impl TypedTool for TerminalTool {
    type Args = Args;

    fn spec() -> ToolSpec {
        let example = |title, arguments| Example { title, arguments };
        ToolSpec {
            // The command's own limit ends it and everything that it started.
            time_limit: None,
            examples: vec![
                example("A command", serde_json::json!({"command": "echo hello"})),
                example(
                    "A longer one",
                    serde_json::json!({"command": "ls | wc -l", "timeout_seconds": 300}),
                ),
                example(
                    "In the background",
                    serde_json::json!({"command": "true", "background": true}),
                ),
            ],
            kind: ToolKind::Execute,
            subject: Subject::new(Some("run".into()), "command", ArgumentRole::Command),
            ..ToolSpec::effectful(spec_of::<Args>("terminal", DESCRIPTION), Effects::Unknown)
        }
    }

    async fn question_details(&self, args: Args, agent: &AgentView) -> Map<String, Value> {
        let note = args.is_durable(agent).then(|| ("durable".to_owned(), OUTLIVES.into()));
        note.into_iter().collect()
    }

    fn working_directory(&self, args: Args, agent: &AgentView) -> PathBuf {
        let directory = if args.is_durable(agent) { None } else { shell_directory(agent) };
        directory.unwrap_or_else(|| first_directory(agent))
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        args.check(&cx.agent)?;
        if args.background {
            let terminal = cx.agent.store.get_or_insert_with(Terminal::default);
            terminal.background.check_room(&Settings::of(cx).commands.background)?;
        }
        Ok(CallCheck::Accepted)
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        args.check(&cx.agent)?;
        let terminal = cx.agent.store.get_or_insert_with(Terminal::default);
        let mut shell = terminal.shell.lock().await;
        let running = match &mut *shell {
            Some(running) => running,
            empty => empty.insert(RunningShell::start(cx).await?),
        };
        if args.background {
            return running.run_in_background(args, &terminal.background, cx).await;
        }
        running.run(args, cx).await
    }
}

deputize_core::register_tool!("terminal", TerminalTool);

/// An agent's terminal.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    /// `None` before its first command.
    shell: Mutex<Option<RunningShell>>,
    pub(crate) background: BackgroundCommands,
}

impl Resource for Terminal {
    fn close<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(async {
            self.background.close().await;
            if let Some(running) = self.shell.lock().await.take() {
                let _what_could_not_be_ended_is_gone_with_the_program = running.owner.end().await;
            }
        })
    }
}

/// Returns the directory of an agent's shell; `None` if it is not known to have moved.
fn shell_directory(agent: &AgentView) -> Option<PathBuf> {
    let terminal = agent.store.get_or_insert_with(Terminal::default);
    // A shell that is in use, or not started again yet, is where the record has it.
    let of_shell =
        terminal.shell.try_lock().ok().and_then(|shell| Some(shell.as_ref()?.state.cwd.clone()));
    of_shell.or_else(|| agent.store.get_or_insert_with(ShellPlace::default).get())
}

#[cfg(test)]
pub(crate) mod tests;
