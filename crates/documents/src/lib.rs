//! Markdown files with front matter, as people write them for agents.
//!
//! [`Document`] is such a file: YAML between two lines `---`, and a text. A [`SkillLibrary`] has
//! the skills of a person, of a project and of the program, and a [`ProfileLibrary`] their profiles,
//! which are kinds of agents. A file that is broken is a [`DocumentFault`] with its path and the
//! reason, beside what could be read; it is never fatal.
//!
//! ```
//! use deputize_documents::Document;
//!
//! let document = Document::parse("---\nname: release\n---\nTag it first.\n")?;
//! assert_eq!(document.fields().text("name")?, Some("release".to_owned()));
//! assert_eq!(document.body(), "Tag it first.\n");
//! # Ok::<(), deputize_documents::DocumentError>(())
//! ```
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod document_error;
mod document_name;
mod document_origin;
mod fields;
mod front_matter;
mod profile_document;
mod profile_error;
mod profile_library;
mod read_text;
mod skill;
mod skill_error;
mod skill_files;
mod skill_library;
mod skill_mark;
mod skill_reader;
mod temporary_file;
mod tool_aliases;

pub use document_error::{DocumentError, DocumentFault};
pub use document_origin::DocumentOrigin;
pub use fields::Fields;
pub use front_matter::Document;
pub use profile_document::ProfileDocument;
pub use profile_error::ProfileError;
pub use profile_library::{ProfileLibrary, ProfileListing};
pub use read_text::{open_beneath, read_exact_text, read_text};
pub use skill::{Skill, SkillText};
pub use skill_error::SkillError;
pub use skill_library::SkillLibrary;
pub use skill_mark::marked_skill;
pub use skill_reader::SkillListing;
pub use tool_aliases::ToolAliases;

/// Bytes of a document at most.
pub const DOCUMENT_BYTES: u64 = 64 * 1024;
/// Bytes of another file of a skill at most.
pub const SKILL_FILE_BYTES: u64 = 256 * 1024;
/// Profiles of one folder at most; others are named as faults.
pub const MOST_PROFILES: usize = 100;
/// Skills of one place at most; others are named as faults.
pub const MOST_SKILLS: usize = 200;
