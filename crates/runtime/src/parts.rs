//! What a session is made of.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use deputize_core::door::{FrameSecret, Secrets};
use deputize_core::{
    AllowAll, Approver, Catalog, Clock, Endpoint, Model, NoPerson, Observer, Policy, RetryPolicy,
    Store,
};

use crate::clock::SystemClock;

/// When the session file is synced to the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// Before a call that may not be repeated, and at a turn's end.
    #[default]
    Turn,
    /// After every record of an agent's loop.
    Always,
    /// Never: what was appended survives the end of the process, not that of the machine.
    Never,
}

/// Models by the name that agents use, `PROVIDER/MODEL`.
#[derive(Clone, Default)]
pub struct Models(BTreeMap<String, (Arc<dyn Model>, String)>);

impl Models {
    /// Adds a model: the name agents use, its name at the provider, the way to it.
    pub fn insert(&mut self, name: &str, at_provider: &str, model: Arc<dyn Model>) {
        self.0.insert(name.to_owned(), (model, at_provider.to_owned()));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&(Arc<dyn Model>, String)> {
        self.0.get(name)
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What a session is made of. Plain fields; start from [`Parts::new`].
pub struct Parts {
    /// The program's tools.
    pub catalog: Arc<Catalog>,
    /// The models.
    pub models: Models,
    /// The rules.
    pub policy: Arc<dyn Policy>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How failed requests are tried again.
    pub retry: RetryPolicy,
    /// Values that must not leave the program.
    pub secrets: Secrets,
    /// Who sees records.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Settings for tools.
    pub settings: Store,
    /// When the session file is synced.
    pub sync: SyncMode,
    /// What frame boundaries are derived from: random bytes.
    pub secret: FrameSecret,
    /// This program and its version, for the record.
    pub program: String,
    /// Where the top agent's model is reached, for the record, so that a resume goes nowhere
    /// else.
    pub endpoint: Option<Endpoint>,
}

impl Parts {
    /// Parts with these tools, no model, no person to ask, and rules that allow everything.
    ///
    /// # Panics
    /// When the system has no randomness to give.
    #[must_use]
    pub fn new(catalog: Catalog) -> Self {
        let mut random = [0; 16];
        #[expect(clippy::expect_used, reason = "frames that can be guessed protect nobody")]
        getrandom::fill(&mut random).expect("the system has no randomness for frame boundaries");
        Self {
            catalog: Arc::new(catalog),
            models: Models::default(),
            policy: Arc::new(AllowAll),
            approver: Arc::new(NoPerson),
            clock: Arc::new(SystemClock),
            retry: RetryPolicy::default(),
            secrets: Secrets::default(),
            observers: Vec::new(),
            settings: Store::default(),
            sync: SyncMode::default(),
            secret: FrameSecret::new(&random),
            program: concat!("deputize-runtime ", env!("CARGO_PKG_VERSION")).to_owned(),
            endpoint: None,
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({:?}, {:?})", self.catalog, self.models)
    }
}
