//! What a page did beside showing itself.

use std::fmt;

use deputize_core::sanitize::for_terminal_line;

/// Characters of a text of the page in a line about it.
const SHOWN_CHARS: usize = 300;

/// Something that a page did and that was not let happen. Its texts are the page's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageEvent {
    /// It showed a dialog.
    Dialog {
        /// Which: `alert`, `confirm`, `prompt`.
        kind: String,
        /// What it said.
        message: String,
    },
    /// It opened a window for an address.
    Window(String),
    /// It began a download from an address.
    Download(String),
    /// It asked for a file.
    FileChooser,
}

impl fmt::Display for PageEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| for_terminal_line(text, SHOWN_CHARS);
        match self {
            Self::Dialog { kind, message } => {
                write!(f, "{} \"{}\" was dismissed", shown(kind), shown(message))
            }
            Self::Window(url) => {
                write!(f, "a new window for {} was closed; open that address to see it", shown(url))
            }
            Self::Download(url) => write!(f, "the download of {} was refused", shown(url)),
            Self::FileChooser => f.write_str("the page asked for a file and got none"),
        }
    }
}
