//! The program as a person starts it: a directory of its own, a model server, real signals.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use deputize_mcp::HintCommands;
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Whatever is waited for comes within this time, or the test fails.
const DEADLINE: Duration = Duration::from_secs(40);

/// What is waited for, for as long as a test may wait.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = timeout(DEADLINE, future).await;
    waited.unwrap_or_else(|_| panic!("{what}: not within {DEADLINE:?}"))
}

/// A working directory, a home, and a mark by which processes that come of it are found.
pub(crate) struct Lab {
    dir: TempDir,
    mark: String,
}

impl Lab {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("work")).unwrap();
        Self { dir, mark: format!("36000.{:07}{number:03}", std::process::id()) }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file in the working directory.
    pub(crate) fn work(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path("work").join(name)
    }

    /// A duration for `sleep`, in seconds, that no other process has: ten hours and a bit.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// What is to be run, with an environment of its own.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("DEPUTIZE_HOME", self.path("home"))
            .env("LANG", "C.UTF-8")
            .current_dir(self.work(""))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// The program with arguments.
    pub(crate) fn deputize(&self, args: &[&str]) -> Command {
        let mut command = self.command(PROGRAM);
        command.args(args);
        command
    }

    /// `run` against a model server.
    pub(crate) fn run_command(&self, server: &MockServer, args: &[&str]) -> Command {
        let mut command =
            self.deputize(&["run", "-m", "openai/mock", "--base-url", &server.base_url()]);
        command.args(args);
        command
    }

    pub(crate) fn run(&self, server: &MockServer, args: &[&str]) -> RunningProgram {
        RunningProgram::start(self.run_command(server, args))
    }

    /// Runs it on a terminal; gives the end of the person too.
    pub(crate) fn on_terminal(&self, server: &MockServer, args: &[&str]) -> (File, RunningProgram) {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
        let no_tty = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
        let mut other = OpenOptions::new();
        let other = other.read(true).write(true).custom_flags(no_tty).open(name).unwrap();
        // It becomes the leader of a session whose terminal this is, and then the program.
        let mut command = self.command("setsid");
        command.args(["-c", PROGRAM, "run", "-m", "openai/mock"]);
        command.args(["--base-url", &server.base_url()]).args(args).stdin(other);
        (File::from(person), RunningProgram::start(command))
    }

    /// The file of the only session.
    pub(crate) fn session_file(&self) -> PathBuf {
        let entries = fs::read_dir(self.path("home/sessions")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = paths.filter(|path| path.extension().is_some()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.pop().unwrap()
    }

    /// The id of the only session.
    pub(crate) fn session(&self) -> String {
        self.session_file().file_stem().unwrap().to_str().unwrap().to_owned()
    }

    /// Holds that a secret is in nothing that came out: streams, and files of the home.
    #[track_caller]
    pub(crate) fn holds_no(&self, secret: &str, ended: &ProgramEnd) {
        assert!(!ended.out.contains(secret), "on standard output: {}", ended.out);
        assert!(!ended.err.contains(secret), "on standard error: {}", ended.err);
        let mut folders = vec![self.path("home")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                let lines: Vec<_> = text.lines().filter(|line| line.contains(secret)).collect();
                assert!(lines.is_empty(), "in {}: {lines:#?}", path.display());
            }
        }
    }

    /// A pipe that commands write lines into.
    pub(crate) fn pipe(&self, name: &str) -> Pipe {
        let path = self.work(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(path).unwrap();
        Pipe(BufReader::new(receiver))
    }

    /// The processes that come of this lab: by the mark in their arguments, or by its directory
    /// in their environment.
    pub(crate) fn processes(&self) -> Vec<(Pid, String)> {
        let place = self.dir.path().to_str().unwrap().as_bytes();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(number) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
            // A process that has ended has no arguments any more.
            let arguments = read("cmdline");
            if holds(&arguments, self.mark.as_bytes())
                || (!arguments.is_empty() && holds(&read("environ"), place))
            {
                let shown = String::from_utf8_lossy(&arguments).replace('\0', " ");
                found.push((Pid::from_raw(number).unwrap(), shown));
            }
        }
        found
    }
}

/// The processes that one has started, and those that they have started, each with its arguments.
/// Every user may read these, also of a program that lets nobody read its environment.
pub(crate) fn processes_below(ancestor: Pid) -> Vec<(Pid, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<Process> = entries.filter_map(|entry| process(&entry)).collect();
    let mut found = vec![(ancestor, String::new())];
    let mut next = 0;
    while let Some((parent, _)) = found.get(next).cloned() {
        let children = all.iter().filter(|process| process.parent == parent);
        found.extend(children.map(|process| (process.pid, process.arguments.clone())));
        next += 1;
    }
    found.split_off(1)
}

