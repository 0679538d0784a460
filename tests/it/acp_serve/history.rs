//! History for editors: the list of sessions, a title, and the whole conversation.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::{Barrier, MockAnswer};
use serde_json::{Value, json};

use super::editor::{Editor, command};
use super::{calls, stop_reason, text};
use crate::images::{PIXEL, images};
use crate::program::{Lab, RunningProgram, model};

#[tokio::test]
async fn a_stored_session_is_listed_and_replayed_and_goes_on() {
    let lab = Lab::new();
    let server = model(|asked| match (asked.users().len(), asked.results().len()) {
        (1, 0) => calls("write_file", json!({"path": "b.txt", "content": "new\n"})),
        (1, 1) => calls("delegate_task", json!({"goal": "Look around"})),
        (1, _) if asked.system().contains("YOUR TASK") => text("I looked."),
        (1, _) => text("All is done."),
        (users, _) => text(format!("After {users} messages.")),
    })
    .await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    editor.prompt(&session, "Change it").await;
    let live = editor.updates.clone();
    editor.leave().await;

    let mut editor = Editor::start(command(&lab, &server, &[]));
    editor.hello().await;
    let cwd = lab.work("").canonicalize().unwrap();
    let list = editor.ask("session/list", json!({"cwd": cwd})).await;
    let [one] = list["result"]["sessions"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!((&one["sessionId"], &one["title"]), (&json!(session), &json!("Change it")));
    assert!(one["updatedAt"].as_str().unwrap().ends_with('Z'), "{one}");
    let link = lab.path("link");
    std::os::unix::fs::symlink(&cwd, &link).unwrap();
    assert_eq!(editor.ask("session/list", json!({"cwd": link})).await["result"], list["result"]);
    let elsewhere = editor.ask("session/list", json!({"cwd": "/"})).await;
    assert_eq!(elsewhere["result"]["sessions"], json!([]));

    let load = json!({"sessionId": session, "cwd": lab.work(""), "mcpServers": []});
    let loaded = editor.ask("session/load", load.clone()).await;
    assert_eq!(loaded["result"]["modes"]["currentModeId"], "ask", "{loaded}");
    assert_eq!(editor.text("user_message_chunk"), "Change it");
    assert_eq!(editor.text("agent_message_chunk"), "All is done.");
    // What is told of each call is what was told of it when it ran.
    let fresh = std::mem::replace(&mut editor.updates, live);
    let before: Vec<Value> = ["call_1_0", "call_2_0", "2.0.0"].map(|id| editor.call(id)).to_vec();
    editor.updates = fresh;
    let after: Vec<Value> = ["call_1_0", "call_2_0", "2.0.0"].map(|id| editor.call(id)).to_vec();
    assert_eq!(before, after);
    assert_eq!(after[0]["content"][0]["type"], "diff");
    assert_eq!(after[2]["content"][0]["content"]["text"], "I looked.");

    editor.updates.clear();
    editor.prompt(&session, "And now").await;
    assert_eq!(editor.text("agent_message_chunk"), "After 2 messages.");
    assert_eq!(editor.updates("session_info_update"), [] as [&Value; 0], "it keeps its title");
    editor.updates.clear();
    let resumed = editor.ask("session/resume", load).await;
    assert!(resumed["result"].get("modes").is_some(), "{resumed}");
    assert_eq!(editor.updates, [], "a resume tells nothing of the past");

    let closed = editor.ask("session/close", json!({"sessionId": session})).await;
    assert!(closed.get("result").is_some(), "{closed}");
    let gone = editor.prompt(&session, "Still there?").await;
    assert_eq!(gone["error"]["code"], -32002, "{gone}");
    editor.ask("session/delete", json!({"sessionId": session})).await;
    let list = editor.ask("session/list", json!({})).await;
    assert_eq!(list["result"]["sessions"], json!([]));
    editor.leave().await;
}

#[tokio::test]
async fn a_session_that_was_deleted_elsewhere_is_not_begun_anew() {
    let lab = Lab::new();
    let server = model(|_| text("Hello.")).await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    editor.prompt(&session, "Hi").await;
    let delete = lab.deputize(&["sessions", "rm", &session]);
    RunningProgram::start(delete).end().await.with_code(0);
    let words = format!("session `{session}` was deleted while it was open here: start a new one");
    for _ in 0..2 {
        let refused = editor.prompt(&session, "And now?").await;
        assert_eq!(refused["error"]["code"], -32002, "{refused}");
        assert_eq!(refused["error"]["message"], json!(words), "{refused}");
    }
    let load = json!({"sessionId": session, "cwd": lab.work(""), "mcpServers": []});
    let loaded = editor.ask("session/load", load).await;
    assert_eq!(loaded["error"]["code"], -32002, "{loaded}");
    let left: Vec<_> = std::fs::read_dir(lab.path("home/sessions")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    // Others go on.
    let other = editor.open(&lab).await;
    assert_eq!(stop_reason(&editor.prompt(&other, "Hi").await), "end_turn");
    editor.leave().await;
}

#[tokio::test]
async fn a_reply_that_was_cut_is_reported_where_it_was_said() {
    let lab = Lab::new();
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |asked| match asked.users().len() {
        1 => {
            let reply =
                MockAnswer::reply(&Reply::text("mock", "One two three four five six seven."));
            reply.pieces(16).stall_at(400, &held)
        }
        _ => text("The second answer."),
    })
    .await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    let id = editor.begin_prompt(&session, "First").await;
    editor.until(|update| update["sessionUpdate"] == "agent_message_chunk").await;
    editor.tell("session/cancel", json!({"sessionId": session})).await;
    assert_eq!(stop_reason(&editor.answer(id).await), "cancelled");
    let cut = editor.text("agent_message_chunk");
    assert!(cut.starts_with("One") && !cut.contains("seven"), "{cut}");
    editor.prompt(&session, "Second").await;
    editor.leave().await;

    let mut editor = Editor::start(command(&lab, &server, &[]));
    editor.hello().await;
    let load = json!({"sessionId": session, "cwd": lab.work(""), "mcpServers": []});
    editor.ask("session/load", load).await;
    let actual = editor.updates.iter().map(|(_, update)| update);
    let actual =
        actual.filter(|update| update["sessionUpdate"].as_str().unwrap().ends_with("_chunk"));
    let actual: Vec<&str> =
        actual.map(|chunk| chunk["content"]["text"].as_str().unwrap()).collect();
    assert_eq!(actual, ["First", &cut, "Second", "The second answer."]);
    editor.leave().await;

    let sessions = async |args: &[&str]| {
        let args = [&["sessions"], args].concat();
        RunningProgram::start(lab.deputize(&args)).end().await.with_code(0).out
    };
    let shown = sessions(&["show", &session]).await;
    let whole = format!("\n> First\n\n{cut}\n(cut off here)\n\n> Second\n\nThe second answer.\n");
    assert!(shown.contains(&whole), "{shown}");
    let export = sessions(&["export", &session, "--format", "markdown"]).await;
    let whole = format!("\n### Agent (cut off)\n\n{cut}\n\n### User\n\nSecond\n");
    assert!(export.contains(&whole), "{export}");
}

#[tokio::test]
async fn images_of_the_editor_reach_a_model_that_sees_them_and_come_back() {
    let lab = Lab::new();
    let server = model(|_| text("I see.")).await;
    let sees = ["--set", "providers.openai.vision=true"];
    let mut editor = Editor::start(command(&lab, &server, &sees));
    let capabilities = editor.hello().await["result"]["agentCapabilities"].clone();
    assert_eq!(capabilities["promptCapabilities"]["image"], true, "{capabilities}");
    let session = editor.open(&lab).await;
    let image = json!({"type": "image", "mimeType": "image/png", "data": PIXEL});
    let said = |prompt: Value| json!({"sessionId": session, "prompt": prompt});
    let look = said(json!([{"type": "text", "text": "Look at "}, image]));
    for turn in 0..2 {
        assert_eq!(stop_reason(&editor.ask("session/prompt", look.clone()).await), "end_turn");
        let seen = images(server.requests().last().unwrap());
        assert_eq!(seen, vec![format!("data:image/png;base64,{PIXEL}"); turn + 1]);
    }
    assert!(server.requests()[0].text().contains("Look at [image 1]"));
    // What is no image is refused and begins no turn.
    for (data, why) in [("AAAA", "neither PNG, JPEG, WebP nor GIF"), ("!", "it is no base64")] {
        let image = json!({"type": "image", "mimeType": "image/png", "data": data});
        let refused = editor.ask("session/prompt", said(json!([image]))).await;
        let refused = refused["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(refused.contains("image 1 of the message: ") && refused.contains(why), "{refused}");
    }
    assert_eq!(server.requests().len(), 2);
    editor.leave().await;

    let mut editor = Editor::start(command(&lab, &server, &sees));
    editor.hello().await;
    let load = json!({"sessionId": session, "cwd": lab.work(""), "mcpServers": []});
    editor.ask("session/load", load.clone()).await;
    let actual = editor.updates.iter().map(|(_, update)| update);
    let actual = actual.filter(|update| update["content"]["type"] == "image");
    let actual: Vec<&str> =
        actual.map(|chunk| chunk["content"]["data"].as_str().unwrap()).collect();
    assert_eq!(actual, [PIXEL, PIXEL]);
    editor.leave().await;

    // A model that sees none: the editor is told, and its image refused.
    let mut editor = Editor::start(command(&lab, &server, &[]));
    let capabilities = editor.hello().await["result"]["agentCapabilities"].clone();
    assert_eq!(capabilities["promptCapabilities"]["image"], false, "{capabilities}");
    editor.ask("session/load", load).await;
    let refused = editor.ask("session/prompt", look).await;
    let refused = refused["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(refused.contains("the model of this session sees none"), "{refused}");
    editor.leave().await;
}

#[tokio::test]
async fn an_image_whose_message_a_crash_kept_from_the_record_is_sent_after_it() {
    let lab = Lab::new();
    let server = model(|_| text("I see.")).await;
    let sees = ["--set", "providers.openai.vision=true"];
    let (mut editor, session) = Editor::with_session(&lab, &server, &sees).await;
    let image = json!({"type": "image", "mimeType": "image/png", "data": PIXEL});
    let prompt = json!([{"type": "text", "text": "Look at "}, image]);
    editor.ask("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    editor.leave().await;
    let file = lab.session_file();
    let stored = fs::read_to_string(&file).unwrap();
    let begun = stored.find("\"agent.start\"").unwrap();
    let end = begun + stored[begun..].find('\n').unwrap() + 1;
    fs::write(&file, &stored[..end]).unwrap();

    let server = model(|_| text("I see.")).await;
    let resume = [&sees[..], &["--resume", &session]].concat();
    lab.run(&server, &resume).end().await.with_code(0);
    let sent = server.requests();
    assert!(sent[0].text().contains("Look at [image 1]"), "{}", sent[0].text());
    assert_eq!(images(&sent[0]), [format!("data:image/png;base64,{PIXEL}")]);
}

#[tokio::test]
async fn what_was_attached_is_shown_as_the_editor_sent_it() {
    let lab = Lab::new();
    let server = model(|_| text("Done.")).await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    let uri = format!("file://{}", lab.work("a.txt").display());
    let resource = json!({"uri": uri, "text": "The words of a file.\n"});
    let prompt =
        json!([{"type": "text", "text": "Read "}, {"type": "resource", "resource": resource}]);
    let said = json!({"sessionId": session, "prompt": prompt});
    for _ in 0..2 {
        editor.ask("session/prompt", said.clone()).await;
    }
    let words = format!("Read `{}` (attached below)", lab.work("a.txt").display());
    let title = editor.updates("session_info_update")[0]["title"].as_str().unwrap().to_owned();
    assert!(words.starts_with(title.trim_end_matches('…')), "{title}");
    editor.leave().await;

    let mut editor = Editor::start(command(&lab, &server, &[]));
    editor.hello().await;
    let list = editor.ask("session/list", json!({})).await;
    let title = list["result"]["sessions"][0]["title"].as_str().unwrap();
    assert!(words.starts_with(title.trim_end_matches('…')), "{title}");
    let load = json!({"sessionId": session, "cwd": lab.work(""), "mcpServers": []});
    editor.ask("session/load", load).await;
    let actual: Vec<&Value> =
        editor.updates("user_message_chunk").into_iter().map(|chunk| &chunk["content"]).collect();
    let one =
        [json!({"type": "text", "text": words}), json!({"type": "resource", "resource": resource})];
    assert_eq!(actual, one.iter().chain(&one).collect::<Vec<_>>());
    editor.leave().await;
}

#[tokio::test]
async fn what_was_attached_has_a_source_of_its_own() {
    let lab = Lab::new();
    let server = model(|_| text("Done.")).await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    let attached = |uri: &str| {
        let resource = json!({"type": "resource", "resource": {"uri": uri, "text": "Words.\n"}});
        let prompt = json!([{"type": "text", "text": "Read "}, resource]);
        json!({"sessionId": session, "prompt": prompt})
    };
    let file = format!("file://{}", lab.work("a.txt").display());
    editor.ask("session/prompt", attached(&file)).await;
    editor.ask("session/prompt", attached("https://a.example:81/page")).await;
    editor.prompt(&session, "Only words.").await;
    editor.leave().await;
    let export = RunningProgram::start(lab.deputize(&["sessions", "export", &session]));
    let exported = export.end().await.with_code(0);
    let sources: Vec<Value> =
        exported.events("message").iter().map(|message| message["sources"].clone()).collect();
    let expected = [
        json!(["input:editor", "user"]),
        json!(["input:editor", "user", "web:a.example:81"]),
        json!(["user"]),
    ];
    assert_eq!(sources, expected);
}
