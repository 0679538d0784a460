//! Approval, in an editor, of commands that are too long to be shown whole.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::editor::Editor;
use crate::approval::{long_command, runs, saved_command, sha256};
use crate::program::{Lab, model};

#[tokio::test]
async fn a_long_command_is_shown_in_part_and_whole_in_a_file() {
    let command = long_command(100_000);
    for allowed in [true, false] {
        let lab = Lab::new();
        let server = model(runs(command.clone())).await;
        let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
        editor.permits = Some(if allowed { "allow" } else { "reject" });
        editor.prompt(&session, "Go").await;
        assert_eq!(editor.questions.len(), 1, "{}", editor.text("agent_message_chunk"));
        let call = &editor.questions[0]["toolCall"];
        let file = saved_command(&lab);
        assert_eq!(call["locations"], json!([{ "path": file }]));
        assert_eq!(fs::read_to_string(&file).unwrap(), command);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = call["content"][0]["content"]["text"].as_str().unwrap();
        for shown in [
            "```\n: THE-BEGINNING <<'END'\n",
            "\ntouch THE-LAST\n```",
            file.to_str().unwrap(),
            &format!("{} bytes", command.len()),
            &format!("sha256 {}", sha256(&file)),
        ] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        assert!(!text.contains("THE-MIDDLE") && text.len() < 16_000, "{text}");
        assert_eq!(lab.work("THE-LAST").exists(), allowed);
        assert_eq!(editor.leave().await.0, Some(0));
    }
}

#[tokio::test]
async fn a_command_above_the_limit_is_denied_and_runs_where_nobody_is_asked() {
    let command = long_command(1_100_000);
    let lab = Lab::new();
    let server = model(runs(command)).await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &[]).await;
    editor.prompt(&session, "Go").await;
    assert_eq!(editor.questions.len(), 0);
    let answer = editor.text("agent_message_chunk");
    assert!(answer.contains("at most 1048576 can be approved"), "{answer}");
    assert!(!saved_command(&lab).exists() && !lab.work("THE-LAST").exists());

    // The mode that the editor chose answers before any limit of a question.
    let lab = Lab::new();
    let server = model(runs(long_command(100_000))).await;
    let (mut editor, session) = Editor::with_session(&lab, &server, &["--approve", "auto"]).await;
    editor.prompt(&session, "Go").await;
    assert_eq!(editor.questions.len(), 0);
    assert!(!saved_command(&lab).exists() && lab.work("THE-LAST").exists());
}
