//! Notifications by an escape sequence of the person's terminal.

use std::fs::File;
use std::io::{self, Write as _};

use deputize_core::sanitize::for_terminal_line;

/// Characters of a message that a notification shows.
const SHOWN_CHARS: usize = 200;

/// A terminal that may show notifications. Whether it does is its own matter: terminals drop
/// sequences that they do not know.
#[derive(Debug)]
pub struct NotificationTerminal {
    terminal: File,
    /// Whether it knows OSC 777, and not OSC 9.
    is_rxvt: bool,
    in_tmux: bool,
}

impl NotificationTerminal {
    /// Creates one of an open terminal, with the values of `TERM` and whether `TMUX` is set.
    #[must_use]
    pub fn new(terminal: File, term: &str, in_tmux: bool) -> Self {
        let is_rxvt = term.starts_with("rxvt") || term.starts_with("foot");
        Self { terminal, is_rxvt, in_tmux }
    }

    /// Shows a notification.
    ///
    /// # Errors
    /// If the terminal cannot be written.
    pub(crate) fn notify(&self, title: &str, text: &str) -> io::Result<()> {
        // One write: what the program draws cannot come in between.
        (&self.terminal).write_all(self.sequence(title, text).as_bytes())
    }

    fn sequence(&self, title: &str, text: &str) -> String {
        let text = for_terminal_line(text, SHOWN_CHARS);
        let sequence = if self.is_rxvt {
            format!("\x1b]777;notify;{title};{text}\x07")
        } else {
            format!("\x1b]9;{title}: {text}\x07")
        };
        if self.in_tmux {
            // Handed on to the terminal outside; the bell marks the window.
            format!("\x1bPtmux;{}\x1b\\\x07", sequence.replace('\x1b', "\x1b\x1b"))
        } else {
            sequence
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_leave_its_sequence() {
        let on = |term: &str, in_tmux| {
            let terminal = NotificationTerminal::new(tempfile::tempfile().unwrap(), term, in_tmux);
            terminal.sequence("Agent", "Done;\x07\x1b]52;c;YQ==\x07\nnow\u{9c}")
        };
        for sequence in [on("xterm-256color", false), on("rxvt-unicode", false)] {
            let inside = sequence.strip_prefix('\x1b').unwrap().strip_suffix('\x07').unwrap();
            assert!(!inside.contains(|c: char| c.is_control()), "{inside:?}");
        }
        assert!(on("xterm", false).starts_with("\x1b]9;Agent: Done;"));
        assert!(on("foot", false).starts_with("\x1b]777;notify;Agent;Done;"));
        assert!(on("screen", true).starts_with("\x1bPtmux;\x1b\x1b]9;"));
        assert!(on("screen", true).ends_with("\x07\x1b\\\x07"));
    }
}
