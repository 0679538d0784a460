//! Tools made by the attribute: their descriptions, and their calls.

#![expect(clippy::too_many_arguments, reason = "every kind of argument is one of the cases")]
#![allow(deprecated, reason = "a deprecated tool is one of the cases")]

use std::io;
use std::time::Duration;

use deputize_check::{ToolHarness, check_tool};
use deputize_core::{
    Availability, Catalog, CatalogError, Effects, Json, ToolCx, ToolError, ToolOutput, ToolSpec,
    arguments, erase, tool,
};
use serde_json::json;

deputize_core::tool_crate!();

/// Which words are counted.
#[arguments]
#[derive(Debug, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Every one.
    All,
    /// Each once.
    Different,
}

/// A part of a text.
#[arguments]
#[derive(Debug)]
pub struct Part {
    /// From which line, from 1.
    #[schemars(range(min = 1))]
    first_line: u32,
    /// To which line; the last one without it.
    last_line: Option<u32>,
}

/// A type of the user's with the name that others would give theirs.
#[arguments]
#[derive(Debug)]
pub struct Arguments {
    /// What is repeated.
    text: String,
}

/// Say it again.
#[tool(
    toolset = "words",
    effects = read_only,
    example("A word", {"arguments": {"text": "ho"}}),
)]
pub async fn say_again(
    /// What of it.
    arguments: Arguments,
) -> String {
    arguments.text
}

/// Count the words of a text.
///
/// Use it for long texts.
#[tool(
    toolset = "words",
    effects = read_only,
    time_limit_seconds = 5,
    example("Three words", {"text": "one two three"}),
    example("A part", {"text": "a\nb c\nd", "part": {"first_line": 2}, "which": "different"}),
)]
pub async fn count_words(
    /// The text.
    text: String,
    /// Which words.
    #[serde(default = "all")]
    which: Which,
    /// Only these lines.
    part: Option<Part>,
    /// Words that do not count.
    #[serde(rename = "stopWords", default)]
    stop_words: Vec<String>,
    /// The old separator between words.
    #[deprecated(note = "spaces always")]
    separator: Option<String>,
    cx: &ToolCx,
) -> Result<String, ToolError> {
    if text.is_empty() {
        return Err(ToolError::refused("the text is empty: send one"));
    }
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled(Box::default()));
    }
    let _ignored = separator;
    let (first, last) = part.map_or((1, None), |part| (part.first_line, part.last_line));
    let last = last.map_or(usize::MAX, |last| last as usize);
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(at, _)| *at + 1 >= first as usize && *at < last);
    let mut words: Vec<&str> = lines.flat_map(|(_, line)| line.split_whitespace()).collect();
    words.retain(|word| !stop_words.iter().any(|stop| stop == word));
    if matches!(which, Which::Different) {
        words.sort_unstable();
        words.dedup();
    }
    Ok(words.len().to_string())
}

fn all() -> Which {
    Which::All
}

fn never() -> Availability {
    Availability::No("it is switched off: switch it on".to_owned())
}

/// Empty a file.
#[tool(
    toolset = "files-of-mine",
    name = "empty-file",
    type = Emptier,
    effects = writes_files,
    parallel = true,
    time_limit_seconds = 0,
    usable = never,
)]
#[deprecated(note = "use `write_file`")]
async fn empty(
    /// Its path.
    mut path: std::path::PathBuf,
) -> io::Result<()> {
    path.push(".");
    Err(io::Error::other(format!("{} is not empty", path.display())))
}

#[doc = include_str!("roll.md")]
#[tool(toolset = "words", repeatable = true)]
async fn roll() -> Json<[u8; 2]> {
    Json([4, 4])
}

fn tell(spec: &ToolSpec) -> String {
    let schema = format!("{:#}", spec.decl.parameters.to_value());
    let ToolSpec { effects, repeatable, parallel, time_limit, usable, .. } = spec;
    format!(
        "{}\n{}\n{effects:?} repeatable {repeatable} parallel {parallel} {time_limit:?} {usable:?}\n{schema}",
        spec.decl.name, spec.decl.description
    )
}

#[test]
fn what_a_model_reads_of_a_tool() {
    insta::assert_snapshot!(tell(erase(CountWords).spec()));
}

#[test]
fn options_and_deprecation_are_in_the_spec() {
    insta::assert_snapshot!(tell(erase(Emptier).spec()));
    let spec = erase(Roll).spec().clone();
    assert_eq!(spec.decl.description, "Roll two dice.");
    assert_eq!((spec.effects, spec.repeatable, spec.parallel), (Effects::Unknown, true, false));
    assert_eq!(spec.time_limit, Some(Duration::from_secs(120)));
}

#[test]
fn tools_are_registered_where_they_stand() -> Result<(), CatalogError> {
    let catalog = Catalog::linked(&[LINK])?;
    let found: Vec<_> = catalog.iter().map(|entry| format!("{entry:?}")).collect();
    assert_eq!(
        found,
        [
            "count_words (words, crate deputize-check)",
            "empty-file (files-of-mine, crate deputize-check)",
            "roll (words, crate deputize-check)",
            "say_again (words, crate deputize-check)",
        ]
    );
    Ok(())
}

#[tokio::test]
async fn a_call_reaches_the_function_with_every_argument() {
    let bench = ToolHarness::new(std::env::temp_dir());
    let call = |arguments| bench.call("count_words", arguments);
    let all = json!({
        "text": "a\nb c b\nd", "which": "different", "part": {"first_line": 2, "last_line": 2},
        "stopWords": ["c"], "separator": ",",
    });
    assert_eq!(call(all).await.unwrap().content, "1");
    assert_eq!(call(json!({"text": "a b b"})).await.unwrap().content, "3");
    let refused = call(json!({"text": ""})).await.unwrap_err();
    assert_eq!(refused.to_string(), "refused: the text is empty: send one");
    for (wrong, said) in [
        (json!({}), "missing field `text`"),
        (json!({"text": "a", "stop_words": []}), "unknown field `stop_words`"),
        (json!({"text": "a", "part": {"first_line": 1, "lines": 2}}), "unknown field `lines`"),
    ] {
        let refused = call(wrong).await.unwrap_err().to_string();
        assert!(
            refused.contains("arguments of count_words") && refused.contains(said),
            "{refused}"
        );
    }
    assert_eq!(bench.call("roll", json!({})).await.unwrap(), ToolOutput::text("[4,4]"));
    let failed = bench.call("empty-file", json!({"path": "a"})).await.unwrap_err();
    assert!(matches!(failed, ToolError::Failed(why) if why.to_string() == "a/. is not empty"));
}

#[tokio::test]
async fn a_tool_keeps_its_contract_and_its_function_can_be_called() {
    check_tool(&erase(CountWords)).await.unwrap();
    assert_eq!(check_tool(&erase(Emptier)).await.unwrap().calls, 0, "it cannot be used");
    assert!(empty("a".into()).await.is_err());
}
