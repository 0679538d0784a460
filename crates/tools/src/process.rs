//! `process`: the background commands of `terminal`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::process::ProcessExit;
use deputize_core::process_recorder::{ProcessRecords, process_id};
use deputize_core::sanitize::for_verbatim_line;
use deputize_core::tool::{CallCheck, CallRisk, HarmlessCalls, spec_of};
use deputize_core::wording::count;
use deputize_core::{
    AgentView, ArgumentRole, Effects, Example, Subject, ToolCallResult, ToolCx, ToolError,
    ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Settings;
use crate::background::BackgroundCommand;
use crate::display_name::display_name;
use crate::terminal::Terminal;

/// Characters of a command in a list.
const COMMAND_CHARS: usize = 80;
/// Characters of a command in a question; the number of the others is shown.
const QUESTION_CHARS: usize = 1000;
/// Time in which a command must take its input.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

const DESCRIPTION: &str = "Background commands: list, read new output, wait for the \
    end or a text, write input, kill.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Read,
    Wait,
    Write,
    Kill,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    action: Action,
    #[serde(default)]
    id: Option<String>,
    /// To write; end lines with \n.
    #[serde(default)]
    text: Option<String>,
    /// End its input.
    #[serde(default)]
    close: bool,
    /// Wait for this text.
    #[serde(default)]
    until: Option<String>,
    /// Default 60, at most 600.
    #[serde(default)]
    timeout_seconds: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Process;

impl TypedTool for Process {
    type Args = Args;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({"action": "list"});
        ToolSpec {
            // Waiting has its own.
            time_limit: None,
            harmless: Some(HarmlessCalls {
                argument: "action",
                values: &["list", "read", "wait", "kill"],
            }),
            examples: vec![Example { title: "What runs", arguments }],
            kind: ToolKind::Execute,
            // The rules of commands say nothing of what another program than a shell makes of it.
            risk: Some(CallRisk::unbounded()),
            // What a shell in the background reads is a command as well, so none that never runs.
            subject: Subject::new(
                Some("background command".into()),
                "action",
                ArgumentRole::Action,
            )
            .with("id", ArgumentRole::Text)
            .with("text", ArgumentRole::Command),
            ..ToolSpec::effectful(spec_of::<Args>("process", DESCRIPTION), Effects::Unknown)
        }
    }

    /// Where the command began. Where a shell went since is not known.
    fn working_directory(&self, args: Args, agent: &AgentView) -> PathBuf {
        let terminal = agent.store.get_or_insert_with(Terminal::default);
        let command = args.id.and_then(|id| terminal.background.get(&id));
        command.map_or_else(|| agent.spec.cwd.clone(), |command| command.cwd().to_owned())
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        if args.action != Action::List {
            let command = named_command(&args, cx)?;
            if args.action == Action::Write {
                check_input(&args, cx)?;
                if command.input().await.is_none() {
                    return Err(no_input(&command));
                }
            }
        }
        Ok(CallCheck::Accepted)
    }

    /// Names the command that gets an input: the ID alone says nothing to a person.
    async fn question_details(&self, args: Args, agent: &AgentView) -> Map<String, Value> {
        let terminal = agent.store.get_or_insert_with(Terminal::default);
        let command = args.id.as_deref().and_then(|id| terminal.background.get(id));
        let shown = |it: &str| for_verbatim_line(it, QUESTION_CHARS).into();
        let named = command.map(|it| ("input of".to_owned(), shown(&it.start().command)));
        named.into_iter().collect()
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        if args.action == Action::List {
            let terminal = cx.agent.store.get_or_insert_with(Terminal::default);
            return Ok(ToolOutput::text(list(&terminal.background.all(), cx)));
        }
        let command = named_command(&args, cx)?;
        match args.action {
            Action::List | Action::Read => Ok(shown_progress(&command)),
            Action::Wait => wait(&command, &args, 0, cx).await,
            Action::Write => write(&command, &args, cx).await,
            Action::Kill => {
                command.stop(ProcessExit::Killed);
                command.ended().await;
                Ok(shown_progress(&command))
            }
        }
    }
}

deputize_core::register_tool!("terminal", Process);