/// Returns the arguments of a process; nothing if it has ended.
pub(crate) fn arguments_of(pid: Pid) -> String {
    let arguments = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    String::from_utf8_lossy(&arguments).replace('\0', " ")
}

struct Process {
    pid: Pid,
    parent: Pid,
    arguments: String,
}

fn process(entry: &fs::DirEntry) -> Option<Process> {
    let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
    let status = fs::read_to_string(entry.path().join("status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    let parent = Pid::from_raw(parent.trim().parse().ok()?)?;
    Some(Process { pid, parent, arguments: arguments_of(pid) })
}

impl Drop for Lab {
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _gone = kill_process(pid, Signal::KILL);
        }
    }
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The commands of the program that hints about an MCP server name.
pub(crate) fn hint_commands() -> HintCommands {
    HintCommands { review: "deputize mcp review".into(), test: "deputize mcp test".into() }
}

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_deputize-it");

/// See [`Lab::pipe`].
pub(crate) struct Pipe(BufReader<pipe::Receiver>);

impl Pipe {
    /// Waits for so many lines.
    pub(crate) async fn lines(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..count {
            let mut line = String::new();
            soon("a line in the pipe", self.0.read_line(&mut line)).await.unwrap();
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}

/// What came out of a stream so far, and whether it is at its end.
type Text = watch::Receiver<(Vec<u8>, bool)>;

/// The program while it runs.
pub(crate) struct RunningProgram {
    child: Child,
    begun: Instant,
    out: Text,
    err: Text,
    readers: JoinSet<()>,
}

impl RunningProgram {
    /// Starts a command and reads what it prints.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        Self::with_stdout(command)
    }

    /// The same with the standard output that the command has.
    pub(crate) fn with_stdout(mut command: Command) -> Self {
        command.stderr(Stdio::piped());
        Self::with_streams(command)
    }

    /// The same with the output and the errors that the command has.
    pub(crate) fn with_streams(mut command: Command) -> Self {
        let begun = Instant::now();
        let mut child = command.spawn().unwrap();
        let mut readers = JoinSet::new();
        let out = collect(&mut readers, child.stdout.take());
        let err = collect(&mut readers, child.stderr.take());
        Self { child, begun, out, err, readers }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for an event on standard output.
    pub(crate) async fn event(&self, kind: &str, is: impl Fn(&Value) -> bool) -> Value {
        let found =
            |text: &str| events(text).into_iter().find(|event| event["type"] == kind && is(event));
        until(kind, self.out.clone(), found).await
    }

    /// Its input, where the command has one.
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Waits for so many lines on standard output.
    pub(crate) async fn lines(&self, count: usize) {
        let enough = |text: &str| (text.lines().count() >= count).then_some(());
        until("the lines", self.out.clone(), enough).await;
    }

    /// Returns what it has printed on standard error so far.
    pub(crate) fn err_text(&self) -> String {
        String::from_utf8(self.err.borrow().0.clone()).unwrap()
    }

    /// Waits for words on standard error.
    pub(crate) async fn says(&self, words: &str) {
        until(words, self.err.clone(), |text| text.contains(words).then_some(())).await;
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> ProgramEnd {
        let status = soon("the program's end", self.child.wait()).await.unwrap();
        let at = Instant::now();
        let took = at.duration_since(self.begun);
        let streams = async { while self.readers.join_next().await.is_some() {} };
        soon("the end of its output", streams).await;
        let text = |text: &Text| String::from_utf8(text.borrow().0.clone()).unwrap();
        ProgramEnd { code: status.code(), out: text(&self.out), err: text(&self.err), took, at }
    }
}

fn collect(
    readers: &mut JoinSet<()>,
    stream: Option<impl AsyncRead + Unpin + Send + 'static>,
) -> Text {
    let (send, text) = watch::channel((Vec::new(), stream.is_none()));
    if let Some(mut stream) = stream {
        readers.spawn(async move {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                send.send_modify(|(text, _)| text.extend_from_slice(&bytes[..count]));
            }
            send.send_modify(|(_, ended)| *ended = true);
        });
    }
    text
}

/// Waits until the text holds what is looked for.
async fn until<T>(what: &str, mut text: Text, find: impl Fn(&str) -> Option<T>) -> T {
    let mut seen = String::new();
    let search = async {
        loop {
            let ended = {
                let now = text.borrow_and_update();
                seen.clear();
                write!(seen, "{}", String::from_utf8_lossy(&now.0)).unwrap();
                now.1
            };
            match (find(&seen), ended) {
                (Some(found), _) => return found,
                (None, true) => panic!("the stream ended without `{what}`:\n{seen}"),
                (None, false) => text.changed().await.unwrap(),
            }
        }
    };
    soon(what, search).await
}

/// Reads what a person sees until it holds these words. It never blocks for longer than the
/// deadline: a read that nobody ends would keep the whole test program from ending.
pub(crate) async fn sees(person: &File, words: &'static str) -> String {
    let mut person = person.try_clone().unwrap();
    let read = tokio::task::spawn_blocking(move || {
        let end = Instant::now() + DEADLINE;
        let mut seen = String::new();
        let mut bytes = [0; 1024];
        while !seen.contains(words) {
            let left = end.saturating_duration_since(Instant::now()).try_into().unwrap();
            let ready = poll(&mut [PollFd::new(&person, PollFlags::IN)], Some(&left)).unwrap();
            assert!(ready > 0, "{words}: not within {DEADLINE:?}:\n{seen}");
            let count = person.read(&mut bytes).unwrap();
            assert!(count > 0, "{seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        seen
    });
    read.await.unwrap()
}

/// The lines of `--output events`; a last one that is not at its end is left out.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    whole.lines().map(parse).collect()
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct ProgramEnd {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
    /// When.
    pub(crate) at: Instant,
}

impl ProgramEnd {
    /// The events of a type on standard output.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        events(&self.out).into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// Holds the exit code, and that nothing panicked.
    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.err.contains("panicked"), "{self:#?}");
        self
    }
}

/// A request of Chat Completions.
pub(crate) struct ChatRequest(Value);

impl ChatRequest {
    pub(crate) fn of(request: &HttpRequest) -> Self {
        Self(request.json())
    }

    fn texts(&self, role: &str) -> Vec<&str> {
        let messages = self.0["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let mine = messages.iter().filter(|message| message["role"] == role);
        mine.map(|message| message["content"].as_str().unwrap_or_default()).collect()
    }

    /// The addresses of the images in it.
    fn image_urls(&self) -> impl Iterator<Item = &str> {
        let messages = self.0["messages"].as_array().into_iter().flatten();
        let parts = messages.flat_map(|it| it["content"].as_array().into_iter().flatten());
        parts.filter_map(|part| part["image_url"]["url"].as_str())
    }

    /// How many images it holds.
    pub(crate) fn image_count(&self) -> usize {
        self.image_urls().count()
    }

    /// How many bytes of it are images.
    pub(crate) fn image_bytes(&self) -> usize {
        self.image_urls().map(str::len).sum()
    }

    /// The system text.
    pub(crate) fn system(&self) -> String {
        self.texts("system").concat()
    }

    /// How many replies of the model it holds.
    pub(crate) fn replies(&self) -> usize {
        self.texts("assistant").len()
    }

    /// The results of calls.
    pub(crate) fn results(&self) -> Vec<&str> {
        self.texts("tool")
    }

    /// The first message of a user.
    pub(crate) fn first_user(&self) -> &str {
        self.texts("user").first().copied().unwrap_or_default()
    }

    /// The messages of a user.
    pub(crate) fn users(&self) -> Vec<&str> {
        self.texts("user")
    }

    /// The last message of a user.
    pub(crate) fn last_user(&self) -> &str {
        self.texts("user").pop().unwrap_or_default()
    }

    /// Returns the names of its tools.
    pub(crate) fn tools(&self) -> Vec<&str> {
        let tools = self.0["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
    }

    /// The size of the request.
    pub(crate) fn bytes(&self) -> usize {
        self.0.to_string().len()
    }

    /// How many tokens its reply may have, where it says so.
    pub(crate) fn most_output(&self) -> Option<u64> {
        ["max_completion_tokens", "max_tokens"].iter().find_map(|key| self.0[*key].as_u64())
    }

    /// Whether tools may be called.
    pub(crate) fn may_call(&self) -> bool {
        self.0["tool_choice"] != "none"
    }
}

/// A model server that answers by a rule.
pub(crate) async fn model(
    rule: impl Fn(&ChatRequest) -> MockAnswer + Send + Sync + 'static,
) -> MockServer {
    MockServer::start_with(move |request| rule(&ChatRequest::of(request))).await.unwrap()
}

/// Says nothing until the client leaves.
pub(crate) fn hang() -> MockAnswer {
    MockAnswer::sse("").after(Duration::from_secs(36_000))
}
