//! How runs of jobs ended, as people read it, and what jobs lack.

use deputize_testkit::Barrier;

use crate::program::soon;

use super::*;

/// A model whose answers wait until the barrier opens.
async fn held_model() -> (MockServer, Barrier) {
    let gate = Barrier::closed();
    let held = gate.clone();
    let answer =
        move |_: &ChatRequest| MockAnswer::reply(&Reply::text("m", "All is well.")).held_by(&held);
    (model(answer).await, gate)
}

#[tokio::test]
async fn a_job_that_is_triggered_while_it_runs_runs_once_more() {
    let lab = Lab::new();
    for name in ["hello", "other"] {
        add(&lab, name, &["-t", "file_read"]).await;
    }
    deputize(&lab, &["cron", "trigger", "hello"]).await.with_code(0);
    let (server, gate) = held_model().await;
    let daemon = daemon(&lab, &server, &[]);
    daemon.says("hello starts, on request").await;
    let triggered = deputize(&lab, &["cron", "trigger", "hello"]).await.with_code(0);
    assert_eq!(triggered.out, "hello runs now, and runs once more after that\n");
    let shown = deputize(&lab, &["cron", "show", "hello"]).await.with_code(0);
    assert!(shown.out.contains("\nwaiting    a run that was triggered\n"), "{}", shown.out);
    // Whoever begins this one has looked at the first one too, which still runs.
    deputize(&lab, &["cron", "trigger", "other"]).await.with_code(0);
    daemon.says("other starts").await;
    gate.open();
    daemon.says("other completed").await;
    let both = async {
        while daemon.err_text().matches("hello completed").count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    soon("the second run", both).await;
    let ended = stop(daemon).await;
    assert_eq!(ended.err.matches("hello starts, on request").count(), 2, "{}", ended.err);
    assert_eq!((server.requests().len(), &history(&lab, "hello")["runs"]), (3, &json!(2)));
}

#[tokio::test]
async fn a_job_that_is_deleted_while_it_runs_goes_on_to_its_end_and_that_is_said() {
    let lab = Lab::new();
    for name in ["hello", "other"] {
        add(&lab, name, &["-t", "file_read"]).await;
    }
    let deleted = deputize(&lab, &["cron", "rm", "other"]).await.with_code(0);
    assert_eq!(deleted.out, "deleted: other\n");
    deputize(&lab, &["cron", "trigger", "hello"]).await.with_code(0);
    let (server, gate) = held_model().await;
    let daemon = daemon(&lab, &server, &[]);
    daemon.says("hello starts, on request").await;
    let deleted = deputize(&lab, &["cron", "rm", "hello"]).await.with_code(0);
    assert_eq!(deleted.out, "deleted: hello; its present run goes on to its end\n");
    gate.open();
    daemon.says("hello completed").await;
    stop(daemon).await;
    assert_eq!(std::fs::read_dir(lab.path("home/cron/output/hello")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_run_whose_calls_were_denied_says_how_many() {
    let lab = Lab::new();
    let args = ["-t", "file_read,terminal"];
    let added = deputize(
        &lab,
        &[&["cron", "add", "bound", "Say hello.", "--schedule", "every 9d"][..], &args].concat(),
    )
    .await
    .with_code(0);
    let note = "note: nobody approves calls of a job, so those that ask are denied, of ";
    assert!(added.err.contains(note) && added.err.contains("terminal"), "{}", added.err);
    let run = |number: u32| ("terminal", json!({"command": format!("touch ran-{number}")}));
    let server = model(calls_in_order(vec![run(1), run(2)])).await;
    deputize(&lab, &["cron", "trigger", "bound"]).await.with_code(0);
    let daemon = daemon(&lab, &server, &[]);
    daemon.says("bound completed, 2 calls denied, session ").await;
    stop(daemon).await;
    assert_eq!(history(&lab, "bound")["last"]["denied"], 2);
    let listed = deputize(&lab, &["cron", "list"]).await.with_code(0);
    assert!(listed.out.contains(" completed, 2 calls denied "), "{}", listed.out);
    let shown = deputize(&lab, &["cron", "show", "bound"]).await.with_code(0);
    assert!(shown.out.contains("last run   completed, 2 calls denied at "), "{}", shown.out);
    let remedy = "nobody approves calls of a job, unless `cron.approvals` is `auto`";
    assert!(shown.out.contains(remedy), "{}", shown.out);
}

#[tokio::test]
async fn an_answer_that_does_not_arrive_is_no_completed_run() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    let config = json!({"messaging": {"targets": {"log": {"file": lab.path("gone/log")}}}});
    fs::write(lab.path("home/config.yaml"), config.to_string()).unwrap();
    let server = model(|_| MockAnswer::reply(&Reply::text("m", "All is well."))).await;
    add(&lab, "hello", &["-t", "file_read", "--output", "log"]).await;
    deputize(&lab, &["cron", "trigger", "hello"]).await.with_code(0);
    let daemon = daemon(&lab, &server, &[]);
    daemon.says("hello not delivered, session ").await;
    stop(daemon).await;
    let listed = deputize(&lab, &["cron", "list"]).await.with_code(0);
    let row = listed.out.lines().find(|row| row.starts_with("hello")).unwrap();
    assert!(row.contains(" not delivered ") && !row.contains("completed"), "{}", listed.out);
    let shown = deputize(&lab, &["cron", "show", "hello"]).await.with_code(0);
    let why = "nothing was sent to `log`: its file cannot be written: No such file";
    assert!(shown.out.contains(why), "{}", shown.out);
    let last = &history(&lab, "hello")["last"];
    assert!(Path::new(last["output"].as_str().unwrap()).is_file(), "it is kept: {last}");
}

#[tokio::test]
async fn a_job_without_a_tool_that_it_may_use_is_refused_when_it_is_added() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), "toolsets: [file, clarify, cronjob, browser]\n")
        .unwrap();
    for (toolsets, fault) in [
        ("clarify,cronjob", "no tool of its toolsets can be used in a job: `clarify`: "),
        ("browser", "can be used in a job: the toolset `browser` is off: set `browser.enabled`"),
        ("web", "toolset `web` is not among `toolsets` of the configuration"),
        ("moon", "there is no toolset `moon`"),
    ] {
        let add = ["cron", "add", "a", "Go", "--schedule", "every 9d", "-t", toolsets];
        let refused = deputize(&lab, &add).await.with_code(2);
        assert!(refused.err.contains(fault), "{toolsets}: {}", refused.err);
        assert!(!lab.path("home/cron/jobs/a.json").exists());
    }
    add(&lab, "a", &["-t", "file,clarify"]).await;
}