fn list(commands: &[Arc<BackgroundCommand>], cx: &ToolCx) -> String {
    let line = |command: &Arc<BackgroundCommand>| {
        let seconds = count(command.ran().as_secs(), "second");
        let state = match command.exit() {
            None => format!("runs for {seconds}"),
            Some(exit) => format!("{exit} after {seconds}"),
        };
        let unread = count(command.unread(), "byte");
        let text = deputize_core::truncate::truncate_chars(&command.start().command, COMMAND_CHARS);
        // After its end, the PID may be that of another process.
        let durable = match (command.start().durable_pid, command.exit()) {
            (Some(pid), None) => format!(", durable, PID {pid}"),
            _ => String::new(),
        };
        format!("{} {state}{durable}, {unread} unread: {}", command.id(), display_name(text))
    };
    let lines: Vec<String> = left_running(cx).chain(commands.iter().map(line)).collect();
    if lines.is_empty() {
        return "no background commands".to_owned();
    }
    lines.join("\n")
}

/// Returns the lines of durable commands that earlier turns left running.
fn left_running(cx: &ToolCx) -> impl Iterator<Item = String> + use<> {
    let records = cx.agent.store.get_or_insert_with(ProcessRecords::default);
    let ended = move |id: String| Some((records.recorder().earlier_end(&id)?, id));
    let line = |(exit, id)| match exit {
        ProcessExit::LeftRunning { .. } => Some(format!("{id} {}", left_words(exit))),
        _ => None,
    };
    (0..).map(process_id).map_while(ended).filter_map(line)
}

fn left_words(exit: ProcessExit) -> String {
    format!("is durable and was {exit}; the user can end it")
}

/// Returns the command that a call names.
fn named_command(args: &Args, cx: &ToolCx) -> Result<Arc<BackgroundCommand>, ToolError> {
    let Some(id) = args.id.as_deref() else {
        return Err(ToolError::refused("id is missing: action list shows the ids"));
    };
    let terminal = cx.agent.store.get_or_insert_with(Terminal::default);
    terminal.background.get(id).ok_or_else(|| unknown(id, cx))
}

/// Checks what is to be written to a command.
fn check_input(args: &Args, cx: &ToolCx) -> Result<(), ToolError> {
    let text = args.text.as_deref().unwrap_or_default();
    let most = Settings::of(cx).commands.background.input_bytes;
    if text.len() > most {
        let found = text.len();
        return Err(ToolError::refused(format!(
            "the text has {found} bytes, and {most} is the most of one call: write it in parts"
        )));
    }
    if text.is_empty() && !args.close {
        return Err(ToolError::refused("nothing to write: give text, or close: true"));
    }
    Ok(())
}

/// Returns why nothing can be written to a command.
fn no_input(command: &BackgroundCommand) -> ToolError {
    let id = command.id();
    ToolError::refused(match (command.exit(), command.start().durable_pid) {
        (Some(exit), _) => format!("{id} has ended: {exit}"),
        (None, Some(_)) => format!("{id} is durable: it has no input"),
        (None, None) => format!("the input of {id} is closed"),
    })
}

/// Returns why there is no command of this ID.
fn unknown(id: &str, cx: &ToolCx) -> ToolError {
    let records = cx.agent.store.get_or_insert_with(ProcessRecords::default);
    ToolError::refused(match records.recorder().earlier_end(id) {
        Some(exit @ ProcessExit::LeftRunning { .. }) => {
            format!("{} {}", display_name(id), left_words(exit))
        }
        Some(exit) => {
            format!("{} is gone: {exit}; start it again if it is needed", display_name(id))
        }
        None => format!("no background command {}: action list shows the ids", display_name(id)),
    })
}

/// Waits; a text counts after so many bytes of all output.
async fn wait(command: &BackgroundCommand, args: &Args, from: u64, cx: &ToolCx) -> ToolCallResult {
    let until = args.until.as_deref().filter(|text| !text.is_empty()).map(|text| (text, from));
    let limits = &Settings::of(cx).commands;
    let wanted = args.timeout_seconds.unwrap_or(limits.background.wait_seconds).max(1);
    let seconds = wanted.min(limits.max_seconds);
    let found = command.wait(until, Duration::from_secs(seconds.into()), &cx.cancel).await;
    let mut output = ToolOutput { waited: true, ..shown_progress(command) };
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled(Box::new(output)));
    }
    match until {
        Some(_) if found => output.notes.push("the text has come".to_owned()),
        Some(_) => {
            output.notes.push(format!("the text has not come in {}", count(seconds, "second")))
        }
        None if command.exit().is_none() => {
            output.notes.push(format!("it has not ended in {}", count(seconds, "second")));
        }
        None => {}
    }
    Ok(output)
}

