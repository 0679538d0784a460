//! Profiles: of children, of the agent itself, of projects.

use std::fs;
use std::path::Path;

use deputize_testkit::MockAnswer;
use serde_json::{Value, json};

use super::{call, is_child, of, result, say, tools};
use crate::mcp::set_server;
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

const SCOUT: &str = "---\nname: scout\ndescription: looks around\ntoolsets: [file_read, web]\n\
    max_iterations: 3\n---\nLook twice.\n";
/// As Claude Code has them.
const THEIRS: &str = "---\nname: theirs\ndescription: Reads.\ntools: Read, NotebookEdit, Bash(git:*)\n\
    model: sonnet\ncolor: red\n---\nRead it.\n";

fn put(lab: &Lab, path: &str, text: &str) {
    let path = lab.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

/// A parent that makes one call, and children that answer at once.
fn parent_of(arguments: Value) -> impl Fn(&ChatRequest) -> MockAnswer + Send + Sync + 'static {
    move |asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", arguments.clone()),
        (false, _) => say("Done."),
        (true, _) => say("I looked."),
    }
}

/// The description of `profile` that a request has.
fn offered(request: &Value) -> String {
    let tools = request["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["function"]["name"] == "delegate_task").unwrap();
    let field = &tool["function"]["parameters"]["properties"]["profile"]["description"];
    field.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_child_has_the_text_and_at_most_the_tools_of_its_profile() {
    let lab = Lab::new();
    put(&lab, "home/agents/scout.md", SCOUT);
    let tasks = json!({"profile": "scout", "tasks": [
        {"goal": "Look at one", "max_iterations": 40},
        {"goal": "Look at two", "profile": "explore"},
        {"goal": "Look at three", "profile": "work"},
    ]});
    let server = model(parent_of(tasks)).await;
    let ended = lab.run(&server, &["--output", "events", "Go"]).end().await.with_code(0);
    let requests = server.requests();
    let lines = "\nexplore: finds things, changes none\nreview: finds mistakes, edits nothing\nscout: looks around\nwork: ";
    let list = offered(&requests[0].json());
    assert!(list.contains(lines), "{list}");
    let one = of(&requests, "Look at one")[0];
    assert_eq!(tools(one), ["list_dir", "read_file", "search_files", "web_fetch"]);
    let system = ChatRequest::of(one).system();
    assert!(system.contains("\n\nYOUR PROFILE, `scout`:\nLook twice.\n\nYOUR TASK:"), "{system}");
    let two = of(&requests, "Look at two")[0];
    assert_eq!(tools(two), ["list_dir", "read_file", "search_files"]);
    assert!(tools(of(&requests, "Look at three")[0]).contains(&"write_file".to_owned()));
    let started = ended.events("agent.start");
    let profiles: Vec<&Value> = started.iter().map(|start| &start["profile"]).collect();
    assert_eq!(profiles, [&Value::Null, &json!("scout"), &json!("explore"), &json!("work")]);
    assert_eq!(started[1]["max_iterations"], 3, "the smaller limit holds");
    let last = ChatRequest::of(requests.last().unwrap());
    let (entries, _) = result(last.results()[0]);
    let named: Vec<&Value> =
        entries["results"].as_array().unwrap().iter().map(|it| &it["profile"]).collect();
    assert_eq!(named, ["scout", "explore", "work"]);
    let session = lab.session();
    let shown = deputize(&lab, &["sessions", "show", &session, "--agent", "1.0.0"]).await;
    assert!(shown.out.contains("profile: scout\n"), "{}{}", shown.out, shown.err);
}

#[tokio::test]
async fn a_profile_that_is_not_there_starts_nothing_and_the_error_names_those_that_are() {
    let lab = Lab::new();
    let server = model(parent_of(json!({"goal": "Look", "profile": "scout"}))).await;
    lab.run(&server, &["Go"]).end().await.with_code(0);
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "no child");
    let last = ChatRequest::of(&requests[1]);
    let actual = last.results()[0];
    assert!(
        actual.contains("`profile` must be one of explore, review, work, or left out"),
        "{actual}"
    );
}

#[tokio::test]
async fn a_faulty_profile_gives_way_to_none_and_each_command_says_what_is_wrong() {
    let lab = Lab::new();
    put(&lab, "home/agents/explore.md", "---\ndescription: mine\nrole: boss\n---\n");
    let server = model(parent_of(json!({"goal": "Look", "profile": "explore"}))).await;
    let run = lab.run(&server, &["--profile", "explore", "Go"]).end().await.with_code(2);
    let show = deputize(&lab, &["profiles", "show", "explore"]).await.with_code(2);
    assert_eq!(run.err, show.err);
    assert!(run.err.starts_with("error: the profile `explore` cannot be used: /"), "{}", run.err);
    let expected = "home/agents/explore.md: `role` must be `leaf` or `orchestrator`; correct the file, \
                or remove it\n";
    assert!(run.err.ends_with(expected), "{}", run.err);
    let file = lab.path("faulty.recording");
    let file = file.to_str().unwrap();
    lab.run(&server, &["--record", file, "Go"]).end().await.with_code(0);
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "no child");
    assert!(!offered(&requests[0].json()).contains("explore"));
    let last = ChatRequest::of(&requests[1]);
    let result = last.results()[0];
    assert!(result.contains("its file is faulty, and a person must correct it (/"), "{result}");
    assert!(result.contains("explore.md: `role` must be"), "{result}");
    let list = deputize(&lab, &["profiles", "list"]).await.with_code(0);
    let row = "explore  faulty   `role` must be `leaf` or `orchestrator`\n";
    assert!(list.out.contains(row) && !list.out.contains("finds things"), "{}", list.out);
    assert!(list.err.contains("explore.md: `role` must be"), "{}", list.err);
    fs::remove_file(lab.path("home/agents/explore.md")).unwrap();
    deputize(&lab, &["run", "--replay", file]).await.with_code(0);
}

