//! The one ordered stream: append, then show.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::event::{AgentStart, EncodedRecord, Journal, JournalError};
use deputize_core::model::Delta;
use deputize_core::{AgentId, CallId, Clock, Event, Observer, Record, ToolDecl, describe_error};
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;

use crate::agent_states::AgentStates;
use crate::record_log::log_record;
use crate::text_hashes::{HashedText, TextHashes};

/// Numbers records, keeps them, folds them into the states of agents, and shows them: in that order,
/// one at a time.
pub(crate) struct Bus {
    clock: Arc<dyn Clock>,
    journal: Arc<dyn Journal>,
    observers: Vec<Arc<dyn Observer>>,
    states: Arc<AgentStates>,
    state: Mutex<JournalState>,
    hashes: Mutex<TextHashes>,
    /// Held while a record is folded and shown. It is taken before `state` is let go, so that
    /// records keep their order while the next one is stored.
    showing: Mutex<()>,
}

/// State of a journal.
#[derive(Debug, Default)]
pub(crate) struct JournalState {
    /// The number of the next record.
    pub(crate) next: u64,
    /// Hashes of the texts that the journal holds.
    pub(crate) texts: BTreeSet<String>,
}

/// Which agent a record is of.
#[derive(Clone)]
struct RecordOwner {
    agent: AgentId,
    parent: Option<AgentId>,
    depth: u32,
}

impl RecordOwner {
    fn of(spec: &AgentSpec) -> Self {
        Self { agent: spec.id.clone(), parent: spec.parent.clone(), depth: spec.depth }
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bus({} records)", self.lock().next)
    }
}

