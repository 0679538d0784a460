//! Files of a session about its children: what their parents are not shown whole.
//!
//! They are written rarely, and off the asynchronous threads. One that cannot be written is left
//! out, and costs the result nothing.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use deputize_core::sanitize::for_terminal;
use deputize_core::tool::SessionView;
use deputize_core::{AgentView, Outcome};

/// Returns whether the session is kept on disk at all: one that is played from a recording is not.
/// This looks at the disk.
pub(crate) fn is_saved(session: &SessionView) -> bool {
    session.spill.parent().is_some_and(Path::is_dir)
}

/// A text to be kept, and where.
pub(crate) struct OutputFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl OutputFile {
    /// Returns the path of a file about a child.
    pub(crate) fn path(agent: &AgentView, child: &Outcome, ending: &str) -> PathBuf {
        let name = child.agent.as_str().replace('/', "~");
        agent.session.spill.join(format!("{name}.{ending}"))
    }

    /// Returns the path of a child's whole answer.
    pub(crate) fn answer_path(agent: &AgentView, child: &Outcome) -> PathBuf {
        Self::path(agent, child, "summary.txt")
    }

    /// Returns the whole answer of a child, as a person may see it, because a terminal gets it too;
    /// `None` if there is none.
    pub(crate) fn answer(agent: &AgentView, child: &Outcome) -> Option<Self> {
        let text = for_terminal(child.text.as_deref()?);
        Some(Self { path: Self::answer_path(agent, child), text })
    }

    /// Writes it, and returns its path; `None` if it could not be written.
    pub(crate) fn write(self, session: &SessionView) -> Option<PathBuf> {
        if self.text.is_empty() || !is_saved(session) {
            return None;
        }
        let mut options = private();
        options.create(true).truncate(true);
        let written =
            open(&self.path, &options).and_then(|mut file| file.write_all(self.text.as_bytes()));
        match written {
            Ok(()) => Some(self.path),
            Err(error) => {
                log_unsaved(&self.path, &error);
                None
            }
        }
    }
}

/// Logs that a file could not be written.
pub(crate) fn log_unsaved(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), error = error.to_string(), "output of a child not saved");
}

/// Returns options to write a file that only its owner reads.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Opens a file, in a folder that is created where it is missing.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    options.open(path)
}
