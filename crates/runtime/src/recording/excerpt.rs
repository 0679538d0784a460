//! Differences and records in words.

use deputize_core::Event;
use deputize_core::event::RequestPurpose;
use imara_diff::{Algorithm, Diff, InternedInput};

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
    let old_part = slice(&old, from, from + LOOKED_AT);
    let new_part = slice(&new, from, from + LOOKED_AT);
    let mut input = InternedInput::default();
    input.update_before(old_part.iter().copied());
    input.update_after(new_part.iter().copied());
    let mut diff = Diff::compute(Algorithm::MyersMinimal, &input);
    diff.postprocess_lines(&input);
    let mut lines: Vec<String> = Vec::new();
    // The recorded line after the change before.
    let mut done = None;
    for hunk in diff.hunks() {
        let olds = slice(old_part, hunk.before.start as usize, hunk.before.end as usize);
        let news = slice(new_part, hunk.after.start as usize, hunk.after.end as usize);
        let start = hunk.before.start as usize;
        let equal = match done {
            Some(done) if start - done > 2 * AROUND => {
                push(&mut lines, ' ', slice(old_part, done, done + AROUND), 0);
                lines.push("  [equal lines]".to_owned());
                start - AROUND
            }
            Some(done) => done,
            None => start.saturating_sub(AROUND),
        };
        push(&mut lines, ' ', slice(old_part, equal, start), 0);
        let at = where_they_differ(olds, news);
        push(&mut lines, '-', olds, at);
        push(&mut lines, '+', news, at);
        done = Some(hunk.before.end as usize);
    }
    if let Some(done) = done {
        push(&mut lines, ' ', slice(old_part, done, done + AROUND), 0);
    }
    let cut = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    if cut > 0 || old.len().max(new.len()) > from + LOOKED_AT {
        lines.push("  [more follows]".to_owned());
    }
    format!("line {} (- recorded, + now):\n{}\n", first + 1, lines.join("\n"))
}

/// The lines from one to before another, as far as there are any.
fn slice<'l, 't>(lines: &'l [&'t str], from: usize, to: usize) -> &'l [&'t str] {
    lines.get(from..to.min(lines.len())).unwrap_or_default()
}

/// Adds lines with a mark, the first of them around a character of it.
fn push(shown: &mut Vec<String>, mark: char, lines: &[&str], at: usize) {
    let at = std::iter::once(at).chain(std::iter::repeat(0));
    shown.extend(lines.iter().zip(at).map(|(line, at)| format!("  {mark} {}", window(line, at))));
}

/// The character from which the first lines of a change differ; 0 where one side has none.
fn where_they_differ(old: &[&str], new: &[&str]) -> usize {
    let (Some(old), Some(new)) = (old.first(), new.first()) else { return 0 };
    old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count()
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
        Event::ModelRequest { purpose: RequestPurpose::Summary, .. } => {
            "its request for a summary".to_owned()
        }
        Event::ModelRequest { iteration, .. } => format!("its request {iteration} to the model"),
        Event::ModelResponse { iteration, .. } => format!("the reply to its request {iteration}"),
        Event::Compaction(_) => "the compaction of its conversation".to_owned(),
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
