//! Approval of commands that are too long to be shown whole.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use deputize_core::model::Reply;
use deputize_testkit::MockAnswer;
use serde_json::json;

use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model, sees};

/// A command that leaves a file behind, with a part that only its middle has.
pub(crate) fn long_command(bytes: usize) -> String {
    let filler = "0123456789 abcdefghijklmnopqrstuvwxyz\n".repeat(bytes / 76);
    format!(": THE-BEGINNING <<'END'\n{filler}THE-MIDDLE\u{202e}\n{filler}END\ntouch THE-LAST")
}

/// Makes one call of `terminal`, then repeats its result.
pub(crate) fn runs(command: String) -> impl Fn(&ChatRequest) -> MockAnswer + Send + Sync + 'static {
    move |asked| {
        let reply = match asked.results().first() {
            None => Reply::calls("mock", [("terminal", json!({ "command": command }))]),
            Some(result) => Reply::text("mock", result.to_string()),
        };
        MockAnswer::reply(&reply)
    }
}

pub(crate) fn saved_command(lab: &Lab) -> PathBuf {
    lab.path(format!("home/sessions/{0}/{0}~call_1_0.command.txt", lab.session()))
}

/// The SHA-256 of a file, by another program.
pub(crate) fn sha256(file: &Path) -> String {
    let summed = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(summed.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

fn decided(ended: &ProgramEnd) -> (String, String) {
    let decisions = ended.events("approval.decision");
    let field = |name: &str| decisions[0][name].as_str().unwrap().to_owned();
    (field("decision"), field("by"))
}

#[tokio::test]
async fn nobody_is_asked_about_calls_that_are_refused_and_a_question_says_what_a_yes_risks() {
    let lab = Lab::new();
    let fact = |text: &str| json!({"action": "add", "topic": "user", "text": text});
    let calls = [
        ("terminal", json!({"command": "  "})),
        ("read_file", json!({"pth": "notes.md"})),
        ("memory", fact(&"x".repeat(401))),
        ("memory", fact("Likes tea.")),
        ("process", json!({"action": "write", "id": "p9", "text": "y\n"})),
        ("skill_manage", json!({"action": "remove", "name": "../x"})),
        ("terminal", json!({"command": "true"})),
    ];
    let server = model(move |asked| {
        let reply = match calls.get(asked.results().len()) {
            Some(call) => Reply::calls("mock", [call.clone()]),
            None => Reply::text("mock", "Done."),
        };
        MockAnswer::reply(&reply)
    })
    .await;
    let args = ["--approve", "auto", "--output", "events", "Go"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let unknown = "there is no argument `pth`; did you mean `path`?";
    assert!(last.results()[1].contains(unknown), "{}", last.results()[1]);
    let asked = ended.events("approval.request");
    let asked: Vec<_> =
        asked.iter().map(|it| format!("{}: {}", it["class"], it["reason"])).collect();
    let expected = [
        r#""lasting": "it changes what each later session reads in its prompt""#,
        r#""safe": "it would run with all your rights, and no sandbox holds it""#,
    ];
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn a_long_command_is_shown_in_part_and_whole_in_a_file() {
    let command = long_command(100_000);
    for (typed, decision) in [(b"y\n", "allow"), (b"n\n", "deny")] {
        let lab = Lab::new();
        let server = model(runs(command.clone())).await;
        let (mut person, running) = lab.on_terminal(&server, &["--output", "events", "Go"]);
        let screen = sees(&person, "Run it? [y/N] ").await;
        let file = saved_command(&lab);
        assert_eq!(fs::read_to_string(&file).unwrap(), command);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        for shown in [
            "  | : THE-BEGINNING <<'END'\r\n",
            "  | touch THE-LAST\r\n",
            file.to_str().unwrap(),
            &format!("{} bytes", command.len()),
            &format!("sha256 {}", sha256(&file)),
            "invisible characters in them: 1]",
        ] {
            assert!(screen.contains(shown), "{shown}: {screen}");
        }
        assert!(!screen.contains("THE-MIDDLE") && screen.len() < 16_000, "{screen}");
        person.write_all(typed).unwrap();
        let ended = running.end().await.with_code(0);
        assert_eq!(decided(&ended), (decision.to_owned(), "user".to_owned()));
        assert_eq!(lab.work("THE-LAST").exists(), decision == "allow", "{}", ended.out);
    }
}

#[tokio::test]
async fn a_command_above_the_limit_is_denied_with_the_limit() {
    let command = long_command(1_100_000);
    let lab = Lab::new();
    let server = model(runs(command.clone())).await;
    let (_person, running) = lab.on_terminal(&server, &["--output", "events", "Go"]);
    let ended = running.end().await.with_code(0);
    assert_eq!(decided(&ended).0, "deny");
    let words =
        format!("the call has {} bytes, and at most 1048576 can be approved", command.len());
    assert!(ended.out.contains(&words), "{}", ended.out);
    assert!(!saved_command(&lab).exists() && !lab.work("THE-LAST").exists());
}

#[tokio::test]
async fn a_command_that_cannot_be_saved_is_denied() {
    let lab = Lab::new();
    let sessions = lab.path("home/sessions");
    let answers = runs(long_command(100_000));
    let server = model(move |asked: &ChatRequest| {
        // A file stands where the session's folder would be.
        let names = fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().path());
        let file = names.into_iter().find(|path| path.extension().is_some()).unwrap();
        fs::write(file.with_extension(""), "").unwrap();
        answers(asked)
    });
    let server = server.await;
    let (_person, running) = lab.on_terminal(&server, &["--output", "events", "Go"]);
    let ended = running.end().await.with_code(0);
    assert_eq!(decided(&ended).0, "deny");
    assert!(ended.out.contains("cannot be written for the user to read"), "{}", ended.out);
    assert!(!lab.work("THE-LAST").exists());
}

#[tokio::test]
async fn a_command_runs_with_the_marks_that_the_file_has() {
    let lab = Lab::new();
    fs::write(lab.work("tokens"), "a <unk> b</s>\n").unwrap();
    let server = model(|asked: &ChatRequest| {
        let results = asked.results();
        MockAnswer::reply(&match results.len() {
            0 => Reply::calls("mock", [("read_file", json!({"path": "tokens"}))]),
            1 => {
                assert!(results[0].contains("a ‹unk> b‹/s>"), "{}", results[0]);
                let command = "sed -i 's,‹unk> b‹/s>,<unknown>,' tokens";
                Reply::calls("mock", [("terminal", json!({"command": command}))])
            }
            _ => Reply::text("mock", results[1]),
        })
    })
    .await;
    let (mut person, running) = lab.on_terminal(&server, &["--output", "events", "Go"]);
    let screen = sees(&person, "Run it? [y/N] ").await;
    assert!(screen.contains("  | sed -i 's,<unk> b</s>,<unknown>,' tokens\r\n"), "{screen}");
    person.write_all(b"y\n").unwrap();
    let ended = running.end().await.with_code(0);
    assert_eq!(fs::read_to_string(lab.work("tokens")).unwrap(), "a <unknown>\n");
    let note = "[2 chat-format marks given with ‹ ran in the original form]";
    assert!(ended.out.contains(note), "{}", ended.out);
}

#[tokio::test]
async fn a_question_shows_every_argument_beside_the_command() {
    let lab = Lab::new();
    let server = model(|asked: &ChatRequest| {
        let arguments = json!({"command": "touch ran", "timeout_seconds": 300});
        MockAnswer::reply(&match asked.results().len() {
            0 => Reply::calls("mock", [("terminal", arguments)]),
            _ => Reply::text("mock", "Done."),
        })
    })
    .await;
    let (mut person, running) = lab.on_terminal(&server, &["Go"]);
    let screen = sees(&person, "Run it? [y/N] ").await;
    let shown = "  | touch ran\r\nwith timeout_seconds: 300\r\nin ";
    assert!(screen.contains(shown), "{screen}");
    person.write_all(b"y\n").unwrap();
    running.end().await.with_code(0);
    assert!(lab.work("ran").exists());
    // What is approved without a question is told whole, too.
    let ended = lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    let expected = "approved without asking: touch ran (with timeout_seconds: 300)";
    assert!(ended.err.contains(expected), "{}", ended.err);
}

/// A text of several lines is shown as these, and above 200 lines with the file that has all. None of
/// them can pass for a line of the question.
#[tokio::test]
async fn a_question_about_a_text_of_several_lines_shows_its_lines() {
    for (lines, saved) in [(3, false), (300, true)] {
        let lab = Lab::new();
        let body = "Do it.\n".repeat(lines);
        let text = format!("---\nname: tidy\ndescription: Tidies.\n---\nin /safe\n{body}");
        let server = model(move |asked| {
            let create = json!({"action": "create", "name": "tidy", "content": text});
            let reply = match asked.results().first() {
                None => Reply::calls("mock", [("skill_manage", create)]),
                Some(_) => Reply::text("mock", "Done."),
            };
            MockAnswer::reply(&reply)
        })
        .await;
        let (mut person, running) = lab.on_terminal(&server, &["Go"]);
        let question = sees(&person, "Run it? [y/N] ").await;
        for line in ["  | skill_manage\r\n", "  | content:\r\n", "  |     Do it.\r\n"] {
            assert!(question.contains(line), "{line}: {question}");
        }
        assert!(question.contains("  |     in /safe\r\n") && !question.contains("\nin /safe"));
        assert_eq!(question.contains("Only its beginning and end are shown"), saved, "{question}");
        assert_eq!(saved_command(&lab).exists(), saved);
        person.write_all(b"n\n").unwrap();
        running.end().await.with_code(0);
    }
}

#[tokio::test]
async fn what_a_question_tells_beside_the_arguments_has_no_secret_in_it() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home/memory")).unwrap();
    let entry = "# About the work\n- The canary is svc-canary-87654321.\n";
    fs::write(lab.path("home/memory/work.md"), entry).unwrap();
    let server = model(|asked: &ChatRequest| {
        let remove = json!({"action": "remove", "topic": "work", "old": "canary is"});
        MockAnswer::reply(&match asked.results().len() {
            0 => Reply::calls("mock", [("memory", remove)]),
            _ => Reply::text("mock", "Done."),
        })
    })
    .await;
    let mut command = lab.run_command(&server, &["--approve", "auto", "Go"]);
    command.env("SERVICE_TOKEN_2", "svc-canary-87654321");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let shown = "present entry: \"The canary is [redacted:SERVICE_TOKEN_2].\"";
    assert!(ended.err.contains(shown), "{}", ended.err);
    lab.holds_no("svc-canary-87654321", &ended);
}
