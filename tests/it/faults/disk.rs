//! Disks that are full, read-only or not what they should be.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use deputize_core::model::Reply;
use deputize_requirements::require;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::program::{ChatRequest, Lab, PROGRAM, ProgramEnd, RunningProgram, model, soon};

fn call(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

/// A disk of its own: a file system in memory, in a mount namespace that a waiting process
/// holds.
struct Disk {
    holder: Child,
}

impl Disk {
    async fn mount(lab: &Lab, at: &Path, options: &str) -> Result<Self, String> {
        fs::create_dir_all(at).unwrap();
        let mut command = lab.command("unshare");
        let script = "mount -t tmpfs -o \"$1\" none \"$2\" && echo mounted && exec cat";
        command.args(["-rm", "sh", "-c", script, "sh", options]).arg(at);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(holder.stdout.take().unwrap());
        soon("the mount", out.read_line(&mut said)).await.unwrap();
        if said != "mounted\n" {
            return Err("this system gives no mount namespace".to_owned());
        }
        Ok(Self { holder })
    }

    /// A path of the lab as it is on this disk.
    fn path(&self, path: &Path) -> PathBuf {
        let root = format!("/proc/{}/root", self.holder.id().unwrap());
        Path::new(&root).join(path.strip_prefix("/").unwrap())
    }

    /// The program where the disk is mounted.
    fn deputize(&self, lab: &Lab, args: &[&str]) -> Command {
        let mut command = lab.command("nsenter");
        let holder = self.holder.id().unwrap().to_string();
        command.args(["--preserve-credentials", "-U", "-m", "-t", &holder, PROGRAM]).args(args);
        command
    }

    async fn run(&self, lab: &Lab, server: &MockServer, args: &[&str]) -> ProgramEnd {
        let url = server.base_url();
        let work = lab.work("");
        let work = work.to_str().unwrap();
        let args = [&["run", "-m", "openai/mock", "--base-url", &url, "-C", work], args].concat();
        RunningProgram::start(self.deputize(lab, &args)).end().await
    }
}

#[tokio::test]
async fn on_a_full_disk_jobs_stay_as_they_were_and_the_error_says_what_to_do() {
    let lab = Lab::new();
    let home = lab.path("home");
    let disk = require!(Disk::mount(&lab, &home, "size=256k").await);
    let cron = async |args: &[&str]| {
        let args = [&["cron"], args].concat();
        RunningProgram::start(disk.deputize(&lab, &args)).end().await
    };
    let add = |name| ["add", name, "Say hello.", "--schedule", "every 9d", "-t", "file_read"];
    cron(&add("kept")).await.with_code(0);
    cron(&["trigger", "kept"]).await.with_code(0);
    let ballast = disk.path(&home.join("ballast"));
    let mut rest = fs::File::create(&ballast).unwrap();
    while rest.write(&[0; 512]).is_ok_and(|count| count > 0) {}
    let files = || {
        let folder = disk.path(&home.join("cron"));
        let of = |name: &str| fs::read_dir(folder.join(name)).unwrap();
        let all = of("jobs").chain(of("history")).map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = all.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        all.sort();
        all
    };
    let before = files();
    for args in
        [&add("other")[..], &["pause", "kept"], &["trigger", "kept"], &["run", "-m", "offline"]]
    {
        let ended = cron(args).await.with_code(1);
        for part in ["No space left on device", "(make room on its disk)", "/cron/"] {
            assert!(ended.err.contains(part), "{args:?}: {part}: {}", ended.err);
        }
        assert_eq!(files(), before, "{args:?}");
    }
    let listed = cron(&["list"]).await.with_code(0).out;
    assert!(listed.contains("kept") && !listed.contains("other"), "{listed}");
    // What is open keeps its room.
    drop(rest);
    fs::remove_file(ballast).unwrap();
    cron(&add("other")).await.with_code(0);
    cron(&["pause", "kept"]).await.with_code(0);
    assert!(cron(&["list"]).await.with_code(0).out.contains("paused"));
}

#[tokio::test]
async fn a_disk_that_fills_stops_the_turn_and_keeps_what_was_acknowledged() {
    let lab = Lab::new();
    let home = lab.path("home");
    let disk = require!(Disk::mount(&lab, &home, "size=512k").await);
    let ballast = disk.path(&home.join("ballast"));
    fs::write(&ballast, vec![0; 256 << 10]).unwrap();
    let server = model(wordy).await;
    let ended = disk.run(&lab, &server, &["--output", "events", "Write a lot"]).await;
    println!("{}", ended.err);
    let ended = ended.with_code(1);
    assert!(ended.err.contains("No space left on device"), "{}", ended.err);
    let requests = server.requests().len();
    assert!((3..40).contains(&requests), "{requests} requests");
    assert_eq!(ended.err.matches("No space left").count(), 1, "told once: {}", ended.err);
    assert!(ended.err.contains("make room"), "{}", ended.err);

    let sessions = disk.path(&home.join("sessions"));
    let files: Vec<_> = fs::read_dir(sessions).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let kept = fs::read_to_string(&files[0]).unwrap();
    let shown = ended.out.lines().count();
    assert_eq!(kept.lines().count(), shown + 1, "what was shown is kept, behind one header");
    let whole = kept.lines().all(|line| serde_json::from_str::<Value>(line).is_ok());
    assert!(whole && kept.ends_with('\n'));

    let id = files[0].file_stem().unwrap().to_str().unwrap();
    let shown = RunningProgram::start(disk.deputize(&lab, &["sessions", "show", id])).end().await;
    assert!(shown.with_code(0).out.contains("Write a lot"));
    // The rest of the room, to the last byte that the system gives.
    let mut rest = fs::File::create(disk.path(&home.join("rest"))).unwrap();
    while rest.write(&[0]).is_ok() {}
    let full = disk.run(&lab, &server, &["--resume", id, "Go on"]).await;
    assert!(full.with_code(1).err.contains("No space left on device"));
    fs::remove_file(ballast).unwrap();
    let ended = disk.run(&lab, &server, &["--resume", id, "Go on"]).await.with_code(0);
    assert_eq!(ended.out, "There is room again.\n");
    assert!(!ended.err.contains("incomplete"), "{}", ended.err);
}

#[tokio::test]
async fn a_file_that_does_not_fit_leaves_the_old_one_whole() {
    let lab = Lab::new();
    let work = lab.work("");
    let disk = require!(Disk::mount(&lab, &work, "size=128k").await);
    let old = "line\n".repeat(8000);
    fs::write(disk.path(&work.join("a.txt")), &old).unwrap();
    let much = "y".repeat(100 << 10);
    let server = MockServer::start([
        call("read_file", json!({"path": "a.txt", "limit": 1})),
        call("write_file", json!({"path": "a.txt", "content": much})),
        call("write_file", json!({"path": "new.txt", "content": much})),
        call("write_file", json!({"path": "small.txt", "content": "It fits.\n"})),
        text("Done."),
    ]);
    let server = server.await.unwrap();
    let ended = disk.run(&lab, &server, &["Write"]).await.with_code(0);
    assert_eq!(ended.out, "Done.\n");
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    for (place, result) in last.results().into_iter().enumerate() {
        println!("{place}: {}", result.chars().take(300).collect::<String>());
        assert_eq!(result.starts_with("error:"), [1, 2].contains(&place), "{place}: {result}");
    }
    assert_eq!(fs::read_to_string(disk.path(&work.join("a.txt"))).unwrap(), old);
    let names = fs::read_dir(disk.path(&work)).unwrap();
    let mut names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.txt", "small.txt"], "no half-written file is left");
}

/// Long replies and calls that never repeat, until the message `Go on`.
fn wordy(asked: &ChatRequest) -> MockAnswer {
    if asked.last_user() == "Go on" {
        return text("There is room again.");
    }
    let path = format!("d{}", asked.replies());
    let mut reply = Reply::calls("mock", [("list_dir", json!({ "path": path }))]);
    reply.text = "words ".repeat(4000);
    MockAnswer::reply(&reply)
}

#[tokio::test]
async fn a_limit_of_the_system_on_files_is_a_full_disk() {
    let lab = Lab::new();
    let server = model(wordy).await;
    let mut command = lab.command("bash");
    let run = format!("ulimit -f 128; exec {PROGRAM} run -m openai/mock --base-url");
    command.args(["-c", &format!("{run} {} 'Write a lot'", server.base_url())]);
    let ended = RunningProgram::start(command).end().await.with_code(1);
    assert!(ended.err.contains("File too large"), "{}", ended.err);
    assert!(fs::read(lab.session_file()).unwrap().ends_with(b"\n"));
    let ended = lab.run(&server, &["--resume", &lab.session(), "Go on"]).end().await.with_code(0);
    assert_eq!(ended.out, "There is room again.\n");
    assert!(!ended.err.contains("incomplete"), "{}", ended.err);
}

#[tokio::test]
async fn a_home_that_is_read_only_is_reported_before_anything_is_sent() {
    let lab = Lab::new();
    let disk = require!(Disk::mount(&lab, &lab.path("home"), "ro").await);
    let server = MockServer::start([]).await.unwrap();
    let ended = disk.run(&lab, &server, &["Hello"]).await;
    println!("{}", ended.err);
    let ended = ended.with_code(1);
    assert!(ended.err.contains("Read-only file system"), "{}", ended.err);
    assert!(ended.err.contains(lab.path("home/sessions").to_str().unwrap()), "{}", ended.err);
    assert_eq!(server.requests().len(), 0);
}

/// Fills a disk to the last byte that the system gives.
fn fill(path: &Path) {
    let mut ballast = fs::File::create(path).unwrap();
    while ballast.write(&[0; 4096]).is_ok_and(|count| count > 0) {}
    while ballast.write(&[0]).is_ok() {}
}

#[tokio::test]
async fn a_recording_that_cannot_be_written_is_an_error() {
    let lab = Lab::new();
    let place = lab.path("tapes");
    let disk = require!(Disk::mount(&lab, &place, "size=128k").await);
    let ballast = disk.path(&place.join("ballast"));
    fill(&ballast);
    let server = model(|_| text(&"A long answer. ".repeat(20_000))).await;
    let early = place.join("early");
    let late = place.join("late");
    let args = ["--record", early.to_str().unwrap(), "Hello"];
    let ended = disk.run(&lab, &server, &args).await.with_code(1);
    let said = format!("error: the recording `{}` cannot be written: No space", early.display());
    assert!(ended.err.contains(&said), "{}", ended.err);
    assert!(ended.err.contains("hint: "), "{}", ended.err);
    assert_eq!((server.requests().len(), ended.out.as_str()), (0, ""), "it is known at the start");
    assert_eq!(ended.err.matches("recording").count(), 1, "it is told once: {}", ended.err);

    fs::remove_file(ballast).unwrap();
    let args = ["--record", late.to_str().unwrap(), "Hello"];
    let ended = disk.run(&lab, &server, &args).await.with_code(1);
    assert!(ended.out.starts_with("A long answer."), "the answer is there all the same");
    let said = format!("error: the recording `{}` is incomplete and cannot", late.display());
    assert!(ended.err.contains(&said), "{}", ended.err);
}

#[tokio::test]
async fn a_recording_whose_file_is_taken_away_meanwhile_is_an_error() {
    for replaced in [false, true] {
        let lab = Lab::new();
        let file = lab.path("tape");
        let taken = file.clone();
        let server = model(move |_| {
            fs::remove_file(&taken).unwrap();
            if replaced {
                fs::write(&taken, "another").unwrap();
            }
            text("Done.")
        });
        let server = server.await;
        let args = ["--record", file.to_str().unwrap(), "Hello"];
        let ended = lab.run(&server, &args).end().await.with_code(1);
        assert_eq!(ended.out, "Done.\n", "the answer is there all the same");
        let said = format!(
            "error: the recording `{}` is incomplete and cannot be replayed: its file was removed",
            file.display()
        );
        assert!(ended.err.contains(&said), "{}", ended.err);
        assert!(!ended.err.contains("recorded:"), "{}", ended.err);
    }
}

#[tokio::test]
async fn the_doctor_sees_that_no_session_can_be_kept() {
    let lab = Lab::new();
    let home = lab.path("home");
    let disk = require!(Disk::mount(&lab, &home, "size=64k").await);
    let doctor = async || {
        RunningProgram::start(disk.deputize(&lab, &["doctor", "-m", "offline"])).end().await
    };
    let ballast = disk.path(&home.join("ballast"));
    fill(&ballast);
    let full = doctor().await.with_code(1);
    let said = format!("fail  sessions         {} cannot be written: No space", home.display());
    assert!(full.out.contains(&said), "{}", full.out);
    fs::remove_file(ballast).unwrap();
    let little = doctor().await.with_code(0);
    assert!(little.out.contains("warn  sessions"), "{}", little.out);
    assert!(little.out.contains(" KiB are free"), "{}", little.out);
    assert_eq!(fs::read_dir(disk.path(&home)).unwrap().count(), 0, "it leaves nothing there");
}

#[tokio::test]
async fn a_home_is_made_for_its_owner_alone() {
    let lab = Lab::new();
    let server = MockServer::start([text("Hello.")]).await.unwrap();
    lab.run(&server, &["Hello"]).end().await.with_code(0);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(lab.path("home/sessions")), 0o700);
    assert_eq!(mode(lab.session_file()), 0o600);
}

