//! Models over HTTP for Deputize, and the offline model.
//!
//! A model is reached through an [`Endpoint`] in one of the wire formats, each a folder with
//! two pure halves: a request becomes bytes, bytes become a reply. What is between them
//! (sending, limits of time, failures) is the same for all. One call of
//! [`Model::reply`](deputize_core::Model::reply) is one attempt; nothing here tries again.
//!
//! Whatever a server sends ends as a reply or as a
//! [`ModelError`](deputize_core::ModelError): see [`limits`] for what is held at most.
//!
//! ```
//! use std::sync::Arc;
//! use deputize_core::FixedClock;
//! use deputize_providers::{Endpoint, OpenAiChat, Secret, http_client};
//!
//! let mut endpoint = Endpoint::new("openai", "https://api.openai.com/v1");
//! endpoint.key = Some(Secret::new("sk-1234"));
//! endpoint.key_env = Some("OPENAI_API_KEY".to_owned());
//! let model = OpenAiChat::new(endpoint, &http_client(Arc::new(FixedClock(0))))?;
//! # let _ = model;
//! # Ok::<(), deputize_providers::EndpointError>(())
//! ```

mod endpoint;
mod http;
mod json;
pub mod limits;
mod line;
pub mod offline;
pub mod openai_chat;
mod retry_after;
mod secret;
mod server_error;
mod sse;
mod stream;
mod text;

pub use endpoint::{Endpoint, EndpointError};
pub use http::{HttpClient, http_client};
pub use openai_chat::OpenAiChat;
pub use secret::Secret;
pub use server_error::ServerError;
pub use stream::{Ending, Flow, StreamError};