#[tokio::test]
async fn a_job_has_what_the_configuration_has_of_its_toolsets() {
    let lab = Lab::new();
    add(&lab, "reads", &["-t", "file_read"]).await;
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), "toolsets: [file, todo]\n").unwrap();
    let add = ["cron", "add", "codes", "Go", "--schedule", "every 9d", "-t", "coding"];
    let added = deputize(&lab, &add).await.with_code(0);
    let part = "note: of its toolsets, `toolsets` of the configuration has only file, todo\n";
    assert!(added.err.contains(part), "{}", added.err);
    let server = model(|_| MockAnswer::reply(&Reply::text("m", "Done."))).await;
    for (job, tools) in [
        ("reads", &["list_dir", "read_file", "search_files"][..]),
        ("codes", &["list_dir", "read_file", "search_files", "write_file", "edit_file", "todo"]),
    ] {
        deputize(&lab, &["cron", "trigger", job]).await.with_code(0);
        let daemon = daemon(&lab, &server, &[]);
        daemon.says(&format!("{job} completed")).await;
        stop(daemon).await;
        let request = ChatRequest::of(server.requests().last().unwrap());
        let sent = request.tools();
        assert!(tools.iter().all(|tool| sent.iter().any(|it| it == tool)), "{job}: {sent:?}");
        assert!(sent.iter().all(|tool| *tool != "terminal" && *tool != "skill"), "{job}: {sent:?}");
    }
    // With a composite in the configuration, its toolsets are there.
    fs::write(lab.path("home/config.yaml"), "toolsets: [coding]\n").unwrap();
    let add = ["cron", "add", "files", "Go", "--schedule", "every 9d", "-t", "file"];
    deputize(&lab, &add).await.with_code(0);
    let add = ["cron", "add", "looks", "Go", "--schedule", "every 9d", "-t", "web"];
    let refused = deputize(&lab, &add).await.with_code(2);
    assert!(refused.err.contains("toolset `web` is not among"), "{}", refused.err);
}

