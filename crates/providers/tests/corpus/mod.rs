//! What the tests of all wires share: raw bodies in files, each with its outcome beside it,
//! which must be the same in pieces of any size.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use deputize_core::model::{Delta, Reply};
use deputize_providers::limits::ReplyLimit;
use deputize_providers::{StreamEnd, StreamError, StreamStatus};
use proptest::prelude::*;

type DeltaSink<'l> = &'l mut (dyn FnMut(Delta<'_>) + Send);

/// The parser of a wire.
pub(crate) trait Parser: Sized {
    /// The folder of its bodies.
    const FOLDER: &str;
    /// Whether what was shown is always how the reply begins. In some wires a later event may
    /// correct what earlier ones said.
    const SHOWN_STAYS: bool;

    fn new(model: &str) -> Self;
    fn within(self, limit: ReplyLimit) -> Self;
    fn feed(&mut self, bytes: &[u8], live: DeltaSink<'_>) -> Result<StreamStatus, StreamError>;
    fn text(&self) -> &str;
    fn finish(self, ending: StreamEnd, live: DeltaSink<'_>) -> Result<Reply, StreamError>;
}

/// Makes a [`Parser`] of a wire's `ReplyStream`.
#[macro_export]
macro_rules! corpus_parser {
    ($stream:ty, $folder:literal) => {
        $crate::corpus_parser!($stream, $folder, true);
    };
    ($stream:ty, $folder:literal, $shown_stays:literal) => {
        impl $crate::corpus::Parser for $stream {
            const FOLDER: &str = $folder;
            const SHOWN_STAYS: bool = $shown_stays;

            fn new(model: &str) -> Self {
                <$stream>::new(model)
            }

            fn within(self, limit: deputize_providers::limits::ReplyLimit) -> Self {
                <$stream>::within(self, limit)
            }

            fn feed(
                &mut self,
                bytes: &[u8],
                live: &mut (dyn FnMut(deputize_core::model::Delta<'_>) + Send),
            ) -> Result<deputize_providers::StreamStatus, deputize_providers::StreamError> {
                <$stream>::feed(self, bytes, live)
            }

            fn text(&self) -> &str {
                <$stream>::text(self)
            }

            fn finish(
                self,
                ending: deputize_providers::StreamEnd,
                live: &mut (dyn FnMut(deputize_core::model::Delta<'_>) + Send),
            ) -> Result<deputize_core::model::Reply, deputize_providers::StreamError> {
                <$stream>::finish(self, ending, live)
            }
        }
    };
}

/// Everything that can be seen of a body that comes in these pieces.
pub(crate) fn outcome<'b, P: Parser>(
    pieces: impl IntoIterator<Item = &'b [u8]>,
    ending: StreamEnd,
) -> String {
    outcome_within::<P>(pieces, ending, ReplyLimit::default())
}

/// The same with another limit on the reply.
pub(crate) fn outcome_within<'b, P: Parser>(
    pieces: impl IntoIterator<Item = &'b [u8]>,
    ending: StreamEnd,
    limit: ReplyLimit,
) -> String {
    let mut seen = String::new();
    let mut shown = String::new();
    let mut live = |delta: Delta<'_>| match delta {
        Delta::Text(text) => {
            shown.push_str(text);
            writeln!(seen, "text: {text:?}").unwrap();
        }
        Delta::Reasoning(text) => writeln!(seen, "reasoning: {text:?}").unwrap(),
        // Nothing of it is shown.
        Delta::Call(_) => {}
    };
    let mut stream = P::new("asked-1").within(limit);
    let mut fed = Ok(StreamStatus::More);
    for piece in pieces {
        fed = stream.feed(piece, &mut live);
        if !matches!(fed, Ok(StreamStatus::More)) {
            break;
        }
    }
    let partial = stream.text().to_owned();
    let result = fed.and_then(|_| stream.finish(ending, &mut live));
    match result {
        Ok(reply) => {
            // That the content began inside a block of thoughts shows at the block's end.
            let thought = reply.reasoning.as_str();
            let text = reply.text.as_str();
            let in_block = shown.trim_start().starts_with(thought) && !thought.is_empty();
            let stays = text.starts_with(&shown) || in_block || !P::SHOWN_STAYS;
            assert!(stays, "{shown:?} of {reply:?}");
            seen + &serde_json::to_string_pretty(&reply).unwrap()
        }
        Err(error) => {
            let kind = error.kind(!partial.is_empty());
            seen + &format!("{kind:?}: {error}\npartial: {partial:?}")
        }
    }
}

pub(crate) fn folder<P: Parser>() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/streams").join(P::FOLDER)
}

/// One body of the corpus.
pub(crate) fn body<P: Parser>(name: &str) -> Vec<u8> {
    std::fs::read(folder::<P>().join(format!("{name}.txt"))).unwrap()
}

fn bodies<P: Parser>() -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(folder::<P>()).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|ending| ending == "txt"));
    let read = |path: PathBuf| {
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())
    };
    let mut bodies: Vec<_> = texts.map(read).collect();
    bodies.sort();
    bodies
}

