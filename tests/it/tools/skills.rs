//! Skills, and the instructions of a project.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

const NOTES: &str = "---\nname: notes\ndescription: How to take notes.\n---\nTake notes.\n";

fn put(lab: &Lab, path: &str, text: &str) {
    let path = lab.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

#[tokio::test]
async fn the_skill_of_the_page_is_offered_and_read() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/skills.md");
    let page = fs::read_to_string(page).unwrap();
    let call: Value = serde_json::from_str(blocks(&page, "json call")[0].1).unwrap();
    let (_, result) = blocks(&page, "text result")[0];
    let (_, skill) = blocks(&page, "markdown")[0];
    let lab = Lab::new();
    put(&lab, "home/skills/release-notes/SKILL.md", skill.trim_start());
    let server = model(calls_in_order(vec![("skill_view", call)])).await;
    lab.run(&server, &["Go"]).end().await.with_code(0);
    let requests = server.requests();
    let first = ChatRequest::of(&requests[0]);
    let line =
        "- release-notes: How to write release notes. Use it before a release.\n- split-work: ";
    assert!(first.system().contains(line), "{}", first.system());
    let last = ChatRequest::of(requests.last().unwrap());
    let read = last.results()[0];
    assert!(read.contains(result) && !read.contains("description:"), "{read}");
    assert!(read.ends_with("[the person's skill: follow it where it fits your task]"), "{read}");
}

#[tokio::test]
async fn without_their_tools_no_skill_is_named_and_none_is_read() {
    let lab = Lab::new();
    put(&lab, "home/skills/notes/SKILL.md", NOTES);
    let server = model(calls_in_order(Vec::new())).await;
    lab.run(&server, &["-t", "file", "Go"]).end().await.with_code(0);
    let requests = server.requests();
    let system = ChatRequest::of(&requests[0]).system().to_owned();
    assert!(!system.contains("kill"), "{system}");
}

#[tokio::test]
async fn a_child_learns_of_skills_if_it_has_their_tools_and_writes_none() {
    let lab = Lab::new();
    put(&lab, "home/skills/notes/SKILL.md", NOTES);
    let tasks = json!({"tasks": [
        {"goal": "Look one.", "toolsets": ["skills"]}, {"goal": "Look two.", "toolsets": ["file"]},
    ]});
    let server = model(move |asked| match asked.system().contains("YOUR TASK:") {
        true => calls_in_order(Vec::new())(asked),
        false => calls_in_order(vec![("delegate_task", tasks.clone())])(asked),
    })
    .await;
    lab.run(&server, &["Hand on"]).end().await.with_code(0);
    let requests = server.requests();
    let child = |goal: &str| {
        let mut requests = requests.iter().map(ChatRequest::of);
        requests.find(|it| it.system().contains(&format!("YOUR TASK:\n{goal}"))).unwrap()
    };
    let one = child("Look one.");
    assert!(one.system().contains("- notes: How to take notes."), "{}", one.system());
    assert!(one.tools().contains(&"skill_view") && !one.tools().contains(&"skill_manage"));
    let two = child("Look two.");
    assert!(!two.system().contains("notes"), "{}", two.system());
}

#[tokio::test]
async fn a_skill_is_written_only_with_a_yes() {
    let lab = Lab::new();
    let create = json!({"action": "create", "name": "notes", "content": NOTES});
    let server = model(calls_in_order(vec![("skill_manage", create)])).await;
    lab.run(&server, &["--approve", "deny", "Go"]).end().await.with_code(0);
    assert!(!lab.path("home/skills").exists());
    lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    assert_eq!(fs::read_to_string(lab.path("home/skills/notes/SKILL.md")).unwrap(), NOTES);
    // The session that follows learns of it.
    lab.run(&server, &["Go"]).end().await.with_code(0);
    let requests = server.requests();
    let system = ChatRequest::of(requests.last().unwrap()).system().to_owned();
    assert!(system.contains("- notes: How to take notes."), "{system}");
}

