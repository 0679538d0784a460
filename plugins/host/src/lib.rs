//! Loads dynamic tool plugins, into this process or each into a process of its own.
//!
//! A plugin is a dynamic library that keeps the C contract of `deputize-plugin`. Its file is read
//! once ([`PluginFile`]) and checked before any of its code runs: its digest, and the version of
//! the contract. Exactly the checked bytes are loaded.
//!
//! [`PluginBoundary`] has two implementations. [`InProcessPlugin`] loads the plugin into this
//! process, where it has all of this program's rights and may end it. [`IsolatedPlugin`] has a
//! host process load it ([`host_main`]), which is killed and restarted if it hangs or dies. With
//! either, [`entries`] returns tools like any others. A loaded library stays loaded.
//!
//! ```no_run
//! use std::sync::Arc;
//! use deputize_core::Catalog;
//! use deputize_plugin_host::{PluginBoundary, Description, InProcessPlugin, PluginFile, entries};
//!
//! # async fn load() -> Result<(), Box<dyn std::error::Error>> {
//! let file = PluginFile::read("/opt/tools/libwords.so".as_ref())?;
//! let pinned = "6ae8a75555209fd6c44157c0aed8016e763ff435a19cf186f76863140143ff72";
//! let path = file.path().to_owned();
//! let sha256 = file.sha256().to_owned();
//! file.verify(pinned)?.table()?;
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
//! There is no sandbox: a host process may do what its user may.
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
mod in_process;
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
pub use in_process::{InProcessPlugin, MAX_STUCK};
pub use isolated::{HostProgram, IsolatedPlugin, MEMORY_MB};
pub use serve::host_main;
pub use tool::entries;
