//! Where and how the screen draws.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::{Catalog, Clock};

use super::Detail;

/// Where and how the screen draws.
pub(crate) struct Surface {
    /// Standard error.
    pub(crate) out: Box<dyn Write + Send>,
    /// Returns columns and rows of the terminal, for each drawing; `None` if there is no terminal.
    pub(crate) size: Option<SizeFn>,
    /// Whether a tree is drawn on it. Otherwise lines are printed.
    pub(crate) live: bool,
    /// Whether colours may be used.
    pub(crate) colour: bool,
    /// The tools whose calls are shown.
    pub(crate) tools: Arc<Catalog>,
    /// How much to show.
    pub(crate) detail: Detail,
    /// The directory that shown paths are relative to.
    pub(crate) cwd: PathBuf,
    /// There is no terminal to ask at, so that the top agent's commands are denied.
    pub(crate) unasked: bool,
    /// The answer is printed on the same terminal when the run has ended.
    pub(crate) prints_answer: bool,
    /// The clock for running times.
    pub(crate) clock: Arc<dyn Clock>,
}

/// Asks for columns and rows.
pub(crate) type SizeFn = Box<dyn Fn() -> (usize, usize) + Send>;
