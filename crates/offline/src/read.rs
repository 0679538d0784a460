//! Shows a file, or as much of it as an answer repeats.

use serde_json::json;

use deputize_core::truncate::truncate_chars;

use super::Next;
use super::conversation::{Ask, Turn, TurnCall};
use super::single::{SHOWN, fence, missing_tool, undone};
use super::task::is_path;
use super::wording::{code, number};

/// Returns the next step of the task to show a file from a line on.
pub(super) fn step(turn: &Turn<'_>, path: &str, line: u64, closing: bool) -> Next {
    if turn.tool("read_file").is_none() {
        return missing_tool(turn, "read_file");
    }
    let mut ask = Ask::new(turn);
    let arguments = match line {
        1 => json!({"path": path}),
        line => json!({"path": path, "offset": line}),
    };
    let what = match line {
        1 => format!("`{path}`"),
        line => format!("`{path}` from line {line}"),
    };
    let Some(done) = ask.call("read_file", arguments) else {
        return if closing { undone(&what) } else { Next::Calls(ask.into_missing()) };
    };
    match done.problem() {
        Some(problem) => Next::Refuse(format!("{what} {problem}\n")),
        None => Next::Say(answer(path, &what, done)),
    }
}

/// Renders the page of a file that a call returned.
fn answer(path: &str, what: &str, done: &TurnCall) -> String {
    let lines: Vec<&str> = done.content.lines().collect();
    let mut out = format!("{what}:\n");
    let shown = lines_that_fit(&lines);
    if !lines.is_empty() {
        let text = shown_text(lines.get(..shown).unwrap_or_default());
        let fence = fence(&text);
        out.push_str(&format!("\n{fence}\n{text}\n{fence}\n"));
    }
    if lines.first().is_some_and(|line| line.chars().count() > SHOWN) {
        let cut = number(SHOWN as u64);
        out.push_str(&format!("\nThe line is cut after {cut} characters.\n"));
    }
    let line_number = |line: &&str| line.split('\t').next()?.trim().parse::<u64>().ok();
    let first = lines.first().and_then(line_number);
    let last = shown.checked_sub(1).and_then(|at| lines.get(at)).and_then(line_number);
    let all = all_lines(done).or_else(|| lines.last().and_then(line_number));
    if let (Some(first), Some(last), Some(all)) = (first, last, all)
        && (first, last) != (1, all)
    {
        let lines = match (number(first), number(last)) {
            (one, other) if one == other => format!("Line {one}"),
            (first, last) => format!("Lines {first} to {last}"),
        };
        let more = match last < all {
            true => format!(": {} shows more", code(&next_task(path, last + 1))),
            false => String::new(),
        };
        out.push_str(&format!("\n{lines} of {}{more}.\n", number(all)));
    }
    // Where a page ends is said above, in the words of this model.
    for note in done.notes.iter().filter(|note| page_of(note).is_none()) {
        let note = note.split("; to go on in it").next().unwrap_or_default();
        out.push_str(&format!("\n({note})\n"));
    }
    out
}

/// Returns how many of some lines fit into an answer, at least one.
fn lines_that_fit(lines: &[&str]) -> usize {
    let mut room = SHOWN;
    let fits = lines.iter().take_while(|line| {
        let length = line.chars().count() + 1;
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    });
    fits.count().max(1).min(lines.len())
}

fn shown_text(lines: &[&str]) -> String {
    truncate_chars(&lines.join("\n"), SHOWN).to_owned()
}

/// Returns the number of lines of a file of which a page was read.
fn all_lines(done: &TurnCall) -> Option<u64> {
    done.notes.iter().find_map(|note| page_of(note))
}

/// Returns the number of lines of a file from the note about a page of it.
fn page_of(note: &str) -> Option<u64> {
    let (lines, _) = note.strip_prefix("lines ")?.split_once("; to go on")?;
    lines.split_once(" of ")?.1.parse().ok()
}

/// Returns the task that shows the rest of a file.
fn next_task(path: &str, line: u64) -> String {
    let plain = is_path(path) && !path.contains(|c: char| c.is_whitespace() || "\"'`,".contains(c));
    if plain {
        format!("read {path} from line {line}")
    } else {
        format!("read \"{path}\" from line {line}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Repository, talk};

    fn read(task: &str, text: &str) -> String {
        let repository = Repository::new(&[("src/a.rs", text), ("b.md", "one\n")]);
        talk(task, &["read_file"], 9, |tool, arguments| repository.play(tool, arguments)).answer
    }

    fn numbered(lines: std::ops::Range<u64>) -> String {
        lines.map(|line| format!("line {line} of a long file\n")).collect()
    }

    #[test]
    fn a_long_file_is_shown_in_parts_that_join() {
        let text = numbered(1..3_001);
        let mut next = "read src/a.rs".to_owned();
        let mut seen = Vec::new();
        let mut parts = 0;
        loop {
            let said = read(&next, &text);
            let listed = said.lines().filter_map(|line| line.split_once('\t'));
            seen.extend(listed.map(|(number, _)| number.parse::<u64>().unwrap()));
            parts += 1;
            let Some((_, rest)) = said.split_once(" of 3,000: `") else {
                assert!(said.contains(" to 3,000 of 3,000.\n"), "{said}");
                break;
            };
            rest.split_once('`').unwrap().0.clone_into(&mut next);
        }
        assert!(parts > 5);
        assert_eq!(seen, (1..3_001).collect::<Vec<u64>>());
    }

    #[test]
    fn a_short_file_is_shown_whole_without_a_remark() {
        let said = read("read src/a.rs and b.md", "fn a() {}\nfn b() {}\n");
        assert_eq!(
            said,
            "`src/a.rs`:\n\n```\n1\tfn a() {}\n2\tfn b() {}\n```\n\n`b.md`:\n\n```\n1\tone\n```\n"
        );
        let from = read("read src/a.rs from line 2", "fn a() {}\nfn b() {}\n");
        assert_eq!(from, "`src/a.rs` from line 2:\n\n```\n2\tfn b() {}\n```\n\nLine 2 of 2.\n");
    }

    #[test]
    fn a_line_longer_than_an_answer_is_cut() {
        let said = read("read src/a.rs", &format!("{}\nfn b() {{}}\n", "x".repeat(20_000)));
        assert!(said.contains("\nThe line is cut after 12,000 characters.\n"), "{said}");
        assert!(said.ends_with("\nLine 1 of 2: `read src/a.rs from line 2` shows more.\n"));
    }
}
