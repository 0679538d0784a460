//! A unified diff as pieces of the old and the new text, which is how editors take it.

/// One place that was changed, with the lines around it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Hunk {
    /// Its first line in the new text, from 1.
    pub(crate) line: u32,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// The hunks of a unified diff, in order.
pub(crate) fn hunks(diff: &str) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut last = ' ';
    for line in diff.lines() {
        let (sign, text) = match line.chars().next() {
            Some(sign @ ('@' | ' ' | '+' | '-' | '\\')) => {
                (sign, line.get(1..).unwrap_or_default())
            }
            _ => continue,
        };
        if sign == '@' {
            hunks.push(Hunk { line: first_line(line), ..Hunk::default() });
            continue;
        }
        // What stands before the first hunk is the names of files.
        let Some(hunk) = hunks.last_mut() else { continue };
        let sides = match sign {
            '+' => [None, Some(&mut hunk.new)],
            '-' => [Some(&mut hunk.old), None],
            ' ' => [Some(&mut hunk.old), Some(&mut hunk.new)],
            // The line before it has no end.
            _ => {
                let Hunk { old, new, .. } = hunk;
                let sides = match last {
                    '+' => [None, Some(new)],
                    '-' => [Some(old), None],
                    _ => [Some(old), Some(new)],
                };
                sides.into_iter().flatten().for_each(|side| _ = side.pop());
                continue;
            }
        };
        for side in sides.into_iter().flatten() {
            side.push_str(text);
            side.push('\n');
        }
        last = sign;
    }
    hunks
}

/// The first line in the new text that a hunk's head names, from 1.
fn first_line(head: &str) -> u32 {
    let after = head.split_once('+').map(|(_, rest)| rest).unwrap_or_default();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(line: u32, old: &str, new: &str) -> Hunk {
        Hunk { line, old: old.to_owned(), new: new.to_owned() }
    }

    #[test]
    fn each_hunk_is_a_piece_of_both_texts() {
        let diff =
            "--- a\n+++ b\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -9,2 +9,3 @@\n x\n+++y\n+--z\n w";
        assert_eq!(
            hunks(diff),
            [hunk(1, "a\nb\nc\n", "a\nB\nc\n"), hunk(9, "x\nw\n", "x\n++y\n--z\nw\n")]
        );
    }

    #[test]
    fn a_last_line_without_an_end_has_none() {
        let mark = "\\ No newline at end of file";
        let diff = format!("@@ -1 +1 @@\n-a\n{mark}\n+b\n{mark}");
        assert_eq!(hunks(&diff), [hunk(1, "a", "b")]);
        let diff = format!("@@ -1,2 +1 @@\n-a\n b\n{mark}");
        assert_eq!(hunks(&diff), [hunk(1, "a\nb", "b")]);
        assert_eq!(hunks("@@ -0,0 +1,2 @@\n+a\n+b"), [hunk(1, "", "a\nb\n")]);
    }

    #[test]
    fn what_is_no_diff_has_no_hunks() {
        assert_eq!(hunks(""), []);
        assert_eq!(hunks("+a\n-b\nno diff at all\n\u{e9}"), []);
    }
}
