//! The model server as a process: what it costs is not counted. It ends with its parent.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use deputize_testkit::{Barrier, HttpRequest, MockAnswer, MockServer};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::script::{PAGE, PAGE_TEXT, Script};
use crate::words::Words;

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
    /// The body of the top agent's second request.
    pub(crate) second: String,
}

struct ServeState {
    run: Mutex<ServedRun>,
}

/// What the server knows of the run that is measured.
struct ServedRun {
    served: ServedRequests,
    /// Holds answers back until the server is asked.
    gate: Barrier,
    /// The requests of each agent. They are counted, not read from the conversation: to parse what
    /// the program sends takes longer than to parse what the floor sends, and would be measured.
    steps: BTreeMap<u64, u64>,
}

impl ServedRun {
    fn new() -> Self {
        Self { served: ServedRequests::default(), gate: Barrier::closed(), steps: BTreeMap::new() }
    }
}

/// Serves until standard input ends; says first where.
pub(crate) fn serve() -> io::Result<()> {
    crate::raise_file_limit()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let state = ServeState { run: Mutex::new(ServedRun::new()) };
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
            // What is told is forgotten, and what is held goes; the run goes on.
            ("GET", "/take") => self.tell(true),
            // The next request is the first of a run.
            ("GET", "/begin") => {
                *self.run.lock() = ServedRun::new();
                self.tell(false)
            }
            ("POST", _) => self.reply(request),
            (method, path) => match path.strip_prefix(PAGE).map(str::parse) {
                Some(Ok(bytes)) => MockAnswer::body("text/html; charset=utf-8", page(bytes)),
                _ => MockAnswer::error(404, &format!("no {method} {path} here")),
            },
        }
    }

    fn tell(&self, take: bool) -> MockAnswer {
        let mut run = self.run.lock();
        run.served.held = run.gate.waiting();
        let body = json!(run.served);
        if take {
            run.gate.open();
            run.served = ServedRequests::default();
            run.gate = Barrier::closed();
        }
        MockAnswer::json(&body)
    }

    fn reply(&self, request: &HttpRequest) -> MockAnswer {
        let now = clock_gettime(ClockId::Monotonic);
        let at_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        let Some(script) = str::from_utf8(&request.body).ok().and_then(Script::find) else {
            return MockAnswer::error(400, "this request has no script");
        };
        let bytes = request.body.len();
        let (step, gate) = {
            let mut run = self.run.lock();
            if run.served.requests.is_empty() {
                run.served.first = request.text();
            }
            let next = run.steps.entry(script.child).or_default();
            let step = *next;
            *next += 1;
            if (script.child, step) == (0, 1) {
                run.served.second = request.text();
            }
            run.served.requests.push(ServedRequest { at_ns, bytes, child: script.child, step });
            (step, script.holds(step).then(|| run.gate.clone()))
        };
        let answer =
            MockAnswer::sse(script.reply(step)).after(Duration::from_millis(script.latency));
        match gate {
            Some(gate) => answer.held_by(&gate),
            None => answer,
        }
    }
}

/// A page of so many bytes: headings, paragraphs with links, lists and tables.
fn page(bytes: usize) -> String {
    let mut words = Words::new();
    let mut html = format!(
        "<!DOCTYPE html><html><head><title>A page</title></head><body>\n<p>{PAGE_TEXT}</p>\n"
    );
    while html.len() < bytes {
        let [title, text, link, item, cell] = [4, 60, 3, 8, 2].map(|count| words.text(count));
        html.push_str(&format!(
            "<h2>{title}</h2>\n<p>{text}<a href=\"/{link}\">{link}</a> <em>{item}</em> {text}</p>\n\
             <ul><li>{item}</li><li><b>{cell}</b> &amp; {item}</li></ul>\n\
             <table><tr><th>{cell}</th><th>{link}</th></tr><tr><td>{cell}</td><td>{item}</td></tr></table>\n"
        ));
    }
    html.push_str("</body></html>\n");
    html
}
