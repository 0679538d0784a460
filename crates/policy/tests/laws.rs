//! Laws of the classification, over drawn commands.

use std::path::PathBuf;

use deputize_policy::{CommandClass, CommandContext, classify_command};
use proptest::prelude::*;

const HARDLINE: [&str; 8] = [
    "rm -rf /",
    "rm -fr ~/",
    "dd if=/dev/zero of=/dev/sda",
    "mkfs.ext4 /dev/sdb1",
    "kill -9 -1",
    "shutdown -h now",
    "chmod -R 777 /",
    "find / -delete",
];
/// What runs a command that stands in place of `@`.
const WRAPPERS: [&str; 34] = [
    "@",
    "sudo @",
    "sudo -u root @",
    "env A=1 @",
    "nice -n 5 @",
    "timeout 5 @",
    "nohup @ &",
    "time @",
    // Without the blanks, `((` begins a sum.
    "( @)",
    "{ @; }",
    "true && @",
    "false || @",
    "ls; @",
    "if true; then @; fi",
    "for i in 1; do @; done",
    "while true; do @; done",
    "echo $( @)",
    "echo \"`@`\"",
    "x=$( @)",
    "f() { @; }; f",
    "f() { @; }",
    "case a in a) @;; esac",
    "! @",
    "@ | cat",
    "cat <( @)",
    "@ > log 2>&1",
    "coproc @",
    "busybox @",
    "setsid @",
    "command @",
    "exec @",
    "stdbuf -oL @",
    "cd /tmp && @",
    "trap 'true' EXIT; @",
];
/// What runs a command that is given as a text in quotes.
const SHELLS: [&str; 7] =
    ["bash -c @", "sh -c @", "eval @", "ssh host @", "env -S @", "watch @", "su -c @"];

fn class(text: &str) -> CommandClass {
    let context = CommandContext { home: Some(PathBuf::from("/home/ann")), directory: None };
    classify_command(text, &context).class
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Writes the words of a command in one of several quotings.
fn requoted(text: &str, way: usize) -> String {
    let quote = |word: &str| match way {
        0 => word.to_owned(),
        // A tilde is one only without quotes.
        _ if word.starts_with('~') => word.to_owned(),
        1 => format!("'{word}'"),
        2 => format!("\"{word}\""),
        3 => word.chars().map(|it| format!("\\{it}")).collect(),
        4 => format!("$'{}'", word.bytes().map(|it| format!("\\x{it:02x}")).collect::<String>()),
        _ => format!("\"\"{word}''"),
    };
    text.split(' ').map(quote).collect::<Vec<_>>().join(" ")
}

#[test]
fn letters_that_are_no_ascii_are_letters_of_a_word() {
    // What begins as a range of numbers made the grammar read beyond the end of a table.
    for letter in ['\u{e9}', '\u{661}', '\u{4e00}', '\u{1d7d9}', '\u{10fffd}'] {
        assert_eq!(class(&format!("echo {{{letter}..2}} {letter}")), CommandClass::Safe);
        assert_eq!(class(&format!("ls '{letter}' && rm -rf {letter} /")), CommandClass::Hardline);
        assert_eq!(
            class(&format!("{letter}=1 rm -rf /")),
            CommandClass::Safe,
            "a program with that name"
        );
        assert_eq!(class(&format!("ls ${{HOME#{letter}}}")), CommandClass::Safe);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_text_has_a_verdict(text in "\\PC{0,200}") {
        let verdict = classify_command(&text, &CommandContext::default());
        prop_assert!(!verdict.reason.is_empty());
    }

    #[test]
    fn any_text_of_the_shells_own_characters_has_a_verdict(
        text in "[ a-c$(){}|&;<>`'\"\\\\\\n=/*~!#-]{0,120}"
    ) {
        class(&text);
    }

    #[test]
    fn no_wrapper_and_no_quotes_lower_the_class(
        command in 0..HARDLINE.len(),
        way in 0_usize..6,
        wrappers in prop::collection::vec(0..WRAPPERS.len() + SHELLS.len(), 0..3),
    ) {
        let mut text = requoted(HARDLINE[command], way);
        for wrapper in wrappers {
            text = match WRAPPERS.get(wrapper) {
                // A program runs no compound command.
                Some(it) if it.contains(' ') && text.starts_with(['(', '{', '!', 'i', 'w', 'f', 'c', 't', 'x', 'l', 'e', 'n', '`']) => {
                    it.replace('@', &format!("sh -c {}", quoted(&text)))
                }
                Some(it) => it.replace('@', &text),
                None => SHELLS[wrapper - WRAPPERS.len()].replace('@', &quoted(&text)),
            };
        }
        prop_assert_eq!(class(&text), CommandClass::Hardline, "{}", text);
    }
}

#[test]
fn variables_of_env_are_those_of_its_command_alone() {
    for text in
        ["env X=/ sh -c 'rm -rf $X'", "env X=/ PAGER='rm -rf $X' git log", "env PAGER='rm -rf /'"]
    {
        assert_eq!(class(text), CommandClass::Hardline, "{text}");
    }
    for text in ["env X=rm true; $X -rf /", "env X=rm; $X -rf /"] {
        assert_eq!(class(text), CommandClass::Dangerous, "{text}");
    }
}

#[test]
fn what_is_too_long_is_dangerous_and_says_so() {
    let long = format!("echo {}", "a".repeat(deputize_policy::TEXT_BYTES_MAX));
    let many = "echo a;".repeat(deputize_policy::COMMANDS_MAX + 1);
    let deep = format!("{}true{}", "$(".repeat(60), ")".repeat(60));
    let nested = format!("{}ls", "eval ".repeat(deputize_policy::DEPTH_MAX + 2));
    for text in [long, many, deep, nested] {
        let verdict = classify_command(&text, &CommandContext::default());
        assert_eq!(verdict.class, CommandClass::Dangerous, "{}", &text[..40]);
        assert_eq!(verdict.reason, "too long to judge", "{}", &text[..40]);
    }
}

#[test]
fn an_endless_loop_that_starts_processes_without_a_pause_is_dangerous() {
    assert_eq!(class("while true; do ls & done"), CommandClass::Dangerous);
    for text in ["while true; do ls & sleep 1; done", "while true; do ls; done"] {
        assert_eq!(class(text), CommandClass::Safe, "{text}");
    }
}

#[test]
fn a_long_word_in_many_places_is_unknown() {
    for (length, expected) in [(100, CommandClass::Safe), (100_000, CommandClass::Dangerous)] {
        let word = "a".repeat(length);
        for text in [
            format!("xargs -I{{}} '{{}}{{}}{{}}' <<< {word}"),
            format!("parallel '{{}}{{}}{{}}' ::: {word}"),
        ] {
            assert_eq!(class(&text), expected, "{}", &text[..40]);
        }
    }
}

#[test]
fn what_is_just_short_enough_is_judged() {
    let text = format!("echo {}", "a".repeat(deputize_policy::TEXT_BYTES_MAX - 5));
    assert_eq!(class(&text), CommandClass::Safe);
    let many = "echo a;".repeat(deputize_policy::COMMANDS_MAX);
    assert_eq!(class(&many), CommandClass::Safe);
    let late = format!("{}rm -rf /", "echo a; ".repeat(900));
    assert_eq!(class(&late), CommandClass::Hardline);
}
