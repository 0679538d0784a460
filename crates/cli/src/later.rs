//! Commands that are written down and that this version does not have.

/// A command, and what it will do.
const LATER: [(&str, &str); 6] = [
    ("chat", "talks with an agent over several turns; until then `run --resume SESSION` goes on"),
    (
        "trace",
        "shows where the time of a session went; until then `sessions export` has its events",
    ),
    ("workflow", "runs graphs of tasks; until then `delegate_task` takes a flat list of them"),
    ("policy redact", "filters text as the log does"),
    ("policy trust", "trusts a project item by item"),
    ("worker", "runs children of another machine"),
];

/// Returns the message for a missing command. `words` are those up to it, with itself.
pub(crate) fn missing_command(words: &[&str]) -> Option<String> {
    let command = words.join(" ");
    let (name, does) = LATER.iter().find(|(name, _)| *name == command)?;
    let version = env!("CARGO_PKG_VERSION");
    Some(format!("`deputize {name}` is not in this version ({version}). A later one {does}."))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Arguments;

    /// A command that arrives deletes its line here.
    #[test]
    fn what_is_there_is_not_said_to_come_later() {
        let mut program = Arguments::command();
        program.build();
        for (name, _) in LATER {
            let found = name.split(' ').try_fold(&program, |at, word| at.find_subcommand(word));
            assert!(found.is_none(), "`{name}` is there: delete its line in later.rs");
        }
    }

    #[test]
    fn a_command_of_a_later_version_is_reported_as_such() {
        let actual = missing_command(&["trace"]).unwrap();
        assert!(actual.starts_with("`deputize trace` is not in this version ("), "{actual}");
        assert_eq!(super::missing_command(&["run"]), None);
        assert_eq!(super::missing_command(&["chat", "x"]), None);
    }
}
