//! Bounds on the work for one command. Beyond each, a command is dangerous: too long to judge.

/// Upper bound on the text of a command, in bytes.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Upper bound on the simple commands that are judged, repetitions of loops and calls included.
pub const COMMANDS_MAX: usize = 1_000;
/// Upper bound on how deep commands lie in one another, calls and nested shells included.
pub const DEPTH_MAX: usize = 48;

/// Upper bound on the depth of a syntax tree that is read.
pub(crate) const TREE_DEPTH_MAX: usize = 160;
/// Upper bound on the steps of the parser, as it counts them: some 40 KB of short commands.
pub(crate) const PARSE_STEPS_MAX: usize = 600;
/// Upper bound on all text that is parsed, with what is decoded from it, in bytes.
pub(crate) const PARSED_BYTES_MAX: usize = TEXT_BYTES_MAX + 64 * 1024;
/// Upper bound on all text that expansion makes, in bytes.
pub(crate) const EXPANDED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Upper bound on one value of a variable, in bytes. A longer one is unknown.
pub(crate) const VALUE_BYTES_MAX: usize = 256 * 1024;
/// Upper bound on the words that one word's braces make. More are unknown.
pub(crate) const BRACE_WORDS_MAX: usize = 512;
/// Upper bound on the characters that the expansion of one word's braces looks at.
pub(crate) const BRACE_CHARS_MAX: usize = 256 * 1024;
/// Upper bound on the rounds of a loop over known words. Of more, the first are judged, then one
/// with an unknown word.
pub(crate) const LOOP_ROUNDS_MAX: usize = 64;
