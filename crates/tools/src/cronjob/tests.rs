use deputize_core::sanitize::Secrets;
use serde_json::json;

use super::*;
use crate::fixture::ToolFixture;

fn fixture() -> ToolFixture {
    let bench = ToolFixture::new();
    let mut secrets = Secrets::default();
    secrets.add("API_KEY", "correct-horse");
    let settings = JobSettings {
        store: Some(JobStore::new(bench.path("cron"))),
        person_available: true,
        clock: std::sync::Arc::new(deputize_core::clock::FixedClock(1_795_773_600_000)),
        secrets,
        run_command: "agents cron".to_owned(),
        ..JobSettings::default()
    };
    bench.cx.agent.session.settings.get_or_insert_with(|| settings);
    bench
}

#[tokio::test]
async fn what_is_no_whole_job_is_refused() {
    let bench = fixture();
    let whole = json!({
        "action": "create", "name": "a", "schedule": "every 2h", "prompt": "Look.",
        "toolsets": ["file"],
    });
    let with = |key: &str, value: serde_json::Value| {
        let mut call = whole.clone();
        call[key] = value;
        call
    };
    let mut seen = String::new();
    for call in [
        with("name", json!("../a")),
        with("name", json!("")),
        with("schedule", json!("soon")),
        with("prompt", json!(" ")),
        with("prompt", json!("the key is correct-horse")),
        with("prompt", json!("[redacted:API_KEY]")),
        with("toolsets", json!([])),
        with("toolsets", json!(["file", "moon"])),
        with("output", json!("team")),
        json!({"action": "pause", "name": "a"}),
        json!({"action": "run", "name": "a"}),
        json!({"action": "remove", "name": "a"}),
        json!({"action": "update", "name": "a"}),
        json!({"action": "list"}),
    ] {
        let checked = bench.check(CronJob, &call).await;
        let called = bench.call(CronJob, call.clone()).await;
        if call["action"] != "list" {
            assert_eq!(checked, called.trim_end(), "known before anybody is asked");
        }
        seen += &(called + "\n");
    }
    insta::assert_snapshot!(seen);
}

#[tokio::test]
async fn a_check_of_a_call_changes_no_job() {
    let bench = fixture();
    let whole = json!({
        "action": "create", "name": "a", "schedule": "every 2h", "prompt": "Look.",
        "toolsets": [],
    });
    assert_eq!(
        bench.check(CronJob, &whole).await,
        "refused: `toolsets` is empty: name those that the job needs"
    );
    let job = json!({
        "name": "a", "schedule": "every 2h", "prompt": "Look.", "toolsets": ["file"],
        "cwd": "/", "changed_ms": 1,
    });
    let settings = bench.cx.agent.session.settings.get_or_insert_with(JobSettings::default);
    let store = settings.store.as_ref().unwrap();
    store.create(&Job::parse(job.to_string().as_bytes()).unwrap()).unwrap();
    for action in ["pause", "resume", "run", "remove"] {
        let call = json!({"action": action, "name": "a"});
        assert_eq!(bench.check(CronJob, &call).await, "accepted");
    }
    let kept = store.get(&"a".parse().unwrap()).unwrap();
    assert!(!kept.paused);
    assert!(!store.history(&kept.name).unwrap().requested);
}

#[tokio::test]
async fn a_damaged_history_holds_its_job_and_hides_no_other() {
    let bench = fixture();
    let settings = bench.cx.agent.session.settings.get_or_insert_with(JobSettings::default);
    let store = settings.store.as_ref().unwrap();
    for name in ["a", "b"] {
        let job = json!({
            "name": name, "schedule": "every 2h", "prompt": "Look.", "toolsets": ["file"],
            "cwd": "/", "changed_ms": 1,
        });
        store.create(&Job::parse(job.to_string().as_bytes()).unwrap()).unwrap();
        store.request_run(&name.parse().unwrap()).unwrap();
    }
    std::fs::write(bench.path("cron/history/a.json"), "{").unwrap();
    let seen = bench.call(CronJob, json!({"action": "list"})).await;
    assert!(seen.contains("a: every 2h; held; `"), "{seen}");
    assert!(seen.contains("a.json` is not a valid history of runs"), "{seen}");
    assert!(seen.contains("b: every 2h; next "), "{seen}");
}

#[tokio::test]
async fn without_a_store_or_a_person_it_is_not_usable() {
    let bench = ToolFixture::new();
    let settings = &bench.cx.agent.session.settings;
    assert_eq!(CronJob.availability(settings), Availability::No(NO_STORE.to_owned()));
    let bench = fixture();
    let settings = &bench.cx.agent.session.settings;
    assert_eq!(CronJob.availability(settings), Availability::Yes);
    let nobody = ToolFixture::new();
    let store = Some(JobStore::new(nobody.path("cron")));
    let settings = &nobody.cx.agent.session.settings;
    settings.get_or_insert_with(|| JobSettings { store, ..JobSettings::default() });
    assert_eq!(CronJob.availability(settings), Availability::No(NOBODY.to_owned()));
}

/// Where nothing runs jobs.
#[tokio::test]
async fn what_is_said_of_a_run_does_not_contradict_itself() {
    let bench = fixture();
    let job = json!({
        "name": "a", "schedule": "every 2h", "prompt": "Look.", "toolsets": ["file"],
        "cwd": "/", "changed_ms": 1,
    });
    let settings = bench.cx.agent.session.settings.get_or_insert_with(JobSettings::default);
    let store = settings.store.as_ref().unwrap();
    store.create(&Job::parse(job.to_string().as_bytes()).unwrap()).unwrap();
    let call = |action: &str| bench.call(CronJob, json!({"action": action, "name": "a"}));
    assert_eq!(
        call("run").await,
        "a runs as soon as the person starts `agents cron`: nothing runs jobs now"
    );
    assert_eq!(call("pause").await, "paused: a");
    let resumed = call("resume").await;
    assert!(resumed.ends_with(". Nothing runs jobs now: the person starts `agents cron`"));
}
