//! Sessions in this process, on a clock that goes on by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::authority::Grant;
use deputize_core::model::{Delta, FailureKind, ModelError, Reply, Request, ToolChoice};
use deputize_core::sanitize::FrameSecret;
use deputize_core::{
    Authority, BoxFuture, Cancel, Catalog, Clock, Event, Message, Model, Outcome, Record, SessionId,
};
use deputize_delegate::{BackgroundPolicy, ControlTool, DelegateTool, DelegationConfig};
use deputize_runtime::{Continue, Session, SessionConfig, SessionDir, SyncMode};
use tokio::time::{Instant, sleep};

/// From an agent's task and the number of results it has: how many milliseconds its model takes, and
/// what it replies. A closing reply comes at once.
pub(crate) type SimulatedRule = dyn Fn(&str, usize) -> (u64, Reply) + Send + Sync;

/// A model that takes its time.
pub(crate) struct TimedModel(pub(crate) Arc<SimulatedRule>);

impl Model for TimedModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            // What else a child is told may stand before its goal.
            let task = request.messages.iter().find_map(|message| match &**message {
                Message::User(user) => user.text.lines().last(),
                Message::Assistant(_) | Message::Tool(_) => None,
            });
            let results = request.messages.iter().filter(|m| matches!(***m, Message::Tool(_)));
            let (ms, reply) = (self.0)(task.unwrap_or_default(), results.count());
            if request.tool_choice == ToolChoice::None {
                return Ok(Reply::text("m", "So far."));
            }
            tokio::select! {
                biased;
                () = sleep(Duration::from_millis(ms)) => Ok(reply),
                () = cancel.cancelled() => {
                    Err(ModelError::new(FailureKind::Cancelled, "told to end"))
                }
            }
        })
    }
}

/// A clock that goes with the time of the test.
struct TestClock {
    since: Instant,
    began: u64,
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.began + u64::try_from(self.since.elapsed().as_millis()).unwrap()
    }
}

/// A session with `delegate_task` and `delegate_control`, whose clock begins at `began`.
fn config(policy: &DelegationConfig, rule: &Arc<SimulatedRule>, began: u64) -> SessionConfig {
    let clock: Arc<dyn Clock> = Arc::new(TestClock { since: Instant::now(), began });
    let mut catalog = Catalog::default();
    let delegate = DelegateTool::new(policy.clone(), Arc::clone(&clock)).unwrap();
    catalog.insert(delegate.into_entry()).unwrap();
    catalog.insert(ControlTool::new().unwrap().into_entry()).unwrap();
    let lifecycle = BackgroundPolicy::new(policy.clone(), Arc::clone(&clock));
    let mut config = SessionConfig { clock, ..SessionConfig::new(catalog) };
    config.children.lifecycle = Some(Arc::new(lifecycle));
    config.record.secret = FrameSecret::new(&[1; 16]);
    config.record.sync = SyncMode::Never;
    config.models.insert("t/m", "m", Arc::new(TimedModel(Arc::clone(rule))));
    config
}

fn authority(catalog: &Catalog) -> Authority {
    let grant = Grant { spawn_depth: Some(1), spawn_number: Some(99), ..Grant::default() };
    Authority::root(catalog, &grant)
}

/// Runs a session in a folder to its end.
pub(crate) async fn run(
    folder: &Path,
    policy: &DelegationConfig,
    rule: &Arc<SimulatedRule>,
) -> Outcome {
    let dir = SessionDir::new(folder);
    let id = SessionId::literal("s");
    let session = Session::create(&dir, id, config(policy, rule, 0)).unwrap();
    let spec = session.top_agent("t/m", "go", folder);
    session.run(spec, authority(session.catalog()), &Cancel::new()).await
}

/// Goes on with the first records of a session as after a kill, at `began` on the clock. Gives the
/// end and all records.
pub(crate) async fn resumed(
    lines: &[&str],
    (policy, rule): (&DelegationConfig, &Arc<SimulatedRule>),
    began: u64,
) -> (Outcome, Vec<Record>) {
    let folder = tempfile::tempdir().unwrap();
    let dir = SessionDir::new(folder.path());
    let id = SessionId::literal("s");
    std::fs::write(dir.file(&id), lines.concat()).unwrap();
    let (session, _) = Session::open(&dir, id, config(policy, rule, began)).unwrap();
    let authority = authority(session.catalog());
    let outcome = session.resume(Continue::default(), authority, &Cancel::new()).await.unwrap();
    drop(session);
    (outcome, records(folder.path()))
}

/// The file of the session in a folder.
pub(crate) fn text(folder: &Path) -> String {
    std::fs::read_to_string(SessionDir::new(folder).file(&SessionId::literal("s"))).unwrap()
}

pub(crate) fn records(folder: &Path) -> Vec<Record> {
    SessionDir::new(folder).read(&SessionId::literal("s")).unwrap().records
}

/// The results of the top agent's calls, by the call.
pub(crate) fn results(records: &[Record]) -> Vec<(String, String)> {
    let ends = records.iter().filter_map(|record| match &record.event {
        Event::ToolEnd(end) if record.depth == 0 => {
            Some((end.result.call.to_string(), end.result.text.as_str().to_owned()))
        }
        _ => None,
    });
    ends.collect()
}

/// The goals of children, with the sequence numbers and the times (on the simulated clock) of their
/// first requests.
pub(crate) fn first_requests(records: &[Record]) -> BTreeMap<String, (u64, u64)> {
    let goal = |agent| {
        records.iter().find_map(|record| match &record.event {
            Event::AgentStart(start) if record.agent == agent => Some(start.spec.goal.clone()),
            _ => None,
        })
    };
    let first = records.iter().filter(|record| {
        record.depth == 1 && matches!(record.event, Event::ModelRequest { iteration: 1, .. })
    });
    first
        .filter_map(|record| Some((goal(record.agent.clone())?, (record.seq, record.at))))
        .collect()
}