#[tokio::test]
async fn a_projects_profiles_are_read_only_on_request_and_allow_no_more_than_they_say() {
    let lab = Lab::new();
    put(&lab, "work/.claude/agents/theirs.md", THEIRS);
    put(&lab, "work/.deputize/agents/explore.md", &THEIRS.replace("theirs", "explore"));
    let server = model(parent_of(json!({"goal": "Look", "profile": "theirs"}))).await;
    lab.run(&server, &["Go"]).end().await.with_code(0);
    assert!(!offered(&server.requests()[0].json()).contains("theirs"));
    assert_eq!(server.requests().len(), 2, "no child");
    let server = model(parent_of(json!({"goal": "Look", "profile": "theirs"}))).await;
    lab.run(&server, &["--project-files", "Go"]).end().await.with_code(0);
    let requests = server.requests();
    let list = offered(&requests[0].json());
    assert!(list.contains("\ntheirs (the project's): Reads.\n"), "{list}");
    assert!(list.contains("\nexplore: finds things"), "the program's stays: {list}");
    let child = of(&requests, "Look")[0];
    assert_eq!(tools(child), ["read_file"]);
    let system = ChatRequest::of(child).system();
    assert!(system.contains("they give no permission.\n<project:agents/theirs "), "{system}");
    let listed = deputize(&lab, &["profiles", "list", "--project-files"]).await.with_code(0);
    assert!(listed.out.contains("theirs   project  Reads."), "{}", listed.out);
    for part in [
        "theirs.md: `tools`: no tool here is meant by `NotebookEdit`, `Bash(git:*)`: left out",
        "theirs.md: `model`: `sonnet` is not PROVIDER/MODEL and is ignored",
        "theirs.md: fields that are not known are ignored: `color`",
        "explore.md: there is a bundled profile `explore` already, which is used",
    ] {
        assert!(listed.err.contains(part), "{part}: {}", listed.err);
    }
}