#[tokio::test]
async fn the_doctor_names_jobs_that_cannot_run_or_whose_answers_do_not_arrive() {
    let lab = Lab::new();
    for name in ["fine", "gone", "held", "quiet"] {
        add(&lab, name, &["-t", "file_read"]).await;
    }
    for (name, field, value) in
        [("gone", "cwd", json!(lab.path("moon"))), ("quiet", "output", json!("team"))]
    {
        let mut changed = job(&lab, name);
        changed[field] = value;
        let file = lab.path(format!("home/cron/jobs/{name}.json"));
        fs::write(file, changed.to_string()).unwrap();
    }
    fs::create_dir_all(lab.path("home/cron/history")).unwrap();
    fs::write(lab.path("home/cron/history/held.json"), "{").unwrap();
    fs::write(lab.path("home/cron/jobs/broken.json"), "{").unwrap();
    let doctor = deputize(&lab, &["doctor", "-m", "offline", "--json"]).await;
    let checks: Value = serde_json::from_str(&doctor.out).unwrap();
    let is_of_jobs = |check: &&Value| check["what"] == "jobs";
    let actual: Vec<&Value> = checks.as_array().unwrap().iter().filter(is_of_jobs).collect();
    let expected = [
        ["broken.json` is not a valid job: ", "; `deputize cron edit broken` corrects it, and "],
        ["gone: cannot work in `", "/moon`: "],
        ["history/held.json` is not a valid history of runs, so its job is held: ", ""],
        ["quiet: there is no message target `team` in `messaging.targets`; ", "cron edit quiet`"],
    ];
    assert_eq!(actual.len(), expected.len(), "{actual:?}");
    for (check, words) in actual.iter().zip(expected) {
        let found = check["found"].as_str().unwrap();
        assert!(words.iter().all(|words| found.contains(words)), "{words:?}: {found}");
        assert_eq!(check["health"], "warn", "{check}");
    }
    // Without a configuration, all but the targets are looked at.
    fs::write(lab.path("home/config.yaml"), "modle: x\n").unwrap();
    let doctor = deputize(&lab, &["doctor", "--json"]).await.with_code(1);
    assert_eq!(doctor.out.matches("\"what\": \"jobs\"").count(), 3, "{}", doctor.out);
}

