//! What agents keep for later sessions.

use std::fs;
use std::path::Path;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

fn add(topic: &str, text: &str) -> (&'static str, Value) {
    ("memory", json!({"action": "add", "topic": topic, "text": text}))
}

async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

#[tokio::test]
async fn a_fact_of_the_page_is_in_the_prompts_of_later_sessions() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/memory.md");
    let page = fs::read_to_string(page).unwrap();
    let call: Value = serde_json::from_str(blocks(&page, "json call")[0].1).unwrap();
    let (_, result) = blocks(&page, "text result")[0];
    let lab = Lab::new();
    let server = model(calls_in_order(vec![("memory", call)])).await;
    let denied = Lab::new();
    denied.run(&server, &["--approve", "deny", "Go"]).end().await.with_code(0);
    assert!(!denied.path("home/memory").exists());
    lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    let first = lab.session();
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains(result), "{}", last.results()[0]);
    assert!(!last.system().contains("just test"), "{}", last.system());
    let system = async |args: &[&str]| {
        let server = model(calls_in_order(Vec::new())).await;
        lab.run(&server, args).end().await.with_code(0);
        ChatRequest::of(server.requests().last().unwrap()).system().to_owned()
    };
    let later = system(&["Go"]).await;
    assert!(later.contains("<tool:memory "), "{later}");
    assert!(later.contains("# About the work\n- Tests run with `just test`."), "{later}");
    // A session keeps what it began with.
    let resumed = system(&["--resume", &first, "Go on"]).await;
    assert!(!resumed.contains("just test"), "{resumed}");
    // Without the tool nothing is read.
    let without = system(&["-t", "file", "Go"]).await;
    assert!(!without.contains("just test"), "{without}");
}

#[tokio::test]
async fn children_have_no_part_of_the_memory() {
    let lab = Lab::new();
    let delegate = ("delegate_task", json!({"goal": "Look."}));
    let calls = vec![add("user", "Likes tea."), delegate, add("work", "Reported.")];
    let server = model(move |asked| match asked.system().contains("YOUR TASK:") {
        true => calls_in_order(Vec::new())(asked),
        false => calls_in_order(calls.clone())(asked),
    })
    .await;
    for _ in 0..2 {
        lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    }
    let requests = server.requests();
    let requests: Vec<_> = requests.iter().map(ChatRequest::of).collect();
    assert!(requests.iter().any(|it| it.system().contains("Likes tea.")));
    let children = requests.iter().filter(|it| it.system().contains("YOUR TASK:"));
    let mut count = 0;
    for child in children {
        assert!(!child.system().contains("Likes tea."), "{}", child.system());
        assert!(!child.tools().contains(&"memory"));
        count += 1;
    }
    assert_eq!(count, 2);
    // A child may have read anything.
    let work = fs::read_to_string(lab.path("home/memory/work.md")).unwrap();
    assert_eq!(work, "# About the work\n- Reported. [written after reading children]\n");
}

#[tokio::test]
async fn what_a_child_read_is_in_the_mark_of_its_parents_entry_and_in_the_events() {
    for background in [false, true] {
        let lab = Lab::new();
        let site = MockServer::start_with(|_| MockAnswer::body("text/html", "<p>Rings.")).await;
        let site = site.unwrap();
        let base = site.base_url();
        let host = base.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
        let allow = format!("fetch.allow_hosts=[\"{host}\"]");
        let fetch = ("web_fetch", json!({"url": format!("http://{host}/page")}));
        let goal = json!({"goal": "Look.", "toolsets": ["web"], "background": background});
        let delegate = ("delegate_task", goal);
        let server = model(move |asked| {
            let is_child = asked.system().contains("YOUR TASK:");
            // The message about the child's end counts as no result.
            let actual = asked.users().iter().any(|text| text.contains("has ended"));
            match (is_child, background && !actual && asked.results().len() == 1) {
                (true, _) => calls_in_order(vec![fetch.clone()])(asked),
                (false, true) => MockAnswer::reply(&Reply::text("served-1", "I wait.")),
                (false, false) => {
                    calls_in_order(vec![delegate.clone(), add("work", "Reported.")])(asked)
                }
            }
        })
        .await;
        let set = format!("delegation.background={background}");
        let args =
            ["--approve", "auto", "--set", &allow, "--set", &set, "--output", "events", "Go"];
        let end = lab.run(&server, &args).end().await.with_code(0);
        let work = fs::read_to_string(lab.path("home/memory/work.md")).unwrap();
        let mark = "[written after reading children, web:127.0.0.1]";
        assert_eq!(work, format!("# About the work\n- Reported. {mark}\n"));
        let report = if background { "child.delivered" } else { "tool.end" };
        let events = end.events(report);
        let sources = events.iter().map(|event| event["sources"].to_string());
        let child = format!("child:{}/1.0.0", lab.session());
        let all = |it: &String| it.contains(&child) && it.contains("\"web:127.0.0.1\"");
        assert!(sources.clone().any(|it| all(&it)), "{:?}", sources.collect::<Vec<_>>());
        let first = &end.events("message")[0];
        assert_eq!(first["sources"], json!(["user"]), "{first}");
    }
}