async fn write(command: &BackgroundCommand, args: &Args, cx: &ToolCx) -> ToolCallResult {
    let id = command.id();
    check_input(args, cx)?;
    let text = args.text.as_deref().unwrap_or_default().as_bytes();
    let mut input = command.input().await;
    let Some(open) = input.as_mut() else {
        return Err(no_input(command));
    };
    // What came before is no answer.
    let before = command.output_bytes();
    let mut written = 0;
    let writing = async {
        while let Some(rest) = text.get(written..).filter(|rest| !rest.is_empty()) {
            written += open.write(rest).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let result = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled(Box::default())),
        result = tokio::time::timeout(WRITE_LIMIT, writing) => result,
    };
    let all = text.len();
    match result {
        Ok(Ok(())) => {}
        Ok(Err(_)) => {
            return Err(ToolError::refused(format!(
                "{id} takes no more input: it has closed it or ended; {written} of {all} bytes \
                 were written"
            )));
        }
        Err(_) => {
            return Err(ToolError::refused(format!(
                "{id} does not read its input: {written} of {all} bytes were written in {}",
                count(WRITE_LIMIT.as_secs(), "second")
            )));
        }
    }
    if args.close
        && let Some(open) = input.take()
    {
        // One that is gone has no input either.
        let _gone = open.close().await;
    }
    drop(input);
    if args.until.is_some() {
        return wait(command, args, before, cx).await;
    }
    Ok(ToolOutput::text(format!("{} written to {id}", count(all as u64, "byte"))))
}

