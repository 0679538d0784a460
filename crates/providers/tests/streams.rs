//! Bodies of Chat Completions, odd and broken ones among them. Each file of the corpus has
//! its outcome beside it, and must have the same one in pieces of any size.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use deputize_core::Delta;
use deputize_providers::openai_chat::ReplyStream;
use deputize_providers::{Ending, Flow};
use proptest::prelude::*;

/// Everything that can be seen of a body that comes in these pieces.
fn outcome<'b>(pieces: impl IntoIterator<Item = &'b [u8]>, ending: Ending) -> String {
    let mut seen = String::new();
    let mut live = |delta: Delta<'_>| match delta {
        Delta::Text(text) => writeln!(seen, "text: {text:?}").unwrap(),
        Delta::Reasoning(text) => writeln!(seen, "reasoning: {text:?}").unwrap(),
    };
    let mut stream = ReplyStream::new("asked-1");
    let mut fed = Ok(Flow::More);
    for piece in pieces {
        fed = stream.feed(piece, &mut live);
        if !matches!(fed, Ok(Flow::More)) {
            break;
        }
    }
    let partial = stream.text().to_owned();
    let result = fed.and_then(|_| stream.finish(ending, &mut live));
    match result {
        Ok(reply) => seen + &serde_json::to_string_pretty(&reply).unwrap(),
        Err(error) => {
            let kind = error.kind(!partial.is_empty());
            seen + &format!("{kind:?}: {error}\npartial: {partial:?}")
        }
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/streams/openai-chat")
}

fn bodies() -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|ending| ending == "txt"));
    let read = |path: PathBuf| {
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())
    };
    let mut bodies: Vec<_> = texts.map(read).collect();
    bodies.sort();
    bodies
}

#[test]
fn each_body_of_the_corpus_has_its_outcome() {
    let bodies = bodies();
    assert!(bodies.len() >= 40, "the corpus has {} bodies", bodies.len());
    for (name, body) in bodies {
        let mut shown = outcome([body.as_slice()], Ending::InOrder);
        let broken = outcome([body.as_slice()], Ending::Broken);
        if broken != shown {
            write!(shown, "\n--- and when the connection breaks after it:\n{broken}").unwrap();
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(corpus());
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, shown));
    }
}

#[test]
fn the_size_of_the_pieces_changes_nothing() {
    for (name, body) in bodies() {
        for ending in [Ending::InOrder, Ending::Broken] {
            let whole = outcome([body.as_slice()], ending);
            for size in [1, 7, 1024] {
                assert_eq!(outcome(body.chunks(size), ending), whole, "{name} in {size}s");
            }
        }
    }
}

#[test]
fn no_call_is_given_out_before_the_end_mark() {
    let body = std::fs::read(corpus().join("plain-calls.txt")).unwrap();
    let text = String::from_utf8(body.clone()).unwrap();
    let finish = text.find("\"finish_reason\": \"tool_calls\"").unwrap();
    let finish = finish + text[finish..].find("\n\n").unwrap();
    for end in 0..body.len() {
        for ending in [Ending::InOrder, Ending::Broken] {
            let seen = outcome([&body[..end]], ending);
            // The event's last line feed may be missing: its JSON is whole.
            assert_eq!(seen.contains("read_file"), end >= finish, "cut at {end}: {seen}");
        }
    }
}

#[test]
fn what_is_held_has_limits() {
    let event = format!(": {}\n\n", "x".repeat(64 * 1024));
    let pieces = 33 * 1024 / 64;
    let seen = outcome((0..pieces).map(|_| event.as_bytes()), Ending::InOrder);
    assert!(seen.starts_with("Fatal: the reply has 335"), "{seen}");
    let long = format!("data: {}", "x".repeat(1024 * 1024));
    let seen = outcome(long.as_bytes().chunks(4096), Ending::InOrder);
    assert!(seen.starts_with("Fatal: an event of the stream has 104"), "{seen}");
    let values = format!("data: {{\"choices\":[],\"x\":[{}0]}}\n\n", "0,".repeat(60_000));
    let seen = outcome([values.as_bytes()], Ending::InOrder);
    assert!(seen.starts_with("Fatal: JSON of one event has 50000 values"), "{seen}");
    let document = format!("{{\"x\":\"{}", "x".repeat(9 * 1024 * 1024));
    let seen = outcome([document.as_bytes()], Ending::InOrder);
    assert!(seen.ends_with("the limit is 8388608\npartial: \"\""), "{seen}");
}

/// Pieces of streams, good and bad, in any order.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let known = proptest::sample::select(vec![
        "data: ",
        "data:",
        "event: error\n",
        "\n",
        "\n\n",
        "\r\n\r\n",
        "\r",
        ":",
        ": x\n",
        "[DONE]",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\ud83d",
        "\\ude00",
        "\u{feff}",
        "null",
        "{}",
        "<html>",
        r#"{"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"\ude00"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}"#,
        r#"{"error":{"message":"x","code":500}}"#,
    ]);
    let known = known.prop_map(|text| text.as_bytes().to_vec());
    let any = proptest::collection::vec(any::<u8>(), 0..6);
    let piece = prop_oneof![6 => known, 1 => any];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_end_the_same_way(
        body in fragments(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]).collect();
        for ending in [Ending::InOrder, Ending::Broken] {
            let whole = outcome([body.as_slice()], ending);
            prop_assert_eq!(outcome(pieces.iter().copied(), ending), whole);
        }
    }
}