#[tokio::test]
async fn what_is_written_after_reading_the_web_is_marked_also_after_a_resume() {
    let lab = Lab::new();
    let site = MockServer::start_with(|_| MockAnswer::body("text/html", "<p>Rule them all.")).await;
    let site = site.unwrap();
    let base = site.base_url();
    let host = base.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let allow = format!("fetch.allow_hosts=[\"{host}\"]");
    let fetch = ("web_fetch", json!({"url": format!("http://{host}/page")}));
    let args = ["--approve", "auto", "--set", &allow];
    let calls = vec![add("user", "Clean."), fetch, add("user", "Marked.")];
    let server = model(calls_in_order(calls)).await;
    lab.run(&server, &[&args[..], &["Go"]].concat()).end().await.with_code(0);
    let server = model(|asked: &ChatRequest| match asked.results().len() {
        3 => MockAnswer::reply(&Reply::calls("served-1", [add("work", "Later.")])),
        _ => MockAnswer::reply(&Reply::text("served-1", "Done.")),
    })
    .await;
    let resume = ["--resume", &lab.session(), "Go on"];
    lab.run(&server, &[&args[..], &resume].concat()).end().await.with_code(0);
    let text = |name: &str| fs::read_to_string(lab.path(format!("home/memory/{name}.md"))).unwrap();
    let mark = "[written after reading web:127.0.0.1]";
    assert_eq!(text("user"), format!("# About the person\n- Clean.\n- Marked. {mark}\n"));
    assert_eq!(text("work"), format!("# About the work\n- Later. {mark}\n"));
}

#[tokio::test]
async fn a_key_of_the_program_is_refused() {
    let lab = Lab::new();
    let key = "correct-horse-battery";
    let calls = vec![add("work", &format!("The key is {key}."))];
    let server = model(calls_in_order(calls)).await;
    let mut command = lab.run_command(&server, &["--approve", "auto", "Go"]);
    command.env("SERVICE_API_KEY", key);
    RunningProgram::start(command).end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    assert!(last.results()[0].contains("in place of a secret"), "{}", last.results()[0]);
    assert!(!lab.path("home/memory/work.md").exists());
}

#[tokio::test]
async fn a_person_reads_the_memory_also_when_the_configuration_is_faulty() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home/memory")).unwrap();
    fs::write(lab.path("home/memory/user.md"), "- Likes tea.\n").unwrap();
    fs::write(lab.path("home/config.yaml"), "mcp_servers: [\n").unwrap();
    let list = deputize(&lab, &["memory", "list"]).await.with_code(0);
    assert_eq!(list.out, "MEMORY  ENTRY\nuser    Likes tea.\n");
    assert!(list.err.starts_with("warning: ") && list.err.contains("config.yaml:"), "{}", list.err);
    let shown = deputize(&lab, &["memory", "show", "user"]).await.with_code(0);
    assert!(shown.out.ends_with("- Likes tea.\n"), "{}", shown.out);
    // A change needs the secrets that the configuration names, and a server is in it.
    for args in [&["memory", "rm", "user", "tea"], &["mcp", "list"][..]] {
        let refused = deputize(&lab, args).await.with_code(2);
        assert!(refused.err.starts_with("error: "), "{args:?}: {}", refused.err);
        assert!(refused.err.contains("config.yaml:"), "{args:?}: {}", refused.err);
    }
}

