//! The program is killed outright: nothing that it started goes on, what it said is kept, and
//! nothing runs twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use deputize_core::model::Reply;
use deputize_requirements::{check, program, require, root, test_path};
use deputize_testkit::{Barrier, MockAnswer, MockServer};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::program::{ChatRequest, Lab, PROGRAM, ProgramEnd, RunningProgram, model, soon};
use crate::signals::SOON;

pub(crate) fn call(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("mock", [(tool, arguments)]))
}

pub(crate) fn text(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("mock", text))
}

/// Ends the program by a signal that it cannot act on. Whatever it had started ends too: its
/// commands, and those who start and end them. How long that took.
pub(crate) async fn end_by(signal: Signal, lab: &Lab, running: RunningProgram) -> Duration {
    let before = descendants(running.pid());
    let sent = Instant::now();
    running.signal(signal);
    let ended = running.end().await;
    assert_eq!(ended.code, None, "{ended:#?}");
    let gone = async {
        let is_left = |(pid, born): &(i32, u64)| is_alive(*pid, *born);
        while !lab.processes().is_empty() || before.iter().any(is_left) {
            collect_orphans();
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the end of all that it started", gone).await;
    sent.elapsed()
}

/// Tests that own processes make this process the parent of orphans, also of other tests' orphans,
/// which nothing expects here. A namespace does not end before they are collected. Their second
/// number distinguishes them from processes that a test started.
fn collect_orphans() {
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().split_whitespace().collect::<Vec<_>>()
        };
        let orphan = field("PPid:") == [own.as_str()] && field("State:").first() == Some(&"Z");
        if orphan && field("NSpid:").len() > 1 {
            let pid = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
            let _collected = waitpid(pid, WaitOptions::NOHANG);
        }
    }
}

pub(crate) async fn kill(lab: &Lab, running: RunningProgram) {
    end_by(Signal::KILL, lab, running).await;
}

/// Parent, and clock ticks at the start, of a process that has not ended.
fn look(pid: i32) -> Option<(i32, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let is_there = !matches!(*fields.first()?, "Z" | "X");
    is_there.then_some((i32::try_from(number(1)?).ok()?, number(19)?))
}

pub(crate) fn is_alive(pid: i32, born: u64) -> bool {
    look(pid).is_some_and(|(_, now)| now == born)
}

/// All processes below one, each with its start.
pub(crate) fn descendants(of: Pid) -> Vec<(i32, u64)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let table: BTreeMap<i32, (i32, u64)> =
        pids.filter_map(|pid: i32| Some((pid, look(pid)?))).collect();
    let of = of.as_raw_nonzero().get();
    let is_below = |pid: i32| {
        let parent = |pid: &i32| table.get(pid).map(|(parent, _)| *parent);
        std::iter::successors(parent(&pid), parent).take(table.len()).any(|above| above == of)
    };
    let below = table.iter().filter(|(pid, _)| is_below(**pid));
    below.map(|(pid, (_, born))| (*pid, *born)).collect()
}

pub(crate) async fn resume(lab: &Lab, server: &MockServer, args: &[&str]) -> ProgramEnd {
    let session = lab.session();
    let mut all = vec!["--resume", session.as_str()];
    all.extend(args);
    lab.run(server, &all).end().await
}

/// Requests that a rule is true of.
fn count(server: &MockServer, is: impl Fn(&ChatRequest) -> bool) -> usize {
    server.requests().iter().filter(|request| is(&ChatRequest::of(request))).count()
}

/// A tree of `fixtures/process-trees`.
struct Tree {
    name: String,
    script: String,
    /// Processes that must sleep before it is ended.
    sleeps: usize,
    /// Its processes are too short-lived to be counted; without a namespace, some even to be
    /// caught.
    hops: Option<String>,
}