impl Bus {
    /// Returns a bus onto a journal, from what it holds and the agents that were folded from it.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        journal: Arc<dyn Journal>,
        observers: Vec<Arc<dyn Observer>>,
        states: Arc<AgentStates>,
        state: JournalState,
    ) -> Self {
        Self {
            clock,
            journal,
            observers,
            states,
            state: Mutex::new(state),
            hashes: Mutex::default(),
            showing: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock()
    }

    /// Keeps a fact about an agent and shows it; gives the record back.
    ///
    /// # Errors
    /// When it could not be kept. Then nobody is shown it, and nothing may act on it.
    pub(crate) fn record(&self, spec: &AgentSpec, event: Event) -> Result<Record, JournalError> {
        self.put(RecordOwner::of(spec), event)
    }

    /// Keeps a fact about the parent of an agent that is a child, and shows it.
    ///
    /// # Errors
    /// As [`Bus::record`].
    pub(crate) fn record_above(
        &self,
        child: &AgentSpec,
        event: Event,
    ) -> Result<Record, JournalError> {
        let mut above = child.id.ancestors();
        let whose = RecordOwner {
            agent: above.next().unwrap_or_else(|| child.id.clone()),
            parent: above.next(),
            depth: child.depth.saturating_sub(1),
        };
        self.put(whose, event)
    }

    /// Records the making of an agent, with those of its texts that the journal lacks.
    ///
    /// # Errors
    /// As [`Bus::record`].
    pub(crate) fn start_agent(
        &self,
        spec: &AgentSpec,
        tools: &[Arc<ToolDecl>],
    ) -> Result<(), JournalError> {
        let mut start = AgentStart {
            spec: AgentSpec { system: Vec::new(), ..spec.clone() },
            system: Vec::new(),
            tools: String::new(),
            texts: std::collections::BTreeMap::new(),
        };
        let mut hashes = self.hashes.lock();
        let tools = hashes.tools(tools);
        let system: Vec<HashedText> = spec.system.iter().map(|text| hashes.text(text)).collect();
        drop(hashes);
        start.tools = tools.hash.to_string();
        start.system = system.iter().map(|text| text.hash.to_string()).collect();
        let state = self.lock();
        let lacking = system.into_iter().chain([tools]);
        let lacking = lacking.filter(|text| !state.texts.contains(&*text.hash));
        start.texts = lacking.map(|text| (text.hash.to_string(), text.text)).collect();
        let event = Event::AgentStart(Box::new(start));
        let json = self.journal.encode(&event)?;
        self.put_encoded(state, RecordOwner::of(spec), event, json).map(drop)
    }

    /// Keeps facts about an agent that follow each other with one write, and shows them; returns the
    /// number of the last one.
    ///
    /// # Errors
    /// As [`Bus::record`].
    pub(crate) fn record_all(
        &self,
        spec: &AgentSpec,
        events: Vec<Event>,
    ) -> Result<Option<u64>, JournalError> {
        let encode = |event: Event| Ok((self.journal.encode(&event)?, event));
        let events = events.into_iter().map(encode).collect::<Result<Vec<_>, JournalError>>()?;
        let state = self.lock();
        let owner = RecordOwner::of(spec);
        let records: Vec<EncodedRecord> = (state.next..)
            .zip(events)
            .map(|(seq, (json, event))| self.number(seq, owner.clone(), event, json))
            .collect();
        self.append(state, &records)?;
        Ok(records.last().map(|last| last.record.seq))
    }

    fn put(&self, whose: RecordOwner, event: Event) -> Result<Record, JournalError> {
        let json = self.journal.encode(&event)?;
        self.put_encoded(self.lock(), whose, event, json)
    }

    fn put_encoded(
        &self,
        state: MutexGuard<'_, JournalState>,
        whose: RecordOwner,
        event: Event,
        json: Box<RawValue>,
    ) -> Result<Record, JournalError> {
        let records = [self.number(state.next, whose, event, json)];
        self.append(state, &records)?;
        let [EncodedRecord { record, .. }] = records;
        Ok(record)
    }

    fn number(
        &self,
        seq: u64,
        whose: RecordOwner,
        event: Event,
        json: Box<RawValue>,
    ) -> EncodedRecord {
        let RecordOwner { agent, parent, depth } = whose;
        let at = self.clock.now_ms();
        EncodedRecord { record: Record { seq, at, agent, parent, depth, event }, event: json }
    }

    fn append(
        &self,
        mut state: MutexGuard<'_, JournalState>,
        records: &[EncodedRecord],
    ) -> Result<(), JournalError> {
        if let Err(error) = self.journal.append(records) {
            tracing::error!(seq = state.next, error = describe_error(&error), "record not stored");
            return Err(error);
        }
        state.next += records.len() as u64;
        for EncodedRecord { record, .. } in records {
            if let Event::AgentStart(start) = &record.event {
                state.texts.extend(start.texts.keys().cloned());
            }
        }
        let showing = self.showing.lock();
        drop(state);
        for EncodedRecord { record, .. } in records {
            self.states.apply(record);
            log_record(record);
            for observer in &self.observers {
                observer.on_record(record);
            }
        }
        drop(showing);
        Ok(())
    }

    /// Shows a piece of a reply that is arriving. It is not kept.
    pub(crate) fn live(&self, agent: &AgentId, delta: Delta<'_>) {
        for observer in &self.observers {
            observer.on_delta(agent, delta);
        }
    }

    /// Shows the progress of a running call to the observers. It is not recorded.
    pub(crate) fn progress(&self, agent: &AgentId, call: CallId, text: &str) {
        for observer in &self.observers {
            observer.on_progress(agent, call, text);
        }
    }

    /// Waits until a record survives the end of the machine.
    ///
    /// # Errors
    /// When the storage fails; the record then counts as lost.
    pub(crate) async fn durable(&self, seq: u64) -> Result<(), JournalError> {
        self.journal.durable(seq).await.inspect_err(|error| {
            tracing::error!(seq, error = describe_error(error), "record not synced");
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use deputize_core::clock::FixedClock;
    use deputize_core::event::LogLevel;
    use deputize_core::{BoxFuture, SessionId};

    use super::*;
    use crate::session::top_agent;

    /// Keeps how many records each write had.
    #[derive(Default)]
    struct CountingJournal(Mutex<Vec<usize>>);

    impl Journal for CountingJournal {
        fn encode(&self, event: &Event) -> Result<Box<RawValue>, JournalError> {
            Ok(serde_json::value::to_raw_value(event).unwrap())
        }

        fn append(&self, records: &[EncodedRecord]) -> Result<(), JournalError> {
            self.0.lock().push(records.len());
            Ok(())
        }

        fn durable(&self, _: u64) -> BoxFuture<'_, Result<(), JournalError>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[derive(Default)]
    struct Numbers(Mutex<Vec<u64>>);

    impl Observer for Numbers {
        fn on_record(&self, record: &Record) {
            self.0.lock().push(record.seq);
        }
    }

    #[test]
    fn records_that_follow_each_other_take_one_write_and_are_shown_in_order() {
        let (journal, numbers) =
            (Arc::new(CountingJournal::default()), Arc::new(Numbers::default()));
        let bus = Bus::new(
            Arc::new(FixedClock(1)),
            Arc::clone(&journal) as Arc<dyn Journal>,
            vec![Arc::clone(&numbers) as Arc<dyn Observer>],
            Arc::default(),
            JournalState::default(),
        );
        let spec = top_agent(&SessionId::literal("s1"), "m", "Do.", Path::new("/work"));
        let log = || Event::Log { level: LogLevel::Info, message: String::new(), cause: None };
        bus.record(&spec, log()).unwrap();
        assert_eq!(bus.record_all(&spec, vec![log(), log()]).unwrap(), Some(2));
        assert_eq!(bus.record_all(&spec, Vec::new()).unwrap(), None);
        assert_eq!(*journal.0.lock(), [1, 2, 0]);
        assert_eq!(*numbers.0.lock(), [0, 1, 2]);
    }
}