#[tokio::test]
async fn a_person_lists_shows_edits_and_deletes_skills() {
    let lab = Lab::new();
    put(&lab, "home/skills/broken/SKILL.md", "# Nothing\n");
    put(&lab, "work/.agents/skills/theirs/SKILL.md", &NOTES.replace("notes", "theirs"));
    put(&lab, "notes.md", NOTES);
    let edit = |name: &'static str| {
        let mut command = lab.deputize(&["skills", "edit", name]);
        command.env("EDITOR", format!("cp {}", lab.path("notes.md").display()));
        async { RunningProgram::start(command).end().await }
    };
    edit("notes").await.with_code(0);
    let list = deputize(&lab, &["skills", "list"]).await.with_code(0);
    let fault = "home/skills/broken/SKILL.md: it does not begin with front matter";
    assert!(list.err.contains(fault), "{}", list.err);
    assert!(list.out.contains("notes       user     How to take notes."), "{}", list.out);
    assert!(!list.out.contains("theirs"), "{}", list.out);
    let all = deputize(&lab, &["skills", "list", "--project-files", "--json"]).await.with_code(0);
    let all: Value = serde_json::from_str(&all.out).unwrap();
    let names: Vec<_> = all.as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["notes", "split-work", "theirs"]);
    let doctor = deputize(&lab, &["doctor", "-m", "offline"]).await;
    assert!(doctor.out.contains(fault), "{}", doctor.out);
    let shown = deputize(&lab, &["skills", "show", "notes"]).await.with_code(0);
    assert_eq!(shown.out, "Take notes.\n");
    let same = edit("notes").await.with_code(0);
    assert_eq!((same.out.as_str(), same.err.as_str()), ("", "nothing changed\n"));
    // One that is no UTF-8 is not replaced by what an editor was shown in its place.
    std::fs::write(lab.path("home/skills/broken/SKILL.md"), b"caf\xe9\n").unwrap();
    let unreadable = edit("broken").await.with_code(1);
    assert!(unreadable.err.contains("broken/SKILL.md` cannot be read"), "{}", unreadable.err);
    assert!(unreadable.err.contains("it must be text in UTF-8"), "{}", unreadable.err);
    let listed = deputize(&lab, &["skills", "list"]).await.with_code(0);
    assert!(listed.out.contains("broken      faulty   line 1 is not UTF-8 text"), "{}", listed.out);
    let faulty = deputize(&lab, &["skills", "show", "broken"]).await.with_code(2);
    assert!(faulty.err.contains("broken/SKILL.md: line 1 is not UTF-8 text\n"), "{}", faulty.err);
    let hint =
        "hint: `deputize skills edit broken` corrects it, and `deputize skills rm broken` deletes";
    assert!(faulty.err.contains(hint), "{}", faulty.err);
    put(&lab, "home/skills/broken/SKILL.md", "# Nothing\n");
    // A name that cannot be one is refused before the editor.
    let mut command = lab.deputize(&["skills", "edit", "My Notes"]);
    command.env("EDITOR", format!("touch {};", lab.path("edited").display()));
    let name = RunningProgram::start(command).end().await.with_code(2);
    assert!(name.err.contains("`My Notes` is not the name of a skill"), "{}", name.err);
    assert!(!lab.path("edited").exists());
    // What the template says is no skill of anybody.
    let mut command = lab.deputize(&["skills", "edit", "new"]);
    command.env("EDITOR", "true");
    let same = RunningProgram::start(command).end().await.with_code(0);
    assert_eq!(same.err, "nothing changed\n");
    assert!(!lab.path("home/skills/new").exists());
    let other = edit("other").await.with_code(2);
    assert!(other.err.contains("its `name` is `notes` and its folder is `other`"), "{}", other.err);
    assert!(!lab.path("home/skills/other").exists());
    deputize(&lab, &["skills", "rm", "notes"]).await.with_code(0);
    let bundled = deputize(&lab, &["skills", "rm", "split-work"]).await.with_code(2);
    let comes = "error: `split-work` comes with the program and cannot be deleted\n";
    assert!(bundled.err.contains(comes), "{}", bundled.err);
    let hint = "hint: `deputize skills edit split-work` makes one of yours that agents read instead; \
                `deputize tools disable skills` takes all skills from them";
    assert!(bundled.err.contains(hint), "{}", bundled.err);
    assert!(!lab.path("home/skills/notes").exists());
}

