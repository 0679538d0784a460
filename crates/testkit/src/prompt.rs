//! Snapshots of prompts.

/// Compares anything that can be displayed (a prompt, a section, a tool's text) with a
/// snapshot. The snapshot lies beside *your* test, in `snapshots/`, or in the test itself:
///
/// ```
/// use deputize_core::{PromptParts, Section};
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
///
/// Nothing is filtered: a prompt is a function of its parts, so give it fixed parts. Where a
/// path of a temporary directory cannot be avoided, wrap the call in
/// `insta::with_settings!({filters => vec![("/tmp/[^ ]+", "[dir]")]}, { … })`; insta is
/// re-exported as [`insta`](crate::insta), so that it needs no line in your manifest. New
/// snapshots are accepted with `INSTA_UPDATE=always cargo test`.
#[macro_export]
macro_rules! assert_prompt {
    ($prompt:expr, @$inline:literal $(,)?) => {
        $crate::insta::assert_snapshot!(::std::string::ToString::to_string(&$prompt), @$inline)
    };
    ($name:expr, $prompt:expr $(,)?) => {
        $crate::insta::assert_snapshot!($name, ::std::string::ToString::to_string(&$prompt))
    };
    ($prompt:expr $(,)?) => {
        $crate::insta::assert_snapshot!(::std::string::ToString::to_string(&$prompt))
    };
}
