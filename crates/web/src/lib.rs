//! Tools that read and search the web: `web_fetch` and `web_search`.
//!
//! Addresses come from models and from pages, so none is trusted. Each is checked before anything
//! is sent, its name is resolved here, every answer must be a public address, and the connection
//! goes to an address that was checked. Each redirect is checked as a new address. A program may
//! allow hosts with private addresses in [`Settings`].
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

mod address_policy;
mod checked_client;
mod convert;
mod converter;
mod fetch_client;
mod fetch_error;
mod media_type;
mod percent_decode;
mod post;
mod public_address;
mod search;
mod settings;
mod web_fetch;
mod web_search;

pub use address_policy::{AddressPolicy, AllowedHost, AllowedHostError, ResolveError, UrlDenial};
pub use checked_client::{CheckedClientError, checked_client};
pub use converter::{Converter, converter_main};
pub use post::{PostError, PostRequest, check_post, post_json};
pub use public_address::{AddressKind, address_kind};
pub use settings::{
    FetchSettings, MAX_BYTES, PAGE_BYTES, SearchBackend, SearchKey, SearchSettings, Settings,
    TIMEOUT_SECONDS,
};

deputize_core::tool_crate!();
