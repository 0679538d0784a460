//! The shell of an agent, which runs its commands.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use deputize_core::message::ModelText;
use deputize_core::process::ProcessStart;
use deputize_core::process_recorder::ProcessRecords;
use deputize_core::wording::count;
use deputize_core::{
    AgentView, ToolCallResult, ToolCx, ToolEffect, ToolError, ToolOutput, describe_error,
};
use deputize_process::{
    Background, CommandIo, CommandOutcome, Exit, Owner, Script, Shell, ShellOutcome, ShellState,
    SpillFile, StateChange, base_env,
};

use super::args::Args;
use crate::Settings;
use crate::background::{BackgroundCommands, NewCommand, StartedCommand};
use crate::display_name::display_name;
use crate::output_text::{omitted_note, output_text};
use crate::processes::Processes;
use crate::shell_state;
use crate::spill::{self, SpillError};

/// Time in which a background command that ends at once is seen to end.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// The shell of an agent, from its first command on.
#[derive(Debug)]
pub(super) struct RunningShell {
    pub(super) owner: Owner,
    shell: Shell,
    pub(super) state: ShellState,
    /// The variables that every shell starts with.
    base: BTreeMap<OsString, OsString>,
    /// A note that no result has had yet.
    news: Option<RestoreNote>,
}

/// The shell's state from an earlier run of the program.
#[derive(Debug)]
enum RestoreNote {
    /// Its directory and variables.
    Restored,
    /// Something that cannot be used: why.
    Lost(String),
}

impl RunningShell {
    pub(super) async fn start(cx: &ToolCx) -> Result<Self, ToolError> {
        let settings = Settings::of(cx);
        let env = base_env(&settings.commands.env);
        let cwd = first_directory(&cx.agent);
        let path = env.get(OsStr::new("PATH")).map(AsRef::as_ref);
        let shell = Shell::find(path).map_err(|error| unavailable(&error))?;
        let supervisor = Processes::supervisor(cx).map_err(|error| unavailable(&error))?;
        let fresh = ShellState { cwd, env: env.clone() };
        let (state, news) = match shell_state::restore(shell_state::path(cx), &env).await {
            Ok(None) => (fresh, None),
            Ok(Some(state)) => (state, Some(RestoreNote::Restored)),
            Err(error) => {
                let error = describe_error(&error);
                tracing::warn!(error, "shell state not restored");
                (fresh, Some(RestoreNote::Lost(error)))
            }
        };
        Ok(Self { owner: supervisor.owner(), shell, state, base: env, news })
    }

    /// Refuses, once, a command that assumes a lost directory.
    fn must_know_its_place(&mut self, cx: &ToolCx) -> Result<(), ToolError> {
        let Some(RestoreNote::Lost(why)) = &self.news else { return Ok(()) };
        let here = display_name(&self.state.cwd.to_string_lossy());
        let refused = ToolError::refused(format!(
            "nothing was run: the directory and variables that this shell had before the program \
             was started again are lost ({why}); the next command starts in {here} without them"
        ));
        // What is broken stays so; it must not stop the next start as well.
        let _best_effort = std::fs::remove_file(shell_state::path(cx));
        self.news = None;
        Err(refused)
    }

    /// Saves the state for a later run of the program; returns a note if that fails.
    async fn save_state(&self, cx: &ToolCx) -> Option<String> {
        let path = shell_state::path(cx);
        let base = self.base.clone();
        let state = self.state.clone();
        let cx = cx.clone();
        let save = move || {
            spill::folder(&cx)?;
            shell_state::save(&path, &base, &state)
        };
        let saved = tokio::task::spawn_blocking(save).await;
        let error = saved.unwrap_or_else(|lost| Err(lost.into())).err()?;
        tracing::warn!(error = error.to_string(), "shell state not saved");
        Some(format!("directory and variables last until this program ends only: {error}"))
    }

