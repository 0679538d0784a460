use std::path::Path;

use deputize_core::agent::{AgentSpec, Role, SpawnedBy};
use deputize_core::hook::{HookDecision, HookEvent};
use deputize_core::message::CallStatus;
use deputize_core::model::Usage;
use deputize_core::outcome::{ExitReason, ToolTrace};
use deputize_core::{CallId, CancelReason, Outcome, SessionId, Status, ToolName, ToolsetName};
use deputize_runtime::top_agent;
use serde_json::{Value, json};

use super::*;

const SESSION: SessionId = SessionId::literal("s1");
/// The first call of the first step.
const CALL: CallId = CallId::new(1, 0);

fn parent() -> AgentSpec {
    AgentSpec {
        toolsets: vec![ToolsetName::literal("file")],
        tools: vec![ToolName::literal("read_file"), ToolName::literal("write_file")],
        ..top_agent(&SESSION, "local/m", "Tidy up.", Path::new("/"))
    }
}

/// The second child of the parent's call.
fn child() -> AgentSpec {
    let parent = parent();
    AgentSpec {
        id: parent.id.child(CALL, 1),
        parent: Some(parent.id.clone()),
        depth: 1,
        role: Role::Leaf,
        goal: "Count the files.".to_owned(),
        spawned_by: Some(SpawnedBy { call: CALL, task_index: 1, task_count: 3 }),
        ..parent
    }
}

fn outcome() -> Outcome {
    let trace = |tool: &str, args_bytes, result_bytes, status| ToolTrace {
        tool: tool.to_owned(),
        args_bytes,
        result_bytes,
        status,
    };
    Outcome {
        exit_reason: ExitReason::Completed,
        text: Some("All done.".to_owned()),
        error: None,
        model: "m-2026".to_owned(),
        iterations: 2,
        requests: 2,
        usage: Usage { input: 1000, cached: 500, output: 100, ..Usage::default() },
        duration_ms: 12_340,
        trace: vec![
            trace("read_file", 12, 400, CallStatus::Ok),
            trace("terminal", 20, 30, CallStatus::Denied),
        ],
        ..Outcome::without_run(&child(), Status::Completed, String::new())
    }
}

/// A hook that is one command, in an environment with a secret.
fn hook(point: HookPoint, command: &str) -> Arc<dyn Hook> {
    let env = [("PATH", "/usr/bin:/bin"), ("OPENAI_API_KEY", "sk-1"), ("BASH_ENV", "/x")];
    let env = env.map(|(name, value)| (name.into(), value.into())).into();
    let hook = HookCommand { point, command: command.to_owned() };
    shell_hooks([hook], Arc::default(), &env).pop().unwrap()
}

/// Runs a command before a call of `write_file`.
async fn before(command: &str, cwd: &Path, cancel: &Cancel) -> HookAnswer {
    let arguments = json!({"path": "a.txt", "content": "x".repeat(200_000)});
    let event = HookEvent::PreToolUse { call: CALL, tool: "write_file", arguments: &arguments };
    let agent = AgentSpec { cwd: cwd.to_owned(), ..parent() };
    let input = HookInput { session: &SESSION, agent: &agent, event };
    hook(HookPoint::PreToolUse, command).run(&input, cancel).await
}

async fn answer(command: &str) -> (HookDecision, String, u64) {
    let folder = tempfile::tempdir().unwrap();
    let answer = before(command, folder.path(), &Cancel::new()).await;
    (answer.decision, answer.reason, answer.output_bytes)
}

#[tokio::test]
async fn exit_codes_decide_and_standard_error_is_the_reason() {
    use HookDecision::{Block, Error, Pass};
    let said = |text: &str| text.to_owned();
    assert_eq!(answer("echo fine; echo so >&2").await, (Pass, said(""), 8));
    assert_eq!(answer("echo out; echo not that >&2; exit 2").await, (Block, said("not that"), 13));
    assert_eq!(answer("exit 2").await, (Block, said(""), 0));
    assert_eq!(answer("echo oops >&2; exit 1").await, (Error, said("exit code 1: oops"), 5));
    assert_eq!(answer("exit 7").await, (Error, said("exit code 7"), 0));
    assert_eq!(answer("kill -9 $$").await, (Error, said("ended by signal 9"), 0));
    let (decision, reason, _) = answer("no-such-program").await;
    assert!(decision == Error && reason.starts_with("exit code 127: "), "{reason}");
}