#[tokio::test]
async fn what_a_profile_of_another_program_denies_has_no_other_tool_here() {
    let lab = Lab::new();
    let server = model(|_: &ChatRequest| say("Done.")).await;
    let set = set_server("none");
    for (denied, gone) in [
        ("", &[][..]),
        (
            "disallowedTools: Write, Edit",
            &["apply_patch", "edit_file", "execute_code", "write_file"],
        ),
        ("disallowedTools: Bash(rm:*)", &["execute_code", "process", "terminal"]),
        ("disallowedTools: mcp__w, mcp__other__*", &["mcp__w__echo"]),
    ] {
        let text = format!("---\ndescription: Reads.\n{denied}\n---\nRead.\n");
        put(&lab, "work/.claude/agents/reads.md", &text);
        let args = ["--project-files", "--approve", "auto", "--set", &set];
        lab.run(&server, &[&args[..], &["Go"]].concat()).end().await.with_code(0);
        let all = tools(server.requests().last().unwrap());
        assert!(all.contains(&"mcp__w__echo".to_owned()), "{all:?}");
        let args = [&args[..], &["--profile", "reads", "Go"]].concat();
        lab.run(&server, &args).end().await.with_code(0);
        let left = tools(server.requests().last().unwrap());
        let mut missing: Vec<&String> = all.iter().filter(|tool| !left.contains(tool)).collect();
        missing.sort();
        assert_eq!(missing, gone, "{denied}");
    }
    put(
        &lab,
        "work/.claude/agents/reads.md",
        "---\ndescription: d\ndisallowedTools: mcp__*\n---\n",
    );
    let faulty = lab.run(&server, &["--project-files", "--profile", "reads", "Go"]);
    let faulty = faulty.end().await.with_code(2);
    assert!(faulty.err.contains("no tool here is meant by `mcp__*`: name tools"), "{}", faulty.err);
}

