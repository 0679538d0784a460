//! Tools that read and search the web: `web_fetch` and `web_search`.
//!
//! Each address, and each that it redirects to, is checked by `deputize-http` before anything is
//! sent. A program may allow hosts with private addresses in [`Settings`].
//!
//! ```
//! use deputize_core::ResourceMap;
//! use deputize_web::{FetchSettings, Settings};
//!
//! let settings = ResourceMap::default();
//! let fetch = FetchSettings { max_bytes: 1_000_000, ..FetchSettings::default() };
//! settings.get_or_insert_with(|| Settings { fetch, ..Settings::default() });
//! ```
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `html` | yes | web pages as Markdown; without it they are text with tags |
//! | `pdf` | yes | the text of PDF files; without it they are refused |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod convert;
mod converter;
mod fetch_client;
mod fetch_error;
mod media_type;
mod page_versions;
mod percent_decode;
mod search;
mod settings;
mod web_fetch;
mod web_search;

/// Which addresses may be asked.
pub use deputize_http as http;

pub use converter::{Converter, converter_main};
pub use settings::{
    FetchSettings, MAX_BYTES, PAGE_BYTES, SearchBackend, SearchKey, SearchSettings, Settings,
    TIMEOUT_SECONDS,
};

deputize_core::tool_crate!();
