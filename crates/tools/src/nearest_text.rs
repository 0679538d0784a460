//! The part of a file that is most like a text that is not in it.

use deputize_core::truncate::truncate_with_count;

/// Lines of the wanted text that are compared.
const COMPARED_LINES: usize = 40;
/// Comparisons of lines for one search; a file that needs more has no nearest text.
const COMPARISONS: usize = 4_000_000;
/// How alike a part must be, from 0 to 1, to be shown.
const ALIKE: f64 = 0.5;
/// Lines shown before and after.
const AROUND: usize = 2;
/// Limit on shown lines.
const SHOWN_LINES: usize = 30;
/// Limit on a shown line, in bytes.
const SHOWN_BYTES: usize = 300;

/// The lines around the most similar part, with their numbers, as `read_file` shows them.
pub(crate) fn nearest_text(text: &str, wanted: &str) -> Option<String> {
    let wanted: Vec<&str> = wanted.trim_matches('\n').lines().take(COMPARED_LINES).collect();
    if text.lines().count().saturating_mul(wanted.len()) > COMPARISONS {
        return None;
    }
    let file: Vec<&str> = text.lines().collect();
    let trimmed: Vec<&str> = file.iter().map(|line| line.trim()).collect();
    let sought: Vec<&str> = wanted.iter().map(|line| line.trim()).collect();
    let score = |at: usize| {
        let window = trimmed.iter().skip(at);
        let sum: f64 = sought.iter().zip(window).map(|(a, b)| alike(a, b)).sum();
        sum / sought.len() as f64
    };
    let best = (0..trimmed.len())
        .map(|at| (score(at), at))
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
    let (score, at) = best;
    if score < ALIKE {
        return None;
    }
    let first = at.saturating_sub(AROUND);
    let last = (at + sought.len() + AROUND).min(file.len()).min(first + SHOWN_LINES);
    let line = |(index, line): (usize, &&str)| {
        format!("{}\t{}", first + index + 1, truncate_with_count(line, SHOWN_BYTES))
    };
    let shown = file.get(first..last).unwrap_or_default();
    Some(shown.iter().enumerate().map(line).collect::<Vec<_>>().join("\n"))
}

/// Returns how much of the longer line the two lines share at start and end, from 0 to 1.
fn alike(a: &str, b: &str) -> f64 {
    let longer = a.len().max(b.len());
    if a == b {
        return 1.0;
    }
    let prefix = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let room = a.len().min(b.len()) - prefix;
    let tail = a.bytes().rev().zip(b.bytes().rev()).take(room).take_while(|(x, y)| x == y).count();
    (prefix + tail) as f64 / longer as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_lines_are_shown_with_their_numbers() {
        let text = "a\nb\nfn sum(x: u32) -> u32 {\n    x + 1\n}\nc\nd\n";
        assert_eq!(
            nearest_text(text, "fn sum(x: u64) -> u64 {\n    x + 1\n").unwrap(),
            "1\ta\n2\tb\n3\tfn sum(x: u32) -> u32 {\n4\t    x + 1\n5\t}\n6\tc"
        );
        assert_eq!(nearest_text(text, "nothing like it at all"), None);
        assert_eq!(nearest_text("", "x"), None);
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let text = format!("{}x\n", "y".repeat(1000)).repeat(100);
        let near = nearest_text(&text, &format!("{}z\n", "y".repeat(1000)).repeat(60)).unwrap();
        assert_eq!(near.lines().count(), 30);
        assert!(near.lines().all(|line| line.len() < 330 && line.ends_with("[+701 bytes]")));
    }
}
