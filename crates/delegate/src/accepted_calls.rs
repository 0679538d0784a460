//! The calls of an agent's step that were accepted, so that none of them is paid for twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::{CallId, Resource};
use parking_lot::Mutex;

use crate::parsed_call::ParsedCall;

/// The accepted calls of the agent's current step, in its store.
#[derive(Debug, Default)]
pub(crate) struct AcceptedCalls(Mutex<BTreeMap<CallId, Arc<ParsedCall>>>);

impl Resource for AcceptedCalls {}

impl AcceptedCalls {
    /// Adds a call, which is read unless it is known.
    pub(crate) fn add(&self, call: CallId, read: impl FnOnce() -> ParsedCall) {
        let mut readings = self.0.lock();
        // A call of a later step is a new one.
        readings.retain(|other, _| other.step == call.step);
        readings.entry(call).or_insert_with(|| Arc::new(read()));
    }

    /// Returns what the accepted calls of a call's step ask for, without the call itself.
    pub(crate) fn beside(&self, call: CallId) -> Vec<Arc<ParsedCall>> {
        let readings = self.0.lock();
        let others =
            readings.iter().filter(|(other, _)| other.step == call.step && **other != call);
        others.map(|(_, reading)| Arc::clone(reading)).collect()
    }
}
