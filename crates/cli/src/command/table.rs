//! Columns of text: lists with a row a line, and tables that are wrapped at the width of a terminal.

use crate::exit::CliError;
use crate::screen::line::{ScreenLine, Style, truncate_columns, width};
use crate::stdio::{output_columns, print, tell};

/// Spaces between two columns.
const GAP: usize = 2;
/// By how much the columns that stand below a row's first ones are indented.
const INDENT: usize = 4;
/// Minimum width for wrapping a column of text, and for cutting the main column of a list.
const LEAST_TEXT: usize = 24;
/// Minimum width for cutting another column of a list.
const LEAST_CELL: usize = 10;

/// Prints a list with a row a line: on a terminal columns give way in this order where there is
/// too little room. One without rows is not printed; words that say so go to standard error, so
/// that a script that reads the rows gets none.
pub(crate) fn print_list<const N: usize>(
    head: [&str; N],
    rows: Vec<[String; N]>,
    give_way: &[&str],
    if_empty: &str,
) -> Result<(), CliError> {
    if rows.is_empty() {
        tell(if_empty);
        return Ok(());
    }
    let columns = output_columns();
    let list = Table::fit(head, rows, give_way, columns);
    list.note().iter().for_each(|note| tell(note));
    print(&list.text)
}

/// Prints a table whose long cells are wrapped on a terminal, or words that say that it is empty.
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

/// Rows under a head, one line each.
pub(crate) struct Table {
    pub(crate) text: String,
    left_out: Vec<String>,
}

impl Table {
    /// Fits a list into so many columns. Columns give way in this order: they are cut, as far as
    /// something is still to be read of them, and then left out, all but the last of them.
    pub(crate) fn fit<const N: usize>(
        head: [&str; N],
        rows: Vec<[String; N]>,
        give_way: &[&str],
        columns: usize,
    ) -> Self {
        let mut all = vec![head.map(str::to_owned)];
        all.extend(rows);
        let place = |name: &&str| head.iter().position(|known| known == name);
        let give_way: Vec<usize> = give_way.iter().filter_map(place).collect();
        let natural: Vec<usize> = (0..N).map(|index| natural_width(&all, index)).collect();
        let droppable = give_way.len().saturating_sub(1);
        let widths =
            (0..=droppable).map(|dropped| fit_columns(&natural, &give_way, dropped, columns));
        let fits = |widths: &Vec<usize>| total(widths) <= columns;
        let mut tight = Vec::new();
        let mut fitting = None;
        for widths in widths {
            if fits(&widths) {
                fitting = Some(widths);
                break;
            }
            tight = widths;
        }
        let widths = fitting.unwrap_or(tight);
        let left_out = give_way.iter().filter(|index| widths.get(**index) == Some(&0));
        let mut left_out: Vec<usize> = left_out.copied().collect();
        left_out.sort_unstable();
        let left_out =
            left_out.into_iter().filter_map(|index| head.get(index).map(|it| (*it).to_owned()));
        let lines = all.iter().map(|row| line(row, &widths, columns) + "\n");
        Self { text: lines.collect(), left_out: left_out.collect() }
    }

    /// Says which columns had no room, if any.
    pub(crate) fn note(&self) -> Option<String> {
        let names = self.left_out.join(", ");
        (!names.is_empty())
            .then(|| format!("note: no room for {names}: a wider terminal or `--json` shows more"))
    }
}

fn natural_width<const N: usize>(rows: &[[String; N]], index: usize) -> usize {
    rows.iter().filter_map(|row| row.get(index)).map(|cell| width(cell)).max().unwrap_or_default()
}

/// Returns the width of each column where so many of those that give way are left out (their width
/// is 0) and the others are cut as little as possible.
fn fit_columns(
    natural: &[usize],
    give_way: &[usize],
    dropped: usize,
    columns: usize,
) -> Vec<usize> {
    let mut widths = natural.to_vec();
    for (place, index) in give_way.iter().enumerate() {
        let over = total(&widths).saturating_sub(columns);
        let least = if place + 1 == give_way.len() { LEAST_TEXT } else { LEAST_CELL };
        let Some(width) = widths.get_mut(*index) else { continue };
        *width =
            if place < dropped { 0 } else { (*width).min(least.max(width.saturating_sub(over))) };
    }
    widths
}

