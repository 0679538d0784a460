//! Why a skill cannot be read or changed.

use std::io;

use crate::document_error::{DocumentError, DocumentFault};
use crate::document_origin::DocumentOrigin;

/// Why a skill cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// There is none of this name.
    #[error("there is no skill `{name}`; known: {}", names(known))]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// The names of all skills.
        known: Vec<String>,
    },
    /// There is a folder of this name, which is no skill.
    #[error("the skill `{name}` cannot be used: {fault}")]
    Faulty {
        /// Name that was asked for.
        name: String,
        /// What is wrong with its file.
        fault: DocumentFault,
        /// Who wrote it.
        origin: DocumentOrigin,
    },
    /// A file of a skill cannot be read.
    #[error("`{file}` of the skill `{skill}` cannot be read: {source}")]
    File {
        /// Name of the skill.
        skill: String,
        /// The file.
        file: String,
        /// I/O error from the system.
        source: io::Error,
    },
    /// A text is no skill.
    #[error(transparent)]
    Invalid(#[from] DocumentError),
    /// There is one of this name already.
    #[error("there is a skill `{0}` already: edit it, or choose another name")]
    Exists(String),
    /// It is not the person's.
    #[error("`{name}` is a {} skill and is not changed here; a skill of the person may take its place", origin.as_str())]
    NotYours {
        /// Name of the skill.
        name: String,
        /// Who wrote it.
        origin: DocumentOrigin,
    },
    /// There is no folder for the person's skills.
    #[error("there is no folder for skills of the person")]
    NoFolder,
    /// It cannot be written.
    #[error("the skill `{name}` cannot be written")]
    Write {
        /// Name of the skill.
        name: String,
        /// I/O error from the system.
        source: io::Error,
    },
}

fn names(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}
