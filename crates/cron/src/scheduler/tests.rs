use std::sync::Arc;

use deputize_requirements::require;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use super::*;
use crate::due::timestamp;
use crate::due_jobs::start;
use crate::job::MissedPolicy;

/// A clock that goes as Tokio's paused time does.
struct VirtualClock {
    start_ms: u64,
    start: Instant,
}

impl VirtualClock {
    fn at(time: &str) -> Self {
        let time: Timestamp = time.parse().unwrap();
        let start_ms = u64::try_from(time.as_millisecond()).unwrap();
        Self { start_ms, start: Instant::now() }
    }
}

impl Clock for VirtualClock {
    fn now_ms(&self) -> u64 {
        self.start_ms + u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }
}

/// Runs jobs for a while each, and notes when they began.
struct SleepingRunner<'a> {
    clock: &'a VirtualClock,
    takes: Duration,
    runs: Mutex<Vec<String>>,
}

impl RunJob for SleepingRunner<'_> {
    fn run_job<'a>(&'a self, job: &'a Job, cancel: &'a Cancel) -> BoxFuture<'a, JobOutcome> {
        let at = timestamp(self.clock.now_ms());
        self.runs.lock().push(format!("{} {}", job.name, at.strftime("%m-%d %H:%M")));
        Box::pin(async {
            if job.prompt == "panic" {
                panic!("as asked");
            }
            let status = tokio::select! {
                () = cancel.cancelled() => RunStatus::Failed,
                () = sleep(self.takes) => RunStatus::Completed,
            };
            JobOutcome {
                status,
                session: Some("s".to_owned()),
                output: None,
                note: None,
                denied: 0,
                answer: None,
            }
        })
    }
}

struct SchedulerFixture {
    dir: TempDir,
    store: JobStore,
    clock: Arc<VirtualClock>,
}

impl SchedulerFixture {
    fn at(time: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = JobStore::new(dir.path().join("cron"));
        Self { dir, store, clock: Arc::new(VirtualClock::at(time)) }
    }

    fn add(&self, name: &str, schedule: &str, change: impl FnOnce(Job) -> Job) {
        let now = self.clock.now_ms();
        let job = json!({
            "name": name, "schedule": schedule, "prompt": "Look.", "toolsets": ["file"],
            "cwd": "/", "changed_ms": now,
        });
        let job = change(Job::parse(job.to_string().as_bytes()).unwrap());
        self.store.create(&job).unwrap();
    }

    fn name(&self, name: &str) -> JobName {
        name.parse().unwrap()
    }

    fn history(&self, name: &str) -> JobHistory {
        self.store.history(&self.name(name)).unwrap()
    }

    /// Serves for a while with runs that take a while each. Returns when runs began, and what was
    /// reported.
    async fn serve(&self, span: Duration, takes: Duration) -> (Vec<String>, Vec<String>) {
        let runner = SleepingRunner { clock: &self.clock, takes, runs: Mutex::default() };
        let collected = Mutex::new(Vec::new());
        let watch = |event: JobEvent<'_>| {
            let text = match event {
                JobEvent::Started(name, cause) => format!("{name} started: {cause:?}"),
                JobEvent::Ended(name, outcome) => format!("{name} {}", outcome.status.as_str()),
                JobEvent::Missed(name) => format!("{name} missed"),
                JobEvent::StillRunning(name) => format!("{name} still runs"),
                JobEvent::CutOff { name, begins_again } => {
                    format!("{name} cut off: {begins_again}")
                }
                JobEvent::Fault(error) => format!("fault: {error}"),
            };
            collected.lock().push(text);
        };
        let scheduler = Scheduler {
            store: &self.store,
            clock: &*self.clock,
            zone: TimeZone::UTC,
            runner: &runner,
            watch: &watch,
            time_limit: Duration::from_secs(RUN_SECONDS.into()),
            concurrent_runs: 1,
            poll: Duration::from_secs(60),
        };
        let cancel = Cancel::new();
        let end = async {
            sleep(span).await;
            cancel.cancel(CancelReason::Interrupted);
        };
        let (served, ()) = tokio::join!(scheduler.serve(&cancel), end);
        served.unwrap();
        (runner.runs.into_inner(), collected.into_inner())
    }
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

