//! The agent in editors: sessions, turns and updates over ACP.

use std::fs;
use std::time::Duration;

use deputize_core::model::Reply;
use deputize_testkit::{Barrier, MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::program::{ChatRequest, Lab, RunningProgram, hang, model};

mod approval;
mod editor;
mod history;
mod real;
mod servers;

use editor::{Editor, command};

fn calls(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

fn text(text: impl Into<String>) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

/// A model that makes these calls, one a reply, and then says so.
async fn steps(steps: Vec<(&'static str, Value)>) -> MockServer {
    model(move |asked: &ChatRequest| match steps.get(asked.results().len()) {
        Some((tool, arguments)) => calls(tool, arguments.clone()),
        None => text(format!("Done: {}", asked.results().join("|"))),
    })
    .await
}

fn stop_reason(answer: &Value) -> &str {
    answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn options_with_which_no_session_begins_are_told_at_the_start() {
    let lab = Lab::new();
    for (option, value, fault) in [
        ("--profile", "nope", "there is no profile `nope`"),
        ("-t", "nope", "there is no toolset `nope`"),
    ] {
        let ended = RunningProgram::start(lab.deputize(&["acp", option, value])).end().await;
        let err = &ended.with_code(0).err;
        assert!(err.contains(fault) && err.contains("note: no session begins in this"), "{err}");
    }
    let ended = RunningProgram::start(lab.deputize(&["acp", "--profile", "work"])).end().await;
    assert_eq!(ended.with_code(0).err, "");
}

/// Content behind words of ours, as where an edit does not fit.
#[tokio::test]
async fn a_failed_call_is_shown_without_the_frame_that_the_model_is_sent() {
    let lab = Lab::new();
    fs::write(lab.work("a.txt"), "one\ntwo\nthree\n").unwrap();
    let server = steps(vec![
        ("read_file", json!({"path": "a.txt"})),
        ("edit_file", json!({"path": "a.txt", "old": "thre\n", "new": "3\n"})),
    ])
    .await;
    let mut editor = Editor::start(command(&lab, &server, &[]));
    editor.hello().await;
    let session = editor.open(&lab).await;
    editor.prompt(&session, "Change it.").await;
    let failed = editor.call("call_2_0");
    assert_eq!(failed["status"], "failed");
    let shown = failed["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.contains("old does not occur in a.txt") && shown.contains("three"), "{shown}");
    assert!(!shown.contains("<tool:") && !shown.contains("</"), "{shown}");
}

#[tokio::test]
async fn a_new_session_has_the_profile_of_the_command_line() {
    let lab = Lab::new();
    let server = steps(Vec::new()).await;
    let (mut editor, session) =
        Editor::with_session(&lab, &server, &["--profile", "explore"]).await;
    editor.prompt(&session, "Look.").await;
    let requests = server.requests();
    let sent = ChatRequest::of(&requests[0]);
    assert_eq!(sent.tools(), ["list_dir", "read_file", "search_files"]);
    assert!(sent.system().contains("YOUR PROFILE, `explore`:"), "{}", sent.system());
    editor.leave().await;

    let mut serve = lab.deputize(&["mcp-serve", "-m", "offline", "--profile", "explor"]);
    serve.stdin(std::process::Stdio::null());
    let refused = RunningProgram::start(serve).end().await.with_code(2);
    assert!(refused.err.contains("there is no profile `explor`"), "{}", refused.err);
}

#[tokio::test]
async fn a_turn_is_sent_as_it_goes() {
    let lab = Lab::new();
    fs::write(lab.work("a.txt"), "one\ntwo\nthree\n").unwrap();
    let server = steps(vec![
        ("read_file", json!({"path": "a.txt", "offset": 2})),
        ("edit_file", json!({"path": "a.txt", "old": "two\n", "new": "2\n"})),
        ("write_file", json!({"path": "b.txt", "content": "new\n"})),
        ("terminal", json!({"command": "echo from the shell"})),
        ("read_file", json!({"path": "none.txt"})),
    ])
    .await;
    let mut editor = Editor::start(command(&lab, &server, &[]));
    let hello = editor.hello().await;
    let can = &hello["result"]["agentCapabilities"];
    assert_eq!(
        (&hello["result"]["protocolVersion"], &can["loadSession"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(can["promptCapabilities"]["embeddedContext"], true, "{hello}");
    assert_eq!(hello["result"]["agentInfo"]["name"], "deputize");
    let session = editor.open(&lab).await;
    let answer = editor.prompt(&session, "Change it.").await;
    assert_eq!(stop_reason(&answer), "end_turn");
    assert!(editor.text("agent_message_chunk").starts_with("Done: "));

    let path = |name: &str| json!(lab.work("").canonicalize().unwrap().join(name));
    let read = editor.call("call_1_0");
    assert_eq!(read["kind"], "read", "{read}");
    assert_eq!(read["title"], "read a.txt from line 2");
    assert_eq!(read["status"], "completed");
    assert_eq!(read["locations"], json!([{"path": path("a.txt"), "line": 2}]));
    assert!(read["content"][0]["content"]["text"].as_str().unwrap().contains("three"), "{read}");
    let edit = editor.call("call_2_0");
    assert_eq!(edit["kind"], "edit");
    let diff = json!({"type": "diff", "path": path("a.txt"), "oldText": "one\ntwo\nthree\n",
                      "newText": "one\n2\nthree\n"});
    assert_eq!(edit["content"], json!([diff]), "{edit}");
    assert_eq!(edit["locations"], json!([{"path": path("a.txt"), "line": 1}]));
    let write = editor.call("call_3_0");
    let diff = json!({"type": "diff", "path": path("b.txt"), "newText": "new\n"});
    assert_eq!(write["content"], json!([diff]), "{write}");
    let shell = editor.call("call_4_0");
    assert_eq!((&shell["kind"], &shell["status"]), (&json!("execute"), &json!("completed")));
    assert!(shell["content"][0]["content"]["text"].as_str().unwrap().contains("from the shell"));
    assert_eq!(editor.call("call_5_0")["status"], "failed");
    // Each is told before it runs, and its states come in their order.
    let states = |id: &str| -> Vec<&str> {
        let of = editor.updates.iter().filter(|(_, update)| update["toolCallId"] == id);
        of.map(|(_, update)| update["status"].as_str().unwrap_or("pending")).collect()
    };
    assert_eq!(states("call_4_0"), ["pending", "in_progress", "completed"]);

    // Only the command was asked for, and all of it was shown.
    assert_eq!(editor.questions.len(), 1);
    let question = &editor.questions[0];
    assert_eq!(question["toolCall"]["toolCallId"], "call_4_0");
    let shown = question["toolCall"]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.contains("```\necho from the shell\n```"), "{shown}");
    let kinds: Vec<_> =
        question["options"].as_array().unwrap().iter().map(|o| &o["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"]);
    assert_eq!(editor.leave().await.0, Some(0));
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn replies_come_in_pieces_and_a_second_message_goes_on() {
    let lab = Lab::new();
    let server = model(|asked| match asked.users().len() {
        1 => text("The first answer, in pieces."),
        _ => text(format!("You said: {}", asked.users().join(" / "))),
    })
    .await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    assert_eq!(stop_reason(&editor.prompt(&session, "First").await), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "The first answer, in pieces.");
    let chunks = editor.updates("agent_message_chunk");
    assert!(chunks.len() > 1, "{chunks:?}");
    assert!(chunks.iter().all(|chunk| chunk["messageId"] == chunks[0]["messageId"]));
    assert_eq!(editor.updates("session_info_update")[0]["title"], "First");
    editor.updates.clear();
    assert_eq!(stop_reason(&editor.prompt(&session, "Second").await), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "You said: First / Second");
    editor.leave().await;
    assert_eq!(lab.session(), session, "both turns are one session");
}

#[tokio::test]
async fn the_person_may_say_no_and_modes_say_it_beforehand() {
    let lab = Lab::new();
    let server = model(|asked| {
        let tries = asked.results().len();
        match asked.last_user() {
            "try" if tries < asked.users().len() => calls("terminal", json!({"command": "date"})),
            _ => text(asked.results().last().copied().unwrap_or_default()),
        }
    })
    .await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    // What is offered is all that counts.
    for (option, by) in [
        ("reject", "denied by user"),
        ("cancelled", "denied by the end of the turn"),
        ("allow_always", "denied by an answer of the editor that was not offered"),
    ] {
        editor.permits = Some(option);
        editor.updates.clear();
        editor.prompt(&session, "try").await;
        let said = editor.text("agent_message_chunk");
        assert!(said.contains(by), "{option}: {said}");
    }
    assert_eq!(editor.questions.len(), 3);

    let mode = |mode: &str| json!({"sessionId": session, "modeId": mode});
    for (name, status) in [("deny", "failed"), ("auto", "completed")] {
        let set = editor.ask("session/set_mode", mode(name)).await;
        assert!(set.get("result").is_some(), "{set}");
        editor.updates.clear();
        editor.prompt(&session, "try").await;
        let ended = editor.updates("tool_call_update").pop().unwrap().clone();
        assert_eq!(ended["status"], status, "{name}");
    }
    assert_eq!(editor.questions.len(), 3, "nobody was asked");
    let set = editor.ask("session/set_mode", mode("yolo")).await;
    let why = set["error"]["message"].as_str().unwrap();
    assert_eq!(why, "there is no mode `yolo`; known: ask, deny, auto");
    editor.leave().await;
}

#[tokio::test]
async fn a_cancelled_turn_ends_with_all_that_it_started() {
    let lab = Lab::new();
    let mut begun = lab.pipe("begun");
    let line = format!("echo begun > begun; sleep {}", lab.mark());
    let again = json!({"command": "date"});
    let server = steps(vec![("terminal", json!({"command": line})), ("terminal", again)]).await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    // With nothing to cancel it is nothing, and so is a session that is none.
    editor.tell("session/cancel", json!({"sessionId": session})).await;
    editor.tell("session/cancel", json!({"sessionId": "none"})).await;
    let id = editor.begin_prompt(&session, "Sleep").await;
    editor.until(|update| update["status"] == "in_progress").await;
    begun.lines(1).await;
    editor.tell("session/cancel", json!({"sessionId": session})).await;
    let answer = editor.answer(id).await;
    assert_eq!(stop_reason(&answer), "cancelled");
    assert_eq!(editor.call("call_1_0")["status"], "failed");
    assert!(!lab.processes().iter().any(|(_, line)| line.starts_with("sleep")));

    // While a person is asked, too; and by the request itself.
    editor.permits = None;
    let id = editor.begin_prompt(&session, "Again").await;
    editor.until_asked(2).await;
    editor.tell("$/cancel_request", json!({"requestId": id})).await;
    assert_eq!(stop_reason(&editor.answer(id).await), "cancelled");
    editor.leave().await;
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn two_sessions_work_at_once_each_in_its_directory() {
    let lab = Lab::new();
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |asked| match (asked.last_user(), asked.results().len()) {
        ("slow", 0) => calls("write_file", json!({"path": "here.txt", "content": "slow"})),
        ("slow", _) => text("slow is done").held_by(&held),
        (_, 0) => calls("write_file", json!({"path": "here.txt", "content": "fast"})),
        _ => text("fast is done"),
    })
    .await;
    let (mut editor, slow) = Editor::with_session(&lab, &server, &[]).await;
    fs::create_dir(lab.path("other")).unwrap();
    let new = json!({"cwd": lab.path("other"), "mcpServers": []});
    let opened = editor.ask("session/new", new).await;
    let fast = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let first = editor.begin_prompt(&slow, "slow").await;
    let answer = editor.prompt(&fast, "fast").await;
    assert_eq!(stop_reason(&answer), "end_turn");
    gate.open();
    assert_eq!(stop_reason(&editor.answer(first).await), "end_turn");
    let said = |session: &str| -> String {
        let of = editor.updates.iter().filter(|(of, update)| {
            of == session && update["sessionUpdate"] == "agent_message_chunk"
        });
        of.map(|(_, update)| update["content"]["text"].as_str().unwrap()).collect()
    };
    assert_eq!((said(&slow), said(&fast)), ("slow is done".into(), "fast is done".into()));
    assert_eq!(fs::read_to_string(lab.work("here.txt")).unwrap(), "slow");
    assert_eq!(fs::read_to_string(lab.path("other/here.txt")).unwrap(), "fast");
    editor.leave().await;
}

#[tokio::test]
async fn children_are_calls_with_few_notes() {
    let lab = Lab::new();
    fs::write(lab.work("a.txt"), "one\n").unwrap();
    let server = model(|asked| {
        let child = asked.system().contains("YOUR TASK");
        match (child, asked.results().len()) {
            (false, 0) => {
                let tasks = json!([{"goal": "Read twelve times"}, {"goal": "Do nothing"}]);
                calls("delegate_task", json!({"tasks": tasks}))
            }
            (true, n @ 0..12) if asked.system().contains("twelve") => {
                calls("read_file", json!({"path": "a.txt", "offset": 1, "limit": n + 1}))
            }
            (true, _) => text("Child is done."),
            _ => text("Both are done."),
        }
    })
    .await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    assert_eq!(stop_reason(&editor.prompt(&session, "Share it").await), "end_turn");
    let busy = editor.call("1.0.0");
    assert_eq!(busy["title"], "[1/2] Read twelve times");
    assert_eq!((&busy["kind"], &busy["status"]), (&json!("think"), &json!("completed")));
    assert_eq!(busy["content"][0]["content"]["text"], "Child is done.");
    let end = busy["content"][1]["content"]["text"].as_str().unwrap();
    assert!(end.starts_with("completed: 12 calls, "), "{end}");
    assert_eq!(editor.call("1.0.1")["title"], "[2/2] Do nothing");
    // Both stand below the call that handed on.
    let parent = json!({"parentToolCallId": "call_1_0"});
    for child in ["1.0.0", "1.0.1"] {
        assert_eq!(editor.call(child)["_meta"]["deputize"], parent);
    }
    assert!(editor.call("call_1_0")["_meta"].is_null());
    // Two notes for twelve calls, and those that time made; never one a call.
    let of = |id: &str| {
        let of = editor.updates.iter().filter(|(_, update)| update["toolCallId"] == id);
        of.map(|(_, update)| update["content"][0]["content"]["text"].clone()).collect::<Vec<_>>()
    };
    let notes = of("1.0.0");
    for note in ["5 calls, last: read a.txt", "10 calls, last: read a.txt"] {
        assert!(notes.iter().any(|actual| actual == note), "no `{note}` in {notes:?}");
    }
    assert_eq!(of("1.0.1").len(), 2, "its beginning and its end");
    let own =
        editor.updates("tool_call").iter().filter(|call| call["title"] == "read a.txt").count();
    assert_eq!(own, 0, "calls of children are not told one by one");
    editor.leave().await;
}

#[tokio::test]
async fn a_childs_question_is_asked_where_the_configuration_says_so() {
    let lab = Lab::new();
    let server = model(|asked| {
        let child = asked.system().contains("YOUR TASK");
        match (child, asked.results().len()) {
            (false, 0) => calls("delegate_task", json!({"goal": "Say hello"})),
            (true, 0) => calls("terminal", json!({"command": "echo hello"})),
            (true, _) => text(asked.results().join("")),
            _ => text("Done."),
        }
    })
    .await;
    let more = ["--set", "delegation.approvals=ask", "--approve", "auto"];
    let (mut editor, session) = Editor::with_session(&lab, &server, &more).await;
    editor.prompt(&session, "Hand it on").await;
    assert_eq!(editor.questions.len(), 1, "the mode is the top agent's");
    let asked = &editor.questions[0]["toolCall"];
    assert_eq!(asked["toolCallId"], "1.0.0/call_1_0");
    assert_eq!(asked["title"], "[1/1] Say hello: terminal echo hello");
    // The editor was told of it before, and of its end.
    assert_eq!(editor.known_at_question, [true]);
    assert_eq!(editor.call("1.0.0/call_1_0")["_meta"]["deputize"]["parentToolCallId"], "1.0.0");
    assert_eq!(
        editor.call("1.0.0/call_1_0")["status"],
        "completed",
        "an end of what was asked for"
    );
    editor.leave().await;
}

#[tokio::test]
async fn every_fault_is_answered_and_the_next_message_is_read() {
    let lab = Lab::new();
    let server = steps(Vec::new()).await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    for (line, code) in [
        ("{\"jsonrpc\": \"2.0\", \"id\": 7, \"method\":".to_owned(), -32700),
        ("no JSON at all".to_owned(), -32700),
        (format!("[{}", "1,".repeat(5_000_000)), -32700),
        ("[]".to_owned(), -32600),
        ("17".to_owned(), -32600),
    ] {
        editor.line(&line).await;
        let answer = editor.answer(Value::Null).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert!(answer.to_string().len() < 2000, "what it was is not sent back whole");
    }
    let prompt = |blocks: Value| json!({"sessionId": session, "prompt": blocks});
    let long = "x".repeat(10_000_000);
    let cwd = lab.work("");
    let lone = lab.path("none");
    let load = |id: &str| json!({"sessionId": id, "cwd": cwd, "mcpServers": []});
    let image = json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]);
    for (method, params, code, why) in [
        ("session/fly", json!({}), -32601, "Method not found"),
        ("authenticate", json!({"methodId": "key"}), -32601, "Method not found"),
        ("session/new", json!({}), -32602, "Invalid params"),
        ("session/new", json!({"cwd": "work", "mcpServers": []}), -32602, "`work` is not absolute"),
        ("session/new", json!({"cwd": lone, "mcpServers": []}), -32602, "cannot work in"),
        ("session/load", load("none"), -32002, "there is no session `none`"),
        ("session/load", load("../x"), -32002, "there is no session"),
        ("session/close", json!({"sessionId": "none"}), -32002, "there is no session `none`"),
        ("session/set_mode", json!({"sessionId": "none", "modeId": "ask"}), -32002, "no session"),
        ("session/prompt", json!({"sessionId": "none", "prompt": []}), -32002, "no session `none`"),
        ("session/prompt", prompt(json!([])), -32602, "the message is empty"),
        ("session/prompt", prompt(image), -32602, "holds an image"),
        (
            "session/prompt",
            prompt(json!([{"type": "text", "text": long}])),
            -32602,
            "has 10000000 bytes, and at most 1048576 are taken",
        ),
    ] {
        let answer = editor.ask(method, params).await;
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
        let actual = answer["error"]["message"].as_str().unwrap();
        assert!(actual.contains(why), "{method}: {actual}");
    }
    assert_eq!(stop_reason(&editor.prompt(&session, "Still there?").await), "end_turn");
    assert_eq!(server.requests().len(), 1, "no fault reached the model");
    editor.leave().await;
}

#[tokio::test]
async fn a_prompt_during_a_prompt_is_refused_and_disturbs_nothing() {
    let lab = Lab::new();
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |_| text("one answer").held_by(&held)).await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    let first = editor.begin_prompt(&session, "first").await;
    for (method, params) in [
        (
            "session/prompt",
            json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}),
        ),
        ("session/load", json!({"sessionId": session, "cwd": lab.work(""), "mcpServers": []})),
        ("session/delete", json!({"sessionId": session})),
    ] {
        let answer = editor.ask(method, params).await;
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        let actual = answer["error"]["message"].as_str().unwrap();
        assert!(actual.ends_with("is in a turn: wait for its end, or cancel it"), "{actual}");
    }
    gate.open();
    assert_eq!(stop_reason(&editor.answer(first).await), "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "one answer");
    editor.leave().await;
}

#[tokio::test]
async fn what_fails_says_why_and_what_cut_a_turn_is_its_stop_reason() {
    let lab = Lab::new();
    let broken = MockServer::start_with(|_| MockAnswer::error(400, "no such thing")).await.unwrap();
    let (mut editor, session) = Editor::with_session(&lab, &broken, &[]).await;
    let failed = editor.prompt(&session, "x").await;
    assert_eq!(failed["error"]["code"], -32603, "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("400"), "{failed}");
    editor.leave().await;

    let lab = Lab::new();
    let endless = model(|asked| match asked.may_call() {
        true => calls("list_dir", json!({"depth": asked.results().len() % 9 + 1})),
        false => text("As far as I came."),
    })
    .await;
    let (mut editor, session) =
        Editor::with_session(&lab, &endless, &["--max-iterations", "2"]).await;
    assert_eq!(stop_reason(&editor.prompt(&session, "x").await), "max_turn_requests");
    assert_eq!(editor.text("agent_message_chunk"), "As far as I came.");
    editor.leave().await;

    // No model, and a model without its key.
    for (args, code, why) in [
        (&["acp"][..], -32602, "-m offline"),
        (&["acp", "-m", "openai/x"], -32000, "set OPENAI_API_KEY"),
        (&["acp", "-m", "offline", "--set", "toolsets=[flie]"], -32602, "no toolset `flie`"),
    ] {
        let mut editor = Editor::start(lab.deputize(args));
        editor.hello().await;
        let new = json!({"cwd": lab.work(""), "mcpServers": []});
        let refused = editor.ask("session/new", new).await;
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(why), "{refused}");
        editor.leave().await;
    }
}

#[tokio::test]
async fn a_turn_of_which_nothing_comes_ends_as_a_timeout() {
    let lab = Lab::new();
    let server = model(|asked| match asked.last_user() {
        "hang" => hang(),
        _ => text("Here again."),
    })
    .await;
    let limit = ["--set", "inactivity_timeout_seconds=1"];
    let (mut editor, session) = Editor::with_session(&lab, &server, &limit).await;
    let answer = editor.prompt(&session, "hang").await;
    let why = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(why, "stopped: nothing came of the turn for 1 s (inactivity_timeout_seconds)");
    assert_eq!(stop_reason(&editor.prompt(&session, "go on").await), "end_turn");
    let (_, errors) = editor.leave().await;
    assert!(!errors.contains("no effect"), "{errors}");
}

#[tokio::test]
async fn an_editor_that_vanishes_takes_everything_along() {
    let signals = [None, Some(Signal::TERM), Some(Signal::KILL)];
    for signal in signals {
        let lab = Lab::new();
        let mut begun = lab.pipe("begun");
        let line = format!("(sleep {} &) ; echo begun > begun; sleep {0}", lab.mark());
        let server = steps(vec![("terminal", json!({"command": line}))]).await;
        let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
        editor.begin_prompt(&session, "Sleep").await;
        editor.until(|update| update["status"] == "in_progress").await;
        begun.lines(1).await;
        if let Some(signal) = signal {
            let pid = editor.child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap();
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
        }
        let (code, _) = editor.leave().await;
        match signal {
            None => assert_eq!(code, Some(0)),
            Some(Signal::TERM) => assert_eq!(code, Some(130)),
            Some(_) => assert_eq!(code, None),
        }
        nothing_left(&lab).await;
    }
}

/// Waits until no process is left; who was killed has its helper end them.
async fn nothing_left(lab: &Lab) {
    let gone = async {
        while !lab.processes().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    crate::program::soon("the end of all processes", gone).await;
}