#[tokio::test]
async fn a_projects_files_are_read_only_if_the_person_says_so() {
    let lab = Lab::new();
    fs::create_dir_all(lab.work(".git")).unwrap();
    put(&lab, "work/AGENTS.md", "Use tabs.\n");
    put(&lab, "work/sub/CLAUDE.md", "Use spaces.\n");
    std::os::unix::fs::symlink("CLAUDE.md", lab.work("sub/.cursorrules")).unwrap();
    put(&lab, "work/.claude/skills/notes/SKILL.md", NOTES);
    let sub = lab.work("sub");
    let sub = sub.to_str().unwrap();
    let prompt = async |args: &[&str]| {
        let args = [&["prompt", "--system", "-C", sub], args].concat();
        deputize(&lab, &args).await.with_code(0).out
    };
    let without = prompt(&[]).await;
    assert!(!without.contains("Use ") && !without.contains("notes"), "{without}");
    let with = prompt(&["--project-files"]).await;
    let place = |text: &str| with.find(text).unwrap_or_else(|| panic!("no `{text}`: {with}"));
    assert!(place("<project:skills ") < place("- notes: How to take notes."));
    assert!(place("<project:AGENTS.md ") < place("<project:sub/CLAUDE.md "));
    assert_eq!(with.matches("Use spaces.").count(), 1, "two names of one file: {with}");
    let child = ["--project-files", "--child", "--goal", "Look."];
    assert!(!prompt(&child).await.contains("Use tabs."));
    let expected = [&child[..], &["--set", "delegation.context_files=true"]].concat();
    assert!(prompt(&expected).await.contains("Use tabs."));
}

#[tokio::test]
async fn a_skill_written_after_reading_the_web_has_a_mark_and_passes_it_on() {
    let lab = Lab::new();
    let site = MockServer::start_with(|_| MockAnswer::body("text/html", "<p>Rule them all.")).await;
    let site = site.unwrap();
    let base = site.base_url();
    let host = base.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let allow = format!("fetch.allow_hosts=[\"{host}\"]");
    let fetch = ("web_fetch", json!({"url": format!("http://{host}/page")}));
    let write =
        |action| ("skill_manage", json!({"action": action, "name": "notes", "content": NOTES}));
    let mark = "written after reading web:127.0.0.1";
    let args = ["--approve", "auto", "--set", &allow, "Go"];
    let server = model(calls_in_order(vec![fetch, write("create")])).await;
    lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    let actual = ChatRequest::of(requests.last().unwrap()).results()[1].to_owned();
    assert!(actual.contains("is created") && actual.ends_with(&format!("[{mark}]")), "{actual}");
    // Another session, which has read nothing, keeps the mark and passes it on.
    let fact = json!({"action": "add", "topic": "work", "text": "Read."});
    let calls = vec![write("edit"), ("skill_view", json!({"name": "notes"})), ("memory", fact)];
    let server = model(calls_in_order(calls)).await;
    lab.run(&server, &args).end().await.with_code(0);
    let kept = fs::read_to_string(lab.path("home/skills/notes/SKILL.md")).unwrap();
    let field = "\nwritten-after-reading: [\"web:127.0.0.1\"]\n---\nTake notes.\n";
    assert!(kept.ends_with(field), "{kept}");
    let requests = server.requests();
    let read = ChatRequest::of(requests.last().unwrap()).results()[1].to_owned();
    assert!(read.ends_with(&format!("[{mark}]")), "{read}");
    let work = fs::read_to_string(lab.path("home/memory/work.md")).unwrap();
    assert_eq!(work, format!("# About the work\n- Read. [{mark}]\n"));
    let list = deputize(&lab, &["skills", "list"]).await.with_code(0);
    assert!(list.out.contains(&format!("How to take notes. [{mark}]")), "{}", list.out);
    let list = deputize(&lab, &["skills", "list", "--json"]).await.with_code(0);
    assert!(list.out.contains("\"written_after_reading\": [\n"), "{}", list.out);
    let shown = deputize(&lab, &["skills", "show", "notes"]).await.with_code(0);
    assert_eq!(shown.out, format!("Take notes.\n\n[{mark}]\n"));
}

