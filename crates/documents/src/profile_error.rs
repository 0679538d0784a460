//! Why a profile cannot be found or made.

use std::io;

use crate::document_error::{DocumentError, DocumentFault};

/// Why a profile cannot be found or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is none of this name.
    #[error("there is no profile `{name}`; known: {}", known.join(", "))]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// The names of all profiles.
        known: Vec<String>,
    },
    /// Its file is faulty.
    #[error("the profile `{name}` cannot be used: {fault}; correct the file, or remove it")]
    Faulty {
        /// Name that was asked for.
        name: String,
        /// The file, and what is wrong.
        fault: DocumentFault,
    },
    /// A text is no profile.
    #[error(transparent)]
    Invalid(#[from] DocumentError),
    /// There is a file for it already.
    #[error("there is a file for the profile `{0}` already: edit it, or choose another name")]
    Exists(String),
    /// There is no folder for the person's profiles.
    #[error("there is no folder for profiles of the person")]
    NoFolder,
    /// It cannot be written.
    #[error("the profile `{name}` cannot be written")]
    Write {
        /// Name of the profile.
        name: String,
        /// I/O error from the system.
        source: io::Error,
    },
}
