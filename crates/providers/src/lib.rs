//! Models over HTTP for Deputize.
//!
//! A model is reached through an [`Endpoint`] in one of the wire formats, each a folder with
//! two pure halves: a request becomes bytes, bytes become a reply. What is between them
//! (sending, limits of time, failures) is the same for all. One call of
//! [`Model::reply`](deputize_core::Model::reply) is one attempt; nothing here tries again.
//!
//! Whatever a server sends ends as a reply or as a
//! [`ModelError`](deputize_core::model::ModelError): see [`limits`] for what is held at most.
//!
//! ```
//! use std::sync::Arc;
//! use deputize_core::clock::FixedClock;
//! use deputize_providers::{Endpoint, Key, OpenAiChat, http_client};
//!
//! let mut endpoint = Endpoint::new("openai", "https://api.openai.com/v1");
//! endpoint.keys = vec![Key::new("OPENAI_API_KEY", "sk-1234")];
//! let model = OpenAiChat::new(endpoint, &http_client(Arc::new(FixedClock(0))))?;
//! # let _ = model;
//! # Ok::<(), deputize_providers::EndpointError>(())
//! ```
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `tokenizer` | no | counts tokens with the tokenizers that are published: 6 MB of vocabularies |
//! | `fuzz` | no | opens what the fuzz targets need; nothing else may use it |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

pub mod anthropic_messages;
mod arguments;
mod body;
mod context_window;
mod dialect;
mod endpoint;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod http;
mod http_model;
mod json;
mod known;
pub mod limits;
mod line;
pub mod openai_chat;
pub mod openai_responses;
mod prices;
mod retry_after;
mod secret;
mod sendable;
mod server_error;
mod sse;
mod stream;
mod stream_error;
mod stream_status;
mod text;
#[cfg(feature = "tokenizer")]
mod tokenizer;
mod tool_lists;
mod vision;
mod wire;

pub use anthropic_messages::AnthropicMessages;
pub use context_window::published_context_window;
pub use endpoint::{
    BodyOptions, CaBundle, Endpoint, EndpointError, EndpointTimeouts, KeyHeader, Proxy,
    ToolCalling, is_loopback,
};
pub use http::{HttpClient, ModelListing, http_client};
pub use known::{KNOWN_PROVIDERS, KnownProvider, known_provider};
pub use openai_chat::OpenAiChat;
pub use openai_responses::OpenAiResponses;
pub use prices::published_price;
pub use secret::{Key, Secret};
pub use server_error::ServerError;
pub use stream_error::{ForeignBody, ReplyTooLarge, StreamError};
pub use stream_status::{StreamEnd, StreamStatus};
#[cfg(feature = "tokenizer")]
pub use tokenizer::count_tokens;
pub use vision::{Vision, publishes_vision};
pub use wire::{Wire, WireDialect};
