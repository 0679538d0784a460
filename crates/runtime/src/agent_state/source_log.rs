//! Where the conversation of an agent comes from, as its records say.

use std::collections::BTreeMap;

use deputize_core::agent::AgentSpec;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::{AgentId, CallId};

/// The sources from outside that an agent has read, and those of its children and nested calls,
/// which a result may quote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SourceLog {
    outside: SourceSet,
    /// By the running call that made them.
    nested: BTreeMap<CallId, SourceSet>,
    children: BTreeMap<AgentId, ChildSources>,
}

/// What the report of a child quotes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ChildSources {
    /// The call whose result has its report; `None` if a message has it.
    call: Option<CallId>,
    /// The sources of its report; empty until it has ended.
    sources: SourceSet,
}

impl SourceLog {
    /// Returns the log of an agent whose system text has these sources.
    pub(super) fn new(system: &SourceSet) -> Self {
        Self { outside: SourceSet::outside(system), ..Self::default() }
    }

    /// Returns the log of a child whose conversation begins with that of its parent.
    pub(super) fn fork(parent: &Self) -> Self {
        Self { outside: parent.outside.clone(), ..Self::default() }
    }

    pub(super) const fn outside(&self) -> &SourceSet {
        &self.outside
    }

    /// Records the sources of a part of the conversation.
    pub(super) fn record(&mut self, sources: &SourceSet) {
        let outside = sources.iter().filter(|source| source.is_outside());
        self.outside.extend(outside.cloned());
    }

    /// Records a source as older records have it.
    pub(super) fn record_older(&mut self, label: &str) {
        self.record(&[Source::from_lasting_label(label)].into());
    }

    /// Records the result of a call. A nested one is quoted by the call that made it.
    pub(super) fn record_result(&mut self, call: CallId, sources: &SourceSet) {
        self.record(sources);
        match call.outer_call() {
            Some(outer) => self.nested.entry(outer).or_default().add_all(sources),
            None => _ = self.nested.remove(&call),
        }
    }

    pub(super) fn record_child_start(&mut self, child: &AgentSpec) {
        let call = child.spawned_by.as_ref().filter(|_| !child.background).map(|by| by.call);
        self.children.insert(child.id.clone(), ChildSources { call, sources: SourceSet::new() });
    }

    /// Records the end of a child that has read this from outside.
    pub(super) fn record_child_end(&mut self, child: &AgentId, read: &SourceSet) {
        let known = self.children.entry(child.clone()).or_default();
        known.sources.insert(Source::child(child.as_str()));
        known.sources.add_all(read);
    }

    /// Returns the sources of a child's report.
    pub(super) fn of_child(&self, child: &AgentId) -> SourceSet {
        let known = self.children.get(child).map(|child| child.sources.clone());
        known.filter(|sources| !sources.is_empty()).unwrap_or_else(|| {
            // Its end is not on record.
            [Source::child(child.as_str())].into()
        })
    }

    /// Returns the sources that the result of a running call may quote: those of its nested calls,
    /// and of the children that it waited for.
    pub(super) fn of_call(&self, call: CallId) -> SourceSet {
        let children = self.children.values().filter(|child| child.call == Some(call));
        let children = children.flat_map(|child| &child.sources);
        self.nested.get(&call).into_iter().flatten().chain(children).cloned().collect()
    }
}