/// Takes what is new of a command, and returns it as a result.
fn shown_progress(command: &BackgroundCommand) -> ToolOutput {
    command.take_progress().into_output(command.id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{ToolFixture, result};
    use crate::terminal::TerminalTool;
    use crate::{BackgroundLimits, CommandSettings};
    use serde_json::json;
    use std::path::Path;

    fn bench() -> ToolFixture {
        bench_with(BackgroundLimits::default())
    }

    fn bench_with(background: BackgroundLimits) -> ToolFixture {
        let env = [("PATH".into(), std::env::var_os("PATH").unwrap())].into();
        let commands = CommandSettings { env, background, ..CommandSettings::default() };
        ToolFixture::with(crate::fixture::command_settings(commands))
    }

    async fn start(bench: &ToolFixture, command: &str) -> String {
        bench.call(TerminalTool, json!({"command": command, "background": true})).await
    }

    async fn process(bench: &ToolFixture, arguments: Value) -> String {
        bench.call(Process, arguments).await
    }

    /// Waits for a text, and returns the output that came with it.
    async fn until(bench: &ToolFixture, id: &str, text: &str) -> String {
        process(bench, json!({"action": "wait", "id": id, "until": text})).await
    }

    #[tokio::test]
    async fn a_command_is_fed_read_and_waited_for() {
        let bench = bench();
        assert_eq!(process(&bench, json!({"action": "list"})).await, "no background commands");
        assert_eq!(start(&bench, "cat; exit 3").await, "\n[p1 runs in the background]");
        let write = json!({"action": "write", "id": "p1", "text": "a\nb", "until": "b"});
        assert_eq!(
            process(&bench, write).await,
            "a\nb\n[p1 runs in the background]\n[the text has come]"
        );
        let close = json!({"action": "write", "id": "p1", "text": "c", "close": true});
        assert_eq!(process(&bench, close.clone()).await, "1 byte written to p1");
        let end = process(&bench, json!({"action": "wait", "id": "p1"})).await;
        assert_eq!(end, "c\n[p1 has ended after 0 seconds: exit code 3]");
        assert_eq!(bench.check(Process, &close).await, "refused: p1 has ended: exit code 3");
        assert_eq!(process(&bench, close).await, "refused: p1 has ended: exit code 3");
        let list = process(&bench, json!({"action": "list"})).await;
        assert_eq!(list, "p1 exit code 3 after 0 seconds, 0 bytes unread: cat; exit 3");
    }

    #[tokio::test]
    async fn a_question_names_the_command_that_gets_the_input() {
        let bench = bench();
        start(&bench, "bash -i;\nexit 3").await;
        let details = async |id: &str| {
            let args = json!({"action": "write", "id": id, "text": "ls"});
            let args = serde_json::from_value(args).unwrap();
            Value::Object(Process.question_details(args, &bench.cx.agent).await)
        };
        assert_eq!(details("p1").await, json!({"input of": "bash -i; ⏎ exit 3"}));
        assert_eq!(details("p9").await, json!({}));
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn old_output_is_no_answer_to_what_is_written() {
        let bench = bench();
        start(&bench, "echo old; cat").await;
        while !process(&bench, json!({"action": "list"})).await.contains("4 bytes unread") {
            tokio::task::yield_now().await;
        }
        let mut write = json!({
            "action": "write", "id": "p1", "text": "new\n", "until": "old", "timeout_seconds": 1
        });
        let answer = process(&bench, write.clone()).await;
        assert!(answer.ends_with("[the text has not come in 1 second]"), "{answer}");
        write["text"] = json!("old\n");
        write["timeout_seconds"] = json!(30);
        let answer = process(&bench, write).await;
        assert!(answer.ends_with("[the text has come]"), "{answer}");
    }

    #[tokio::test]
    async fn what_is_read_is_not_read_again_and_what_did_not_come_is_said() {
        let bench = bench();
        start(
            &bench,
            "echo one; read -r line; echo \"got $line\"; exec <&-; echo deaf; sleep 31536",
        )
        .await;
        let first = process(&bench, json!({"action": "read", "id": "p1"})).await;
        assert_eq!(first, "one\n\n[p1 runs in the background]");
        let wait = json!({"action": "wait", "id": "p1", "until": "one", "timeout_seconds": 1});
        let waited = result(&bench.cx, Process, wait).await.unwrap();
        assert_eq!(waited.notes[1], "the text has not come in 1 second");
        assert!(waited.waited);
        let write = json!({"action": "write", "id": "p1", "text": "x\n", "until": "deaf"});
        assert!(process(&bench, write.clone()).await.starts_with("got x\ndeaf\n"));
        assert_eq!(
            process(&bench, write).await,
            "refused: p1 takes no more input: it has closed it or ended; 0 of 2 bytes were written"
        );
        bench.cx.agent.store.close().await;
    }

    const FLOOD: &str = "head -c 10000000 /dev/zero | tr '\\0' x";

    #[tokio::test]
    async fn a_flood_is_bounded_here_and_whole_in_its_file() {
        let bench = bench();
        start(&bench, &format!("read -r go; {FLOOD}; echo; echo over")).await;
        process(&bench, json!({"action": "write", "id": "p1", "text": "go\n"})).await;
        let wait = json!({"action": "wait", "id": "p1"});
        let output = result(&bench.cx, Process, wait).await.unwrap();
        assert!(output.content.len() < 40_000, "{} bytes", output.content.len());
        assert!(output.content.ends_with("x\nover\n"), "{:?}", output.notes);
        let (_, path) = output.notes[1].split_once("all output is in ").unwrap();
        assert_eq!(Path::new(path).metadata().unwrap().len(), 10_000_006);
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn a_text_within_a_flood_that_nobody_read_is_found() {
        let bench = bench();
        let script = format!("read -r go; {FLOOD}; echo needle; {FLOOD}; :> came; sleep 31536");
        start(&bench, &script).await;
        process(&bench, json!({"action": "write", "id": "p1", "text": "go\n"})).await;
        while !bench.path("came").exists() {
            tokio::task::yield_now().await;
        }
        assert!(until(&bench, "p1", "needle").await.ends_with("[the text has come]"));
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn a_killed_command_is_gone_with_all_that_it_started() {
        let bench = bench();
        start(&bench, "trap '' TERM; setsid -f sleep 31537; echo $$; sleep 31537").await;
        let command = crate::terminal::tests::running(&bench, "p1");
        assert!(command.exit().is_none());
        let killed = process(&bench, json!({"action": "kill", "id": "p1"})).await;
        assert!(
            killed.contains("[p1 has ended after ") && killed.contains(": killed]"),
            "{killed}"
        );
        assert!(!killed.contains("could not be ended"), "{killed}");
        let left = bench.call(TerminalTool, json!({"command": "pgrep -f 'sleep 3153[7]'"})).await;
        assert_eq!(left, "\n[exit code 1]");
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn a_command_ends_with_its_agent_and_at_its_time_limit() {
        let bench = bench();
        start(&bench, "echo up; sleep 31536").await;
        let limited = json!({"command": "sleep 31536", "background": true, "timeout_seconds": 1});
        bench.call(TerminalTool, limited).await;
        let end = process(&bench, json!({"action": "wait", "id": "p2"})).await;
        assert_eq!(end, "\n[p2 has ended after 1 second: killed at its time limit]");
        let command = crate::terminal::tests::running(&bench, "p1");
        bench.cx.agent.store.close().await;
        assert_eq!(command.exit(), Some(ProcessExit::AgentEnded));
    }

    #[tokio::test]
    async fn limits_and_mistakes_are_refusals() {
        let limits =
            BackgroundLimits { commands: 1, input_bytes: 3, ..BackgroundLimits::default() };
        let bench = bench_with(limits);
        start(&bench, "sleep 31536").await;
        let mut seen = start(&bench, "sleep 31536").await + "\n";
        for arguments in [
            json!({"action": "read"}),
            json!({"action": "read", "id": "p7"}),
            json!({"action": "write", "id": "p1"}),
            json!({"action": "write", "id": "p1", "text": "four"}),
        ] {
            seen += &(process(&bench, arguments).await + "\n");
        }
        let pty = json!({"command": "ls", "pty": true});
        seen += &(bench.call(TerminalTool, pty).await + "\n");
        let notify = json!({"command": "ls", "notify_on_complete": true});
        seen += &bench.call(TerminalTool, notify).await;
        insta::assert_snapshot!(seen, @r"
        refused: 1 background commands run, and 1 is the most: kill one with process
        refused: id is missing: action list shows the ids
        refused: no background command p7: action list shows the ids
        refused: nothing to write: give text, or close: true
        refused: the text has 4 bytes, and 3 is the most of one call: write it in parts
        refused: pty needs background: true
        refused: notify_on_complete needs background: true
        ");
        process(&bench, json!({"action": "kill", "id": "p1"})).await;
        assert!(start(&bench, "true").await.contains("[p2 "));
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn a_terminal_of_its_own_takes_lines_and_the_end_of_input() {
        let bench = bench();
        let command = "test -t 0 && test -t 1 && read -r line && echo \"got $line\"; cat; exit 5";
        let pty = json!({"command": command, "background": true, "pty": true});
        bench.call(TerminalTool, pty).await;
        let write = json!({"action": "write", "id": "p1", "text": "x\n", "until": "got x"});
        assert!(process(&bench, write).await.contains("got x"));
        process(&bench, json!({"action": "write", "id": "p1", "close": true})).await;
        let end = process(&bench, json!({"action": "wait", "id": "p1"})).await;
        assert!(end.ends_with("exit code 5]"), "{end}");
        bench.cx.agent.store.close().await;
    }

    #[tokio::test]
    async fn at_a_terminal_no_wait_is_met_by_what_was_written() {
        let bench = bench();
        let command = "read -r word; read -r other; echo \"got $word\"; exec cat";
        let pty = json!({"command": command, "background": true, "pty": true});
        bench.call(TerminalTool, pty).await;
        let write = |text: &str, until: &str| json!({"action": "write", "id": "p1", "text": text, "until": until});
        process(&bench, write("word\n", "")).await;
        let answer = process(&bench, write("other\n", "word")).await;
        assert!(answer.contains("got word") && answer.matches("word").count() == 1, "{answer}");
        let answer = process(&bench, write("to cat\n", "to cat")).await;
        assert_eq!(answer.matches("to cat").count(), 1, "{answer}");
        assert!(answer.contains("the text has come"), "{answer}");
        process(&bench, json!({"action": "kill", "id": "p1"})).await;
        bench.cx.agent.store.close().await;
    }
}
