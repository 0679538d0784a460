//! Servers of the Model Context Protocol (MCP) as tools of a Deputize agent.
//!
//! What a server says that it has is kept on a [`Card`], beside what a person approved of it.
//! [`offer`] makes tools of a card without starting anything, so tools go out with the first
//! request; [`Servers`], one value in a session's settings, starts a server at the first call of
//! one of its tools and owns its processes.
//!
//! ```
//! use deputize_mcp::{Card, Described, Filter, HintCommands, Listed, Start, offer};
//!
//! let tool = Described {
//!     name: "get".into(),
//!     description: "Get the weather of a city.".into(),
//!     schema: r#"{"type":"object"}"#.into(),
//! };
//! let mut card = Card::default();
//! let listed = Listed { tools: vec![tool], ..Listed::default() };
//! let start = Start { place: "/usr/bin/weather".into(), ..Start::default() };
//! card.keep(&start, listed);
//! let commands = HintCommands { review: "my-agent review".into(), test: "my-agent test".into() };
//! let offered = offer("weather", &card, &start, &Filter::default(), &commands);
//! assert_eq!(offered.entries[0].name().as_str(), "mcp__weather__get");
//! ```
//!
//! What this crate deliberately lacks: models for servers to ask (sampling), forms for a person
//! to fill (elicitation), and following of resource links. Servers are told that there are none.
//! What a server says of its own tools (that they only read, say) is not believed.
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `fuzz` | no | opens what the fuzz targets need; nothing else may use it |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod ask;
mod cards;
mod content;
mod error;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod greeting;
mod host;
mod http;
mod lines;
mod link;
mod list;
mod names;
mod offer;
mod pin;
mod post;
mod said;
pub mod serve;
mod server;
mod servers;
mod tool;
mod unanswered;

pub use cards::{CardError, Cards};
pub use content::TEXT_BYTES;
pub use error::{Fault, Garbage, McpError};
pub use lines::{LINE_BYTES, STRAY_LINES, UNASKED, UNASKED_BYTES};
pub use list::{DESCRIPTION_BYTES, Described, Listed, SCHEMA_BYTES, TOOLS};
pub use names::{SERVER_CHARS, ServerNameError, server_name, toolset};
pub use offer::{Filter, HintCommands, Offer, offer};
pub use pin::{Approved, Card, Change, difference, pretty};
pub use server::{Cwd, Limits, Reach, Server, Start, WORKSPACE};
pub use servers::{NotKnown, STARTS, Servers, look};
