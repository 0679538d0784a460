//! Full-text search over past sessions: [`SessionIndex`], and the tool `session_search`.
//!
//! The index is a cache in the folder of the sessions. Each search first brings it up to date with
//! the session files, reading only what was added to them. It can be removed at any time, and is
//! built again when it is broken or of another version.
//!
//! ```
//! use deputize_core::Cancel;
//! use deputize_runtime::SessionDir;
//! use deputize_session_index::{SearchLimits, SearchQuery, SessionIndex};
//!
//! let folder = tempfile::tempdir()?;
//! let index = SessionIndex::new(SessionDir::new(folder.path()));
//! let query = SearchQuery::parse("flaky test")?;
//! let found = index.search(&query, None, SearchLimits::default(), &Cancel::new())?;
//! assert!(found.sessions.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is found
//!
//! The person's prompts, the tasks of children, what agents replied, and the short arguments of
//! their tool calls, such as paths and commands. Then results of tools, of long ones the beginning and the
//! end, 2 KiB together. Words match from their beginning: `deploy` finds `deployment`. Case and accents do not matter. Scripts without
//! spaces between words, such as Chinese, Japanese and Thai, are searched character by character.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod conversation;
mod database;
mod entry;
mod error;
#[cfg(test)]
mod fixture;
mod index;
mod index_lock;
mod place;
mod query;
mod results;
mod search;
mod session_fold;
mod session_rows;
mod snippet;
mod tool;
mod tool_text;
mod update;
mod words;

pub use conversation::{ConversationPage, ConversationText};
pub use entry::EntryKind;
pub use error::IndexError;
pub use index::SessionIndex;
pub use place::SessionPlace;
pub use query::SearchQuery;
pub use results::{FoundSession, FoundText, SearchLimits, SearchResults, UnreadSession};
pub use session_fold::TOOL_NAME;
pub use snippet::Snippet;
pub use tool::SessionSearchSettings;

deputize_core::tool_crate!();
