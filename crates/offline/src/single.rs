//! Tasks that one call answers, and the answer to those that no rule knows.

use serde_json::{Value, json};

use deputize_core::message::CallStatus;
use deputize_core::truncate::truncate_chars;

use super::Next;
use super::conversation::{Ask, SHOWN_PROBLEM, Turn, TurnCall};
use super::inventory::nearest;
use super::task::{Refusal, Task};
use super::wording::count;

/// Characters of a result that an answer repeats.
pub(super) const SHOWN: usize = 12_000;

const HELP: &str = include_str!("help.md");

/// Returns why a task is refused, what can be asked instead, and the host's word on other models.
pub(super) fn help(refusal: &Refusal, other_models: &str) -> String {
    let help = HELP.replacen("{{why}}", &refusal.0, 1);
    match other_models {
        "" => help,
        other_models => format!("{help}\n{other_models}\n"),
    }
}

/// The next step of a task that is not a survey.
pub(super) fn step(turn: &Turn<'_>, task: &Task, closing: bool) -> Next {
    let Some((tool, arguments, what)) = call_of(task) else {
        let refusal = Refusal("No rule of mine fits this task.".to_owned());
        return Next::Refuse(help(&refusal, turn.other_models));
    };
    if turn.tool(tool).is_none() {
        return missing_tool(turn, tool);
    }
    let mut ask = Ask::new(turn);
    let Some(done) = ask.call(tool, arguments) else {
        return if closing { undone(&what) } else { Next::Calls(ask.into_missing()) };
    };
    let mut text = answer(&what, done);
    if let (Task::List { path }, Some(problem)) = (task, done.problem()) {
        let near = nearest(&mut ask, path, &problem);
        if ask.waits() && !closing {
            return Next::Calls(ask.into_missing());
        }
        if let Some(near) = near.strip_prefix("; d") {
            text.push_str(&format!("\nD{near}\n"));
        }
    }
    if has_failed(done) { Next::Refuse(text) } else { Next::Say(text) }
}

/// Refuses a task for want of a tool.
pub(super) fn missing_tool(turn: &Turn<'_>, tool: &str) -> Next {
    let why = format!("`{tool}`, which this task needs, is not among my tools here.");
    Next::Refuse(help(&Refusal(why), turn.other_models))
}

/// Says that there was no call left for a task. The turn ends for the reason of its limit, which
/// says more than a failure would.
pub(super) fn undone(what: &str) -> Next {
    Next::Say(format!("{what} was not done: no more tool calls were allowed."))
}

/// Whether a call did not do what it was to do: a command, also by its own word.
fn has_failed(done: &TurnCall) -> bool {
    let ended_badly = |note: &String| {
        let code = note.strip_prefix("exit code ");
        code.is_some_and(|code| code != "0") || note.starts_with("ended by signal")
    };
    done.ok().is_none() || done.notes.iter().any(ended_badly)
}

fn call_of(task: &Task) -> Option<(&'static str, Value, String)> {
    Some(match task {
        Task::List { path } => {
            ("list_dir", json!({"path": path, "depth": 2}), format!("Listing `{path}`"))
        }
        Task::Run { command } => ("terminal", json!({"command": command}), format!("`{command}`")),
        Task::Write { path, text } => {
            let mut text = text.clone();
            if !text.ends_with('\n') {
                text.push('\n');
            }
            ("write_file", json!({"path": path, "content": text}), format!("Writing `{path}`"))
        }
        Task::Survey { .. }
        | Task::Tests { .. }
        | Task::Search(_)
        | Task::Read { .. }
        | Task::Part(_) => return None,
    })
}

fn answer(what: &str, done: &TurnCall) -> String {
    let content = done.content.trim_end();
    let (mut out, content) = match done.problem() {
        // The line of the problem is all of it.
        Some(problem) if is_shown_whole(done, content) => (format!("{what} {problem}\n"), ""),
        Some(_) => (format!("{what} {}:\n", done.end_word()), content),
        None => (format!("{what}:\n"), content),
    };
    if done.ok().is_some() && content.is_empty() && done.notes.is_empty() {
        out.push_str("\nNothing.\n");
    } else if !content.is_empty() {
        let shown = truncate_chars(content, SHOWN);
        let left = content.chars().count() - shown.chars().count();
        let fence = fence(shown);
        out.push_str(&format!("\n{fence}\n{shown}\n{fence}\n"));
        if left > 0 {
            let left = count(left as u64, "more character");
            out.push_str(&format!("\nNot repeated here: {left}.\n"));
        }
    }
    for note in &done.notes {
        out.push_str(&format!("\n({note})\n"));
    }
    out
}