#[tokio::test(start_paused = true)]
async fn each_day_of_a_clock_change_has_one_run() {
    require!(TimeZone::get("Europe/Berlin").map_err(|_| "there are no time zones".to_owned()));
    for (start, times) in [
        ("2026-03-27T22:00:00Z", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("2026-10-23T22:00:00Z", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
    ] {
        let fixture = SchedulerFixture::at(start);
        fixture.add("night", "30 2 * * * Europe/Berlin", |job| job);
        let (runs, _) = fixture.serve(hours(70), Duration::from_secs(5)).await;
        assert_eq!(runs, times.map(|time| format!("night {time}")));
        assert_eq!(fixture.history("night").runs, 3);
    }
    // A single time in the gap runs when the clock has changed, however its zone is written.
    let fixture = SchedulerFixture::at("2026-03-27T22:00:00Z");
    fixture.add("behind", "at 2026-03-29T02:30 Europe/Berlin", |job| job);
    fixture.add("in-brackets", "at 2026-03-29T02:30[Europe/Berlin]", |job| job);
    let (runs, _) = fixture.serve(hours(70), Duration::from_secs(5)).await;
    assert_eq!(runs, ["behind 03-29 01:00", "in-brackets 03-29 01:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_runs_is_not_started_again_and_others_wait_for_a_slot() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    fixture.add("long", "every 10m", |job| job);
    fixture.add("other", "every 15m", |job| job);
    let (runs, actual) =
        fixture.serve(Duration::from_secs(41 * 60), Duration::from_secs(25 * 60)).await;
    // `other` is due while `long` has the only slot, and is not missed.
    assert_eq!(runs, ["long 11-27 10:10", "other 11-27 10:35"]);
    let still = actual.iter().filter(|actual| *actual == "long still runs").count();
    assert!(still >= 2, "{actual:?}");
    assert_eq!(fixture.history("other").last.unwrap().status, RunStatus::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_left_out_or_made_up_for_once() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    fixture.add("skips", "every 1h", |job| job);
    fixture.add("makes-up", "every 1h", |job| Job { missed: Some(MissedPolicy::Once), ..job });
    fixture.add("single", "at 2026-11-27T11:00:00Z", |job| job);
    tokio::time::advance(Duration::from_secs(5 * 3600 + 600)).await;
    let (runs, actual) = fixture.serve(Duration::from_secs(60), Duration::from_secs(1)).await;
    assert_eq!(runs, ["makes-up 11-27 15:10", "single 11-27 15:10"]);
    assert!(actual.contains(&"skips missed".to_owned()), "{actual:?}");
    let (runs, _) = fixture.serve(hours(1), Duration::from_secs(1)).await;
    assert_eq!(runs, ["makes-up 11-27 16:00", "skips 11-27 16:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_far_ahead_stops_no_job() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    let ahead = fixture.clock.now_ms() + 400 * 24 * 3_600_000;
    fixture.add("ran", "every 1h", |job| job);
    fixture.add("made", "every 90m", |job| Job { changed_ms: ahead, ..job });
    let name = fixture.name("ran");
    fixture.store.record(&name, |history| history.handled_ms = ahead).unwrap();
    let (runs, _) = fixture.serve(Duration::from_secs(600), Duration::from_secs(1)).await;
    assert_eq!(runs, [""; 0]);
    assert!(fixture.history("ran").handled_ms < ahead, "it is stored");
    let (runs, _) = fixture.serve(hours(2), Duration::from_secs(1)).await;
    assert_eq!(runs, ["ran 11-27 11:00", "made 11-27 11:30", "ran 11-27 12:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_history_is_damaged_is_held_until_the_file_is_deleted() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    fixture.add("single", "at 2026-11-27T10:01:00Z", |job| job);
    let (runs, _) = fixture.serve(hours(1), Duration::from_secs(1)).await;
    assert_eq!(runs, ["single 11-27 10:01"]);
    let file = fixture.dir.path().join("cron/history/single.json");
    std::fs::write(&file, "{").unwrap();
    let (runs, actual) = fixture.serve(hours(1), Duration::from_secs(1)).await;
    assert_eq!(runs, [""; 0]);
    assert_eq!(
        actual,
        [format!(
            "fault: `{}` is not a valid history of runs, so its job is held: delete the file to let \
             the job run again",
            file.display()
        )]
    );
    std::fs::remove_file(&file).unwrap();
    let (runs, _) = fixture.serve(hours(1), Duration::from_secs(1)).await;
    assert_eq!(runs, ["single 11-27 12:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_cut_off_begins_again_only_if_its_job_says_so() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    for (name, schedule, missed) in [
        ("again", "every 5h", Some(MissedPolicy::Once)),
        ("not", "every 5h", Some(MissedPolicy::Skip)),
        ("single", "at 2026-11-27T10:00:00Z", None),
    ] {
        fixture.add(name, schedule, |job| Job { missed, ..job });
        // As a program that was killed leaves it.
        let now = fixture.clock.now_ms();
        let name = fixture.name(name);
        fixture.store.record(&name, |history| start(history, RunCause::OnTime, now)).unwrap();
        let shown = fixture.store.present_history(&name).unwrap().last.unwrap();
        assert_eq!(shown.status, RunStatus::CutOff, "no program runs it");
    }
    let (runs, actual) = fixture.serve(Duration::from_secs(60), Duration::from_secs(1)).await;
    assert_eq!(runs, ["again 11-27 10:00"]);
    let expected = [
        "again cut off: true",
        "not cut off: false",
        "single cut off: false",
        "again started: BrokenOff",
        "again completed",
    ];
    assert_eq!(actual, expected);
    assert_eq!(fixture.history("again").last.unwrap().attempts, 2);
    for name in ["not", "single"] {
        let last = fixture.history(name).last.unwrap();
        assert_eq!(last.status, RunStatus::CutOff);
        assert_eq!(last.note.unwrap(), "the program ended in the middle of it");
    }
    // It is told once, and a person can have it run.
    fixture.store.request_run(&fixture.name("single")).unwrap();
    let (runs, actual) = fixture.serve(Duration::from_secs(60), Duration::from_secs(1)).await;
    assert_eq!(runs, ["single 11-27 10:01"]);
    assert_eq!(actual, ["single started: Requested", "single completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_only_waited_when_the_program_ended_is_made_up_for() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    for name in ["first", "second"] {
        fixture.add(name, "at 2026-11-27T10:01:00Z", |job| job);
    }
    let (runs, _) = fixture.serve(Duration::from_secs(120), hours(1)).await;
    assert_eq!(runs, ["first 11-27 10:01"]);
    let (runs, _) = fixture.serve(Duration::from_secs(60), Duration::from_secs(1)).await;
    assert_eq!(runs, ["second 11-27 10:02"]);
}

/// On one thread, a lock that is waited for must not stop what else goes on there.
#[tokio::test]
async fn the_store_is_not_waited_for_on_an_asynchronous_thread() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    fixture.add("soon", "every 9h", |job| job);
    fixture.store.request_run(&fixture.name("soon")).unwrap();
    let runner =
        SleepingRunner { clock: &fixture.clock, takes: Duration::ZERO, runs: Mutex::default() };
    let cancel = Cancel::new();
    let faults = Mutex::new(Vec::new());
    let watch = |event: JobEvent<'_>| match event {
        JobEvent::Ended(..) => cancel.cancel(CancelReason::Interrupted),
        JobEvent::Fault(error) => {
            faults.lock().push(error.to_string());
            cancel.cancel(CancelReason::Interrupted);
        }
        _ => {}
    };
    let scheduler =
        Scheduler { watch: &watch, ..Scheduler::new(&fixture.store, &*fixture.clock, &runner) };
    let held = std::fs::File::open(fixture.dir.path().join("cron/.lock")).unwrap();
    held.lock().unwrap();
    let release = async { held.unlock().unwrap() };
    let (served, ()) = tokio::join!(scheduler.serve(&cancel), release);
    served.unwrap();
    assert_eq!((faults.into_inner(), runner.runs.lock().len()), (Vec::<String>::new(), 1));
}

#[tokio::test(start_paused = true)]
async fn runs_end_at_their_time_and_a_fault_is_one_failed_run() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    fixture.add("slow", "at 2026-11-27T10:01:00Z", |job| Job { timeout_seconds: Some(60), ..job });
    fixture.add("faulty", "at 2026-11-27T10:30:00Z", |job| Job { prompt: "panic".into(), ..job });
    std::fs::write(fixture.dir.path().join("cron/jobs/broken.json"), "{").unwrap();
    let (_, actual) = fixture.serve(hours(1), hours(2)).await;
    assert_eq!(
        actual[1..],
        ["slow started: OnTime", "slow timeout", "faulty started: OnTime", "faulty failed"]
    );
    assert!(actual[0].starts_with("fault: ") && actual[0].contains("broken.json"), "{actual:?}");
    let last = fixture.history("slow").last.unwrap();
    assert_eq!(last.note.as_deref(), Some("it took more than 60 s"));
    assert_eq!(last.ended_ms.unwrap() - last.started_ms, 60_000);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_begun_on_request_and_one_program_serves() {
    let fixture = SchedulerFixture::at("2026-11-27T10:00:00Z");
    fixture.add("idle", "every 9h", |job| Job { paused: true, ..job });
    let name = fixture.name("idle");
    fixture.store.request_run(&name).unwrap();
    let (runs, actual) = fixture.serve(hours(20), Duration::from_secs(1)).await;
    assert_eq!(runs, ["idle 11-27 10:00"]);
    assert_eq!(actual[0], "idle started: Requested");
    // One that comes while the job runs waits for its end.
    fixture.store.request_run(&name).unwrap();
    let again = async {
        sleep(Duration::from_secs(600)).await;
        fixture.store.request_run(&name).unwrap()
    };
    let ((runs, _), runs_now) = tokio::join!(fixture.serve(hours(3), hours(1)), again);
    assert!(runs_now);
    assert_eq!(runs, ["idle 11-28 06:00", "idle 11-28 07:00"]);
    let held = fixture.store.lock_daemon().unwrap();
    assert!(fixture.store.has_daemon());
    let error = fixture.store.lock_daemon().unwrap_err().to_string();
    let pid = std::process::id();
    assert_eq!(error, format!("another program runs the jobs already (process {pid})"));
    drop(held);
    assert!(!fixture.store.has_daemon());
}