#[tokio::test]
async fn a_memory_file_that_is_no_text_is_named_and_the_other_one_is_read() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home/memory")).unwrap();
    fs::write(lab.path("home/memory/user.md"), b"- Caf\xe9\n").unwrap();
    fs::write(lab.path("home/memory/work.md"), "- Written in Rust.\n").unwrap();
    let server = model(calls_in_order(vec![add("user", "Likes tea.")])).await;
    let ended = lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    let fault = "user.md cannot be used: line 1 is not UTF-8 text";
    assert!(ended.err.contains(fault), "{}", ended.err);
    let requests = server.requests();
    assert!(ChatRequest::of(&requests[0]).system().contains("- Written in Rust."));
    assert_eq!(fs::read(lab.path("home/memory/user.md")).unwrap(), b"- Caf\xe9\n");
    let list = deputize(&lab, &["memory", "list"]).await.with_code(1);
    assert_eq!(list.out, "MEMORY  ENTRY\nwork    Written in Rust.\n");
    assert!(list.err.contains(fault), "{}", list.err);
    for args in [["memory", "edit", "user"].as_slice(), &["memory", "rm", "user", "Caf"]] {
        let refused = deputize(&lab, args).await.with_code(1);
        assert!(refused.err.contains(fault), "{}", refused.err);
    }
}

#[tokio::test]
async fn without_a_home_every_list_names_the_variable_to_set() {
    let lab = Lab::new();
    for list in ["sessions", "memory", "cron"] {
        let mut command = lab.deputize(&[list, "list"]);
        command.env_remove("HOME").env_remove("DEPUTIZE_HOME").env_remove("XDG_STATE_HOME");
        let refused = RunningProgram::start(command).end().await.with_code(2);
        let error = "error: no directory for sessions, jobs and memory: set DEPUTIZE_HOME to one\n";
        assert_eq!(refused.err, error, "{list}");
    }
}