/// Whether the sentence on a failed call has all of its result.
fn is_shown_whole(done: &TurnCall, content: &str) -> bool {
    let is_sentence = content.lines().count() < 2 && content.len() <= SHOWN_PROBLEM;
    is_sentence && done.status != CallStatus::Cancelled
}

/// A fence longer than any in the text.
pub(super) fn fence(text: &str) -> String {
    let longest =
        text.lines().map(|line| line.trim_start().bytes().take_while(|b| *b == b'`').count()).max();
    "`".repeat(longest.unwrap_or(0).max(2) + 1)
}

#[cfg(test)]
mod tests {
    use deputize_core::message::CallStatus;

    use super::super::fixture::{ok, talk};
    use super::*;

    const TOOLS: &[&str] =
        &["list_dir", "search_files", "read_file", "write_file", "terminal", "delegate_task"];

    #[test]
    fn one_call_answers_with_what_it_gave() {
        for (task, tool, arguments) in [
            ("read a.rs", "read_file", json!({"path": "a.rs"})),
            ("list src", "list_dir", json!({"path": "src", "depth": 2})),
            ("run cargo test", "terminal", json!({"command": "cargo test"})),
            ("write a.txt: hi", "write_file", json!({"path": "a.txt", "content": "hi\n"})),
        ] {
            let talk = talk(task, TOOLS, 9, |_, _| ok("```\nx", "a remark"));
            assert_eq!(talk.calls, [(tool.to_owned(), arguments)]);
            assert!(talk.answer.contains("\n````\n```\nx\n````\n"), "{}", talk.answer);
            assert!(talk.answer.contains("(a remark)") && !talk.failed, "{}", talk.answer);
        }
    }

    #[test]
    fn what_fails_is_reported_once() {
        let denied = |_: &str, _: &Value| (CallStatus::Denied, "no approval".to_owned(), "");
        let refused = talk("run rm -rf /", TOOLS, 9, denied);
        assert_eq!((refused.steps, refused.calls.len()), (2, 1));
        assert!(refused.answer == "`rm -rf /` was denied: no approval\n", "{}", refused.answer);
        let lacking = talk("run make", &["read_file"], 9, denied);
        assert_eq!(lacking.calls.len(), 0);
        assert!(
            lacking.answer.contains("`terminal`, which this task needs, is not among my tools")
        );
        assert!(refused.failed && lacking.failed);
    }

    #[test]
    fn a_command_that_fails_fails_the_turn() {
        for (note, failed) in
            [("exit code 0", false), ("exit code 1", true), ("ended by signal 9", true)]
        {
            let talk = talk("run cargo test", TOOLS, 9, |_, _| ok("", note));
            assert_eq!(talk.failed, failed, "{note}");
            assert!(talk.answer.contains(&format!("({note})")), "{}", talk.answer);
        }
    }

    #[test]
    fn help_ends_with_what_the_host_says_of_other_models() {
        let refusal = Refusal("Why.".to_owned());
        let own = help(&refusal, "");
        assert_eq!(help(&refusal, "Choose another."), format!("{own}\nChoose another.\n"));
    }

    #[test]
    fn what_no_rule_knows_does_nothing_and_says_so() {
        let talk = talk("Fix the bug in src/main.rs", TOOLS, 9, |_, _| panic!("a call"));
        let why = "No rule of mine fits `Fix the bug in src/main.rs`.";
        let said = help(&Refusal(why.to_owned()), "");
        assert_eq!((talk.steps, talk.answer, talk.failed), (1, said, true));
    }

    #[test]
    fn parts_are_done_in_their_order_and_one_that_fails_fails_the_turn() {
        let task = "read a.rs and list src";
        let talk_of = |status: CallStatus| {
            talk(task, TOOLS, 9, move |tool, _| match tool {
                "read_file" => (status, "1\tone".to_owned(), ""),
                _ => ok("b.rs\t1", ""),
            })
        };
        let good = talk_of(CallStatus::Ok);
        let bad = talk_of(CallStatus::Error);
        let tools: Vec<&str> = good.calls.iter().map(|(tool, _)| tool.as_str()).collect();
        assert_eq!(
            (tools.as_slice(), good.failed, bad.failed),
            (&["read_file", "list_dir"][..], false, true)
        );
        for talk in [good, bad] {
            assert!(
                talk.answer.contains("1\tone") && talk.answer.contains("b.rs\t1"),
                "{}",
                talk.answer
            );
        }
    }

    #[test]
    fn nothing_is_called_empty_that_could_not_be_looked_at() {
        let locked = talk("list src", TOOLS, 9, |_, _| ok("", "1 entry could not be read"));
        assert_eq!(locked.answer, "Listing `src`:\n\n(1 entry could not be read)\n");
    }

    #[test]
    fn no_text_names_a_command_of_the_program() {
        assert!(!HELP.contains("deputize "), "{HELP}");
    }
}
