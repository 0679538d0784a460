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
//! # What holds without a word
//!
//! - Tools read and write below the workspace and nowhere else. They do not write among the
//!   session files, in the configuration of Deputize, nor where git, direnv or MCP clients would run
//!   what is written.
//! - A call that nothing bounds, such as a command, runs only after a yes of
//!   [`AgentBuilder::approve`] or [`AgentBuilder::approver`]. Without one of them the answer is no,
//!   and children do not have such tools. A few commands never run, such as `rm -rf /`.
//! - The agent's key, and variables whose names say that they hold secrets ([`is_secret_name`]), are
//!   taken out of everything that models, files and observers get. Commands get `PATH` and the harmless rest of the environment.
//! - The agent has the base system prompt of the command line, with the project's `AGENTS.md` as it
//!   was when the agent was built, and sends tools in one order to parents and children, so that a provider's cache serves both.
//! - Commands end with the agent. For commands to end also when the program is killed, `main`
//!   begins with [`run_as_helper`].
//!
//! There is no sandbox: a command that was approved may do what the program may do.
//!
//! # More
//!
//! | to | call |
//! | --- | --- |
//! | see events | [`AgentBuilder::on_record`] |
//! | stream text | [`AgentBuilder::observer`] |
//! | get a value of a type | [`Agent::answer`] |
//! | go on with a session | [`Agent::resume`] |
//! | cancel | [`Agent::run_until`] |
//! | use a model of your own | [`AgentModel::value`] |
//!
//! [`Assembly`] is what lies below: a program that has a configuration of its own makes one from it,
//! as the command line does.
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `http` | yes | models by name and by address |
//! | `tools` | yes | the settings of the built-in tools, and the owner of their commands |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod agent;
mod assembly;
mod base_prompt;
mod builder;
mod delegation;
mod deny_list;
#[cfg(feature = "tools")]
mod helper;
mod model;
mod policy;
mod preview;
pub mod project;
mod protected;
mod secrets;
mod session_id;

pub use agent::{Agent, AgentError};
pub use assembly::{Assembly, AssemblyLimits, PromptConfig, ToolSelection, Workspace};
pub use base_prompt::BasePrompt;
pub use builder::{AgentBuilder, BuildError};
pub use delegation::{DelegationError, add_delegation_tools};
pub use deputize_delegate::Policy as DelegationConfig;
#[cfg(feature = "tools")]
pub use helper::run_as_helper;
pub use model::{AgentModel, ModelSourceError};
pub use policy::EffectPolicy;
pub use protected::protected_paths;
pub use secrets::{add_secrets, is_secret_name};
pub use session_id::new_session_id;
