//! A command, a number of tokens, a time: each in a few words.

use deputize_core::Outcome;
use deputize_core::sanitize::{for_question, for_terminal_line};

pub(super) use crate::wording::count;

/// The most characters of the name of a file.
const NAME_CHARS: usize = 120;

/// What was really called or run, on one line: nothing of it is left out or smoothed, all that
/// a terminal would obey or hide is written out, and the end of a line is `⏎`. What comes after
/// `most` characters is counted.
pub(crate) fn as_is(text: &str, most: usize) -> String {
    match beginning(text, most) {
        (line, 0) => line,
        (line, rest) => format!("{line}… ({rest} more characters)"),
    }
}

/// At most so many characters of a text on one line, and how many there are after them.
pub(super) fn beginning(text: &str, most: usize) -> (String, usize) {
    let (mut line, mut length) = (String::new(), 0);
    let mut rest = text.trim().chars();
    while let Some(c) = rest.clone().next() {
        let shown = match c {
            '\n' => " ⏎ ".to_owned(),
            c => for_question(c.encode_utf8(&mut [0; 4])),
        };
        length += shown.chars().count();
        if length > most {
            return (line, rest.count());
        }
        line.push_str(&shown);
        rest.next();
    }
    (line, 0)
}

/// A number of tokens, as `950`, `12.3k`, `4.5M`.
pub(crate) fn tokens(count: u64) -> String {
    let tenths = |unit: u64| (count / unit, count % unit * 10 / unit);
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => {
            let (whole, tenth) = tenths(1_000);
            format!("{whole}.{tenth}k")
        }
        _ => {
            let (whole, tenth) = tenths(1_000_000);
            format!("{whole}.{tenth}M")
        }
    }
}

/// Dollars, as `$0.0028` or `$12.34`. Nothing where the price is not known, and nothing where it
/// is free.
pub(crate) fn dollars(usd: Option<f64>) -> Option<String> {
    match usd? {
        usd if usd <= 0.0 => None,
        0.0..0.0001 => Some("<$0.0001".to_owned()),
        usd @ 0.0..1.0 => Some(format!("${usd:.4}")),
        usd => Some(format!("${usd:.2}")),
    }
}

/// A running time, as `7 s`, `2 m 05 s`, `1 h 02 m`.
pub(crate) fn running(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
    }
}

/// A time that is over, as `12.3 s`.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

/// Returns what is said of files that a child names and that do not exist; `None` if there are none.
pub(crate) fn unseen(outcome: &Outcome) -> Option<String> {
    const NAMED: usize = 5;
    let names = &outcome.found.as_ref()?.unseen_writes;
    let shown: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|name| format!("`{}`", for_terminal_line(name, NAME_CHARS)))
        .collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let told = format!(
        "names files that do not exist, and no write was seen of: {}{more}",
        shown.join(", ")
    );
    (!names.is_empty()).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_command_each_character_is_told() {
        for (text, line) in [
            ("abcd", "abcd"),
            ("abcde", "abcd… (1 more characters)"),
            ("a\nb", "a ⏎ … (1 more characters)"),
            ("a\0\0", "a… (2 more characters)"),
        ] {
            assert_eq!(as_is(text, 4), line);
        }
        let padded = format!("ls{}; rm -rf x", " ".repeat(500));
        assert!(
            as_is(&padded, 160).ends_with("… (352 more characters)"),
            "{}",
            as_is(&padded, 160)
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [tokens(0), tokens(999), tokens(12_345), tokens(4_560_000)],
            ["0", "999", "12.3k", "4.5M"]
        );
        assert_eq!(
            [running(7_900), running(125_000), running(3_725_000)],
            ["7 s", "2 m 05 s", "1 h 02 m"]
        );
        assert_eq!(seconds(12_345), "12.3 s");
        let told = |usd| dollars(Some(usd)).unwrap_or_default();
        assert_eq!(
            [told(0.00001), told(0.002_84), told(0.5), told(12.345)],
            ["<$0.0001", "$0.0028", "$0.5000", "$12.35"]
        );
        assert_eq!((dollars(None), dollars(Some(0.0))), (None, None));
    }
}
