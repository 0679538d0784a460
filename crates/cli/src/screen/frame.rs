//! The bytes that change what stands on a terminal.

use std::io::{self, Write as _};

use crossterm::cursor::{MoveToColumn, MoveUp};
use crossterm::queue;
use crossterm::terminal::{Clear, ClearType, DisableLineWrap, EnableLineWrap};

use super::line::ScreenLine;

/// The bytes that replace the tree on the terminal by lines for good and a new tree. The cursor
/// stands at the beginning of the row below the tree, before and after.
pub(super) fn frame(
    drawn: &[ScreenLine],
    above: &[ScreenLine],
    tree: &[ScreenLine],
    columns: usize,
    colour: bool,
) -> Vec<u8> {
    let mut out = Vec::new();
    compose(&mut out, drawn, above, tree, FrameStyle { columns, colour }).unwrap_or_default();
    out
}

#[derive(Clone, Copy)]
struct FrameStyle {
    columns: usize,
    colour: bool,
}

fn compose(
    out: &mut Vec<u8>,
    drawn: &[ScreenLine],
    above: &[ScreenLine],
    tree: &[ScreenLine],
    look: FrameStyle,
) -> io::Result<()> {
    if !drawn.is_empty() {
        // A terminal that became narrower has broken the lines that were drawn.
        let rows: usize =
            drawn.iter().map(|line| line.width().max(1).div_ceil(look.columns.max(1))).sum();
        let rows = u16::try_from(rows).unwrap_or(u16::MAX);
        queue!(out, MoveToColumn(0), MoveUp(rows))?;
        if !above.is_empty() || tree.is_empty() {
            queue!(out, Clear(ClearType::FromCursorDown))?;
        }
    }
    for line in above {
        writeln!(out, "{}", line.render(look.colour))?;
    }
    if tree.is_empty() {
        return Ok(());
    }
    queue!(out, DisableLineWrap)?;
    for line in tree {
        out.extend_from_slice(line.render(look.colour).as_bytes());
        queue!(out, Clear(ClearType::UntilNewLine))?;
        out.push(b'\n');
    }
    queue!(out, Clear(ClearType::FromCursorDown), EnableLineWrap)
}
