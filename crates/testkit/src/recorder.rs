//! An observer that stores records.

use std::sync::Arc;

use deputize_core::{AgentId, Event, Observer, Record};
use tokio::sync::watch;

/// An observer that stores every record. Clones share the records.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use deputize_core::{AgentId, Event, Observer as _, Record, SessionId};
/// use deputize_core::event::LogLevel;
/// use deputize_testkit::Recorder;
///
/// let recorder = Recorder::default();
/// let agent = AgentId::root(&SessionId::literal("s1"));
/// let event = Event::Log { level: LogLevel::Info, message: "hello".into(), cause: None };
/// recorder.on_record(&Record { seq: 0, at: 0, agent: agent.clone(), parent: None, depth: 0, event });
///
/// recorder.until(|records| records.len() == 1).await;
/// assert_eq!(recorder.types(), ["log"]);
/// assert_eq!(recorder.records_of(&agent).len(), 1);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Recorder {
    records: Arc<watch::Sender<Vec<Record>>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { records: Arc::new(watch::Sender::new(Vec::new())) }
    }
}

impl Recorder {
    /// Returns all records, in order.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.records.borrow().clone()
    }

    /// Returns all events, in order.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.records.borrow().iter().map(|record| record.event.clone()).collect()
    }

    /// Returns the records of one agent, without those of its children.
    #[must_use]
    pub fn records_of(&self, agent: &AgentId) -> Vec<Record> {
        let records = self.records.borrow();
        records.iter().filter(|record| record.agent == *agent).cloned().collect()
    }

    /// Returns the agents that have records, in the order of their first record.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentId> {
        let mut agents = Vec::new();
        for record in self.records.borrow().iter() {
            if !agents.contains(&record.agent) {
                agents.push(record.agent.clone());
            }
        }
        agents
    }

    /// Returns the types of all events, such as `tool.start`, in order.
    #[must_use]
    pub fn types(&self) -> Vec<String> {
        let types = |records: &[Record]| records.iter().map(|it| type_of(&it.event)).collect();
        types(&self.records.borrow())
    }

    /// Waits until the records satisfy `test`.
    pub async fn until(&self, mut test: impl FnMut(&[Record]) -> bool) {
        // This value owns the sender, so the channel cannot be closed.
        let mut records = self.records.subscribe();
        let _never_closed = records.wait_for(|records| test(records)).await;
    }
}

fn type_of(event: &Event) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    value.get("type").and_then(|it| it.as_str()).unwrap_or_default().to_owned()
}

impl Observer for Recorder {
    fn on_record(&self, record: &Record) {
        self.records.send_modify(|records| records.push(record.clone()));
    }
}
