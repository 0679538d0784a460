//! Patterns of file names.

/// Upper bound on the steps of one match, beyond which it counts as one.
const STEPS_MAX: usize = 4096;

/// Whether a pattern with `*`, `?` and `[…]` matches all of a text.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let mut steps = 0;
    matches_from(&pattern, &text, &mut steps)
}

fn matches_from(pattern: &[char], text: &[char], steps: &mut usize) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    loop {
        *steps += 1;
        if *steps > STEPS_MAX {
            return true;
        }
        match (pattern.split_first(), text.split_first()) {
            (None, rest) => return rest.is_none(),
            (Some(('*', behind)), rest) => {
                if behind.is_empty() || matches_from(behind, text, steps) {
                    return true;
                }
                match rest {
                    Some((_, shorter)) => text = shorter,
                    None => return false,
                }
            }
            (Some(('[', behind)), Some((c, shorter))) => match class_matches(behind, *c) {
                Some((true, after)) => (pattern, text) = (after, shorter),
                Some((false, _)) => return false,
                None if *c == '[' => (pattern, text) = (behind, shorter),
                None => return false,
            },
            (Some((p, behind)), Some((c, shorter))) if *p == '?' || p == c => {
                (pattern, text) = (behind, shorter);
            }
            _ => return false,
        }
    }
}

/// Matches one character with a class, whose bracket is open; returns what follows the class.
fn class_matches(class: &[char], c: char) -> Option<(bool, &[char])> {
    let negated = matches!(class.first(), Some('!' | '^'));
    let class = class.get(usize::from(negated)..)?;
    let end = class.iter().skip(1).position(|it| *it == ']')? + 1;
    let (members, after) = class.split_at(end);
    let is_range = |it: &[char]| matches!(it, [from, '-', to] if (*from..=*to).contains(&c));
    let found = members.contains(&c) || members.windows(3).any(is_range);
    Some((found != negated, after.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_the_shell_matches_them() {
        for (pattern, text) in [
            ("e*", "etc"),
            ("?tc", "etc"),
            ("[a-f]tc", "etc"),
            ("*", ""),
            ("[!x]*", "usr"),
            ("u*r", "usr"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("e?", "etc"), ("[!e]tc", "etc"), ("x*", "etc"), ("", "etc"), ("[e", "e")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
