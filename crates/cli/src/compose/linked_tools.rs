//! The tools of the crates that the program is linked with.

use std::sync::{Arc, OnceLock};

use deputize_core::{Catalog, CatalogError, ToolCrate};
use tokio::runtime::Runtime;

/// The tools of the linked crates. They are made once, when they are first needed. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct LinkedTools(Arc<LinkedCrates>);

#[derive(Debug)]
struct LinkedCrates {
    crates: Vec<ToolCrate>,
    catalog: OnceLock<Result<Catalog, CatalogError>>,
}

impl LinkedTools {
    pub(crate) fn new(crates: Vec<ToolCrate>) -> Self {
        Self(Arc::new(LinkedCrates { crates, catalog: OnceLock::new() }))
    }

    /// Returns the tools.
    ///
    /// # Errors
    /// If the crates do not fit together.
    pub(crate) fn catalog(&self) -> Result<Catalog, CatalogError> {
        self.0.catalog.get_or_init(|| Catalog::linked(&self.0.crates)).clone()
    }

    /// Makes the tools on another thread. Their schemas take a tenth of a start, and meanwhile the
    /// caller reads the configuration.
    pub(crate) fn make_beside(&self, runtime: &Runtime) {
        let own = self.clone();
        runtime.spawn(async move { drop(own.catalog()) });
    }
}
