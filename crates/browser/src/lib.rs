//! Tools with which agents use web pages in a browser: `browser_open`, `browser_snapshot`,
//! `browser_click`, `browser_type` and `browser_close`.
//!
//! The browser is a Chromium of this machine, one for each agent that uses it, with a profile of its
//! own that is removed with it. This crate speaks Chromium's own protocol with it over two pipes.
//! Everything that the browser sends goes through a proxy of this crate, which judges each address
//! as `web_fetch` does and connects to the very address that it judged. The browser resolves no name
//! by itself, and sends nothing over UDP.
//!
//! ```
//! use deputize_browser::BrowserSettings;
//! use deputize_core::ResourceMap;
//!
//! let settings = ResourceMap::default();
//! settings.get_or_insert_with(BrowserSettings::enabled);
//! ```
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `fuzz` | no | opens what the fuzz targets need; nothing else may use it |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod agent_browser;
mod ax_node;
mod browser;
mod browser_error;
mod chromium_program;
mod devtools;
mod element_line;
mod element_refs;
mod element_script;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod message_splitter;
mod page;
mod page_event;
mod page_text;
mod page_watch;
mod profile_folder;
mod proxy;
mod refusals;
mod settings;
mod tools;

pub use chromium_program::{ChromiumProgram, runs_without_sandbox};
pub use settings::{BROWSERS, BrowserLimits, BrowserSettings, PAGE_BYTES, TIMEOUT_SECONDS};

deputize_core::tool_crate!();
