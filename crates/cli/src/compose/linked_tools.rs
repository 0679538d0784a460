//! The tools of the crates that the program is linked with.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use deputize_agent::add_delegation_tools;
use deputize_core::{Catalog, CatalogEntry, CatalogError, Clock, ToolCrate};
use deputize_delegate::{DelegationConfig, DelegationOptions, ToolFlavor};
use deputize_runtime::SystemClock;
use tokio::runtime::Runtime;

use crate::config::{BROWSER_TOOLSET, Config};
use crate::exit::CliError;

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

/// Returns the names of the program's toolsets.
pub(crate) fn toolset_names() -> BTreeSet<String> {
    let mut names = Catalog::linked_toolsets();
    names.insert(deputize_delegate::DELEGATION_TOOLSET);
    names.iter().map(ToString::to_string).collect()
}

/// Returns the toolset of one of the program's tools.
pub(crate) fn toolset_of(tool: &str) -> Option<String> {
    let catalog = linked_catalog(&LinkedTools::new(Vec::new()));
    catalog.get(tool).map(|entry| entry.toolset.to_string())
}

/// Returns the tools of the linked crates and the delegation tools, whatever is configured. The
/// calls of any session are described by them. Tools of plugins and servers are not included.
pub(crate) fn linked_catalog(links: &LinkedTools) -> Catalog {
    // Crates that do not fit together are told of where their tools are needed.
    let mut catalog = links.catalog().unwrap_or_default();
    let delegation = DelegationConfig {
        options: DelegationOptions { background: true, ..DelegationOptions::default() },
        ..DelegationConfig::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let _taken = add_delegation_tools(&mut catalog, &delegation, &clock);
    catalog
}

/// Returns the tools of the linked crates that the configuration does not turn off.
pub(super) fn linked(links: &LinkedTools, config: &Config) -> Result<Catalog, CliError> {
    let catalog = links.catalog().map_err(CliError::usage)?;
    Ok(catalog.filtered(|entry| !is_off(config, entry)))
}

/// Returns the other tools of the program, which are only listed.
pub(crate) fn turned_off(links: &LinkedTools, config: &Config) -> Catalog {
    linked_catalog(links).filtered(|entry| is_off(config, entry) || is_background(config, entry))
}

/// Returns why one of these tools is off, if it does not say so itself.
pub(crate) fn why_off(config: &Config, entry: &CatalogEntry) -> Option<String> {
    is_background(config, entry).then(|| {
        let needed = match config.delegation.options.background {
            true => "`delegation.tool_name` to be `delegate_task`",
            false => "`delegation.background`",
        };
        format!("it controls background children, which need {needed}")
    })
}

fn is_off(config: &Config, entry: &CatalogEntry) -> bool {
    !config.browser.enabled && entry.toolset.as_str() == BROWSER_TOOLSET
}

/// Returns whether a tool is for background children, and there are none.
fn is_background(config: &Config, entry: &CatalogEntry) -> bool {
    let set = &config.delegation.options;
    let has_background = set.background && set.tool_name == ToolFlavor::DelegateTask;
    !has_background
        && entry.toolset == deputize_delegate::DELEGATION_TOOLSET
        && !entry.tool.spec().spawns
}