    /// Starts a command and returns at once, or when it has ended, if that is sooner.
    pub(super) async fn run_in_background(
        &mut self,
        args: Args,
        commands: &BackgroundCommands,
        cx: &ToolCx,
    ) -> ToolCallResult {
        let is_durable = args.is_durable(&cx.agent);
        if !is_durable {
            self.must_know_its_place(cx)?;
            self.state.check().map_err(|gone| ToolError::refused(gone.to_string()))?;
        }
        commands.check_room(&Settings::of(cx).commands.background)?;
        let (mut file, not_kept) = match spill::file(cx).await {
            Ok(file) => (Some(file), None),
            Err(why) if is_durable => return Err(ToolError::refused(describe_error(&why))),
            Err(why) => (None, Some(why)),
        };
        let path = file.as_ref().map(|file| file.path.clone());
        let started = match file.take_if(|_| is_durable) {
            Some(file) => self.start_durable(&args, file, cx).await?,
            None => self.start_owned(&args).await?,
        };
        let durable_pid = started.durable_pid();
        let records = cx.agent.store.get_or_insert_with(ProcessRecords::default);
        let start = ProcessStart {
            process: records.recorder().next_id(),
            call: cx.call,
            command: args.command,
            notify: args.notify_on_complete,
            terminal: args.pty,
            output: path.clone(),
            durable_pid,
        };
        if let Err(error) = records.recorder().record_start(&start) {
            started.end().await;
            return Err(ToolError::failed(error));
        }
        let cwd = if is_durable { first_directory(&cx.agent) } else { self.state.cwd.clone() };
        let new = NewCommand {
            start,
            cwd,
            records,
            time_limit: args.timeout_seconds.map(|most| Duration::from_secs(most.max(1).into())),
            file,
            is_top: cx.agent.spec.depth == 0,
        };
        let command = commands.watch(new, started);
        command.wait(None, FIRST_WAIT, &cx.cancel).await;
        let mut output = command.first_progress().into_output(command.id());
        output.notes.extend(not_kept.map(|why| describe_error(&why)));
        output.notes.extend(durable_pid.zip(path).map(|(pid, path)| {
            let path = path.display();
            let place = display_name(&first_directory(&cx.agent).to_string_lossy());
            format!(
                "durable: it goes on after this session, as PID {pid}; it runs in {place} with the \
                 shell's first variables; its output is in {path}"
            )
        }));
        Ok(output)
    }

    /// Starts a command that ends with its agent.
    async fn start_owned(&self, args: &Args) -> Result<StartedCommand, ToolError> {
        let mut command = self.shell.plain_command(&self.state, &args.command);
        let io = if args.pty {
            // Programs then write fewer of the sequences that mean nothing to a model.
            command.env.insert("TERM".into(), "dumb".into());
            CommandIo::Terminal
        } else {
            CommandIo::Pipes
        };
        let started = self.owner.interact(&command, io).await;
        Ok(started.map_err(|error| ToolError::refused(describe_error(&error)))?.into())
    }

    /// Starts a command that goes on when this program ends, in the directory and with the variables
    /// that the terminal began with: those of the shell now could make another program of its text.
    async fn start_durable(
        &self,
        args: &Args,
        file: SpillFile,
        cx: &ToolCx,
    ) -> Result<StartedCommand, ToolError> {
        let supervisor = Processes::supervisor(cx).map_err(|error| unavailable(&error))?;
        let first = ShellState { cwd: first_directory(&cx.agent), env: self.base.clone() };
        let command = self.shell.plain_command(&first, &args.command);
        let started = supervisor.start_durable(&command, &file).await;
        Ok(started.map_err(|error| ToolError::refused(describe_error(&error)))?.into())
    }