#[tokio::test]
async fn a_home_that_is_none_is_reported_before_anything_is_sent() {
    type Make = fn(&Lab);
    let make: [(&str, Make); 4] = [
        ("a file", |lab| fs::write(lab.path("home"), "x").unwrap()),
        ("sessions are a file", |lab| {
            fs::create_dir(lab.path("home")).unwrap();
            fs::write(lab.path("home/sessions"), "x").unwrap();
        }),
        ("a link to nowhere", |lab| symlink("/proc/nowhere", lab.path("home")).unwrap()),
        ("a link to itself", |lab| symlink("home", lab.path("home")).unwrap()),
    ];
    for (name, make) in make {
        let lab = Lab::new();
        make(&lab);
        let server = MockServer::start([]).await.unwrap();
        let ended = lab.run(&server, &["Hello"]).end().await;
        println!("{name}: {:?} {}", ended.code, ended.err);
        assert!(matches!(ended.code, Some(1 | 2)), "{name}: {ended:#?}");
        assert!(!ended.err.contains("File exists"), "{name}: {}", ended.err);
        assert!(ended.err.contains(lab.path("home").to_str().unwrap()), "{name}: {}", ended.err);
        assert!(!ended.err.contains("panicked") && server.requests().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_printed_is_a_failure() {
    for output in ["text", "json", "events"] {
        let lab = Lab::new();
        let server = MockServer::start([text("Hello.")]).await.unwrap();
        let mut command = lab.run_command(&server, &["--output", output, "Hello"]);
        command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let ended = RunningProgram::with_stdout(command).end().await;
        println!("{output}: {:?} {}", ended.code, ended.err);
        assert!(!ended.err.contains("panicked"), "{ended:#?}");
        assert_ne!(ended.code, Some(0), "{output}: {ended:#?}");
        assert!(ended.err.contains("cannot write to standard output"), "{output}: {}", ended.err);
    }
}

#[tokio::test]
async fn a_search_over_sessions_on_a_full_disk_says_so_and_works_when_there_is_room() {
    let lab = Lab::new();
    let disk = require!(Disk::mount(&lab, &lab.path("home"), "size=8m").await);
    let server = model(|_| text("The parser is done.")).await;
    disk.run(&lab, &server, &["Fix the parser"]).await.with_code(0);
    let ballast = disk.path(&lab.path("home/ballast"));
    fill(&ballast);
    let search = || RunningProgram::start(disk.deputize(&lab, &["sessions", "search", "parser"]));
    let ended = search().end().await.with_code(1);
    let index = lab.path("home/sessions/.search");
    assert!(
        ended.err.contains(&format!("`{}` (make room on its disk)", index.display())),
        "{}",
        ended.err
    );
    fs::remove_file(ballast).unwrap();
    let ended = search().end().await.with_code(0);
    assert!(ended.out.contains("Fix the **parser**"), "{}", ended.out);
    // What is in the index is found without any room.
    fill(&disk.path(&lab.path("home/ballast")));
    let ended = search().end().await.with_code(0);
    assert!(ended.out.contains("Fix the **parser**"), "{}", ended.out);
}