#[tokio::test]
async fn output_without_end_is_counted_and_bounded() {
    let loud = "head -c 3000000 /dev/zero; head -c 100000 /dev/zero | tr '\\0' e >&2; exit 2";
    let (decision, reason, bytes) = answer(loud).await;
    assert_eq!((decision, bytes), (HookDecision::Block, 3_100_000));
    assert_eq!(reason.trim_start_matches('e'), " [83616 more bytes left out]");
    let (decision, reason, _) = answer("printf '\\377\\376 no' >&2; exit 2").await;
    assert_eq!((decision, reason.as_str()), (HookDecision::Block, "\u{fffd}\u{fffd} no"));
    for (binary, bytes) in [("no\\0such", 7), ("\\377\\330\\377\\340 JF", 7), ("\\1\\2\\3", 3)] {
        let (_, reason, _) = answer(&format!("printf '{binary}' >&2; exit 2")).await;
        assert_eq!(reason, format!("[{bytes} bytes that are no text]"));
    }
}

#[tokio::test]
async fn what_a_hook_leaves_behind_is_ended_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let command = "sleep 36000.5 & echo $! > pid; exit 0";
    let answer = before(command, folder.path(), &Cancel::new()).await;
    assert_eq!(answer.decision, HookDecision::Pass);
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let arguments = std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&arguments).contains("36000.5"), "it runs on");
}

#[tokio::test]
async fn a_hook_that_hangs_ends_with_the_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("begun");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    let mut begun =
        tokio::net::unix::pipe::OpenOptions::new().read_write(true).open_receiver(&path).unwrap();
    let cancel = Cancel::new();
    let hangs = before("trap '' TERM; echo x > begun; sleep 36000", folder.path(), &cancel);
    let ended = async {
        begun.read_u8().await.unwrap();
        cancel.cancel(CancelReason::TimeLimit);
    };
    let (answer, ()) = tokio::join!(hangs, ended);
    assert_eq!((answer.decision, answer.reason.as_str()), (HookDecision::Error, "told to end"));
}

#[tokio::test]
async fn a_place_that_is_gone_is_a_failure_and_no_block() {
    let gone = Path::new("/nonexistent/place");
    let answer = before("exit 2", gone, &Cancel::new()).await;
    assert_eq!(answer.decision, HookDecision::Error);
    assert!(answer.reason.contains("/nonexistent/place"), "{}", answer.reason);
}

/// What a command gets at an event, as JSON.
async fn given(agent: AgentSpec, event: HookEvent<'_>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap().to_owned();
    let agent = AgentSpec { cwd: folder.path().to_owned(), ..agent };
    let input = HookInput { session: &SESSION, agent: &agent, event };
    let hook = hook(event.point(), "cat > seen; env > env; pwd > pwd");
    let answer = hook.run(&input, &Cancel::new()).await;
    assert_eq!(answer.decision, HookDecision::Pass, "{}", answer.reason);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(!read("env").contains("sk-1") && !read("env").contains("BASH_ENV"), "{}", read("env"));
    assert_eq!(read("pwd").trim(), folder.path().canonicalize().unwrap().to_str().unwrap());
    serde_json::from_str(&read("seen").replace(&place, "CWD")).unwrap()
}

#[tokio::test]
async fn a_hook_gets_one_json_object() {
    let arguments = json!({"command": "ls"});
    let tool = "terminal";
    let arguments = &arguments;
    let parent = parent();
    let kid = child();
    let ended = outcome();
    let status = CallStatus::Ok;
    let all = [
        given(parent.clone(), HookEvent::PreToolUse { call: CALL, tool, arguments }).await,
        given(
            kid.clone(),
            HookEvent::PostToolUse { call: CALL, tool, arguments, status, output: "a\u{e9}\n" },
        )
        .await,
        given(parent, HookEvent::UserPromptSubmit { prompt: "Tidy up." }).await,
        given(kid.clone(), HookEvent::SubagentStart).await,
        given(kid, HookEvent::SubagentStop { outcome: &ended }).await,
    ];
    insta::assert_json_snapshot!(all);
}