/// Those that this machine can run.
fn trees() -> Vec<Tree> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/process-trees");
    let mut trees = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "sh") {
            continue;
        }
        let script = fs::read_to_string(&path).unwrap();
        let head = |key: &str| {
            let mut lines = script.lines().take_while(|line| line.starts_with('#'));
            let value = lines.find_map(|line| line.strip_prefix("# ")?.strip_prefix(key));
            value.map(|value| value.trim_start_matches(':').trim().to_owned())
        };
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let need = head("needs").map_or(Ok(()), |what| match what.as_str() {
            "root" => root(),
            name => program(name),
        });
        if check(&format!("it::kill, the tree {name}"), need).is_none() {
            continue;
        }
        let sleeps = head("sleeps").unwrap().parse().unwrap();
        let hops = head("hops");
        trees.push(Tree { name, script, sleeps, hops });
    }
    assert!(trees.len() > 40);
    trees.sort_by(|a, b| (&a.hops, &a.name).cmp(&(&b.hops, &b.name)));
    trees
}

/// How many processes have the mark as their last argument.
fn sleeping(lab: &Lab) -> usize {
    let expected = format!("\0{}\0", lab.mark());
    let line = |pid: Pid| fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    let is_one =
        |pid: Pid| line(pid).is_ok_and(|line| String::from_utf8_lossy(&line).ends_with(&expected));
    lab.processes().into_iter().filter(|(pid, _)| is_one(*pid)).count()
}

/// The right that namespaces need: without it, trees are found by walking.
const NO_NAMESPACES: [&str; 3] = ["setpriv", "--bounding-set", "-sys_admin"];

