//! Columns of text.

use crate::exit::CliError;
use crate::screen::line::width;
use crate::surroundings::{print, tell};

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
    print(&table(head, rows))
}

/// Rows under a head, each column as wide as its widest cell. The last one is not padded.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut all = vec![head.map(str::to_owned)];
    all.extend(rows);
    let mut widths = [0; N];
    for row in &all {
        for (most, cell) in widths.iter_mut().zip(row) {
            *most = width(cell).max(*most);
        }
    }
    let mut out = String::new();
    for row in &all {
        let mut line = String::new();
        for (most, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.push_str(&" ".repeat(most + 2 - width(cell)));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let rows = vec![["漢字".to_owned(), "x".to_owned()], ["a".to_owned(), String::new()]];
        insta::assert_snapshot!(table(["NAME", "WHAT"], rows), @r"
        NAME  WHAT
        漢字  x
        a
        ");
    }
}
