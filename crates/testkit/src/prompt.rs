//! Snapshots of prompts.

use std::fmt;
use std::path::Path;

use insta::{Comparator, DefaultComparator, Settings, Snapshot};
use regex::Regex;

use crate::prefix::PrefixDiff;

/// Compares anything that can be displayed with a snapshot: a system text
/// ([`PromptParts::render`](deputize_core::prompt::PromptParts::render)), a whole request of a parent or a
/// child ([`SeenRequest`](crate::SeenRequest)), a tool's description. The snapshot is stored in
/// `snapshots/` beside *your* test, or in the test itself:
///
/// ```
/// use deputize_core::prompt::{PromptParts, Section};
/// use deputize_testkit::assert_prompt;
///
/// let parts = PromptParts {
///     stable: vec![Section::plain("You count words.")],
///     volatile: vec![Section::own("Task", "Count these.")],
/// };
/// assert_prompt!(parts.render(), @r"
/// You count words.
///
/// ## Task
/// Count these.
/// ");
/// ```
/// If it differs, the failure also shows the effect of the change on the cache prefix: bytes kept,
/// bytes lost, and the line of the first difference. See [`PrefixDiff`].
/// [`PrefixDiff`].
///
/// Nothing is filtered: a prompt is a function of its parts, so use fixed parts. If a date or the
/// path of a temporary directory cannot be avoided, use [`RedactedText`].
///
/// `INSTA_UPDATE=always cargo test` writes new and changed snapshots; review them with `git diff`.
/// [`insta`](crate::insta) is re-exported, so your manifest need not list it.
#[macro_export]
macro_rules! assert_prompt {
    ($prompt:expr, @$inline:literal $(,)?) => {{
        let _settings = $crate::prompt_settings().bind_to_scope();
        $crate::insta::assert_snapshot!(::std::string::ToString::to_string(&$prompt), @$inline)
    }};
    ($name:expr, $prompt:expr $(,)?) => {{
        let _settings = $crate::prompt_settings().bind_to_scope();
        $crate::insta::assert_snapshot!($name, ::std::string::ToString::to_string(&$prompt))
    }};
    ($prompt:expr $(,)?) => {{
        let _settings = $crate::prompt_settings().bind_to_scope();
        $crate::insta::assert_snapshot!(::std::string::ToString::to_string(&$prompt))
    }};
}

/// Returns the current snapshot settings, extended to show the effect of a difference on the cache
/// prefix.
#[doc(hidden)]
#[must_use]
pub fn prompt_settings() -> Settings {
    let mut settings = Settings::clone_current();
    settings.set_comparator(Box::new(PrefixComparator));
    settings.set_omit_expression(true);
    settings
}

/// Compares by default rules, and shows the prefix at a difference.
#[derive(Clone)]
struct PrefixComparator;

impl Comparator for PrefixComparator {
    #[expect(clippy::print_stderr, reason = "a failing test says there why")]
    fn matches(&self, reference: &Snapshot, test: &Snapshot) -> bool {
        let same = DefaultComparator.matches(reference, test);
        if !same && let Some(prefix) = prefix_of(reference, test) {
            eprintln!("{prefix}");
        }
        same
    }

    fn matches_fully(&self, reference: &Snapshot, test: &Snapshot) -> bool {
        DefaultComparator.matches_fully(reference, test)
    }

    fn dyn_clone(&self) -> Box<dyn Comparator> {
        Box::new(self.clone())
    }
}

fn prefix_of(before: &Snapshot, now: &Snapshot) -> Option<PrefixDiff> {
    Some(PrefixDiff::of(&before.as_text()?.to_string(), &now.as_text()?.to_string()))
}

/// A text with everything that differs from run to run replaced, for [`assert_prompt!`].
///
/// ```
/// use deputize_testkit::RedactedText;
///
/// let prompt = "Work in /tmp/x7/work. Today is 2026-03-01, and it is 2026-03-01T12:30:00Z.";
/// let shown = RedactedText::of(prompt).path("/tmp/x7", "[dir]").dates();
/// assert_eq!(shown.to_string(), "Work in [dir]/work. Today is [date], and it is [time].");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedText(String);

impl RedactedText {
    /// Wraps anything that can be displayed.
    #[must_use]
    pub fn of(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }

    /// Replaces a path everywhere, also in its canonical form.
    #[must_use]
    pub fn path(self, path: impl AsRef<Path>, name: &str) -> Self {
        let path = path.as_ref();
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let text = self.0.replace(&*real.to_string_lossy(), name);
        Self(text.replace(&*path.to_string_lossy(), name))
    }

    /// Replaces dates (`2026-03-01`) by `[date]` and RFC 3339 times by `[time]`.
    #[must_use]
    pub fn dates(self) -> Self {
        let time = r"\b\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})?";
        self.pattern(time, "[time]").pattern(r"\b\d{4}-\d{2}-\d{2}\b", "[date]")
    }

    /// Replaces all matches of a regular expression.
    ///
    /// # Panics
    /// If the expression is invalid.
    #[must_use]
    #[expect(clippy::panic, reason = "a test that is set up wrongly fails")]
    pub fn pattern(self, pattern: &str, name: &str) -> Self {
        let regex = Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"));
        Self(regex.replace_all(&self.0, regex::NoExpand(name)).into_owned())
    }
}

impl fmt::Display for RedactedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_lies_beside_the_test_that_takes_it() {
        assert_prompt!("You help.\n\n# Task\nHelp.");
        assert_prompt!("named", RedactedText::of("On 2026-03-01.").dates());
    }

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        let text = "2026-03-01 and 2026-03-01T10:00:00.5+02:00, not 12026-03-011; $1";
        let shown = RedactedText::of(text).dates().pattern("not", "$1").to_string();
        assert_eq!(shown, "[date] and [time], $1 12026-03-011; $1");
    }
}
