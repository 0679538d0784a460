//! The standard streams: what is printed there, and how wide they are.

use std::io::{self, Write as _};

use deputize_core::sanitize::for_terminal;
use rustix::termios::tcgetwinsize;

use crate::exit::CliError;
use crate::screen::line::{ScreenLine, Style};

/// Columns and rows of the terminal that standard error is; `None` where it is none, or does not
/// say.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stderr()).ok()?;
    (size.ws_col > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Returns how many columns a line on standard output may take: those of the terminal but one, and
/// no limit where it is none.
pub(crate) fn output_columns() -> usize {
    let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0);
    size.map_or(usize::MAX, |size| usize::from(size.ws_col).saturating_sub(1))
}

/// The same of standard error.
pub(crate) fn error_columns() -> usize {
    terminal_size().map_or(usize::MAX, |(columns, _)| columns.saturating_sub(1))
}

/// Writes a message to standard error, wrapped at a terminal. Ignores write errors.
pub(crate) fn tell(text: &str) {
    let rows = wrap_lines(&for_terminal(text), error_columns());
    let _unread = io::stderr().write_all(rows.as_bytes());
}

/// Returns lines in rows of at most so many columns, wrapped at words.
pub(crate) fn wrap_lines(text: &str, columns: usize) -> String {
    let rows = text.lines().flat_map(|line| {
        let rows = ScreenLine::default().with(Style::Plain, line).wrap(columns);
        rows.into_iter().map(|row| row.render(false) + "\n")
    });
    rows.collect()
}

/// Prints on standard output. A reader that has gone is no failure.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::failed(PrintError(error)))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub(crate) struct PrintError(#[source] pub(crate) io::Error);