#[tokio::test]
async fn a_cheap_model_is_for_the_children_of_one_profile() {
    let lab = Lab::new();
    let tasks = json!({"tasks": [{"goal": "Look", "profile": "explore"}, {"goal": "Do", "profile": "work"}]});
    let server = model(parent_of(tasks)).await;
    let set = "delegation.profile_models={explore: openai/cheap}";
    let ended =
        lab.run(&server, &["--set", set, "--output", "events", "Go"]).end().await.with_code(0);
    let models: Vec<String> =
        ended.events("agent.start").iter().map(|it| it["model"].to_string()).collect();
    assert_eq!(models, [r#""openai/mock""#, r#""openai/cheap""#, r#""openai/mock""#]);
    let served = of(&server.requests(), "Look")[0].json()["model"].clone();
    assert_eq!(served, "cheap");
    let wrong = deputize(
        &lab,
        &["config", "check", "--set", "delegation.profile_models={explore: opnai/cheap}"],
    )
    .await;
    assert!(wrong.err.contains("`delegation.profile_models`: "), "{}", wrong.err);
}

/// An agent that tries to write, and answers.
fn writer(asked: &ChatRequest) -> MockAnswer {
    match asked.results().len() {
        0 => call("write_file", json!({"path": "a.txt", "content": "x"})),
        _ => say("Done."),
    }
}

#[tokio::test]
async fn the_agent_itself_has_a_profile_and_keeps_it_over_a_resume() {
    let lab = Lab::new();
    put(&lab, "home/agents/scout.md", SCOUT);
    let server = model(writer).await;
    let args = ["--profile", "scout", "--output", "events", "Go"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let first = &server.requests()[0];
    assert_eq!(tools(first), ["list_dir", "read_file", "search_files", "web_fetch"]);
    let system = ChatRequest::of(first).system();
    assert!(system.contains("YOUR PROFILE, `scout`:\nLook twice."), "{system}");
    let start = &ended.events("agent.start")[0];
    assert_eq!((&start["profile"], &start["max_iterations"]), (&json!("scout"), &json!(3)));
    assert_eq!(start["role"], "leaf");
    assert!(!lab.work("a.txt").exists());
    let shown = deputize(&lab, &["sessions", "show", &lab.session()]).await.with_code(0);
    assert!(shown.out.contains("\nprofile: scout\n\n✓ top  Go"), "{}", shown.out);
    // Neither its file nor the option is needed to go on, and neither gives it more.
    fs::remove_file(lab.path("home/agents/scout.md")).unwrap();
    let session = lab.session();
    let server = model(|asked: &ChatRequest| match asked.last_user() {
        "More" if asked.results().len() < 2 => {
            call("write_file", json!({"path": "a.txt", "content": "x"}))
        }
        _ => say("Done."),
    })
    .await;
    lab.run(&server, &["--resume", &session, "More"]).end().await.with_code(0);
    let requests = server.requests();
    assert_eq!(ChatRequest::of(&requests[0]).system(), system);
    assert_eq!(tools(&requests[0]), tools(first));
    assert!(!lab.work("a.txt").exists());
    let unknown = lab.run(&server, &["--profile", "scout", "Go"]).end().await.with_code(2);
    let expected = "there is no profile `scout`; known: explore, review, work";
    assert!(unknown.err.contains(expected), "{}", unknown.err);
}

#[tokio::test]
async fn the_limit_of_a_profile_bounds_each_run_and_that_of_the_command_line_its_own() {
    let lab = Lab::new();
    put(&lab, "home/agents/scout.md", SCOUT);
    put(&lab, "home/agents/free.md", "---\ndescription: d\n---\n");
    let server = model(|asked: &ChatRequest| match asked.may_call() {
        true => call("list_dir", json!({})),
        false => say("So far."),
    })
    .await;
    let run = async |args: &[&str]| lab.run(&server, args).end().await.with_code(4);
    let limit = |ended: &ProgramEnd| {
        let line = ended.err.lines().find(|line| line.contains("(max_iterations)")).unwrap();
        line.to_owned()
    };
    let reached = |count: &str, more: &str| {
        format!(
            "warning: the limit of {count} (max_iterations) was reached: one more asked for a \
             closing answer, which may be incomplete; {more}"
        )
    };
    let flag = "--max-iterations allows more";
    let profile = "the profile `scout` allows no more: a resume has as many again, and a new session \
                   what the profile says then";
    let first = run(&["--profile", "scout", "--max-iterations", "1", "Go"]).await;
    assert_eq!(limit(&first), reached("1 model request", flag));
    let session = lab.session();
    for (args, count, more) in [
        (&[][..], "3 model requests", profile),
        (&["--max-iterations", "9"], "3 model requests", profile),
        (&["--max-iterations", "2"], "2 model requests", flag),
        (&["--set", "max_iterations=2"], "2 model requests", flag),
    ] {
        let resumed = run(&[&["--resume", &session], args, &["More"]].concat()).await;
        assert_eq!(limit(&resumed), reached(count, more), "{args:?}");
    }
    let widened = run(&["--profile", "scout", "--max-iterations", "9", "Go"]).await;
    assert_eq!(limit(&widened), reached("3 model requests", profile));
    let free = run(&["--profile", "free", "--max-iterations", "1", "Go", "--output", "json"]).await;
    let session: Value = serde_json::from_str(&free.out).unwrap();
    let session = session["session"].as_str().unwrap();
    let resumed = run(&["--resume", session, "--set", "max_iterations=2", "More"]).await;
    assert_eq!(limit(&resumed), reached("2 model requests", flag), "a profile without a limit");
}

#[tokio::test]
async fn a_run_with_a_profile_is_replayed_without_its_file() {
    let lab = Lab::new();
    put(&lab, "home/agents/scout.md", SCOUT);
    let server = model(writer).await;
    let file = lab.path("scout.recording");
    let file = file.to_str().unwrap();
    lab.run(&server, &["--profile", "scout", "--record", file, "Go"]).end().await.with_code(0);
    fs::remove_file(lab.path("home/agents/scout.md")).unwrap();
    deputize(&lab, &["run", "--replay", file]).await.with_code(0);
}

#[tokio::test]
async fn a_person_makes_lists_and_shows_profiles() {
    let lab = Lab::new();
    let made = deputize(&lab, &["profiles", "new", "tests"]).await.with_code(0);
    assert!(made.out.ends_with("home/agents/tests.md\n"), "{}", made.out);
    let again = deputize(&lab, &["profiles", "new", "tests"]).await.with_code(2);
    assert!(again.err.contains("there is a file for the profile `tests` already"), "{}", again.err);
    let bundled = deputize(&lab, &["profiles", "new", "explore"]).await.with_code(2);
    let said = "error: the program has a profile `explore` already\nhint: choose another name; with \
                --replace, yours replaces it, and its limits no longer apply\n";
    assert_eq!(bundled.err, said);
    let own = deputize(&lab, &["profiles", "new", "explore", "--replace"]).await.with_code(0);
    fs::remove_file(own.out.trim_start_matches("written: ").trim_end()).unwrap();
    put(&lab, "home/agents/broken.md", "# Nothing\n");
    put(&lab, "home/agents/typo.md", "---\ndescription: d\ntoolsets: [fiel]\n---\n");
    let list = deputize(&lab, &["profiles", "list"]).await.with_code(0);
    assert!(list.err.contains("broken.md: it does not begin with front matter"), "{}", list.err);
    let typo = "typo.md: `toolsets`: there is no toolset `fiel`; did you mean `file`?";
    assert!(list.err.contains(typo), "{}", list.err);
    let row = "typo     user     (no toolset `fiel`) d\n";
    assert!(list.out.contains(row), "{}", list.out);
    let typo = deputize(&lab, &["profiles", "show", "typo"]).await.with_code(0);
    assert!(typo.out.contains("toolsets: fiel (there is none)\n"), "{}", typo.out);
    let typo = deputize(&lab, &["profiles", "show", "typo", "--json"]).await.with_code(0);
    let typo: Value = serde_json::from_str(&typo.out).unwrap();
    assert_eq!(typo["unknown_toolsets"], json!(["fiel"]));
    let doctor = deputize(&lab, &["doctor"]).await;
    assert!(doctor.out.contains("there is no toolset `fiel`"), "{}", doctor.out);
    fs::remove_file(lab.path("home/agents/typo.md")).unwrap();
    assert!(list.out.contains("tests    user     what the agent is for"), "{}", list.out);
    let all = deputize(&lab, &["profiles", "list", "--json"]).await.with_code(0);
    let all: Value = serde_json::from_str(&all.out).unwrap();
    let names: Vec<_> = all.as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["explore", "review", "tests", "work"]);
    let shown = deputize(&lab, &["profiles", "show", "explore"]).await.with_code(0);
    let top = "explore: finds things, changes none\nfrom: bundled\ntoolsets: file_read\n\
               role: leaf\n\nFind what";
    assert!(shown.out.starts_with(top), "{}", shown.out);
    let unknown = deputize(&lab, &["profiles", "show", "x"]).await.with_code(2);
    assert!(unknown.err.contains("known: explore, review, tests, work"), "{}", unknown.err);
    let resolved = ["toolsets", "resolve", "--child", "--profile", "explore"];
    let resolved = deputize(&lab, &resolved).await.with_code(0);
    assert!(resolved.out.contains("not in the profile `explore`"), "{}", resolved.out);
    let child = ["prompt", "--child", "--goal", "Look", "--profile", "explore"];
    let child = deputize(&lab, &child).await.with_code(0);
    assert!(child.out.contains("YOUR PROFILE, `explore`:\nFind what"), "{}", child.out);
    let top = deputize(&lab, &["prompt", "--profile", "review", "--system"]).await.with_code(0);
    assert!(top.out.contains("YOUR PROFILE, `review`:\nJudge"), "{}", top.out);
}

#[tokio::test]
async fn the_profile_of_the_page_is_one_without_a_warning() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/delegation/profiles.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, text) = page.split_once("```markdown\n").unwrap();
    let lab = Lab::new();
    put(&lab, "home/agents/tests.md", text.split("```").next().unwrap());
    let shown = deputize(&lab, &["profiles", "show", "tests"]).await.with_code(0);
    assert!(shown.out.contains("toolsets: file_read, terminal\n"), "{}", shown.out);
    assert_eq!(shown.err, "");
}
