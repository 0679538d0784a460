//! `terminal`: one command after the other in a shell that keeps its place.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use deputize_core::message::ModelText;
use deputize_core::process::ProcessStart;
use deputize_core::process_recorder::ProcessRecords;
use deputize_core::shell_directory::ShellPlace;
use deputize_core::tool::{CallCheck, spec_of};
use deputize_core::{
    AgentView, ArgumentRole, BoxFuture, Effects, Example, Resource, Subject, ToolCallResult,
    ToolCx, ToolEffect, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool, describe_error,
};
use deputize_process::{
    Background, CommandIo, CommandOutcome, Exit, Owner, Script, Shell, ShellOutcome, ShellState,
    SpillFile, StateChange, base_env,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::background::{BackgroundCommands, NewCommand, StartedCommand};
use crate::output_text::{omitted_note, output_text};
use crate::processes::Processes;
use crate::shell_state;
use crate::shown::{count, shown};
use crate::spill::{self, SpillError};
use crate::{BackgroundLimits, Settings};

const DESCRIPTION: &str = "Run a bash command without input. Directory and exported variables \
    stay. Use background for servers and long work; they end with your turn.";

/// What a person who is asked about a durable command reads.
const OUTLIVES: &str = "it goes on after this session, until you end it";

/// Time in which a background command that ends at once is seen to end.
const FIRST_WAIT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    command: String,
    /// Default 120, at most 600.
    #[serde(default)]
    timeout_seconds: Option<u32>,
    /// Return at once.
    #[serde(default)]
    background: bool,
    /// Get a message at its end, before you finish. Not for servers.
    #[serde(default)]
    notify_on_complete: bool,
    /// Background only.
    #[serde(default)]
    pty: bool,
}

impl Args {
    /// Returns whether the command goes on when the program ends, as the person has configured. That
    /// of a child never does: the directory where a child begins is a choice of its parent.
    fn is_durable(&self, agent: &AgentView) -> bool {
        let is_listed = || Settings::of_agent(agent).commands.durable.contains(&self.command);
        self.background && agent.spec.depth == 0 && is_listed()
    }

    fn check(&self, agent: &AgentView) -> Result<(), ToolError> {
        if self.command.trim().is_empty() {
            return Err(ToolError::refused("the command is empty"));
        }
        if !self.background && (self.pty || self.notify_on_complete) {
            let what = if self.pty { "pty" } else { "notify_on_complete" };
            return Err(ToolError::refused(format!("{what} needs background: true")));
        }
        if self.is_durable(agent) && (self.pty || self.timeout_seconds.is_some()) {
            return Err(ToolError::refused(
                "this command is durable: it has no terminal and no time limit; leave out pty and \
                 timeout_seconds",
            ));
        }
        Ok(())
    }
}

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

