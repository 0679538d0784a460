//! Where runs are made: a server, files to read, a home for each run, the two programs.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::script::Script;
use crate::serve::{ServedRequest, ServedRequests};

/// Bytes of a file that is read.
const FILE_BYTES: usize = 512;
/// How long all children may take until they wait for the model.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of a result that an error shows.
const RESULT_CHARS: usize = 300;
/// How long memory may settle when they do.
const SETTLE: Duration = Duration::from_millis(300);

/// See the head of this file.
pub(crate) struct Lab {
    dir: TempDir,
    program: PathBuf,
    floor: PathBuf,
    probe: PathBuf,
    server: Child,
    address: SocketAddr,
}

/// What the probe wrote.
#[derive(Deserialize)]
struct ProbeResult {
    began_ns: i64,
    ended_ns: i64,
    cpu_us: i64,
    peak_kib: i64,
    code: i32,
}

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// From the start of the process to the first request, in milliseconds.
    pub(crate) start_ms: f64,
    /// From the first request to the last answer.
    pub(crate) span_ms: f64,
    /// From the first request to the last one.
    pub(crate) between_ms: f64,
    /// The whole process.
    pub(crate) wall_ms: f64,
    pub(crate) cpu_s: f64,
    pub(crate) peak_mb: f64,
    pub(crate) requests: Vec<ServedRequest>,
    /// The body of the first request.
    pub(crate) first: String,
    /// The body of the top agent's second request.
    second: String,
}

impl Run {
    fn new(script: &Script, probed: &ProbeResult, seens: ServedRequests) -> io::Result<Self> {
        let missing = || io::Error::other("the server saw no request");
        let ms = |from: i64, to: i64| (to - from) as f64 / 1e6;
        let first = seens.requests.first().ok_or_else(missing)?.at_ns;
        let last = seens.requests.last().ok_or_else(missing)?.at_ns;
        let expected = match script.children {
            0 => script.calls() + 1,
            children => 2 + children * (script.reads + 1),
        };
        if seens.requests.len() as u64 != expected || probed.code != 0 {
            let found = seens.requests.len();
            let code = probed.code;
            let text = format!("{found} requests instead of {expected}, exit code {code}");
            return Err(io::Error::other(text));
        }
        Ok(Self {
            start_ms: ms(probed.began_ns, first),
            span_ms: ms(first, last) + script.latency as f64,
            between_ms: ms(first, last),
            wall_ms: ms(probed.began_ns, probed.ended_ns),
            cpu_s: probed.cpu_us as f64 / 1e6,
            peak_mb: probed.peak_kib as f64 * 1024.0 / 1e6,
            requests: seens.requests,
            first: seens.first,
            second: seens.second,
        })
    }

    /// Returns the time of the top agent's only call, whose result must have this text.
    pub(crate) fn time_of_call(&self, text: &str) -> io::Result<f64> {
        check_result(&self.second, text)?;
        Ok(self.between_ms)
    }

    /// The bytes of each request of the top agent, or of the last child.
    fn sizes(&self, of_child: bool) -> Vec<usize> {
        let child = self.requests.iter().map(|seen| seen.child).max().unwrap_or_default();
        let child = if of_child { child.max(1) } else { 0 };
        let mine = self.requests.iter().filter(|seen| seen.child == child);
        mine.map(|seen| seen.bytes).collect()
    }
}

/// Checks the result of the one call before a request: it is no error, and has this text.
fn check_result(body: &str, text: &str) -> io::Result<()> {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    let mut results = messages.filter(|message| message.get("role") == Some(&json!("tool")));
    let result = results.next().and_then(|message| message.get("content")?.as_str());
    let result = result.unwrap_or("nothing");
    if !result.starts_with("error: ") && result.contains(text) {
        return Ok(());
    }
    let start: String = result.chars().take(RESULT_CHARS).collect();
    Err(io::Error::other(format!("a result with `{text}` was expected, and this came: {start}")))
}

/// Numbers of children have more or fewer digits: so much may all bytes of a run differ, of 1.
const DIGITS: f64 = 0.01;

impl Run {
    /// A floor that sends other bytes than the program would be no measure for it.
    fn must_be_like(&self, other: &Self) -> io::Result<()> {
        let all = |run: &Self| run.requests.iter().map(|seen| seen.bytes).sum::<usize>() as f64;
        let of_one = [false, true].map(|of_child| self.sizes(of_child) == other.sizes(of_child));
        let mine = all(self);
        let others = all(other);
        if of_one == [true, true] && (mine - others).abs() <= others * DIGITS {
            return Ok(());
        }
        let text = format!("the floor sent {mine} bytes, the program {others}, or in other pieces");
        Err(io::Error::other(text))
    }
}

