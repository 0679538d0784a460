//! Configuration: what can be set, where it is read from, and what is wrong with it.
//!
//! [`load`] reads the layers, later ones winning: defaults, the person's `config.yaml`,
//! environment variables `DEPUTIZE__SECTION__KEY`, `--set key=value`, other options. It reports
//! every mistake at once, each with its place. [`resolve_model`] turns the result into the
//! endpoint that answers, and [`run`] is the command `deputize config`.
//!
//! A project's own file is not read: nothing in it is trusted in this version.
//!
//! ```
//! use deputize::config::{Endpoint, ModelOverrides, Sources, load, resolve_model};
//!
//! let sources = Sources {
//!     set: vec!["model=offline".to_owned(), "delegation.max_spawn_depth=2".to_owned()],
//!     ..Sources::default()
//! };
//! let loaded = load(&sources)?;
//! assert_eq!(loaded.config.delegation.max_spawn_depth, 2);
//! let choice = resolve_model(&loaded.config, &ModelOverrides::default())?;
//! assert_eq!(choice.endpoint, Endpoint::Offline);
//!
//! let mistaken = Sources { set: vec!["max_iteration=5".to_owned()], ..Sources::default() };
//! assert_eq!(
//!     load(&mistaken).unwrap_err().to_string(),
//!     "--set max_iteration: unknown key `max_iteration`; did you mean `max_iterations`?"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod check;
mod child;
mod clamp;
mod delegation;
pub(crate) mod edit;
mod keys;
mod known;
mod later;
mod layer;
mod load;
mod mcp;
mod pending;
mod place;
mod plain;
mod plugin;
mod provider;
mod resolve;
mod rules;
mod schema;
mod secret;
mod show;
#[cfg(test)]
mod tests;
mod toolsets;
mod tree;

pub use self::budget::{Budget, ModelPrice};
pub(crate) use self::child::{SPOKEN, child_model_name, resolve_child_model};
pub use self::delegation::{
    Delegation, DelegationTool, OverLimit, PromptLayout, ToolSchemas, Workflow,
};
pub use self::keys::{
    ApprovalMode, Approvals, Config, FileState, Journal, JournalSync, Limits, OnStaleWrite,
    PrefillMessage, PrefillRole, ReasoningEffort, Terminal,
};
pub(crate) use self::known::server_url;
pub use self::known::{OFFLINE, UrlFault};
pub use self::later::{Chat, Compaction, Fetch, Hooks, Sandbox, Unsandboxed, WhenBusy};
pub use self::layer::{FlagValue, MAX_FILE_BYTES};
pub(crate) use self::load::in_order;
pub use self::load::{ConfigError, Loaded, Sources, load};
pub use self::mcp::{McpServer, ToolFilter};
pub(crate) use self::place::nearest;
pub use self::place::{Place, Problem, Source};
pub(crate) use self::plugin::MEMORY_MB;
pub use self::plugin::PluginEntry;
pub use self::provider::{Api, ProviderEntry, ToolCalling};
pub use self::resolve::{
    Endpoint, HttpEndpoint, ModelChoice, ModelOverrides, ResolveError, UnknownProvider,
    resolve_model,
};
pub use self::schema::json_schema;
pub use self::secret::Secret;
pub(crate) use self::show::checked;
pub use self::show::{Output, Verb, VerbError, run};
pub(crate) use self::toolsets::{LATER as LATER_TOOLSETS, SERVERS as SERVER_TOOLSETS};
pub use self::tree::{MAX_ALIASES, MAX_DEPTH, MAX_VALUES};
