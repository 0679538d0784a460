//! Columns of text.

use crate::screen::line::width;

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
