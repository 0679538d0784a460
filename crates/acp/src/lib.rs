//! Programs that speak the Agent Client Protocol (ACP) on their standard streams, as children of
//! a Deputize agent; and, in [`serve`], sessions of a program of one's own for editors that speak
//! it.
//!
//! Whoever puts a program together gives [`AcpAgents`] to the runtime's parts under a name; an agent
//! whose spec has that name in the place of a model is such a program.
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//! use deputize_acp::{AcpAgents, AcpProgram};
//! use deputize_core::external_agent::ExternalAgents;
//! use deputize_process::Supervisor;
//!
//! let supervisor = Arc::new(Supervisor::start()?);
//! let env = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
//! let program = AcpProgram::find("some-acp-agent", vec!["--stdio".into()], env)?;
//! let agents: Arc<dyn ExternalAgents> =
//!     Arc::new(AcpAgents::new(program, move || Ok(Arc::clone(&supervisor))));
//! // parts.external.insert("acp/some-acp-agent".into(), agents);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The program runs with its own tools, which nothing here bounds. So only an agent that has
//! `terminal` and may write files where it works may have such a child. Its permission requests go
//! to the child's approver. Its text becomes the child's answer and its tool updates become the
//! child's calls. Both are the program's own claims, and the outcome says so.
//!
//! This crate deliberately offers the program no files and no terminals (it uses its own), and has
//! no way to log in for it.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod agents;
mod call_details;
mod conversation;
mod error;
mod line_reader;
mod program;
pub mod serve;
mod transcript;

pub use agents::{AcpAgents, NEEDS};
pub use error::AcpError;
pub use program::AcpProgram;
