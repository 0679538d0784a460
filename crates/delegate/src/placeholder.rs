//! Goals that stand for one: a model that fills in a form, or a template that nobody filled in.

/// Remedy for a placeholder.
pub(crate) const PLACEHOLDER: &str = "`goal` is a placeholder; say what this child is to \
                                      accomplish, complete in itself, because it knows nothing else";

/// Words that tell which of them it is, before a number.
const NUMBERED: [&str; 4] = ["goal", "subtask", "task", "todo"];
const WHOLE: [&str; 18] = [
    "description",
    "fixme",
    "goal",
    "goal goes here",
    "goal here",
    "insert goal here",
    "insert task here",
    "n/a",
    "null",
    "placeholder",
    "task",
    "task description",
    "task goes here",
    "task here",
    "tbd",
    "todo",
    "your goal here",
    "your task here",
];
/// All that a text in brackets may consist of, beside numbers.
const IN_BRACKETS: [&str; 19] = [
    "a",
    "child",
    "description",
    "fill",
    "for",
    "goal",
    "here",
    "in",
    "insert",
    "n",
    "prompt",
    "subtask",
    "tbd",
    "text",
    "the",
    "this",
    "task",
    "todo",
    "your",
];
/// How templates mark what is to be filled in.
const BRACKETS: [(&str, &str); 6] =
    [("{{", "}}"), ("${", "}"), ("{", "}"), ("<", ">"), ("[", "]"), ("%", "%")];

/// Whether a goal says nothing but that one belongs there. Only whole texts are: a short goal is
/// a goal.
pub(crate) fn is_placeholder(goal: &str) -> bool {
    let goal = goal.trim().to_lowercase();
    if goal.is_empty() {
        return false;
    }
    let inside = |(open, close): (&str, &str)| goal.strip_prefix(open)?.strip_suffix(close);
    if let Some(inside) = BRACKETS.into_iter().find_map(inside) {
        let known = |word: &str| IN_BRACKETS.contains(&word) || is_number(word);
        return words(inside).all(known);
    }
    let end = |c: char| c.is_whitespace() || ".!:…".contains(c);
    let bare = goal.trim_end_matches(end);
    if !bare.chars().any(char::is_alphanumeric) {
        return true;
    }
    let words: Vec<&str> = words(bare).collect();
    WHOLE.contains(&bare)
        || matches!(words.as_slice(), [what, number] if NUMBERED.contains(what) && is_number(number))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let apart = |c: char| c.is_whitespace() || "_-#:.".contains(c);
    text.split(apart).filter(|word| !word.is_empty())
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_a_goal_is_none() {
        for goal in [
            "TODO",
            "todo.",
            " Task 3 ",
            "task #3",
            "task_12",
            "Subtask-2:",
            "...",
            "…",
            "?",
            "<goal>",
            "<your goal here>",
            "{goal}",
            "{{ task_3 }}",
            "${GOAL}",
            "[insert task here]",
            "%GOAL%",
            "<>",
            "TBD",
            "N/A",
            "Goal goes here.",
            "placeholder",
        ] {
            assert!(is_placeholder(goal), "{goal}");
        }
    }

    #[test]
    fn a_short_goal_is_one() {
        for goal in [
            "A",
            "Go",
            "Any.",
            "x",
            "Fix it",
            "todo list",
            "Task 3 of the plan",
            "Build task 3",
            "Do the TODOs",
            "tests",
            "7",
            "<div> must close",
            "[a] and [b]",
            "{a, b}",
            "<main.rs>",
            "\u{6570}\u{3048}\u{3066}",
            "task force",
            "goals",
            "",
        ] {
            assert!(!is_placeholder(goal), "{goal}");
        }
    }
}