    pub(super) async fn run(&mut self, args: Args, cx: &ToolCx) -> ToolCallResult {
        self.must_know_its_place(cx)?;
        let settings = Settings::of(cx);
        let asked = args.timeout_seconds.unwrap_or(settings.commands.seconds).max(1);
        let seconds = asked.min(settings.commands.max_seconds);
        let (spill, not_kept) = match spill::file(cx).await {
            Ok(file) => (Some(file), None),
            Err(why) => (None, Some(why)),
        };
        let script = Script {
            time_limit: Duration::from_secs(seconds.into()),
            spill,
            ..Script::new(&args.command)
        };
        let before = self.state.clone();
        let done = self.shell.run(&self.owner, &mut self.state, script, cx.cancel.token()).await;
        let unkept = if self.state == before { None } else { self.save_state(cx).await };
        let ShellOutcome { finished, state, .. } = match done {
            Ok(done) => done,
            Err(_) if cx.cancel.is_cancelled() => return Err(ToolError::Cancelled(Box::default())),
            Err(error) => return Err(ToolError::refused(describe_error(&error))),
        };
        let mut output = output(&finished, not_kept);
        let restored = self.news.take().is_some();
        if restored {
            let then = display_name(&before.cwd.to_string_lossy());
            output.notes.insert(0, format!("shell restored: directory is {then}"));
        }
        output.notes.extend(state_notes(&state).into_iter().chain(unkept));
        if self.state.cwd != before.cwd {
            let now = display_name(&self.state.cwd.to_string_lossy());
            let others = display_name(&cx.agent.spec.cwd.to_string_lossy());
            output.notes.push(if self.state.cwd == cx.agent.spec.cwd {
                format!("this shell is in {now} now")
            } else {
                format!("this shell is in {now} now; paths of other tools still start in {others}")
            });
        }
        if restored || self.state.cwd != before.cwd {
            // Whether the last change before a restart is on record is not known. A record is JSON
            // and can name no other directory.
            if self.state.cwd.to_str().is_some() {
                output.facts.push(ToolEffect::ShellMoved { path: self.state.cwd.clone() });
            }
        }
        if asked > seconds {
            output.notes.push(format!("the time limit was {seconds} seconds, which is the most"));
        }
        let exit_code = if let Exit::Code(code) = finished.exit { Some(code) } else { None };
        let unknown = finished.exit == Exit::Unknown;
        output.facts.push(ToolEffect::Command { command: args.command, exit_code, unknown });
        settle_result(finished.exit, seconds, output)
    }
}

/// Returns the directory in which an agent's terminal begins.
pub(super) fn first_directory(agent: &AgentView) -> PathBuf {
    let configured = Settings::of_agent(agent).commands.cwd.clone();
    configured.unwrap_or_else(|| agent.spec.cwd.clone())
}

/// Returns the result of a command, by its exit.
pub(super) fn settle_result(exit: Exit, seconds: u32, output: ToolOutput) -> ToolCallResult {
    let partly = |text: String| {
        Err(ToolError::Partly { text: ModelText::own(text), output: Box::new(output.clone()) })
    };
    match exit {
        Exit::Cancelled => Err(ToolError::Cancelled(Box::new(output))),
        Exit::TimedOut => partly(format!(
            "timed out after {}; the command and everything it started were killed",
            count(seconds, "second")
        )),
        Exit::Unknown => partly(
            "outcome unknown: the process that owned the command was killed, so nobody saw how it \
             ended; check what it did before it is run again"
                .to_owned(),
        ),
        Exit::Code(_) | Exit::Signal(_) => Ok(output),
    }
}

/// Returns the command's output, with notes.
fn output(finished: &CommandOutcome, not_kept: Option<SpillError>) -> ToolOutput {
    let written = &finished.output;
    let mut output = ToolOutput::text(output_text(written));
    if written.omitted() > 0 {
        output.notes.push(omitted_note(written, finished.spill.as_ref(), not_kept));
    }
    // Of the other ends the refusal itself tells.
    if let Exit::Code(_) | Exit::Signal(_) = finished.exit {
        output.notes.push(finished.exit.to_string());
    }
    match finished.background {
        Background::None => {}
        Background::Discarded => output.notes.push(
            "a process in the background still holds the output; what it writes from now on is \
             lost, and it is ended with this agent"
                .to_owned(),
        ),
        Background::Closed => output.notes.push(
            "a process in the background held the output, which is closed now, because too many do"
                .to_owned(),
        ),
    }
    if !finished.ended.left.is_empty() {
        let left: Vec<_> = finished.ended.left.iter().map(ToString::to_string).collect();
        output.notes.push(format!("could not be ended: process {}", left.join(", ")));
    }
    output
}

fn state_notes(state: &StateChange) -> Option<String> {
    match state {
        StateChange::Updated { dropped } if dropped.is_empty() => None,
        StateChange::Updated { dropped } => {
            let names: Vec<_> =
                dropped.iter().map(|name| display_name(&name.to_string_lossy())).collect();
            let names = names.join(", ");
            Some(format!(
                "not kept for the next command, because programs run what it names: {names}"
            ))
        }
        StateChange::Unchanged(reason) => Some(reason.to_string()),
    }
}

fn unavailable(error: &dyn Error) -> ToolError {
    ToolError::refused(format!("terminal unavailable: {}", describe_error(error)))
}
