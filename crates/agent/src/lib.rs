//! Agents for a program of your own, in a few lines and safe by default.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use deputize_agent::{Agent, DelegationConfig};
//!
//! let agent = Agent::builder()
//!     .model("openai/gpt-5")
//!     .tools(deputize_tools::LINK)
//!     .workspace(".")
//!     .delegation(DelegationConfig::default())
//!     .sessions("sessions")
//!     .build()?;
//! let outcome = agent.run("Explain src/main.rs").await;
//! println!("{}", outcome.text.unwrap_or_default());
//! # Ok(())
//! # }
//! ```
//!
//! # Defaults that keep it safe
//!
//! - Tools read and write below the workspace and nowhere else. They do not write among the
//!   session files, in the configuration of Deputize, nor where git, direnv or MCP clients would run
//!   what is written.
//! - A call that nothing bounds, such as a command, runs only after a yes of
//!   [`AgentBuilder::approve`] or [`AgentBuilder::approver`]. Without one of them the answer is no,
//!   and children do not have such tools. A few commands never run, such as `rm -rf /`.
//! - The agent's key, and variables whose names say that they hold secrets ([`is_secret_name`]), are
//!   taken out of everything that models, files and observers get. Commands get `PATH` and the harmless rest of the environment.
//! - The agent has the base system prompt of the command line, and sends tools in one order to parents and children, so
//!   that a provider's cache serves both.
//! - No file of the project speaks to the agent, unless [`AgentBuilder::project_files`] says so.
//! - A budget in dollars is refused where nobody knows what a model costs.
//! - Commands end with the agent. For commands to end also when the program is killed, `main`
//!   begins with [`run_as_helper`].
//!
//! There is no sandbox: a command that was approved may do what the program may do.
//!
//! # More
//!
//! | to | call |
//! | --- | --- |
//! | see its agents as they stand | [`Agent::snapshots`] |
//! | see events | [`AgentBuilder::on_record`] |
//! | stream text | [`AgentBuilder::observer`] |
//! | get a value of a type | [`Agent::answer`] |
//! | go on with a session | [`Agent::resume`] |
//! | cancel | [`Agent::run_until`] |
//! | show images with a task | [`Agent::run_with_images`] |
//! | see faults and what happens when | any subscriber of `tracing`, such as `tracing-subscriber` |
//! | use a model of your own | [`AgentModel::value`] |
//! | set everything of a model's endpoint | [`AgentModel::endpoint`] |
//! | go on with another model | [`AgentBuilder::fallback_model`] |
//! | offer kinds of children from files | [`AgentBuilder::profiles`] |
//! | read the project's `AGENTS.md` | [`AgentBuilder::project_files`] |
//! | limit tokens or dollars | [`AgentBuilder::budget`] |
//! | limit the time of children together, or say when they count as stalled | [`AgentBuilder::children_time`], [`AgentBuilder::heartbeat`] |
//! | keep facts across sessions, in files or in a value of your own | [`AgentBuilder::memory_files`], [`AgentBuilder::memory`] |
//! | say when conversations are compacted | [`AgentBuilder::compaction`] |
//! | read and search the web (feature `web`) | `AgentBuilder::web` |
//! | run a shell command at a point | [`AgentBuilder::shell_hook`] |
//! | let it send messages | [`AgentBuilder::message_targets`] |
//! | let it make jobs, and run them (feature `cron`) | `AgentBuilder::jobs` |
//! | search past sessions (feature `session-search`) | `AgentBuilder::session_search` |
//! | use pages in a browser (feature `browser`) | `AgentBuilder::browser` |
//! | use MCP servers (feature `mcp`) | `AgentBuilder::mcp_servers` |
//! | sign in to MCP servers (feature `mcp-oauth`) | `mcp::oauth` |
//! | use dynamic plugins (feature `plugins`) | `AgentBuilder::plugin` |
//! | have another program as children (feature `acp`) | `AgentBuilder::external_agent` |
//! | record a task and play it again | [`Agent::record`], [`Agent::replay`] |
//!
//! [`Assembly`] is what lies below: a program that has a configuration of its own makes one from it,
//! as the command line does.
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `http` | yes | models by name and by address |
//! | `tools` | yes | the settings of the built-in tools, the owner of their commands, and hooks that are shell commands |
//! | `web` | no | the tools of `deputize-tools` that read and search the web, and their settings |
//! | `images` | no | images that `read_file` and MCP servers show to models that see them |
//! | `session-search` | no | search over past sessions, with SQLite |
//! | `browser` | no | pages in a Chromium of the machine |
//! | `tokenizer` | no | tokens counted with the tokenizers that are published |
//! | `mcp` | no | the tools of MCP servers |
//! | `mcp-oauth` | no | the sign-in to remote MCP servers by OAuth |
//! | `plugins` | no | dynamic plugins |
//! | `cron` | no | jobs that run later |
//! | `acp` | no | children that are runs of another program, over ACP |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod agent;
mod assembly;
mod base_prompt;
#[cfg(feature = "browser")]
mod browser;
mod capped_model;
mod delegation;
mod extension;
#[cfg(feature = "acp")]
mod external;
#[cfg(feature = "tools")]
mod helper;
#[cfg(feature = "cron")]
mod jobs;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "tools")]
mod memory_files;
#[cfg(feature = "tools")]
mod messages;
mod model;
#[cfg(feature = "plugins")]
pub mod plugins;
mod policy;
pub mod project;
mod prompt_sources;
mod protected;
mod running;
mod secrets;
mod session_id;
#[cfg(feature = "tools")]
mod shell_hooks;

pub use agent::{Agent, AgentBuilder, AgentError, AgentReplayError, BuildError};
pub use assembly::{Assembly, AssemblyLimits, PromptConfig, ToolSelection, Workspace};
pub use base_prompt::BasePrompt;
pub use capped_model::{cap_options, cap_output};
pub use delegation::{DelegationError, add_delegation_tools};
#[cfg(feature = "acp")]
pub use deputize_acp::AcpProgram;
#[cfg(feature = "browser")]
pub use deputize_browser::{BrowserLimits, BrowserSettings};
pub use deputize_delegate::{
    ChildApprovals, ChildModels, ChildToolsets, DelegationConfig, DelegationHost, DelegationLimits,
    DelegationOptions,
};
pub use deputize_documents::ProfileLibrary;
#[cfg(feature = "images")]
pub use deputize_image as image;
pub use deputize_runtime::{CompactionConfig, Heartbeat, SessionSnapshot};
#[cfg(feature = "session-search")]
pub use deputize_session_index as session_index;
#[cfg(feature = "tools")]
pub use deputize_tools::CodeLimits;
#[cfg(feature = "acp")]
pub use external::{external_agent_name, external_agents, use_external_agent};
#[cfg(feature = "tools")]
pub use helper::run_as_helper;
pub use model::{AgentModel, ModelSourceError};
#[cfg(feature = "plugins")]
pub use plugins::{PluginConfig, PluginProcess};
pub use policy::EffectPolicy;
pub use prompt_sources::{PromptSettings, PromptSources, local_date};
pub use protected::protected_paths;
pub use secrets::{add_secrets, is_secret_name};
pub use session_id::new_session_id;
#[cfg(feature = "tools")]
pub use shell_hooks::{HookCommand, shell_hooks};
