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
//! use deputize_config::{Endpoint, ModelOverrides, Sources, load, resolve_model};
//!
//! let sources = Sources {
//!     set: vec!["model=offline".to_owned(), "delegation.max_spawn_depth=2".to_owned()],
//!     ..Sources::default()
//! };
//! let loaded = load(&sources)?;
//! assert_eq!(loaded.config.delegation.limits.max_spawn_depth, 2);
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
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod budget;
mod check;
mod child;
mod clamp;
mod delegation;
pub mod edit;
mod findings;
mod former;
pub mod hint;
mod hooks;
mod keys;
mod known;
mod layer;
mod load;
mod mcp;
mod messaging;
mod place;
mod plain;
mod plugin;
mod provider;
mod reasoning_effort;
mod resolve;
mod rules;
mod schema;
mod secret;
mod show;
#[cfg(test)]
mod tests;
mod toolsets;
mod tree;

pub use budget::{Budget, ChildBudget, ModelPrice};
pub use child::{SPOKEN, child_model_name, resolve_child_model};
pub use delegation::Delegation;
pub use former::remove_former_keys;
pub use hooks::Hooks;
pub use keys::{
    Approvals, BrowserConfig, CodeExecutionConfig, Config, CronApprovals, CronConfig, FetchConfig,
    FileState, Journal, Limits, PrefillMessage, PrefillRole, SearchBackend, SearchConfig,
    TerminalConfig, ToolsetEntry,
};
pub use known::server_url;
pub use known::{OFFLINE, UrlFault};
pub use layer::{FlagValue, MAX_FILE_BYTES};
pub use load::in_order;
pub use load::{ConfigError, LoadedConfig, Sources, load};
pub use mcp::{McpServer, ServerSignIn};
pub use messaging::{MessageTargetEntry, MessagingConfig};
pub use place::nearest;
pub use place::{ConfigPlace, ConfigSource, Problem};
pub use plugin::PluginEntry;
pub use provider::ProviderEntry;
pub use reasoning_effort::ReasoningEffort;
pub use resolve::{
    Endpoint, HttpEndpoint, KeySource, ModelChoice, ModelOverrides, ResolveError, UnknownProvider,
    resolve_model,
};
pub use schema::json_schema;
pub use secret::Secret;
pub use show::render_check;
pub use show::{Output, Verb, VerbError, run};
pub use toolsets::{BROWSER as BROWSER_TOOLSET, OPTIONAL as OPTIONAL_TOOLSETS, built_without};
pub use tree::{MAX_ALIASES, MAX_DEPTH, MAX_VALUES};