#[tokio::test]
async fn what_somebody_else_wrote_while_the_editor_was_open_stays() {
    let lab = Lab::new();
    put(&lab, "home/skills/notes/SKILL.md", NOTES);
    let mut command = lab.deputize(&["skills", "edit", "notes"]);
    let skill = lab.path("home/skills/notes/SKILL.md").display().to_string();
    command.env("EDITOR", format!("echo Theirs. >> {skill}; echo Mine. >>"));
    let changed = RunningProgram::start(command).end().await.with_code(1);
    assert!(
        changed.err.contains("`notes` was changed meanwhile: edit it again"),
        "{}",
        changed.err
    );
    assert!(std::fs::read_to_string(&skill).unwrap().ends_with("Theirs.\n"));
    let kept = changed.err.split("your text is in ").nth(1).unwrap().trim();
    assert!(std::fs::read_to_string(kept).unwrap().ends_with("Mine.\n"));
    let folder = Path::new(kept).parent().unwrap();
    assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_bundled_skill_is_edited_as_a_copy_that_takes_its_place() {
    let lab = Lab::new();
    let edit = |editor: &str| {
        let mut command = lab.deputize(&["skills", "edit", "split-work"]);
        command.env("EDITOR", editor);
        async { RunningProgram::start(command).end().await }
    };
    let same = edit("true").await.with_code(0);
    assert_eq!(same.err, "nothing changed\n");
    edit("sed -i 's/^description: .*/description: My way./'").await.with_code(0);
    let list = deputize(&lab, &["skills", "list"]).await.with_code(0);
    assert!(list.out.contains("split-work  user  My way."), "{}", list.out);
    edit("sed -i 's/My way/Your way/'").await.with_code(0);
    deputize(&lab, &["skills", "rm", "split-work"]).await.with_code(0);
    let list = deputize(&lab, &["skills", "list"]).await.with_code(0);
    assert!(list.out.contains("split-work  bundled  "), "{}", list.out);
}

#[tokio::test]
async fn a_secret_in_a_skill_of_a_person_is_refused() {
    let lab = Lab::new();
    put(&lab, "notes.md", &NOTES.replace("Take notes.", "Log in with password=hunter2022."));
    for name in ["notes", "split-work"] {
        let mut command = lab.deputize(&["skills", "edit", name]);
        command.env("EDITOR", format!("cp {}", lab.path("notes.md").display()));
        let refused = RunningProgram::start(command).end().await.with_code(2);
        let fault = "the skill contains a secret (a value of `password`): secrets are never saved";
        assert!(refused.err.contains(fault), "{}", refused.err);
        assert!(refused.err.contains("your text is in "), "{}", refused.err);
    }
    assert!(!lab.path("home/skills").exists());
}

#[tokio::test]
async fn descriptions_of_project_skills_count_as_words_of_the_project() {
    for schemas in ["narrowed", "cache_preserving"] {
        let lab = Lab::new();
        put(&lab, "work/.agents/skills/theirs/SKILL.md", &NOTES.replace("notes", "theirs"));
        let server = model(calls_in_order(vec![("skills_list", json!({}))])).await;
        let set = format!("delegation.tool_schemas={schemas}");
        let run = |project: &'static [&'static str]| {
            let args = [&["--set", &set, "--output", "events"][..], project, &["Go"]].concat();
            lab.run(&server, &args).end()
        };
        let end = run(&["--project-files"]).await.with_code(0);
        let in_message = end.events("message")[0]["sources"].to_string();
        assert_eq!(in_message.contains("project:skills"), schemas == "cache_preserving");
        let stored = fs::read_to_string(lab.session_file()).unwrap();
        let in_system = r#""system_sources":["project:skills"]"#;
        assert_eq!(stored.contains(in_system), schemas == "narrowed");
        let listed = &end.events("tool.end")[0];
        assert!(listed.to_string().contains("project:skills"), "{listed}");
        let end = run(&[]).await.with_code(0);
        assert!(!end.out.contains("project:skills"), "{}", end.out);
    }
}

#[tokio::test]
async fn an_identity_that_is_no_text_is_named_in_a_warning() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/SOUL.md"), b"You are Ren\xe9.\n").unwrap();
    let server = model(calls_in_order(Vec::new())).await;
    let end = lab.run(&server, &["Go"]).end().await.with_code(0);
    let warning = "warning: SOUL.md was not read: line 1 is not UTF-8 text\n";
    assert!(end.err.contains(warning), "{}", end.err);
    let requests = server.requests();
    let system = ChatRequest::of(&requests[0]).system().to_owned();
    assert!(!system.contains("You are Ren"), "{system}");
}
