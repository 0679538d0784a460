//! Differences and records in words.

use deputize_core::Event;

/// Lines shown around what differs.
const AROUND: usize = 2;
/// Lines shown in all.
const LINES: usize = 16;
/// Lines of each side, from the first difference on, that are looked at.
const LOOKED_AT: usize = 200;
/// Characters shown of a long line.
const WIDTH: usize = 160;
/// Characters of a long line before the place where it differs.
const LEAD: usize = 40;

/// The first place where two texts differ, with what is around it: lines that end.
pub(crate) fn excerpt(recorded: &str, now: &str) -> String {
    let old: Vec<&str> = recorded.lines().collect();
    let new: Vec<&str> = now.lines().collect();
    if old == new {
        return "the end of the last line differs\n".to_owned();
    }
    let first = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let from = first.saturating_sub(AROUND);
    fn part<'l, 't>(lines: &'l [&'t str], from: usize) -> &'l [&'t str] {
        let to = lines.len().min(from + LOOKED_AT);
        lines.get(from..to).unwrap_or_default()
    }
    let old_part = part(&old, from);
    let new_part = part(&new, from);
    let diff = similar::TextDiff::from_slices(old_part, new_part);
    let mut lines: Vec<String> = Vec::new();
    for group in diff.grouped_ops(AROUND) {
        if !lines.is_empty() {
            lines.push("  [equal lines]".to_owned());
        }
        for op in group {
            let at = where_it_differs(&op, old_part, new_part);
            let olds = op.old_range();
            let news = op.new_range();
            let mut push = |mark: char, (index, line): (usize, &&str)| {
                lines.push(format!("  {mark} {}", window(line, if index == 0 { at } else { 0 })));
            };
            let olds = old_part.get(olds);
            let news = new_part.get(news);
            if op.tag() == similar::DiffTag::Equal {
                olds.into_iter().flatten().enumerate().for_each(|line| push(' ', line));
                continue;
            }
            olds.into_iter().flatten().enumerate().for_each(|line| push('-', line));
            news.into_iter().flatten().enumerate().for_each(|line| push('+', line));
        }
    }
    let cut = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    if cut > 0 || old.len().max(new.len()) > from + LOOKED_AT {
        lines.push("  [more follows]".to_owned());
    }
    format!("line {} (- recorded, + now):\n{}\n", first + 1, lines.join("\n"))
}

/// The character from which the first lines of a change differ.
fn where_it_differs(op: &similar::DiffOp, old: &[&str], new: &[&str]) -> usize {
    if op.tag() != similar::DiffTag::Replace {
        return 0;
    }
    let one = old.get(op.old_range().start);
    let other = new.get(op.new_range().start);
    let (Some(one), Some(other)) = (one, other) else { return 0 };
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

/// The part of a line around a character of it.
fn window(line: &str, at: usize) -> String {
    let all = line.chars().count();
    if all <= WIDTH {
        return line.to_owned();
    }
    let from = if at < WIDTH - LEAD { 0 } else { at - LEAD };
    let part: String = line.chars().skip(from).take(WIDTH).collect();
    let lead = if from > 0 { "…" } else { "" };
    let rest = if from + WIDTH < all { "…" } else { "" };
    format!("{lead}{part}{rest}")
}

/// Returns a short text for a record.
pub(crate) fn said(event: &Event) -> String {
    match event {
        Event::AgentStart(start) => {
            format!("the start of an agent for `{}`", window(first_line(&start.spec.goal), 0))
        }
        Event::ModelRequest { iteration, .. } => format!("its request {iteration} to the model"),
        Event::ModelResponse { iteration, .. } => format!("the reply to its request {iteration}"),
        Event::ToolStart { call, tool, .. } => format!("the start of {call} ({tool})"),
        Event::ToolEnd(end) => format!("the result of {} ({})", end.result.call, end.tool),
        Event::AgentEnd(outcome) => {
            let status = outcome.status.as_str();
            let reason = outcome.exit_reason.as_str();
            format!("its end ({status}, {reason})")
        }
        other => {
            let kind = serde_json::to_value(other).ok();
            let kind = kind.as_ref().and_then(|kind| kind.get("type")?.as_str());
            format!("`{}`", kind.unwrap_or("a record"))
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_differences_with_what_is_around_them() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
        insta::assert_snapshot!(excerpt(old, "a\nb\nc\nD\nX\ne\nf\ng\nh\ni\nJ\n"), @r"
        line 4 (- recorded, + now):
            b
            c
          - d
          + D
          + X
            e
            f
          [equal lines]
            h
            i
          - j
          + J
        ");
        let more = (0..40).map(|n| format!("{n}\n")).collect::<String>();
        insta::assert_snapshot!(excerpt(old, &format!("{old}{more}")), @r"
        line 11 (- recorded, + now):
            i
            j
          + 0
          + 1
          + 2
          + 3
          + 4
          + 5
          + 6
          + 7
          + 8
          + 9
          + 10
          + 11
          + 12
          + 13
          [more follows]
        ");
        assert_eq!(excerpt("a", "a\n"), "the end of the last line differs\n");
    }

    #[test]
    fn what_is_looked_at_is_bounded() {
        let many = |word: &str| (0..100_000).map(|n| format!("{word}{n}\n")).collect::<String>();
        let text = excerpt(&many("a"), &many("b"));
        assert_eq!(text.lines().count(), LINES + 2);
        assert!(text.ends_with("[more follows]\n"), "{text}");
    }

    #[test]
    fn a_long_line_is_shown_where_it_differs() {
        let a = format!("{}old tail", "x".repeat(9000));
        let b = format!("{}new", "x".repeat(9000));
        let text = excerpt(&a, &b);
        assert!(text.contains("…xxx") && text.contains("xold tail\n"), "{text}");
        assert!(text.len() < 400, "{text}");
    }
}
