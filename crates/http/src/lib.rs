//! HTTP requests to addresses that are checked first.
//!
//! Addresses come from models, from pages and from servers, so none is trusted. An
//! [`AddressPolicy`] judges an address before anything is sent: its scheme, its port, its host, and
//! everything that the host's name resolves to, which must be public. A program may allow hosts
//! with private addresses by name. [`checked_client`] returns a client that connects to what was
//! checked. This crate has no tools; `deputize-web` has those that read and search the web.
//!
//! ```
//! use deputize_http::AddressPolicy;
//!
//! let policy = AddressPolicy::new(vec!["docs.internal:8080".parse()?]);
//! assert!(policy.parse("https://example.org/page").is_ok());
//! assert!(policy.parse("http://docs.internal:8080/").is_ok());
//! assert!(policy.parse("http://127.0.0.1/").is_err());
//! # Ok::<(), deputize_http::AllowedHostError>(())
//! ```
//!
//! # Features and stability
//!
//! It has no features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod address_policy;
mod checked_client;
mod post;
mod public_address;
mod request_problem;

pub use address_policy::{
    AddressPolicy, AllowedHost, AllowedHostError, ResolveError, UrlDenial, host_of,
};
pub use checked_client::{CheckedClientError, checked_client};
pub use post::{PostError, PostRequest, check_post, post_json};
pub use public_address::{AddressKind, address_kind};
pub use request_problem::request_problem;
