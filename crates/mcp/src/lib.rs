//! Servers of the Model Context Protocol (MCP) as tools of a Deputize agent.
//!
//! A [`ServerRecord`] stores a server's listing, and what a person approved of it. [`offer`] makes
//! tools of a record without starting anything, so tools go out with the first request.
//! [`Servers`], one value in a session's settings, starts a server at the first call of one of its
//! tools and owns its processes.
//!
//! ```
//! use deputize_mcp::{ServerRecord, ToolDescription, ToolFilter, HintCommands, ServerListing, ServerTarget, offer};
//!
//! let tool = ToolDescription {
//!     name: "get".into(),
//!     description: "Get the weather of a city.".into(),
//!     schema: r#"{"type":"object"}"#.into(),
//! };
//! let mut record = ServerRecord::default();
//! let listed = ServerListing { tools: vec![tool], ..ServerListing::default() };
//! let start = ServerTarget { place: "/usr/bin/weather".into(), ..ServerTarget::default() };
//! record.record_and_approve(&start, listed);
//! let commands = HintCommands { review: "my-agent review".into(), test: "my-agent test".into() };
//! let offered = offer("weather", &record, &start, &ToolFilter::default(), &commands);
//! assert_eq!(offered.entries[0].name().as_str(), "mcp__weather__get");
//! ```
//!
//! This crate deliberately has no models for servers to ask (sampling), no forms for a person to
//! fill (elicitation), and does not follow resource links; servers learn this in the handshake. A
//! server's own claims about its tools (such as being read-only) are not believed.
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `oauth` | no | signs in to remote servers by OAuth, and keeps their tokens |
//! | `images` | no | shows images of results to models that see them |
//! | `fuzz` | no | opens what the fuzz targets need; nothing else may use it |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod access_tokens;
mod approval_store;
mod connection;
mod connection_handler;
mod content;
mod error;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod handshake;
mod http;
mod http_request;
mod image_shower;
mod json;
mod list_request;
mod listing;
mod names;
#[cfg(feature = "oauth")]
pub mod oauth;
mod offer;
mod request_error;
pub mod serve;
mod server;
mod server_record;
mod servers;
mod stdio_transport;
mod tool;
mod tool_index;
mod tool_rank;
mod transport_error;

pub use access_tokens::{AccessTokenError, AccessTokens, TokenSource};
pub use approval_store::{ApprovalStore, ApprovalStoreError};
pub use content::TEXT_BYTES;
pub use error::{BackoffError, LaunchError, McpError, McpErrorKind, ProtocolViolation, ReachError};
pub use listing::{DESCRIPTION_BYTES, SCHEMA_BYTES, ServerListing, TOOLS, ToolDescription};
pub use names::{SERVER_CHARS, ServerNameError, server_name, toolset};
pub use offer::{HintCommands, ServerOffer, ToolFilter, offer};
pub use server::{
    ServerConfig, ServerDirectory, ServerLimits, ServerTarget, ServerTransport, WORKSPACE,
};
pub use server_record::{Approval, ServerChange, ServerRecord, difference, pretty};
pub use servers::{ListingError, STARTS, Servers, look};
pub use stdio_transport::{LINE_BYTES, STRAY_LINES, UNASKED, UNASKED_BYTES};
pub use tool_index::{LISTED_BYTES, tool_index};