#[derive(Debug)]
struct RunningShell {
    owner: Owner,
    shell: Shell,
    state: ShellState,
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
    async fn start(cx: &ToolCx) -> Result<Self, ToolError> {
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
        let here = shown(&self.state.cwd.to_string_lossy());
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
    async fn keep(&self, cx: &ToolCx) -> Option<String> {
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
    async fn run_in_background(
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
        check_room(commands, &Settings::of(cx).commands.background)?;
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
        let new = NewCommand {
            start,
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
            let place = shown(&first_directory(&cx.agent).to_string_lossy());
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

    async fn run(&mut self, args: Args, cx: &ToolCx) -> ToolCallResult {
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
        let unkept = if self.state == before { None } else { self.keep(cx).await };
        let ShellOutcome { finished, state, .. } = match done {
            Ok(done) => done,
            Err(_) if cx.cancel.is_cancelled() => return Err(ToolError::Cancelled(Box::default())),
            Err(error) => return Err(ToolError::refused(describe_error(&error))),
        };
        let mut output = output(&finished, not_kept);
        let restored = self.news.take().is_some();
        if restored {
            let then = shown(&before.cwd.to_string_lossy());
            output.notes.insert(0, format!("shell restored: directory is {then}"));
        }
        output.notes.extend(state_notes(&state).into_iter().chain(unkept));
        if self.state.cwd != before.cwd {
            let now = shown(&self.state.cwd.to_string_lossy());
            let others = shown(&cx.agent.spec.cwd.to_string_lossy());
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
fn first_directory(agent: &AgentView) -> PathBuf {
    let configured = Settings::of_agent(agent).commands.cwd.clone();
    configured.unwrap_or_else(|| agent.spec.cwd.clone())
}

/// Returns the directory of an agent's shell; `None` if it is not known to have moved.
fn shell_directory(agent: &AgentView) -> Option<PathBuf> {
    let terminal = agent.store.get_or_insert_with(Terminal::default);
    // A shell that is in use, or not started again yet, is where the record has it.
    let of_shell =
        terminal.shell.try_lock().ok().and_then(|shell| Some(shell.as_ref()?.state.cwd.clone()));
    of_shell.or_else(|| agent.store.get_or_insert_with(ShellPlace::default).get())
}

/// Refuses one more background command than there may be.
fn check_room(commands: &BackgroundCommands, limits: &BackgroundLimits) -> Result<(), ToolError> {
    let running = commands.running();
    if running < limits.commands {
        return Ok(());
    }
    let most = limits.commands;
    let name = limits.setting_names.note("background_commands");
    Err(ToolError::refused(format!(
        "{running} background commands run, and {most} is the most{name}: kill one with process"
    )))
}

/// Returns the result of a command, by its exit.
fn settle_result(exit: Exit, seconds: u32, output: ToolOutput) -> ToolCallResult {
    let partly = |text: String| {
        Err(ToolError::Partly { text: ModelText::own(text), output: Box::new(output.clone()) })
    };
    match exit {
        Exit::Cancelled => Err(ToolError::Cancelled(Box::new(output))),
        Exit::TimedOut => partly(format!(
            "timed out after {}; the command and everything it started were killed",
            count(seconds.into(), "second")
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
            let names: Vec<_> = dropped.iter().map(|name| shown(&name.to_string_lossy())).collect();
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::CommandSettings;
    use crate::background::BackgroundCommand;
    use crate::fixture::{ToolFixture, command_settings, result, show};
    use crate::read_file::ReadFile;
    use deputize_core::CancelReason;
    use serde_json::json;
    use std::path::Path;
    use std::sync::Arc;

    fn bench() -> ToolFixture {
        bench_with(Settings::default())
    }

    fn bench_with(settings: Settings) -> ToolFixture {
        let mut settings = settings;
        settings.commands.env.insert("PATH".into(), std::env::var_os("PATH").unwrap());
        ToolFixture::with(settings)
    }

    /// Returns a background command of the fixture's agent.
    pub(crate) fn running(bench: &ToolFixture, id: &str) -> Arc<BackgroundCommand> {
        bench.cx.agent.store.get_or_insert_with(Terminal::default).background.get(id).unwrap()
    }

    async fn run_in(bench: &ToolFixture, command: &str) -> String {
        bench.call(TerminalTool, json!({"command": command})).await
    }

    fn alive(pid: &str) -> bool {
        Path::new("/proc").join(pid.trim()).exists()
    }

    #[tokio::test]
    async fn a_result_has_output_and_exit_code() {
        let bench = bench();
        assert_eq!(
            run_in(&bench, "echo out; echo err >&2; exit 3").await,
            "out\nerr\n\n[exit code 3]"
        );
        assert_eq!(
            run_in(&bench, "kill -9 $$").await,
            "\n[ended by signal 9]\n[the directory and variables are those from before this command: the script replaced the shell (exec), set its own EXIT trap, or was killed]"
        );
        assert_eq!(
            run_in(&bench, "cat; test -t 0 || echo no terminal").await,
            "no terminal\n\n[exit code 0]"
        );
        assert_eq!(run_in(&bench, "printf 'a\\xffb'").await, "a\u{fffd}b\n[exit code 0]");
        assert_eq!(run_in(&bench, " \n").await, "refused: the command is empty");
        let nul = run_in(&bench, "echo a\0b").await;
        assert!(nul.starts_with("refused: ") && nul.contains("NUL"), "{nul}");
    }

    #[test]
    fn a_command_whose_owner_was_killed_has_no_known_outcome() {
        let text = show(&settle_result(Exit::Unknown, 1, ToolOutput::text("some")));
        assert!(text.starts_with("refused: outcome unknown: "), "{text}");
        assert!(text.contains("before it is run again\nsome"), "{text}");
    }

    #[tokio::test]
    async fn a_command_is_a_fact() {
        let bench = bench();
        let output = result(&bench.cx, TerminalTool, json!({"command": "exit 3"})).await.unwrap();
        assert_eq!(
            output.facts,
            [ToolEffect::Command { command: "exit 3".into(), exit_code: Some(3), unknown: false }]
        );
    }

    #[tokio::test]
    async fn directory_and_variables_last() {
        let bench = bench();
        bench.put("d/f", "");
        assert_eq!(
            run_in(&bench, "cd d; export A='1 2'; B=3").await,
            "\n[exit code 0]\n[this shell is in ROOT/d now; paths of other tools still \
             start in ROOT]"
        );
        assert_eq!(run_in(&bench, "ls; echo $A-$B").await, "f\n1 2-\n\n[exit code 0]");
        // Another agent has a shell of its own.
        let roots = bench.cx.agent.authority.read_roots().clone();
        let grant = deputize_core::authority::Grant { read: Some(roots), ..Default::default() };
        let child = bench.child(&grant);
        let arguments = json!({"command": "pwd; echo $A"});
        assert_eq!(bench.call_as(&child, TerminalTool, arguments).await, "ROOT\n\n\n[exit code 0]");
    }

    fn place(cx: &ToolCx, arguments: &Value) -> PathBuf {
        deputize_core::tool::erase(TerminalTool).working_directory(arguments, &cx.agent)
    }

    #[tokio::test]
    async fn a_question_names_the_directory_in_which_the_command_would_run() {
        let commands =
            CommandSettings { durable: vec!["true".to_owned()], ..CommandSettings::default() };
        let bench = bench_with(command_settings(commands));
        let (plain, durable) =
            (json!({"command": "ls"}), json!({"command": "true", "background": true}));
        assert_eq!(place(&bench.cx, &plain), bench.root());
        run_in(&bench, "mkdir evil && cd evil").await;
        assert_eq!(place(&bench.cx, &plain), bench.path("evil"));
        assert_eq!(place(&bench.cx, &durable), bench.root());
    }

    #[tokio::test]
    async fn a_durable_command_with_a_limit_or_a_terminal_is_refused_before_a_question() {
        let commands =
            CommandSettings { durable: vec!["true".to_owned()], ..CommandSettings::default() };
        let bench = bench_with(command_settings(commands));
        let with =
            |name: &str, value: Value| json!({"command": "true", "background": true, name: value});
        for call in [with("pty", json!(true)), with("timeout_seconds", json!(9))] {
            let checked = bench.check(TerminalTool, &call).await;
            assert!(checked.starts_with("refused: this command is durable"), "{checked}");
        }
    }

    #[tokio::test]
    async fn no_command_of_a_child_is_durable() {
        let commands =
            CommandSettings { durable: vec!["true".to_owned()], ..CommandSettings::default() };
        let bench = bench_with(command_settings(commands));
        let arguments = json!({"command": "true", "background": true});
        let text = bench.call(TerminalTool, arguments.clone()).await;
        assert!(text.starts_with("refused: ") && text.contains("helper"), "{text}");
        let mut child = bench.child(&bench.cx.agent.spec.grant);
        let agent = Arc::get_mut(&mut child.agent).unwrap();
        Arc::make_mut(&mut agent.spec).depth = 1;
        let text = bench.call_as(&child, TerminalTool, arguments).await;
        assert!(text.contains("exit code 0]") && !text.contains("refused"), "{text}");
        child.agent.store.close().await;
    }

    #[tokio::test]
    async fn a_command_sees_no_more_of_the_environment_than_it_should() {
        let env = [("API_KEY", "secret"), ("LD_PRELOAD", "x"), ("LANG", "C")];
        let env = env.map(|(name, value)| (name.into(), value.into())).into();
        let bench =
            bench_with(command_settings(CommandSettings { env, ..CommandSettings::default() }));
        let text = run_in(&bench, "env").await;
        assert!(
            text.contains("LANG=C\n") && !text.contains("secret") && !text.contains("LD_PRELOAD")
        );
        assert_eq!(
            run_in(&bench, "export BASH_ENV=x A=1").await,
            "\n[exit code 0]\n[not kept for the next command, because programs run what it names: BASH_ENV]"
        );
    }

    #[tokio::test]
    async fn long_output_is_cut_in_the_middle_and_the_whole_can_be_read() {
        let bench = bench();
        let text = run_in(&bench, "seq 1 100000").await;
        assert!(text.starts_with("1\n2\n3\n"));
        let (shown, notes) = text.split_once("\n[… 556127 bytes left out …]\n").unwrap();
        assert_eq!(shown.len(), 16 * 1024);
        let (tail, notes) = notes.split_once("\n\n[").unwrap();
        assert!(tail.ends_with("99999\n100000"));
        let path = bench.cx.agent.session.spill.join("s~call_1_1.log");
        let said = format!(
            "556127 of 588895 bytes of output left out; all 588895 are in {}]\n[exit code 0]",
            path.display()
        );
        assert_eq!(notes, said);
        let read = bench.call(ReadFile, json!({"path": path, "offset": 99999})).await;
        assert_eq!(read, "99999\t99999\n100000\t100000");
    }

    #[tokio::test]
    async fn the_long_outputs_of_a_session_have_a_limit() {
        let bench = bench_with(Settings { spill_bytes: 1000, ..Settings::default() });
        let folder = bench.cx.agent.session.spill.clone();
        let notes = async || {
            let text = run_in(&bench, "seq 1 100000").await;
            text.split_once("100000\n\n").unwrap().1.replace(&*folder.to_string_lossy(), "SPILL")
        };
        std::fs::write(folder.join("earlier"), [0; 600]).unwrap();
        assert_eq!(
            notes().await,
            "[556127 of 588895 bytes of output left out; the first 400 are in SPILL/s~call_1_1.log: \
             the output exceeds the 400 bytes that are kept on disk; the rest was counted only]\n\
             [exit code 0]"
        );
        assert_eq!(
            notes().await,
            "[556127 of 588895 bytes of output left out; they are not kept: the long outputs of \
             this session take 1000 bytes, and the limit is 1000; print less, or write to a file]\n[exit code 0]"
        );
        // A short output needs no room.
        assert_eq!(run_in(&bench, "echo a").await, "a\n\n[exit code 0]");
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_is_ended_with_its_children() {
        let bench = bench();
        let command = "sleep 1000 & echo $! > pid; cd /; echo begun; wait";
        let arguments = json!({"command": command, "timeout_seconds": 1});
        assert_eq!(
            bench.call(TerminalTool, arguments).await,
            "refused: timed out after 1 second; the command and everything it started were killed\n\
             begun\n\n\
             [the directory and variables are those from before this command: it did not finish]"
        );
        assert!(!alive(&String::from_utf8(bench.get("pid")).unwrap()));
        assert_eq!(run_in(&bench, "pwd").await, "ROOT\n\n[exit code 0]");
    }

    #[tokio::test]
    async fn the_time_limit_has_a_limit() {
        let bench = bench_with(command_settings(CommandSettings {
            max_seconds: 5,
            ..CommandSettings::default()
        }));
        let arguments = json!({"command": "true", "timeout_seconds": 9});
        assert_eq!(
            bench.call(TerminalTool, arguments).await,
            "\n[exit code 0]\n[the time limit was 5 seconds, which is the most]"
        );
    }

    #[tokio::test]
    async fn a_cancelled_command_gives_what_it_wrote() {
        let bench = bench();
        bench.fifo("begun");
        let begun = bench.path("begun");
        let cancel = bench.cx.cancel.clone();
        let (result, pid) = tokio::join!(
            result(
                &bench.cx,
                TerminalTool,
                json!({"command": "echo some; echo $$ > begun; sleep 1000"})
            ),
            async move {
                // Ends when the command has opened the pipe and written to it.
                let pid = tokio::task::spawn_blocking(move || std::fs::read_to_string(begun));
                let pid = pid.await.unwrap().unwrap();
                cancel.cancel(CancelReason::Interrupted);
                pid
            }
        );
        let text = show(&result);
        assert!(text.starts_with("cancelled\nsome\n") && !text.contains("[cancelled]"), "{text}");
        assert!(!alive(&pid));
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn background_processes_live_until_the_agent_ends() {
        let bench = bench();
        let text = run_in(&bench, "sleep 1000 & echo $!").await;
        let (pid, notes) = text.split_once("\n\n[exit code 0]\n").unwrap();
        assert!(
            notes.starts_with("[a process in the background still holds the output"),
            "{notes}"
        );
        assert!(alive(pid));
        bench.cx.agent.store.close().await;
        assert!(!alive(pid));
    }

    #[tokio::test]
    async fn directory_and_variables_outlive_the_program() {
        let bench = bench();
        run_in(&bench, "mkdir build; cd build; export A=$'1\\n\\xff'; unset LANG").await;
        let bench = bench.again().await;
        assert_eq!(
            run_in(&bench, "pwd; printf %s \"$A\" | od -An -tx1").await,
            "ROOT/build\n 31 0a ff\n\n[shell restored: directory is ROOT/build]\n[exit code 0]"
        );
        // It is said once, and another agent has nothing of it.
        assert_eq!(run_in(&bench, "pwd").await, "ROOT/build\n\n[exit code 0]");
        let child = bench.child(&deputize_core::authority::Grant::default());
        let arguments = json!({"command": "pwd; echo $A"});
        assert_eq!(bench.call_as(&child, TerminalTool, arguments).await, "ROOT\n\n\n[exit code 0]");
        // Back to what it was at first is a change too.
        run_in(&bench, "cd ..; unset A OLDPWD").await;
        let bench = bench.again().await;
        assert_eq!(
            run_in(&bench, "pwd; echo ${A-none}").await,
            "ROOT\nnone\n\n[shell restored: directory is ROOT]\n[exit code 0]"
        );
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn after_a_restart_nothing_runs_in_another_place_than_the_model_believes() {
        let bench = bench();
        bench.put("precious", "");
        run_in(&bench, "mkdir build; cd build").await;
        let bench = bench.again().await;
        std::fs::remove_dir(bench.path("build")).unwrap();
        assert_eq!(
            run_in(&bench, "rm -rf *").await,
            "refused: nothing was run: working directory `ROOT/build` no longer exists; the next \
             command runs in `ROOT`"
        );
        let file = bench.cx.agent.session.spill.join("s~shell.json");
        std::fs::write(&file, "{").unwrap();
        let bench = bench.again().await;
        let refused = format!(
            "refused: nothing was run: the directory and variables that this shell had before the \
             program was started again are lost ({} is not what was written there); the next \
             command starts in ROOT without them",
            file.display()
        );
        assert_eq!(run_in(&bench, "rm -rf *").await, refused);
        assert_eq!(run_in(&bench, "pwd; ls").await, "ROOT\nprecious\n\n[exit code 0]");
        let bench = bench.again().await;
        assert_eq!(run_in(&bench, "pwd").await, "ROOT\n\n[exit code 0]");
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn what_cannot_be_kept_for_a_restart_is_said() {
        let bench = bench();
        std::fs::remove_dir(&bench.cx.agent.session.spill).unwrap();
        std::fs::write(&bench.cx.agent.session.spill, "").unwrap();
        assert_eq!(
            run_in(&bench, "cd /").await,
            "\n[exit code 0]\n[directory and variables last until this program ends only: \
             File exists (os error 17)]\n[this shell is in / now; paths of other tools still start in \
             ROOT]"
        );
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn a_directory_that_is_gone_is_said_before_anything_runs() {
        let bench = bench();
        run_in(&bench, "mkdir -p a/b; cd a/b").await;
        std::fs::remove_dir(bench.path("a/b")).unwrap();
        assert_eq!(
            run_in(&bench, "touch x").await,
            "refused: nothing was run: working directory `ROOT/a/b` no longer exists; the next \
             command runs in `ROOT/a`"
        );
        assert_eq!(run_in(&bench, "pwd; ls").await, "ROOT/a\n\n[exit code 0]");
    }

    #[tokio::test]
    async fn without_a_shell_the_terminal_says_what_is_missing() {
        let env = [("PATH".into(), "/nowhere".into())].into();
        let bench = ToolFixture::with(command_settings(CommandSettings {
            env,
            ..CommandSettings::default()
        }));
        let text = run_in(&bench, "true").await;
        assert!(
            text.starts_with("refused: terminal unavailable: program `sh` not found in PATH"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_terminal_can_start_elsewhere_than_its_agent() {
        let elsewhere = tempfile::tempdir().unwrap();
        let cwd = Some(elsewhere.path().canonicalize().unwrap());
        let expected = format!("{}\n\n[exit code 0]", cwd.as_ref().unwrap().display());
        let bench =
            bench_with(command_settings(CommandSettings { cwd, ..CommandSettings::default() }));
        assert_eq!(run_in(&bench, "pwd").await, expected);
    }
}
