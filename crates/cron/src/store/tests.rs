use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;

fn job(name: &str) -> Job {
    let job = json!({
        "name": name, "schedule": "every 1h", "prompt": "Look.", "toolsets": ["file"],
        "cwd": "/", "changed_ms": 1,
    });
    Job::parse(job.to_string().as_bytes()).unwrap()
}

fn store() -> (tempfile::TempDir, JobStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = JobStore::new(dir.path().join("cron"));
    (dir, store)
}

#[test]
fn jobs_are_made_changed_and_removed_with_their_history() {
    let (_dir, store) = store();
    store.create(&job("b")).unwrap();
    store.create(&job("a")).unwrap();
    assert_eq!(
        store.create(&job("a")).unwrap_err().to_string(),
        "job `a` already exists: update it, or choose another name"
    );
    let names: Vec<_> = store.list().unwrap().jobs.into_iter().map(|job| job.name).collect();
    assert_eq!(names, [job("a").name, job("b").name]);
    store.update(&job("a").name, |job| Ok(Job { paused: true, ..job })).unwrap();
    assert!(store.get(&job("a").name).unwrap().paused);
    assert!(store.record(&job("a").name, |history| history.runs = 3).unwrap());
    assert_eq!(store.history(&job("a").name).unwrap().runs, 3);
    assert!(!store.remove(&job("a").name).unwrap());
    store.create(&job("a")).unwrap();
    assert_eq!(store.history(&job("a").name).unwrap(), JobHistory::default());
    let missing = store.get(&job("c").name).unwrap_err().to_string();
    assert_eq!(missing, "there is no job `c`; known: a, b");
    assert!(!store.record(&job("c").name, |history| history.runs = 1).unwrap());
    assert!(store.request_run(&job("c").name).is_err() && store.remove(&job("c").name).is_err());
    let mode = |path: &str| {
        let path = store.folder().join(path);
        path.metadata().unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("jobs"), mode("jobs/a.json")), (0o700, 0o700, 0o600));
}

#[test]
fn a_file_that_is_no_job_is_named_and_stops_no_other() {
    let (_dir, store) = store();
    store.create(&job("good")).unwrap();
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(300_000));
    let other = serde_json::to_string(&job("good")).unwrap();
    for (name, text) in [
        ("empty", ""),
        ("text", "hello"),
        ("name", "{\"name\": \"../../x\"}"),
        ("long", &long),
        ("other", &other),
        ("key", &other.replace("\"cwd\"", "\"cwdir\"")),
        ("schedule", &other.replace("every 1h", "every blue moon")),
        ("cwd", &other.replace("\"/\"", "\"here\"")),
    ] {
        std::fs::write(store.folder().join(format!("jobs/{name}.json")), text).unwrap();
    }
    std::fs::write(store.folder().join("jobs/half"), "a temporary file").unwrap();
    let listing = store.list().unwrap();
    assert_eq!(listing.jobs, [job("good")]);
    let folder = store.folder().display().to_string();
    let faults = listing.faults.iter().map(|fault| {
        let source = std::error::Error::source(fault).map(|it| format!(": {it}"));
        fault.to_string().replace(&folder, "CRON") + &source.unwrap_or_default()
    });
    insta::assert_snapshot!(faults.collect::<Vec<_>>().join("\n"));
    // It can be removed.
    assert!(!store.remove(&"text".parse().unwrap()).unwrap());
    assert_eq!(store.list().unwrap().faults.len(), 7);
}

#[test]
fn many_that_change_jobs_at_once_lose_nothing() {
    let (_dir, store) = store();
    store.create(&job("shared")).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..10 {
                    store.create(&job(&format!("own-{writer}-{number}"))).unwrap();
                    store.record(&job("shared").name, |history| history.runs += 1).unwrap();
                }
            });
        }
    });
    assert_eq!(store.list().unwrap().jobs.len(), 81);
    assert_eq!(store.history(&job("shared").name).unwrap().runs, 80);
    for number in 81..MOST_JOBS {
        store.create(&job(&format!("more-{number}"))).unwrap();
    }
    assert!(matches!(store.create(&job("last")), Err(JobStoreError::Full)));
}

#[test]
fn a_broken_history_is_a_fault() {
    let (_dir, store) = store();
    store.create(&job("a")).unwrap();
    store.record(&job("a").name, |history| history.runs = 1).unwrap();
    for text in ["", "{", "{}", "[]", "\0\0"] {
        std::fs::write(store.folder().join("history/a.json"), text).unwrap();
        let error = store.history(&job("a").name).unwrap_err();
        assert!(matches!(error, JobStoreError::History(_)), "{text}: {error}");
        assert!(store.request_run(&job("a").name).is_err(), "{text}");
    }
    std::fs::remove_file(store.folder().join("history/a.json")).unwrap();
    assert_eq!(store.history(&job("a").name).unwrap(), JobHistory::default());
}

#[test]
fn names_are_names_of_files_and_nothing_else() {
    for name in ["a", "0", "nightly-tests-2", &"x".repeat(40)] {
        assert!(name.parse::<JobName>().is_ok(), "{name}");
    }
    for name in ["", "-a", "A", "a b", "a/b", "..", "a.json", "ä", "a\n", &"x".repeat(41)] {
        assert!(name.parse::<JobName>().is_err(), "{name}");
    }
}

/// Whoever dies while it writes leaves the old file, and whoever reads meanwhile reads that whole.
#[test]
fn a_change_replaces_a_file_and_writes_nothing_into_the_old_one() {
    let (_dir, store) = store();
    let name = job("a").name;
    store.create(&job("a")).unwrap();
    store.record(&name, |history| history.runs = 1).unwrap();
    let paths = ["jobs/a.json", "history/a.json"].map(|path| store.folder().join(path));
    let old = paths.clone().map(|path| (File::open(&path).unwrap(), fs::read(&path).unwrap()));
    store.update(&name, |job| Ok(Job { paused: true, ..job })).unwrap();
    store.record(&name, |history| history.runs = 2).unwrap();
    for ((mut file, before), path) in old.into_iter().zip(paths) {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut text).unwrap();
        assert_eq!(text, before);
        assert_ne!(fs::read(path).unwrap(), before);
    }
}
