//! The built-in tools of Deputize: files and a terminal, one tool a file.
//!
//! A program names [`LINK`] and has them; it may put [`Settings`] into its session. Every path
//! is resolved beneath the directories that the calling agent was granted, every read and
//! write is entered in the session's ledger, and nothing is cut without a remark that says how
//! to get the rest. What these tools do not do: ask anyone for permission (the runtime has done
//! so before a call), frame their results (it does so after), or look at the environment.
//!
//! ```
//! let catalog = deputize_core::Catalog::linked(&[deputize_tools::LINK])?;
//! assert!(catalog.get("read_file").is_some());
//! # Ok::<(), deputize_core::CatalogError>(())
//! ```

mod blocking;
mod current;
mod diff;
mod edit_file;
#[cfg(test)]
mod fixture;
mod indent;
mod list_dir;
mod matching;
mod nearest_name;
mod nearest_text;
mod page;
mod path_error;
mod place;
mod read_file;
mod replace;
mod search;
mod search_files;
mod settings;
mod shown;
mod text;
mod walk;
mod write_file;

pub use settings::{
    COMMAND_MAX_SECONDS, COMMAND_SECONDS, EDIT_BYTES, FILE_BYTES, LINE_BYTES, LIST_ENTRIES,
    READ_BYTES, READ_LINES, SEARCH_MATCHES, Settings,
};

deputize_core::tool_crate!();