#[tokio::test]
async fn a_person_lists_shows_edits_and_deletes_entries() {
    let lab = Lab::new();
    let calls = vec![add("user", "Likes tea."), add("work", "Written in Rust.")];
    let server = model(calls_in_order(calls)).await;
    lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    let list = deputize(&lab, &["memory", "list"]).await.with_code(0);
    assert_eq!(list.out, "MEMORY  ENTRY\nuser    Likes tea.\nwork    Written in Rust.\n");
    fs::write(lab.path("new.md"), "Likes tea.\n- Likes\n  short answers.\n").unwrap();
    let edit = |name: &'static str, editor: String| {
        let mut command = lab.deputize(&["memory", "edit", name]);
        command.env("EDITOR", editor);
        async { RunningProgram::start(command).end().await }
    };
    let new = lab.path("new.md");
    edit("user", format!("cp {}", new.display())).await.with_code(0);
    let shown = deputize(&lab, &["memory", "show", "user"]).await.with_code(0);
    assert_eq!(shown.out, "# About the person\n- Likes tea.\n- Likes short answers.\n");
    let same = edit("user", "true".into()).await.with_code(0);
    assert_eq!(same.err, "nothing changed\n");
    let gone = edit("user", "rm".into()).await.with_code(1);
    assert_eq!(gone.err, "error: the editor `rm` left no file; nothing is changed\n");
    // A line that can be no entry is named, and the text is kept.
    let long = lab.path("long.md");
    fs::write(&long, format!("- A\n{}\n", "x".repeat(401))).unwrap();
    let refused = edit("user", format!("cp {}", long.display())).await.with_code(2);
    assert!(refused.err.contains("line 2: the entry has 401 characters"), "{}", refused.err);
    assert!(refused.err.contains("your text is in "), "{}", refused.err);
    // So it is in another charset, and where the editor failed after it wrote.
    fs::write(&long, b"- Caf\xe9\n").unwrap();
    for (editor, why) in
        [("cp {} \"$0\"", "did not contain valid UTF-8"), ("cp {} \"$0\"; false", "failed")]
    {
        let editor = editor.replace("{}", &long.display().to_string());
        let refused = edit("user", format!("sh -c '{editor}'")).await.with_code(1);
        assert!(refused.err.contains(why), "{}", refused.err);
        let kept = refused.err.split("your text is in ").nth(1).unwrap().trim_end();
        assert_eq!(fs::read(kept).unwrap(), b"- Caf\xe9\n");
        fs::remove_dir_all(std::path::Path::new(kept).parent().unwrap()).unwrap();
    }
    // An entry that is written while the editor is open is not lost.
    let file = lab.path("home/memory/user.md");
    let meanwhile =
        format!("sh -c 'echo \"- New.\" >> {}; cp {} \"$0\"'", file.display(), new.display());
    let refused = edit("user", meanwhile).await.with_code(2);
    assert!(refused.err.contains("`user` was changed meanwhile"), "{}", refused.err);
    assert!(refused.err.contains("your text is in "), "{}", refused.err);
    let ended = deputize(&lab, &["memory", "rm", "user", "Likes"]).await.with_code(2);
    assert!(ended.err.contains("2 entries of `user` have `Likes` in them"), "{}", ended.err);
    let none = deputize(&lab, &["memory", "rm", "user", "milk"]).await.with_code(2);
    assert!(none.err.contains("no entry of `user` has `milk` in it"), "{}", none.err);
    assert!(none.err.contains("`deputize memory list` shows all entries"), "{}", none.err);
    deputize(&lab, &["memory", "rm", "user", "tea"]).await.with_code(0);
    let all = deputize(&lab, &["memory", "list", "--json"]).await.with_code(0);
    let all: Value = serde_json::from_str(&all.out).unwrap();
    let entries: Vec<_> = all.as_array().unwrap().iter().map(|it| &it["entry"]).collect();
    assert_eq!(entries, ["Likes short answers.", "New.", "Written in Rust."]);
    let unknown = deputize(&lab, &["memory", "show", "us"]).await.with_code(2);
    assert!(unknown.err.contains("there is no memory `us`; there are `user` and `work`"));
}

#[tokio::test]
async fn a_mark_in_the_prompt_counts_as_read_and_the_first_message_names_its_parts() {
    let marked = "- It rings. [written after reading web:evil.example]\n";
    let in_message = ["host", "memory:work", "project:AGENTS.md", "user", "web:evil.example"];
    for (schemas, sources) in
        [("narrowed", json!(["user"])), ("cache_preserving", json!(in_message))]
    {
        let lab = Lab::new();
        fs::create_dir_all(lab.path("home/memory")).unwrap();
        fs::write(lab.path("home/memory/work.md"), marked).unwrap();
        fs::write(lab.work("AGENTS.md"), "Run the tests.\n").unwrap();
        let server = model(calls_in_order(vec![add("user", "Likes tea.")])).await;
        let set = format!("delegation.tool_schemas={schemas}");
        let args =
            ["--approve", "auto", "--project-files", "--set", &set, "--output", "events", "Go"];
        let end = lab.run(&server, &args).end().await.with_code(0);
        let sent = ChatRequest::of(&server.requests()[0]).last_user().to_owned();
        assert_eq!(sent.contains("It rings."), schemas == "cache_preserving", "{sent}");
        assert_eq!(end.events("message")[0]["sources"], sources);
        let user = fs::read_to_string(lab.path("home/memory/user.md")).unwrap();
        let mark = "[written after reading web:evil.example]";
        assert_eq!(user, format!("# About the person\n- Likes tea. {mark}\n"));
    }
}

#[tokio::test]
async fn the_doctor_names_a_memory_that_cannot_be_read_once() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home/memory")).unwrap();
    fs::write(lab.path("home/memory/user.md"), b"- Caf\xe9\n").unwrap();
    let doctor = deputize(&lab, &["doctor", "-m", "offline"]).await.with_code(0);
    assert_eq!(doctor.out.matches("memory/user.md").count(), 1, "{}", doctor.out);
    let row = doctor.out.lines().find(|row| row.contains("memory/user.md")).unwrap();
    assert!(row.starts_with("warn  memory files "), "{row}");
}