/// Each body of the corpus, of which there are so many or more, has the outcome beside it.
pub(crate) fn check_outcomes<P: Parser>(least: usize) {
    let bodies = bodies::<P>();
    assert!(bodies.len() >= least, "the corpus has {} bodies", bodies.len());
    for (name, body) in bodies {
        let mut shown = outcome::<P>([body.as_slice()], StreamEnd::InOrder);
        let broken = outcome::<P>([body.as_slice()], StreamEnd::Broken);
        if broken != shown {
            write!(shown, "\n--- and when the connection breaks after it:\n{broken}").unwrap();
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(folder::<P>());
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, shown));
    }
}

/// Each body has the same outcome in pieces of 1, 7 and 1,024 bytes.
pub(crate) fn check_pieces<P: Parser>() {
    for (name, body) in bodies::<P>() {
        for ending in [StreamEnd::InOrder, StreamEnd::Broken] {
            let whole = outcome::<P>([body.as_slice()], ending);
            for size in [1, 7, 1024] {
                assert_eq!(outcome::<P>(body.chunks(size), ending), whole, "{name} in {size}s");
            }
        }
    }
}

/// What is held has limits, whatever the events of the wire hold.
pub(crate) fn check_limits<P: Parser>() {
    let small = || ReplyLimit { bytes: 65_536, setting: "the.key".to_owned() };
    let event = format!(": {}\n\n", "x".repeat(64 * 1024));
    let flood = (0..33 * 1024 / 64).map(|_| event.as_bytes());
    let seen = outcome_within::<P>(flood.clone(), StreamEnd::InOrder, small());
    assert!(seen.starts_with("Unavailable: the reply has 335"), "{seen}");
    assert!(
        seen.contains("the limit is 33554432 (eight times the.key, and 33554432 at least)"),
        "{seen}"
    );
    let long = format!("data: {}", "x".repeat(1024 * 1024));
    let seen = outcome_within::<P>(long.as_bytes().chunks(4096), StreamEnd::InOrder, small());
    assert!(seen.starts_with("Unavailable: an event of the stream has 104"), "{seen}");
    assert!(seen.contains("the limit is 1048576 (twice the.key, and 1048576 at least)"), "{seen}");
    // The limit of the reply decides where it is larger.
    let large = ReplyLimit { bytes: 8 * 1024 * 1024, ..small() };
    let pieces = flood.chain([b"data: x\n\n".as_slice()]);
    let seen = outcome_within::<P>(pieces, StreamEnd::InOrder, large);
    assert!(!seen.contains("the limit is"), "{seen}");
    let values = format!("data: {{\"x\":[{}0]}}\n\n", "0,".repeat(60_000));
    let seen = outcome::<P>([values.as_bytes()], StreamEnd::InOrder);
    assert!(seen.starts_with("Unavailable: JSON of one event has 50000 values"), "{seen}");
    let document = format!("{{\"x\":\"{}", "x".repeat(9 * 1024 * 1024));
    let seen = outcome::<P>([document.as_bytes()], StreamEnd::InOrder);
    assert!(seen.ends_with("the limit is 8388608\npartial: \"\""), "{seen}");
}

/// What is held of a reply that is right and does not end has a limit, however large its pieces
/// are. `events` makes events of a piece of some text.
pub(crate) fn check_content<P: Parser>(first: &str, event: impl Fn(&str) -> String) {
    let limit = 4 * 1024 * 1024;
    for size in [500, 400_000] {
        let event = event(&"x".repeat(size));
        let seen = |pieces: usize| {
            let body = std::iter::once(first).chain((0..pieces).map(|_| event.as_str()));
            outcome::<P>(body.map(str::as_bytes), StreamEnd::InOrder)
        };
        let actual = seen((limit + limit / 4) / size);
        let error = actual.lines().find(|line| line.starts_with("Unavailable: "));
        let error = error.unwrap_or("no error");
        assert!(error.contains("the reply holds more than 4194304 bytes"), "in {size}s: {error}");
        // Half of it is let in, also with what stands around each piece.
        let actual = seen(limit / 2 / size);
        assert!(!actual.contains("the reply holds more"), "in {size}s");
    }
}

/// Pieces of streams, good and bad, in any order: those that all wires know and a wire's own.
pub(crate) fn fragments(own: &[&'static str]) -> impl Strategy<Value = Vec<u8>> + use<> {
    let mut known = vec![
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
        r#"{"error":{"message":"x","code":500}}"#,
    ];
    known.extend(own);
    let known = proptest::sample::select(known).prop_map(|text| text.as_bytes().to_vec());
    let any = proptest::collection::vec(any::<u8>(), 0..6);
    let piece = prop_oneof![6 => known, 1 => any];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Any bytes in any pieces end the same way.
pub(crate) fn check_cuts<P: Parser>(
    body: &[u8],
    cuts: &[proptest::sample::Index],
) -> Result<(), TestCaseError> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    cuts.extend([0, body.len()]);
    cuts.sort_unstable();
    let ends = cuts.iter().zip(cuts.iter().skip(1));
    let pieces: Vec<_> = ends.filter_map(|(from, to)| body.get(*from..*to)).collect();
    for ending in [StreamEnd::InOrder, StreamEnd::Broken] {
        let whole = outcome::<P>([body], ending);
        prop_assert_eq!(outcome::<P>(pieces.iter().copied(), ending), whole);
    }
    Ok(())
}