/// Has the program run a tree, and waits until it stands.
async fn standing(tree: &Tree, wrapper: &[&str]) -> (Lab, MockServer, RunningProgram) {
    let lab = Lab::new();
    let sleep_for = format!("sleep {}", lab.mark());
    let command = tree.script.replace("@SLEEP@", &sleep_for).replace("@MARK@", lab.mark());
    let server = model(move |_| call("terminal", json!({ "command": command }))).await;
    let mut start = lab.command(wrapper.first().unwrap_or(&PROGRAM));
    start.args(wrapper.iter().skip(1).chain(wrapper.first().map(|_| &PROGRAM)));
    start.args(["run", "-m", "openai/mock", "--base-url", &server.base_url()]);
    start.args(["--approve", "auto", "Work"]);
    let running = RunningProgram::start(start);
    let stands = async {
        while sleeping(&lab) < tree.sleeps {
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon(&tree.name, stands).await;
    (lab, server, running)
}

/// Lets a tree stand, ends the program by a signal, and holds that nothing is left.
async fn fell(tree: &Tree, signal: Signal, wrapper: &[&str]) -> Duration {
    let (lab, _server, running) = standing(tree, wrapper).await;
    let took = end_by(signal, &lab, running).await;
    // One that hops could be overlooked once.
    let looks = if tree.hops.is_some() { 50 } else { 1 };
    assert!((0..looks).all(|_| lab.processes().is_empty()), "{}", tree.name);
    took
}

/// Every tree, some at a time.
async fn fell_all(what: &str, wrapper: &'static [&'static str], trees: Vec<Tree>) {
    /// Trees that stand at the same time.
    const TOGETHER: usize = 4;
    let all = trees.len();
    let mut rows = JoinSet::new();
    let mut times = Vec::new();
    for tree in trees {
        // What hops keeps a processor busy: it stands alone.
        let room = if tree.hops.is_some() { 1 } else { TOGETHER };
        while rows.len() >= room {
            times.push(rows.join_next().await.unwrap().unwrap());
        }
        rows.spawn(async move { (fell(&tree, Signal::KILL, wrapper).await, tree) });
    }
    times.extend(rows.join_all().await);
    times.sort_by_key(|(took, _)| *took);
    let (took, tree) = times.last().unwrap();
    println!("kill -9, {what}: {all} trees, none left, slowest {} {took:?}", tree.name);
    for (took, tree) in times.iter().filter(|(took, _)| *took >= SOON) {
        // The machine may have been busy; what is slow is slow every time.
        let mut again = *took;
        for _ in 0..3 {
            if again >= SOON {
                again = fell(tree, Signal::KILL, wrapper).await;
            }
        }
        assert!(again < SOON, "{}: {took:?}, then {again:?}", tree.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_any_tree() {
    let mut trees = trees();
    if root().is_err() {
        trees.retain(|tree| tree.hops.as_deref() != Some("namespace"));
    }
    fell_all("as it is", &[], trees).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_any_tree_without_namespaces() {
    // Nobody else has the right that would be taken.
    require!(root());
    let mut trees = trees();
    // The walk is not fast enough for these, and making namespaces needs the right as well.
    trees.retain(|tree| {
        tree.hops.as_deref() != Some("namespace") && tree.name != "namespace-inside"
    });
    fell_all("without namespaces", &NO_NAMESPACES, trees).await;
}

#[tokio::test]
async fn nothing_is_left_when_it_breaks_down() {
    let trees = trees();
    let tree = trees.iter().find(|tree| tree.name == "proper-daemon").unwrap();
    // Whoever runs the tests in the background may have some of them ignored.
    let wrapper = ["env", "--default-signal"];
    for signal in [Signal::ABORT, Signal::QUIT, Signal::ILL, Signal::FPE] {
        fell(tree, signal, &wrapper).await;
    }
}

/// Kills those who start and end commands for the program.
fn kill_helpers(running: &RunningProgram) {
    let is_helper = |(pid, _): &(i32, u64)| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "process-reaper\n")
    };
    let helpers: Vec<_> = descendants(running.pid()).into_iter().filter(is_helper).collect();
    assert!(!helpers.is_empty());
    for (pid, _) in helpers {
        // The first process of a namespace has that name, too, and dies with the other one.
        let _gone = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
}

/// In a namespace everything dies with its first process, and that with who made it.
#[tokio::test]
async fn nothing_is_left_when_the_helper_is_killed_with_it() {
    require!(root());
    let trees = trees();
    for name in ["proper-daemon", "lower-limits-orphan", "forks-when-asked-deaf"] {
        let tree = trees.iter().find(|tree| tree.name == name).unwrap();
        let (lab, server, running) = standing(tree, &[]).await;
        kill_helpers(&running);
        end_by(Signal::KILL, &lab, running).await;
        drop(server);
    }
}

/// Nobody saw how the command ended, so the model reads that the outcome is unknown; the next
/// command has an owner.
#[tokio::test]
async fn a_command_whose_helper_was_killed_has_an_unknown_outcome() {
    let lab = Lab::new();
    let commands = [format!("sleep {}", lab.mark()), "echo here again".to_owned()];
    let server = model(move |asked| match commands.get(asked.replies()) {
        Some(command) => call("terminal", json!({ "command": command })),
        None => text("Done."),
    })
    .await;
    let running = lab.run(&server, &["--approve", "auto", "Work"]);
    let sleeps = async {
        while sleeping(&lab) < 1 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the command", sleeps).await;
    kill_helpers(&running);
    let ended = running.end().await.with_code(0);
    assert_eq!(ended.out, "Done.\n");
    let last = server.requests().pop().unwrap();
    let asked = ChatRequest::of(&last);
    assert!(asked.results()[0].contains("outcome unknown"), "{:?}", asked.results());
    assert!(asked.results()[1].contains("here again"), "{:?}", asked.results());
    assert_eq!(lab.processes(), []);
}

/// A command can stop the process that would end it, before or after the program is gone.
#[tokio::test]
async fn nothing_is_left_when_a_command_has_stopped_the_helper() {
    // In a namespace, commands do not see it.
    require!(root());
    let script = "[ $PPID -gt 1 ] && kill -STOP $PPID; setsid -f @SLEEP@; @SLEEP@";
    let name = "stops-the-helper".to_owned();
    let script = script.to_owned();
    let tree = Tree { name, script, sleeps: 2, hops: None };
    fell(&tree, Signal::KILL, &NO_NAMESPACES).await;
}

/// Where namespaces can be made and not be used, trees are found by walking.
#[tokio::test]
async fn nothing_is_left_where_namespaces_cannot_be_used() {
    let trees = trees();
    let tree = trees.iter().find(|tree| tree.name == "proper-daemon").unwrap();
    for wrapper in [
        &["unshare", "--user", "--map-root-user"][..],
        &["setpriv", "--bounding-set", "-sys_chroot"],
    ] {
        let mut may = std::process::Command::new(wrapper[0]);
        let may = may.args(&wrapper[1..]).arg("true").status().is_ok_and(|it| it.success());
        let need = if may { Ok(()) } else { Err("this system does not allow it".to_owned()) };
        if check(&format!("{} by {}", test_path!(), wrapper[0]), need).is_some() {
            fell(tree, Signal::KILL, wrapper).await;
        }
    }
}

#[tokio::test]
async fn before_the_first_reply_the_same_request_is_sent_again() {
    let lab = Lab::new();
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |_| text("Here I am.").stall_at(0, &held)).await;
    let running = lab.run(&server, &["Where are you?"]);
    gate.until_waiting(1).await;
    kill(&lab, running).await;
    gate.open();
    let ended = resume(&lab, &server, &[]).await.with_code(0);
    assert_eq!(ended.out, "Here I am.\n");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].text(), requests[1].text());
    assert!(!ended.err.contains("recovered"), "nothing was lost: {}", ended.err);
}

/// A parent with two children, the second of which waits at the gate.
async fn family(gate: &Barrier) -> MockServer {
    let held = gate.clone();
    let server = model(move |asked| {
        let system = asked.system();
        if system.contains("YOUR TASK:\nfirst") {
            text("The first is done.")
        } else if system.contains("YOUR TASK:\nsecond") {
            text("The second is done.").stall_at(0, &held)
        } else if asked.replies() == 0 {
            call("delegate_task", json!({"tasks": [{"goal": "first"}, {"goal": "second"}]}))
        } else {
            text("Both are done.")
        }
    });
    server.await
}

#[tokio::test]
async fn a_child_that_had_ended_is_not_asked_again() {
    let lab = Lab::new();
    let gate = Barrier::closed();
    let server = family(&gate).await;
    let running = lab.run(&server, &["--output", "events", "Share it"]);
    gate.until_waiting(1).await;
    running.event("agent.end", |end| end["depth"] == 1).await;
    kill(&lab, running).await;
    gate.open();

    let ended = resume(&lab, &server, &["--output", "json"]).await.with_code(0);
    let of = |goal: &'static str| {
        count(&server, move |asked| asked.system().contains(&format!("YOUR TASK:\n{goal}")))
    };
    assert_eq!((of("first"), of("second")), (1, 2), "the first had ended, the second had not");
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let results = last.results();
    assert_eq!(results.len(), 1);
    assert!(
        results[0].contains("The first is done.") && results[0].contains("The second is done.")
    );
    let shown: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(shown["answer"], "Both are done.");
    assert_eq!(shown["children"].as_array().unwrap().len(), 2, "{shown:#}");
}

#[tokio::test]
async fn a_command_that_had_started_is_not_run_again() {
    for sync in ["turn", "always", "never"] {
        let lab = Lab::new();
        let command = format!("echo ran >> ran; echo > begun; exec sleep {}", lab.mark());
        let server = model(move |asked| match asked.replies() {
            0 => call("terminal", json!({ "command": command })),
            _ => text("I looked."),
        });
        let server = server.await;
        let mut begun = lab.pipe("begun");
        let sync = format!("journal.sync={sync}");
        let set = ["--approve", "auto", "--set", &sync];
        let running = lab.run(&server, &[&set[..], &["Work"]].concat());
        begun.lines(1).await;
        kill(&lab, running).await;

        let ended = resume(&lab, &server, &set).await.with_code(0);
        assert_eq!(ended.out, "I looked.\n");
        assert_eq!(fs::read_to_string(lab.work("ran")).unwrap(), "ran\n");
        let expected = "session recovered: a call has an unknown outcome: run echo ran";
        assert!(ended.err.contains(expected), "{}", ended.err);
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        let results = ChatRequest::of(&requests[1]);
        assert!(results.results()[0].contains("outcome is unknown"), "{:?}", results.results());
    }
}

/// A session of one question and one answer.
async fn a_session(lab: &Lab) -> MockServer {
    let server = model(|asked| text(&format!("Answer {}.", asked.replies() + 1))).await;
    let ended = lab.run(&server, &["First question"]).end().await.with_code(0);
    assert_eq!(ended.out, "Answer 1.\n");
    server
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off_and_reported() {
    type Tear = fn(&mut Vec<u8>);
    let tear: [(&str, Tear); 4] = [
        ("its end is missing", |bytes| bytes.truncate(bytes.len() - 10)),
        ("its beginning is there", |bytes| bytes.extend(b"{\"seq\":99,\"le")),
        ("zeros", |bytes| bytes.extend([0; 4096])),
        ("noise", |bytes| bytes.extend(b"\xff\n\x1b[2J\n")),
    ];
    for (name, tear) in tear {
        let lab = Lab::new();
        let server = a_session(&lab).await;
        let mut bytes = fs::read(lab.session_file()).unwrap();
        tear(&mut bytes);
        fs::write(lab.session_file(), bytes).unwrap();
        let ended = resume(&lab, &server, &["Second question"]).await.with_code(0);
        assert_eq!(ended.out, "Answer 2.\n", "{name}");
        assert!(ended.err.contains("its last record was incomplete ("), "{name}: {}", ended.err);
        let again = resume(&lab, &server, &["Third question"]).await.with_code(0);
        assert_eq!(again.out, "Answer 3.\n", "{name}");
        assert!(!again.err.contains("recovered"), "{name}: {}", again.err);
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_middle_leaves_a_session_to_read() {
    let lab = Lab::new();
    let server = a_session(&lab).await;
    let file = lab.session_file();
    let mut bytes = fs::read(&file).unwrap();
    let place = bytes.windows(8).position(|window| window == b"Answer 1").unwrap();
    bytes[place] ^= 1;
    let line = bytes[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
    fs::write(&file, &bytes).unwrap();

    let ended = resume(&lab, &server, &["Second question"]).await.with_code(1);
    let expected = format!("line {line} of session file `{}` is damaged", file.display());
    assert!(ended.err.contains(&expected), "{expected}\n{}", ended.err);
    assert_eq!((ended.out.as_str(), server.requests().len()), ("", 1));
    assert_eq!(fs::read(&file).unwrap(), bytes, "nothing is thrown away");

    let session = lab.session();
    for args in [&["sessions", "show", &session][..], &["sessions", "export", &session]] {
        let ended = RunningProgram::start(lab.deputize(args)).end().await.with_code(0);
        assert!(ended.out.contains("First question"), "{ended:#?}");
        assert!(ended.err.contains("damaged"), "{ended:#?}");
    }
}

#[tokio::test]
async fn what_is_no_session_is_reported_by_its_name() {
    let lab = Lab::new();
    let server = a_session(&lab).await;
    let file = lab.session_file();
    let cases: [(&str, &[u8], i32, &str); 4] = [
        ("empty", b"", 1, "is not a session file"),
        ("a header alone cut short", b"{\"format\":1,\"sess", 1, "is not a session file"),
        ("binary", b"\x7fELF\x02\x01\n", 1, "is not a session file"),
        ("of later", b"{\"format\":99}\n", 1, "has format 99, this program reads up to 1"),
    ];
    for (name, bytes, code, actual) in cases {
        fs::write(&file, bytes).unwrap();
        let ended = resume(&lab, &server, &["Go on"]).await.with_code(code);
        assert!(ended.err.contains(actual), "{name}: {}", ended.err);
        assert_eq!(fs::read(&file).unwrap(), bytes, "{name}");
    }
    let missing = lab.run(&server, &["--resume", "../../etc/passwd", "x"]).end().await;
    assert!(missing.with_code(2).err.contains("there is no session"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_session_in_use_is_refused_and_its_owner_named() {
    let lab = Lab::new();
    let gate = Barrier::closed();
    let held = gate.clone();
    let server = model(move |_| text("Done.").stall_at(0, &held)).await;
    let first = lab.run(&server, &["Take your time"]);
    gate.until_waiting(1).await;
    let before = fs::read(lab.session_file()).unwrap();
    for prompt in [&[][..], &["Something else"]] {
        let ended = resume(&lab, &server, prompt).await.with_code(1);
        let owner = format!("is in use by process {}", first.pid().as_raw_nonzero());
        assert!(ended.err.contains(&owner), "{owner}: {}", ended.err);
    }
    assert_eq!(fs::read(lab.session_file()).unwrap(), before);
    gate.open();
    assert_eq!(first.end().await.with_code(0).out, "Done.\n");
    assert_eq!(server.requests().len(), 1);
    assert!(Path::new(&lab.session_file()).is_file());
}

/// A patch that changes a hundred files, each in a folder of its own, of which the last is `stays`.
fn large_patch(lab: &Lab) -> String {
    let mut patch = String::from("*** Begin Patch\n");
    for number in 0..100 {
        let folder = format!("d{number}");
        fs::create_dir_all(lab.work(&folder)).unwrap();
        fs::write(lab.work(&folder).join("f"), "old\n").unwrap();
        patch += &format!("*** Update File: {folder}/f\n-old\n+new\n");
    }
    patch + "*** End Patch"
}

/// What the program itself left in a working directory and in the folders of [`large_patch`].
fn temporary_files(lab: &Lab) -> Vec<String> {
    let folders = fs::read_dir(lab.work("")).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = folders.filter(|path| path.is_dir()).chain([lab.work("")]).collect();
    let names = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".deputize")).collect()
}

/// A killed patch leaves whole files, old or new, and after the next session nothing else.
#[tokio::test]
async fn a_killed_patch_leaves_no_temporary_file() {
    for _ in 0..6 {
        let lab = Lab::new();
        let patch = large_patch(&lab);
        let server = model(move |request| match request.replies() {
            0 => MockAnswer::reply(&Reply::calls(
                "mock",
                (0..100).map(|number| ("read_file", json!({"path": format!("d{number}/f")}))),
            )),
            1 => call("apply_patch", json!({ "patch": patch })),
            _ => text("Done."),
        })
        .await;
        let running = lab.run(&server, &["Work"]);
        let content = |number: usize| fs::read_to_string(lab.work(format!("d{number}/f"))).unwrap();
        let begun = async {
            while content(0) == "old\n" {
                tokio::task::yield_now().await;
            }
        };
        soon("the first change", begun).await;
        kill(&lab, running).await;
        println!("left: {:?}", temporary_files(&lab));
        assert!((0..100).all(|number| ["old\n", "new\n"].contains(&content(number).as_str())));
        // A second one, so that the test holds also where each kill came between two files.
        fs::write(lab.work(".deputize-0123456789abcdef.tmp"), "half").unwrap();
        let server = model(|_| text("Done.")).await;
        lab.run(&server, &["Go on"]).end().await.with_code(0);
        assert_eq!(temporary_files(&lab), [""; 0]);
    }
}