/// The width of a row of columns and the gaps between them.
fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    let all: usize = shown.map(|width| width.saturating_add(GAP)).sum();
    all.saturating_sub(GAP)
}

/// A row on one line.
fn line<const N: usize>(row: &[String; N], widths: &[usize], columns: usize) -> String {
    let mut line = String::new();
    for (cell, columns) in row.iter().zip(widths).filter(|(_, columns)| **columns > 0) {
        let cell = truncate_cell(cell, *columns);
        line.push_str(&cell);
        line.push_str(&" ".repeat((columns + GAP).saturating_sub(width(&cell))));
    }
    truncate_columns(line.trim_end(), columns)
}

/// A cell that fits into so many columns: of a path its end, of other text its beginning.
fn truncate_cell(cell: &str, columns: usize) -> String {
    let is_path = cell.starts_with('/') && !cell.contains(' ');
    if !is_path || width(cell) <= columns {
        return truncate_columns(cell, columns);
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let wide = width(c.encode_utf8(&mut [0; 4]));
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    };
    let end: Vec<char> = cell.chars().rev().take_while(fits).collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
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
        .map(|column| wrap_cell(row.get(column.index).map_or("", String::as_str), column.width))
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
fn wrap_cell(cell: &str, columns: usize) -> Vec<String> {
    let rows = ScreenLine::default().with(Style::Plain, cell).wrap(columns);
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

    fn fitted_list(columns: usize) -> (Vec<String>, Option<String>) {
        let goal = "Go over each of the modules and write down what they have in common";
        let all = [
            [
                "20260102-abc",
                "running",
                "local/a-model-with-a-name",
                "/home/somebody/project",
                goal,
            ],
            ["20260102-def", "completed", "local/b", "/w", "Count"],
        ];
        let all = all.map(|row| row.map(str::to_owned)).to_vec();
        let head = ["SESSION", "STATUS", "MODEL", "DIRECTORY", "GOAL"];
        let list = Table::fit(head, all, &["DIRECTORY", "MODEL", "GOAL"], columns);
        (list.text.lines().map(str::to_owned).collect(), list.note())
    }

    #[test]
    fn the_least_important_cells_of_a_list_are_cut_first() {
        let (whole, note) = fitted_list(usize::MAX);
        assert!(whole[1].ends_with("what they have in common") && note.is_none(), "{whole:#?}");
        let (lines, note) = fitted_list(120);
        insta::assert_snapshot!(lines.join("\n"), @r"
        SESSION       STATUS     MODEL           DIRECTORY   GOAL
        20260102-abc  running    local/a-model…  …y/project  Go over each of the modules and write down what they have in common
        20260102-def  completed  local/b         /w          Count
        ");
        assert_eq!(note, None);
        let (lines, note) = fitted_list(80);
        insta::assert_snapshot!(lines.join("\n"), @r"
        SESSION       STATUS     MODEL       DIRECTORY   GOAL
        20260102-abc  running    local/a-m…  …y/project  Go over each of the modules an…
        20260102-def  completed  local/b     /w          Count
        ");
        assert_eq!(note, None);
        let (lines, note) = fitted_list(60);
        insta::assert_snapshot!(lines.join("\n"), @r"
        SESSION       STATUS     GOAL
        20260102-abc  running    Go over each of the modules and wr…
        20260102-def  completed  Count
        ");
        let words = "note: no room for MODEL, DIRECTORY: a wider terminal or `--json` shows more";
        assert_eq!(note.as_deref(), Some(words));
    }

    #[test]
    fn each_row_of_a_list_is_one_line_however_narrow_it_is() {
        for columns in 1..130 {
            let (lines, _) = fitted_list(columns);
            assert_eq!(lines.len(), 3, "{columns}: {lines:#?}");
            assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:#?}");
        }
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
