//! The model server as a process: what it costs is not counted. It ends with its parent.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use deputize_testkit::{Barrier, HttpRequest, MockAnswer, MockServer};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::script::{Script, step};

/// One request, as it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServedRequest {
    /// The machine's monotonic clock.
    pub(crate) at_ns: i64,
    /// Bytes of its body.
    pub(crate) bytes: usize,
    /// Whose it is: 0 the top agent's, else a child's, counted from 1.
    pub(crate) child: u64,
    /// Which of its agent's, counted from 0.
    pub(crate) step: u64,
}

/// The requests of a run, as the server saw them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServedRequests {
    /// The requests, in order.
    pub(crate) requests: Vec<ServedRequest>,
    /// Answers that are being held back.
    pub(crate) held: usize,
    /// The body of the first request.
    pub(crate) first: String,
}

struct ServeState {
    seen: Mutex<(ServedRequests, Barrier)>,
}

/// Serves until standard input ends; says first where.
pub(crate) fn serve() -> io::Result<()> {
    crate::raise_file_limit()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let state = ServeState { seen: Mutex::new((ServedRequests::default(), Barrier::closed())) };
    let serving = MockServer::start_forgetful(move |request| state.answer(request));
    let server = runtime.block_on(serving)?;
    writeln!(io::stdout(), "{}", server.address())?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

impl ServeState {
    fn answer(&self, request: &HttpRequest) -> MockAnswer {
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/peek") => self.tell(false),
            // What is body is forgotten, and what is held goes.
            ("GET", "/take") => self.tell(true),
            ("POST", _) => self.reply(request),
            (method, path) => MockAnswer::error(404, &format!("no {method} {path} here")),
        }
    }

    fn tell(&self, take: bool) -> MockAnswer {
        let mut seen = self.seen.lock();
        seen.0.held = seen.1.waiting();
        let body = json!(seen.0);
        if take {
            seen.1.open();
            *seen = (ServedRequests::default(), Barrier::closed());
        }
        MockAnswer::json(&body)
    }

    fn reply(&self, request: &HttpRequest) -> MockAnswer {
        let now = clock_gettime(ClockId::Monotonic);
        let at_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        let text = String::from_utf8_lossy(&request.body);
        let (Some(script), Some(step)) = (Script::find(&text), step(&text)) else {
            return MockAnswer::error(400, "this request has no script");
        };
        let bytes = request.body.len();
        let gate = {
            let mut seen = self.seen.lock();
            if seen.0.requests.is_empty() {
                seen.0.first = text.into_owned();
            }
            seen.0.requests.push(ServedRequest { at_ns, bytes, child: script.child, step });
            script.holds(step).then(|| seen.1.clone())
        };
        let answer =
            MockAnswer::sse(script.reply(step)).after(Duration::from_millis(script.latency));
        match gate {
            Some(gate) => answer.held_by(&gate),
            None => answer,
        }
    }
}
