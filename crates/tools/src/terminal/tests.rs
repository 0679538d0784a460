//! Tests of the terminal and its shell.

use std::path::Path;
use std::sync::Arc;

use deputize_core::{CancelReason, ToolEffect, ToolOutput};
use deputize_process::Exit;
use serde_json::json;

use super::running_shell::settle_result;
use super::*;
use crate::background::BackgroundCommand;
use crate::fixture::{ToolFixture, command_settings, result, show};
use crate::read_file::ReadFile;
use crate::{BackgroundLimits, CommandSettings};

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
    assert_eq!(run_in(&bench, "echo out; echo err >&2; exit 3").await, "out\nerr\n\n[exit code 3]");
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
async fn one_background_command_too_many_is_refused_before_a_question() {
    let background = BackgroundLimits { commands: 1, ..BackgroundLimits::default() };
    let commands = CommandSettings { background, ..CommandSettings::default() };
    let bench = bench_with(command_settings(commands));
    let call = json!({"command": "sleep 1000", "background": true});
    assert_eq!(bench.check(TerminalTool, &call).await, "accepted");
    bench.call(TerminalTool, call.clone()).await;
    let refused = bench.check(TerminalTool, &call).await;
    assert!(refused.starts_with("refused: 1 background commands run, and 1 is"), "{refused}");
    assert_eq!(bench.check(TerminalTool, &json!({"command": "ls"})).await, "accepted");
    bench.cx.agent.store.close().await;
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
    let bench = bench_with(command_settings(CommandSettings { env, ..CommandSettings::default() }));
    let text = run_in(&bench, "env").await;
    assert!(text.contains("LANG=C\n") && !text.contains("secret") && !text.contains("LD_PRELOAD"));
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
    assert!(notes.starts_with("[a process in the background still holds the output"), "{notes}");
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
    let bench =
        ToolFixture::with(command_settings(CommandSettings { env, ..CommandSettings::default() }));
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
    let bench = bench_with(command_settings(CommandSettings { cwd, ..CommandSettings::default() }));
    assert_eq!(run_in(&bench, "pwd").await, expected);
}