#[tokio::test]
async fn a_toolset_that_a_job_lost_is_told_before_it_runs() {
    let lab = Lab::new();
    add(&lab, "fine", &["-t", "file_read"]).await;
    add(&lab, "net", &["-t", "file_read,web"]).await;
    let mut gone = job(&lab, "fine");
    gone["name"] = json!("gone");
    gone["toolsets"] = json!(["browser", "moon", "mcp-notes"]);
    fs::write(lab.path("home/cron/jobs/gone.json"), gone.to_string()).unwrap();
    let change = |job: &str| format!("; `deputize cron edit {job}` changes the job");
    let lost = "gone: toolset `browser` is off: set `browser.enabled`; there is no toolset `moon` any \
                more; no server of `mcp_servers` gives the toolset `mcp-notes`";
    let lost = format!("{lost}{}", change("gone"));
    let listed = deputize(&lab, &["cron", "list"]).await.with_code(0);
    assert_eq!(listed.err.matches("warning: ").count(), 1, "{}", listed.err);
    assert!(listed.err.contains(&format!("warning: {lost}\n")), "{}", listed.err);

    fs::write(lab.path("home/config.yaml"), "toolsets: [file_read]\n").unwrap();
    let beyond = "toolset `web` is not among `toolsets` of the configuration: `deputize tools enable \
                  web` puts it there";
    let beyond = format!("{beyond}{}", change("net"));
    let shown = deputize(&lab, &["cron", "show", "net"]).await.with_code(0);
    assert!(shown.out.contains(&format!("file_read, web\n           {beyond}\n")), "{}", shown.out);
    let shown = deputize(&lab, &["cron", "list", "--json"]).await.with_code(0);
    let rows: Value = serde_json::from_str(&shown.out).unwrap();
    let fault = |row: &Value| row["fault"].as_str().map(ToOwned::to_owned);
    assert_eq!([fault(&rows[0]), fault(&rows[2])], [None, Some(beyond.clone())]);
    let doctor = deputize(&lab, &["doctor", "-m", "offline", "--json"]).await;
    assert!(doctor.out.contains(&format!("\"net: {beyond}\"")), "{}", doctor.out);
    assert!(!doctor.out.contains("\"fine: "), "{}", doctor.out);
}

#[tokio::test]
async fn what_the_options_of_the_program_take_from_jobs_is_told_when_it_starts() {
    let lab = Lab::new();
    add(&lab, "net", &["-t", "file_read,web"]).await;
    let profile = "---\nname: bare\ndescription: Nothing.\ntoolsets: []\n---\nDo nothing.\n";
    fs::create_dir_all(lab.path("home/agents")).unwrap();
    fs::write(lab.path("home/agents/bare.md"), profile).unwrap();
    let server = model(|_| MockAnswer::reply(&Reply::text("m", "Done."))).await;
    deputize(&lab, &["cron", "trigger", "net"]).await.with_code(0);
    let narrow = daemon(&lab, &server, &["-t", "file_read"]);
    let beyond = "toolset `web` is not among those of `--toolsets`";
    let remedy = "start this program with it, or without `--toolsets`";
    narrow.says(&format!("net failed: {beyond}; {remedy}")).await;
    let told = stop(narrow).await.err;
    assert!(told.starts_with(&format!("warning: net: {beyond}: {remedy}; `deputize")), "{told}");

    deputize(&lab, &["cron", "trigger", "net"]).await.with_code(0);
    let bare = daemon(&lab, &server, &["--profile", "bare"]);
    bare.says("net completed").await;
    let told = stop(bare).await.err;
    let warning = "the agent has no tool (its profile `bare` leaves it none)";
    assert!(told.starts_with(&format!("warning: {warning}")), "{told}");
    assert!(told.contains(&format!("warning: net: {warning}")), "{told}");
}

#[tokio::test]
async fn what_the_maker_of_a_job_had_read_is_among_the_sources_of_its_task() {
    let lab = Lab::new();
    let server = model(|_| MockAnswer::reply(&Reply::text("m", "Hello."))).await;
    add(&lab, "hello", &["-t", "file_read"]).await;
    let mut made = job(&lab, "hello");
    made["sources"] = json!(["web:a.example", "mcp:docs"]);
    fs::write(lab.path("home/cron/jobs/hello.json"), made.to_string()).unwrap();
    deputize(&lab, &["cron", "trigger", "hello"]).await.with_code(0);
    let daemon = daemon(&lab, &server, &[]);
    daemon.says("hello completed, session ").await;
    stop(daemon).await;
    let records = fs::read_to_string(lab.session_file()).unwrap();
    let mut events = records.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["record"]["event"].clone()
    });
    let task = events.find(|event| event["type"] == "message").unwrap();
    for source in ["user", "mcp:docs", "web:a.example"] {
        assert!(task["sources"].as_array().unwrap().contains(&json!(source)), "{task}");
    }
}
