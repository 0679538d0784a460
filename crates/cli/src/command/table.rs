//! Columns of text, folded to the width of a terminal.

use crate::exit::CliError;
use crate::screen::line::{Line, Style, width};
use crate::surroundings::{output_columns, print, tell};

/// Spaces between two columns.
const GAP: usize = 2;
/// By how much the columns that stand below a row's first ones are indented.
const INDENT: usize = 4;
/// The least width into which a column of text is wrapped.
const LEAST_TEXT: usize = 24;

/// Prints a table. One without rows is not printed; words that say so go to standard error, so
/// that a script that reads the rows gets none.
pub(crate) fn print_table<const N: usize>(
    head: [&str; N],
    rows: Vec<[String; N]>,
    if_empty: &str,
) -> Result<(), CliError> {
    if rows.is_empty() {
        tell(if_empty);
        return Ok(());
    }
    print(&table(head, rows, output_columns()))
}

/// Returns rows under a head, each column as wide as its widest cell and the last one not padded.
///
/// What does not fit into so many columns of a terminal is wrapped at words where it is long text;
/// the columns behind it stand below, indented. Nothing is left out.
pub(crate) fn table<const N: usize>(
    head: [&str; N],
    rows: Vec<[String; N]>,
    columns: usize,
) -> String {
    let mut all = vec![head.map(str::to_owned)];
    all.extend(rows);
    aligned(&all, columns)
}

/// The same of rows without a head.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]], columns: usize) -> String {
    let layout = layout(rows, columns);
    let mut out = String::new();
    for row in rows {
        for group in layout.chunk_by(|_, next| !next.begins_line) {
            let is_below = group.first().is_some_and(|column| column.begins_line);
            for line in lines(row, group) {
                let line = line.trim_end();
                // Cells that stand below and are empty take no line.
                if !(is_below && line.is_empty()) {
                    out.push_str(line);
                    out.push('\n');
                }
            }
        }
    }
    out
}

/// Where a column stands.
struct Column {
    index: usize,
    width: usize,
    begins_line: bool,
}

/// Places each column on the line of the one before it while it fits there, else below.
fn layout<const N: usize>(rows: &[[String; N]], columns: usize) -> Vec<Column> {
    let mut layout = Vec::new();
    let mut used = 0;
    for index in 0..N {
        let cells = || rows.iter().filter_map(|row| row.get(index));
        let natural = cells().map(|cell| width(cell)).max().unwrap_or_default();
        let word = cells().flat_map(|cell| cell.split(' ')).map(width).max().unwrap_or_default();
        let least = natural.min(LEAST_TEXT).max(word);
        let begins_line = index > 0 && used + least > columns;
        if begins_line {
            used = INDENT;
        }
        let width = natural.min(columns.saturating_sub(used).max(1));
        used = used.saturating_add(width + GAP);
        layout.push(Column { index, width, begins_line });
    }
    layout
}

/// The columns of a row that stand on one line: more lines where a cell is wrapped.
fn lines<const N: usize>(row: &[String; N], group: &[Column]) -> Vec<String> {
    let indent = if group.first().is_some_and(|column| column.begins_line) { INDENT } else { 0 };
    let cells: Vec<Vec<String>> = group
        .iter()
        .map(|column| wrapped(row.get(column.index).map_or("", String::as_str), column.width))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    let line = |at: usize| {
        let mut line = " ".repeat(indent);
        for (column, cell) in group.iter().zip(&cells) {
            let text = cell.get(at).map_or("", String::as_str);
            line.push_str(text);
            line.push_str(&" ".repeat((column.width + GAP).saturating_sub(width(text))));
        }
        line
    };
    (0..height).map(line).collect()
}

/// A cell in rows of at most so many columns, wrapped at words. A word that is wider is broken,
/// as the terminal would.
fn wrapped(cell: &str, columns: usize) -> Vec<String> {
    let rows = Line::default().with(Style::Plain, cell).wrap(columns);
    rows.iter().flat_map(|row| broken(&row.render(false), columns)).collect()
}

fn broken(text: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for c in text.chars() {
        let wide = width(c.encode_utf8(&mut [0; 4]));
        if used + wide > columns && used > 0 {
            rows.push(String::new());
            used = 0;
        }
        used += wide;
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(all: &[[&str; 3]]) -> Vec<[String; 3]> {
        all.iter().map(|row| row.map(str::to_owned)).collect()
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let rows = vec![["漢字".to_owned(), "x".to_owned()], ["a".to_owned(), String::new()]];
        insta::assert_snapshot!(table(["NAME", "WHAT"], rows, usize::MAX), @r"
        NAME  WHAT
        漢字  x
        a
        ");
    }

    #[test]
    fn columns_below_that_are_empty_take_no_line() {
        let all = rows(&[["1234567890", "1234567890", "1234567890"], ["a", "b", ""]]);
        insta::assert_snapshot!(aligned(&all, 30), @r"
        1234567890  1234567890
            1234567890
        a           b
        ");
    }

    #[test]
    fn long_text_is_wrapped_in_its_column_and_columns_without_room_stand_below() {
        let text = "it needs approval, which children cannot get (delegation.approvals is `deny`)";
        let all = rows(&[["terminal", "no", text], ["read_file", "yes", ""]]);
        insta::assert_snapshot!(table(["TOOL", "CHILD HAS IT", "WHY"], all.clone(), 60), @r"
        TOOL       CHILD HAS IT  WHY
        terminal   no            it needs approval, which children
                                   cannot get (delegation.approvals
                                   is `deny`)
        read_file  yes
        ");
        insta::assert_snapshot!(table(["TOOL", "CHILD HAS IT", "WHY"], all, 45), @r"
        TOOL       CHILD HAS IT
            WHY
        terminal   no
            it needs approval, which children cannot
              get (delegation.approvals is `deny`)
        read_file  yes
        ");
        let narrow = table(["A", "B", "C"], rows(&[["12345678901", "漢字漢字", "z"]]), 7);
        assert!(narrow.lines().all(|line| width(line) <= 7), "{narrow}");
    }
}