impl Lab {
    /// A lab with this program, the helpers beside it, and the program that is measured.
    pub(crate) fn new(bench: &Path, program: &Path) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("work"))?;
        let mut server = Command::new(bench)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(out) = server.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let address = line.trim().parse().map_err(io::Error::other)?;
        let [floor, probe] =
            ["deputize-floor", "deputize-probe"].map(|name| bench.with_file_name(name));
        Ok(Self { dir, program: program.to_owned(), floor, probe, server, address })
    }

    /// The working directory of all runs.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The port of the server.
    pub(crate) const fn port(&self) -> u16 {
        self.address.port()
    }

    /// The files that a script reads.
    pub(crate) fn write_files(&self, script: &Script) -> io::Result<()> {
        let names: Vec<String> = match script.children {
            0 => vec!["root".to_owned()],
            children => (0..children).map(|number| number.to_string()).collect(),
        };
        for name in names {
            for k in 0..script.reads {
                let mut text = format!("This is file {k} of {name}.\n");
                while text.len() < FILE_BYTES {
                    text.push_str("A line like many others, of no meaning.\n");
                }
                text.truncate(FILE_BYTES);
                fs::write(self.dir.path().join(format!("work/{name}-{k}.txt")), text)?;
            }
        }
        Ok(())
    }

    /// One run of the program.
    pub(crate) fn run(&self, script: &Script) -> io::Result<Run> {
        let home = tempfile::tempdir_in(self.dir.path())?;
        let out = home.path().join("probed.json");
        let mut command = Command::new(&self.probe);
        command.arg(&out).arg(&self.program);
        self.configure(&mut command, script, home.path());
        self.measured(script, command, &out)
    }

    /// One run of the floor, with as many bytes as a run of the program sent.
    pub(crate) fn run_floor(&self, script: &Script, like: &Run) -> io::Result<Run> {
        let home = tempfile::tempdir_in(self.dir.path())?;
        let out = home.path().join("probed.json");
        let plan = home.path().join("plan.json");
        let said = json!({
            "server": self.address,
            "folder": self.dir.path().join("work"),
            "task": script.task(),
            "root": like.sizes(false),
            "children": script.children,
            "child_task": script.goal("{}"),
            "child": like.sizes(true),
        });
        fs::write(&plan, said.to_string())?;
        let mut command = Command::new(&self.probe);
        command.arg(&out).arg(&self.floor).arg(&plan);
        let floor = self.measured(script, command, &out)?;
        floor.must_be_like(like)?;
        Ok(floor)
    }

    fn measured(&self, script: &Script, mut command: Command, out: &Path) -> io::Result<Run> {
        // What an earlier run left is not counted.
        let _before = self.ask("begin")?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status()?;
        if !status.success() {
            return Err(io::Error::other(format!("the probe ended with {status}")));
        }
        let probed = serde_json::from_slice(&fs::read(out)?)?;
        Run::new(script, &probed, self.ask("take")?)
    }

    /// Sets the arguments and the environment of a run, as a person would.
    fn configure(&self, command: &mut Command, script: &Script, home: &Path) {
        let base_url = format!("http://{}/v1", self.address);
        command.args(["run", "-m", "openai/bench", "--base-url", &base_url]);
        if script.children > 0 {
            for set in ["max_concurrent_children=1000000", "max_children_per_session=1000000"] {
                command.args(["--set", &format!("delegation.{set}")]);
            }
        }
        if script.page > 0 {
            let hosts = format!("fetch.allow_hosts=[\"127.0.0.1:{}\"]", script.page);
            command.args(["--set", &hosts]);
        }
        command.arg(script.task());
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("DEPUTIZE_HOME", home.join("home"))
            .env("LANG", "C.UTF-8")
            .current_dir(self.dir.path().join("work"));
    }

    /// Bytes in memory while so many answers are held back.
    pub(crate) fn resident_while_held(&self, script: &Script, held: usize) -> io::Result<f64> {
        let home = tempfile::tempdir_in(self.dir.path())?;
        let _before = self.ask("begin")?;
        let mut command = Command::new(&self.program);
        self.configure(&mut command, script, home.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = command.spawn()?;
        let began = Instant::now();
        let mut seen = self.ask("peek")?;
        while seen.held < held && began.elapsed() < TIMEOUT {
            sleep(Duration::from_millis(20));
            seen = self.ask("peek")?;
        }
        sleep(SETTLE);
        let resident = resident(running.id());
        let _released = self.ask("take")?;
        let status = running.wait()?;
        if seen.held < held || !status.success() {
            let text = format!("{} of {held} answers were held, then {status}", seen.held);
            return Err(io::Error::other(text));
        }
        resident
    }

    /// The size of the program's file.
    pub(crate) fn program_bytes(&self) -> io::Result<f64> {
        Ok(fs::metadata(&self.program)?.len() as f64)
    }

    fn ask(&self, what: &str) -> io::Result<ServedRequests> {
        let mut stream = TcpStream::connect(self.address)?;
        write!(stream, "GET /{what} HTTP/1.1\r\nconnection: close\r\n\r\n")?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply)?;
        let reply = String::from_utf8_lossy(&reply);
        let object = reply.find('{').zip(reply.rfind('}'));
        let object = object.and_then(|(from, to)| reply.get(from..=to));
        Ok(serde_json::from_str(object.unwrap_or_default())?)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.server.stdin.take());
        let _ended = self.server.wait();
    }
}

/// What a process has in memory, in bytes.
fn resident(process: u32) -> io::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0).ok_or_else(|| io::Error::other("no VmRSS: the process ended"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_did_not_do_its_work_is_not_measured() {
        let checked = |result: &str| {
            let system = json!({"role": "system", "content": "here it is"});
            let result = json!({"role": "tool", "content": result});
            let body = json!({"messages": [system, result]}).to_string();
            check_result(&body, "here it is").map_err(|error| error.to_string())
        };
        assert_eq!(checked("a.txt: here it is"), Ok(()));
        let came = |what: &str| {
            Err(format!("a result with `here it is` was expected, and this came: {what}"))
        };
        for result in ["error: not: here it is", "nothing is found"] {
            assert_eq!(checked(result), came(result));
        }
        let none = check_result("{}", "here it is").map_err(|error| error.to_string());
        assert_eq!(none, came("nothing"));
    }
}
