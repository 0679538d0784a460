//! Loads dynamic tool plugins: in this process, or each in a process of its own.
//!
//! A plugin is a dynamic library that keeps the C contract of `deputize-plugin`. Its file is read
//! once ([`PluginFile`]); what it is, and which version of the contract it speaks, is known from
//! its bytes before any of its code runs, and the very bytes that were checked are loaded.
//!
//! Two ways to its calls have one trait, [`PluginBoundary`]: [`InProcessPlugin`] loads it into this process, where
//! it runs with all of this program's rights and may end it; [`IsolatedPlugin`] has it loaded by a host
//! process ([`host_main`]), which is ended and started anew when it hangs or dies. Either way
//! [`entries`] gives tools like any other, and a library that is loaded stays loaded.
//!
//! ```no_run
//! use std::sync::Arc;
//! use deputize_core::Catalog;
//! use deputize_plugin_host::{PluginBoundary, Description, InProcessPlugin, PluginFile, entries};
//!
//! # async fn load() -> Result<(), Box<dyn std::error::Error>> {
//! let file = PluginFile::read("/opt/tools/libwords.so".as_ref())?;
//! let pinned = "6ae8a75555209fd6c44157c0aed8016e763ff435a19cf186f76863140143ff72";
//! let (path, sha256) = (file.path().to_owned(), file.sha256().to_owned());
//! file.pinned(pinned)?.table()?;
//! let plugin: Arc<dyn PluginBoundary> = Arc::new(InProcessPlugin::new(path.clone(), sha256));
//! let description = Description::parse(&plugin.describe().await?)?;
//! let mut catalog = Catalog::default();
//! for entry in entries(&description, &path, &plugin) {
//!     catalog.insert(entry)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What this crate deliberately lacks: a sandbox. A host process may do what its user may.
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `fuzz` | no | opens what the fuzz targets need; nothing else may use it |
//!
//! Stability: settling. A minor version may change what programs that compose Deputize themselves
//! need. The messages between a program and its host processes may change at any time: both sides
//! are one program.

mod about;
mod answer;
mod boundary;
mod description;
mod error;
mod file;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod host;
mod inside;
mod isolated;
mod load;
mod memory;
mod serve;
mod tool;
mod wire;

pub use boundary::{CancelResult, DESCRIBE_LIMIT, PluginBoundary, PluginCall, SETTLE};
pub use deputize_plugin::ABI;
pub use description::{Description, ToolDescription};
pub use error::{HostError, PluginError, PluginFileError};
pub use file::{MAX_FILE_BYTES, PluginFile};
pub use inside::{InProcessPlugin, MAX_STUCK};
pub use isolated::{HostProgram, IsolatedPlugin};
pub use serve::host_main;
pub use tool::entries;
