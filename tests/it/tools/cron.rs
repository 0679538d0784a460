//! Scheduled jobs: made by agents and persons, run by `deputize cron run`.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

mod ends;

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, hang, model, sees};

fn nightly() -> Value {
    json!({
        "action": "create",
        "name": "nightly-tests",
        "schedule": "30 2 * * MON-FRI",
        "prompt": "Run the tests and say which failed.",
        "toolsets": ["file_read"],
    })
}

async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

fn job(lab: &Lab, name: &str) -> Value {
    let text = fs::read_to_string(lab.path(format!("home/cron/jobs/{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn history(lab: &Lab, name: &str) -> Value {
    let text = fs::read_to_string(lab.path(format!("home/cron/history/{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Adds a job whose time is far away.
async fn add(lab: &Lab, name: &str, more: &[&str]) {
    let args = ["cron", "add", name, "Say hello.", "--schedule", "every 9d"];
    deputize(lab, &[&args[..], more].concat()).await.with_code(0);
}

/// Starts the program that runs the jobs.
fn daemon(lab: &Lab, server: &MockServer, more: &[&str]) -> RunningProgram {
    let url = server.base_url();
    let args = ["cron", "run", "-m", "openai/mock", "--base-url", &url];
    RunningProgram::start(lab.deputize(&[&args[..], more].concat()))
}

/// Ends it as a system does.
async fn stop(daemon: RunningProgram) -> ProgramEnd {
    daemon.signal(Signal::TERM);
    daemon.end().await.with_code(0)
}

#[tokio::test]
async fn a_job_of_a_model_always_asks_a_person_who_sees_all_of_it() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/cron.md");
    let page = fs::read_to_string(page).unwrap();
    let call: Value = serde_json::from_str(blocks(&page, "json call")[0].1).unwrap();
    assert_eq!(call, nightly());
    for (typed, made) in [("y\n", true), ("n\n", false)] {
        let lab = Lab::new();
        let server = model(calls_in_order(vec![("cronjob", call.clone())])).await;
        // Also where everything else is approved without asking.
        let (mut person, running) = lab.on_terminal(&server, &["--approve", "auto", "Go"]);
        let screen = sees(&person, "Run it? [y/N] ").await;
        for part in ["nightly-tests", "30 2 * * MON-FRI", "say which failed.", "file_read"] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        person.write_all(typed.as_bytes()).unwrap();
        running.end().await.with_code(0);
        let requests = server.requests();
        let last = ChatRequest::of(requests.last().unwrap());
        let actual = last.results()[0];
        if made {
            assert!(actual.contains("created: nightly-tests, next at "), "{actual}");
            assert!(actual.contains("Nothing runs jobs now: the person starts"), "{actual}");
            let job = job(&lab, "nightly-tests");
            assert_eq!(job["tools"], json!(["list_dir", "read_file", "search_files"]));
            let work = lab.work("").canonicalize().unwrap();
            assert_eq!(job["cwd"], work.to_str().unwrap().trim_end_matches('/'));
        } else {
            assert!(actual.contains("denied by user"), "{actual}");
            assert!(!lab.path("home/cron/jobs").exists());
        }
    }
}

#[tokio::test]
async fn a_question_about_a_job_shows_what_it_does_now() {
    let long = "Look. ".repeat(500);
    for action in ["pause", "resume", "run", "remove", "update"] {
        let lab = Lab::new();
        add(&lab, "reports", &["-t", "file_read"]).await;
        let file = lab.path("home/cron/jobs/reports.json");
        let mut before = job(&lab, "reports");
        before["prompt"] = json!(format!("Send\nreports.\u{202e} {long}"));
        fs::write(&file, before.to_string()).unwrap();
        let mut call = json!({"action": action, "name": "reports"});
        if action == "update" {
            call["schedule"] = json!("every 2h");
            call["prompt"] = json!("Something else.");
            call["toolsets"] = json!(["file_read"]);
        }
        let server = model(calls_in_order(vec![("cronjob", call)])).await;
        let (mut person, running) = lab.on_terminal(&server, &["Go"]);
        let screen = sees(&person, "Run it? [y/N] ").await;
        let screen = screen.replace("\r\n", "\n");
        for part in [
            "with present schedule: \"every 9d\"\n",
            "with present prompt:\n  |     Send\n  |     reports.\\u{202e} Look. Look.",
            " bytes more)\n",
            "with present toolsets: \"file_read\"\n",
            "with present folder: ",
        ] {
            assert!(screen.contains(part), "{action}: {part}: {screen}");
        }
        person.write_all(b"n\n").unwrap();
        running.end().await.with_code(0);
        assert_eq!(job(&lab, "reports"), before);
    }
}

#[tokio::test]
async fn an_update_changes_what_it_gives_and_nothing_else() {
    let lab = Lab::new();
    add(&lab, "reports", &["-t", "file"]).await;
    let mut wanted = job(&lab, "reports");
    let file_read = json!(["list_dir", "read_file", "search_files"]);
    for (field, value, tools) in [
        // Whose work it does stays as it is.
        ("schedule", json!("every 2h"), None),
        ("toolsets", json!(["file_read"]), Some(&file_read)),
        ("prompt", json!("Look around."), Some(&file_read)),
    ] {
        let mut call = json!({"action": "update", "name": "reports"});
        call[field] = value.clone();
        let server = model(calls_in_order(vec![("cronjob", call)])).await;
        // The agent that changes it has fewer tools than the person.
        let (mut person, running) = lab.on_terminal(&server, &["-t", "file_read,cronjob", "Go"]);
        sees(&person, "Run it? [y/N] ").await;
        person.write_all(b"y\n").unwrap();
        running.end().await.with_code(0);
        wanted[field] = value;
        if let Some(tools) = tools {
            wanted["tools"] = tools.clone();
        }
        let mut now = job(&lab, "reports");
        now["changed_ms"] = wanted["changed_ms"].clone();
        assert_eq!(now, wanted);
    }
    let before = job(&lab, "reports");
    let refused = [
        (json!({}), "give what is to change: `schedule`, `prompt`, `toolsets` or `output`"),
        (json!({"prompt": " "}), "give `prompt`"),
        (json!({"toolsets": ["terminal"]}), "no tool of a toolset `terminal`"),
    ];
    let mut calls = Vec::new();
    for (mut call, _) in refused.clone() {
        call["action"] = json!("update");
        call["name"] = json!("reports");
        calls.push(("cronjob", call));
    }
    let server = model(calls_in_order(calls)).await;
    let (_person, running) = lab.on_terminal(&server, &["-t", "file_read,cronjob", "Go"]);
    running.end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    for (result, (_, why)) in last.results().iter().zip(&refused) {
        assert!(result.contains(why), "{result}");
    }
    let own = last.results()[2];
    assert!(own.contains("yours: coding, cronjob, file, file_read"), "{own}");
    assert!(!own.contains("browser") && !own.contains("web"), "{own}");
    assert_eq!(job(&lab, "reports"), before);
}

#[tokio::test]
async fn an_agent_elsewhere_changes_only_when_a_job_runs() {
    let lab = Lab::new();
    let elsewhere = lab.path("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    add(&lab, "reports", &["-t", "file_read", "--cwd", elsewhere.to_str().unwrap()]).await;
    let call = json!({"action": "update", "name": "reports", "prompt": "Look around."});
    let server = model(calls_in_order(vec![("cronjob", call)])).await;
    let (_person, running) = lab.on_terminal(&server, &["Go"]);
    running.end().await.with_code(0);
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let why = "only its times and its output can change";
    assert!(last.results()[0].contains(why), "{}", last.results()[0]);
    assert_eq!(job(&lab, "reports")["prompt"], "Say hello.");
}

#[tokio::test]
async fn without_a_person_the_tool_is_not_sent_and_makes_nothing() {
    let lab = Lab::new();
    let server = model(calls_in_order(vec![("cronjob", nightly())])).await;
    lab.run(&server, &["--approve", "auto", "Go"]).end().await.with_code(0);
    let requests = server.requests();
    assert!(!ChatRequest::of(&requests[0]).tools().contains(&"cronjob"));
    let last = ChatRequest::of(requests.last().unwrap());
    let actual = last.results()[0];
    assert!(actual.contains("cannot be used now: nobody can be asked"), "{actual}");
    assert!(!lab.path("home/cron/jobs").exists());
}

#[tokio::test]
async fn a_job_runs_in_a_fresh_session_and_its_answer_goes_where_it_says() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    let config = json!({"messaging": {"targets": {"log": {"file": lab.path("log")}}}});
    fs::write(lab.path("home/config.yaml"), config.to_string()).unwrap();
    let server = model(|_| MockAnswer::reply(&Reply::text("m", "All is well."))).await;
    add(&lab, "hello", &["-t", "file_read", "--output", "log"]).await;
    let triggered = deputize(&lab, &["cron", "trigger", "hello"]).await.with_code(0);
    assert!(triggered.out.contains("nothing runs jobs now"), "{}", triggered.out);
    let daemon = daemon(&lab, &server, &[]);
    daemon.says("hello completed, session ").await;
    // One program runs the jobs.
    let second = deputize(&lab, &["cron", "run", "-m", "offline"]).await.with_code(2);
    assert!(
        second.err.contains("another program runs the jobs already (process "),
        "{}",
        second.err
    );
    let ended = stop(daemon).await;
    assert!(ended.err.contains("hello starts, on request"), "{}", ended.err);
    let requests = server.requests();
    let asked = ChatRequest::of(&requests[0]);
    assert_eq!(asked.tools(), ["list_dir", "read_file", "search_files"]);
    assert!(requests[0].text().contains("Say hello."));
    let last = &history(&lab, "hello")["last"];
    assert_eq!((&last["status"], &last["attempts"]), (&json!("completed"), &json!(1)));
    let answer = fs::read_to_string(last["output"].as_str().unwrap()).unwrap();
    assert!(answer.starts_with("# hello\n\ncompleted, "), "{answer}");
    assert!(answer.ends_with("\n\nAll is well.\n"), "{answer}");
    let log = fs::read_to_string(lab.path("log")).unwrap();
    assert!(log.ends_with(" hello completed: All is well.\n"), "{log}");
    assert_eq!(last["session"], lab.session());
    let shown = deputize(&lab, &["cron", "show", "hello"]).await.with_code(0);
    assert!(shown.out.contains("last run   completed at "), "{}", shown.out);
}

#[tokio::test]
async fn a_job_has_no_more_tools_than_its_maker_and_nobody_approves_its_calls() {
    let lab = Lab::new();
    add(&lab, "bound", &["-t", "file,terminal"]).await;
    let file = lab.path("home/cron/jobs/bound.json");
    let mut job = job(&lab, "bound");
    job["tools"] = json!(["read_file", "terminal"]);
    fs::write(&file, job.to_string()).unwrap();
    let run = ("terminal", json!({"command": "touch ran"}));
    for (set, ran) in [(&[][..], false), (&["--set", "cron.approvals=auto"][..], true)] {
        let server = model(calls_in_order(vec![run.clone()])).await;
        deputize(&lab, &["cron", "trigger", "bound"]).await.with_code(0);
        let daemon = daemon(&lab, &server, set);
        daemon.says("bound completed").await;
        stop(daemon).await;
        let requests = server.requests();
        assert_eq!(ChatRequest::of(&requests[0]).tools(), ["read_file", "terminal"]);
        assert_eq!(lab.work("ran").exists(), ran);
    }
    let server = model(|_| MockAnswer::reply(&Reply::text("m", "Done."))).await;
    deputize(&lab, &["cron", "trigger", "bound"]).await.with_code(0);
    let daemon = daemon(&lab, &server, &["-t", "file"]);
    daemon.says("bound failed: ").await;
    let ended = stop(daemon).await;
    assert!(ended.err.contains("toolset `terminal` is not among those"), "{}", ended.err);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn what_a_kill_leaves_is_decided_by_the_policy_and_no_process_is_left() {
    let lab = Lab::new();
    add(&lab, "again", &["-t", "file_read", "--missed", "once"]).await;
    add(&lab, "not", &["-t", "file_read"]).await;
    for name in ["again", "not"] {
        deputize(&lab, &["cron", "trigger", name]).await.with_code(0);
    }
    let hanging = model(|_| hang()).await;
    let killed = daemon(&lab, &hanging, &[]);
    killed.says("again starts").await;
    killed.says("not starts").await;
    killed.signal(Signal::KILL);
    killed.end().await;
    for name in ["again", "not"] {
        assert_eq!(history(&lab, name)["last"]["status"], "running", "written before it began");
    }
    let listed = deputize(&lab, &["cron", "list"]).await.with_code(0);
    assert_eq!(listed.out.matches(" cut off ").count(), 2, "{}", listed.out);
    let server = model(|_| MockAnswer::reply(&Reply::text("m", "Done."))).await;
    let daemon = daemon(&lab, &server, &[]);
    daemon.says("again starts, again, because the run before broke off").await;
    daemon.says("again completed").await;
    let ended = stop(daemon).await;
    assert!(!ended.err.contains("not starts"), "{}", ended.err);
    let remedy = "; `deputize cron trigger not` runs it again";
    let cut_off = "not was cut off: the program had ended in the middle of it";
    assert!(ended.err.contains(&format!("{cut_off}{remedy}")), "{}", ended.err);
    assert_eq!(history(&lab, "not")["last"]["status"], "cut_off");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(history(&lab, "again")["last"]["attempts"], 2);
    assert_eq!(lab.processes(), Vec::new());
}

#[tokio::test]
async fn a_signal_ends_runs_and_a_limit_one_that_takes_too_long() {
    let lab = Lab::new();
    add(&lab, "long", &["-t", "file_read"]).await;
    let hanging = model(|_| hang()).await;
    for (set, status) in [
        (&[][..], "interrupted"),
        (&["--set", "cron.timeout_seconds=1"][..], "timeout"),
        (&["--set", "inactivity_timeout_seconds=1"][..], "timeout"),
    ] {
        deputize(&lab, &["cron", "trigger", "long"]).await.with_code(0);
        let daemon = daemon(&lab, &hanging, set);
        daemon.says("long starts").await;
        if status == "timeout" {
            daemon.says("long timeout").await;
        }
        stop(daemon).await;
        assert_eq!(history(&lab, "long")["last"]["status"], status, "{set:?}");
    }
}

#[tokio::test]
async fn a_person_adds_lists_edits_pauses_and_deletes_jobs() {
    let lab = Lab::new();
    let empty = deputize(&lab, &["cron", "list"]).await.with_code(0);
    assert!((empty.out + &empty.err).contains("there are no jobs"));
    add(&lab, "a", &["-t", "file"]).await;
    let listed = deputize(&lab, &["cron", "list"]).await.with_code(0);
    assert!(listed.out.contains("every 9d") && listed.out.contains("Say hello."), "{}", listed.out);
    deputize(&lab, &["cron", "pause", "a"]).await.with_code(0);
    let all = deputize(&lab, &["cron", "list", "--json"]).await.with_code(0);
    let all: Value = serde_json::from_str(&all.out).unwrap();
    assert_eq!((&all[0]["next"], &all[0]["job"]["paused"]), (&Value::Null, &json!(true)));
    deputize(&lab, &["cron", "resume", "a"]).await.with_code(0);
    let edit = async |editor: &str| {
        let mut command = lab.deputize(&["cron", "edit", "a"]);
        command.env("EDITOR", editor);
        RunningProgram::start(command).end().await
    };
    edit("sed -i 's/hello/goodbye/'").await.with_code(0);
    assert_eq!(job(&lab, "a")["prompt"], "Say goodbye.");
    let before = job(&lab, "a");
    let same = edit("true").await.with_code(0);
    assert_eq!((same.err.as_str(), job(&lab, "a")), ("nothing changed\n", before));
    let field = edit("sed -i 's/\"prompt\"/\"promt\"/'").await.with_code(2);
    assert!(field.err.contains("did you mean `prompt`?"), "{}", field.err);
    let broken = edit("sed -i 's/every 9d/every moon/'").await.with_code(2);
    assert!(broken.err.contains("not a valid job: ") && broken.err.contains("your text is in"));
    let gone = edit("rm").await.with_code(1);
    assert_eq!(gone.err, "error: the editor `rm` left no file; nothing is changed\n");
    let file = lab.path("home/cron/jobs/a.json");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("\"prompt\"", "\"promt\"")).unwrap();
    let left = edit("true").await.with_code(2);
    assert!(left.err.starts_with("nothing changed\nerror: not a valid job: unknown field `promt`"));
    fs::write(&file, good).unwrap();
    let renamed = edit("sed -i 's/\"a\"/\"b\"/'").await.with_code(2);
    assert!(renamed.err.contains("a job keeps its name"), "{}", renamed.err);
    let meanwhile = format!("{} cron pause a; sed -i 's/goodbye/no/'", crate::program::PROGRAM);
    let raced = edit(&meanwhile).await.with_code(2);
    assert!(raced.err.contains("`a` was changed meanwhile"), "{}", raced.err);
    assert_eq!(job(&lab, "a")["prompt"], "Say goodbye.");
    let triggered = deputize(&lab, &["cron", "trigger", "a"]).await.with_code(0);
    let waits = "a runs as soon as `deputize cron run` does: nothing runs jobs now\n";
    assert_eq!(triggered.out, waits);
    let shown = deputize(&lab, &["cron", "show", "a"]).await.with_code(0);
    assert!(shown.out.contains("\nwaiting    a run that was triggered\n"), "{}", shown.out);
    // `a` was paused above.
    let note = "note: a is paused: it runs this once and stays paused; `deputize cron resume a`";
    assert!(triggered.err.starts_with(note), "{}", triggered.err);
    deputize(&lab, &["cron", "rm", "a"]).await.with_code(0);
    assert!(!lab.path("home/cron/jobs/a.json").exists());
}

#[tokio::test]
async fn what_a_person_asks_of_jobs_in_vain_is_refused_with_what_to_do() {
    let lab = Lab::new();
    add(&lab, "a", &["-t", "file"]).await;
    for (args, fault) in [
        (
            &["add", "a", "x", "--schedule", "every 1h", "-t", "terminal"][..],
            "job `a` already exists\nhint: change it with `deputize cron edit a`, or choose",
        ),
        (&["add", "B", "x", "--schedule", "every 1h", "-t", "file"], "is not the name of a job"),
        (&["add", "b", "x", "--schedule", "soon", "-t", "file"], "`soon` is not a valid schedule"),
        (&["add", "b", "x", "--schedule", "every 1h", "-t", "moon"], "`moon`; known: browser, "),
        (
            &["add", "b", "x", "--schedule", "every 1h", "-t", "read_file"],
            "there is no toolset `read_file`; that is a tool of the toolset `file`",
        ),
        (&["add", "b", " ", "--schedule", "every 1h", "-t", "file"], "`prompt` is empty"),
        (
            &["add", "b", "x", "--schedule", "every 1h", "-t", "file", "--output", "team"],
            "there is no message target `team`",
        ),
        (
            &[
                "add",
                "b",
                "Log in with password=hunter2022",
                "--schedule",
                "every 1h",
                "-t",
                "file",
            ],
            "the prompt contains a secret (a value of `password`): secrets are never saved",
        ),
        (&["show", "c"], "there is no job `c`; known: a"),
        (&["trigger", "c"], "there is no job `c`"),
        (&["rm", "../a"], "is not the name of a job"),
    ] {
        let refused = deputize(&lab, &[&["cron"][..], args].concat()).await.with_code(2);
        assert!(refused.err.contains(fault), "{args:?}: {}", refused.err);
        // No note on a job that is not added.
        assert!(refused.err.starts_with("error: "), "{args:?}: {}", refused.err);
    }
}

#[tokio::test]
async fn a_damaged_history_holds_its_job_and_the_list_says_so() {
    let lab = Lab::new();
    for name in ["held", "other"] {
        add(&lab, name, &["-t", "file"]).await;
    }
    fs::create_dir_all(lab.path("home/cron/history")).unwrap();
    fs::write(lab.path("home/cron/history/held.json"), "{").unwrap();
    let listed = deputize(&lab, &["cron", "list"]).await.with_code(0);
    let warning = "cron/history/held.json` is not a valid history of runs, so its job is held: \
        delete the file to let the job run again";
    assert!(listed.err.contains(warning), "{}", listed.err);
    let row = |name: &str| listed.out.lines().find(|row| row.starts_with(name)).unwrap();
    assert!(row("held").contains(" held ") && row("held").contains(" unknown "), "{}", listed.out);
    assert!(row("other").contains(" never "), "{}", listed.out);
}

#[tokio::test]
async fn an_edited_job_is_checked_as_an_added_one_is() {
    let lab = Lab::new();
    add(&lab, "a", &["-t", "file"]).await;
    let before = job(&lab, "a");
    let edit = async |editor: &str| {
        let mut command = lab.deputize(&["cron", "edit", "a"]);
        command.env("EDITOR", editor);
        RunningProgram::start(command).end().await
    };
    for (change, fault) in [
        ("s/every 9d/at 2020-01-01T09:00/", "its time has passed; write one to come"),
        ("s/\"file\"/\"moon\"/", "there is no toolset `moon`"),
        ("s/\"file\"//", "`toolsets` is empty"),
        ("s/\"prompt\"/\"output\": \"team\", \"prompt\"/", "no message target `team` in"),
        ("s/\"cwd\": \"/&\\/moon/", "`/moon"),
        ("s/hello/token: abcd1234/", "the prompt contains a secret (a value of `token`)"),
    ] {
        let refused = edit(&format!("sed -i '{change}'")).await.with_code(2);
        assert!(refused.err.contains(fault), "{change}: {}", refused.err);
        assert_eq!(job(&lab, "a"), before, "{change}");
    }
    // The time of the change is nothing that a person writes.
    let dateless = "python3 -c 'import json, sys; job = json.load(open(sys.argv[1])); \
                    del job[\"changed_ms\"]; json.dump(job, open(sys.argv[1], \"w\"))'";
    edit(dateless).await.with_code(0);
    assert!(job(&lab, "a")["changed_ms"].as_u64() >= before["changed_ms"].as_u64());
    // The time of a single run may pass while its job is edited.
    let file = lab.path("home/cron/jobs/a.json");
    let text = fs::read_to_string(&file).unwrap().replace("every 9d", "at 2020-01-01T09:00");
    fs::write(&file, text).unwrap();
    edit("sed -i 's/hello/goodbye/'").await.with_code(0);
    assert_eq!(job(&lab, "a")["prompt"], "Say goodbye.");
}

#[tokio::test]
async fn the_commands_of_the_page_work() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/cron.md");
    let page = fs::read_to_string(page).unwrap();
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    let (_, settings) = blocks(&page, "yaml config")[0];
    fs::write(lab.path("home/config.yaml"), settings).unwrap();
    deputize(&lab, &["config", "check"]).await.with_code(0);
    let mut ran = 0;
    for line in blocks(&page, "sh")[0].1.lines().filter(|line| !line.contains("cron run")) {
        let line = line.split(" #").next().unwrap();
        let mut command = lab.command("bash");
        command.env("EDITOR", "true");
        let program = crate::program::PROGRAM;
        command.args(["-euc", &format!("deputize() {{ {program} \"$@\"; }}\n{line}")]);
        RunningProgram::start(command).end().await.with_code(0);
        ran += 1;
    }
    assert_eq!(ran, 8);
}
