//! The laws of a wire format's parser, whatever a server sends.

use deputize_core::model::{Delta, Reply};
use deputize_providers::limits::CALLS;
use deputize_providers::{StreamEnd, StreamError, StreamStatus};

use crate::cuts::deliveries;
use crate::meter::{MemoryLimit, asked};
use crate::one_line;

/// What a parser may ask for: `0,` in a list is two bytes that become a value, and the body of
/// one event is copied a few times.
const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 400 };
/// Characters of an error: a server's words twice, each with a count of what was left out.
const ERROR_CHARS: usize = 1_400;

/// Bytes of a short body and of a long one, of the same kind.
const SHORT: usize = 32 * 1024;
const LONG: usize = 64 * SHORT;
/// How much more a long body may ask for than its length says, because buffers grow by doubling.
/// To take the square is to ask for up to 64 times more.
const SLACK: usize = 2;

/// Gets the pieces of a reply.
pub type DeltaSink<'l> = dyn FnMut(Delta<'_>) + Send + 'l;

/// A parser of one wire format.
pub trait Wire: Sized {
    /// What a body must hold, one of these at least, before anything of it is a reply, if it is
    /// no document.
    const END_MARKS: &[&str];

    /// Whether what was shown is always how the reply begins. In some wires a later event may
    /// correct what earlier ones said.
    const SHOWN_STAYS: bool;
    /// Beginnings of bodies, and what can follow any number of times and makes a reply longer.
    const GROWING: &[(&str, &str)];

    /// At the beginning of a body.
    fn begin() -> Self;
    /// Takes the next bytes.
    ///
    /// # Errors
    /// When there will be no reply.
    fn feed(&mut self, bytes: &[u8], live: &mut DeltaSink<'_>)
    -> Result<StreamStatus, StreamError>;
    /// The text so far.
    fn text(&self) -> &str;
    /// The reply.
    ///
    /// # Errors
    /// When there is none.
    fn finish(self, ending: StreamEnd, live: &mut DeltaSink<'_>) -> Result<Reply, StreamError>;
}

/// Makes [`Wire`] of a module's `ReplyStream`.
#[macro_export]
macro_rules! wire {
    ($name:ident, $module:ident, $shown_stays:expr, $marks:expr, $growing:expr) => {
        struct $name(deputize_providers::$module::ReplyStream);

        impl $crate::stream::Wire for $name {
            const END_MARKS: &[&str] = &$marks;
            const SHOWN_STAYS: bool = $shown_stays;
            const GROWING: &[(&str, &str)] = &$growing;

            fn begin() -> Self {
                Self(deputize_providers::$module::ReplyStream::new("asked-1"))
            }
            fn feed(
                &mut self,
                bytes: &[u8],
                live: &mut $crate::stream::DeltaSink<'_>,
            ) -> Result<deputize_providers::StreamStatus, deputize_providers::StreamError> {
                self.0.feed(bytes, live)
            }
            fn text(&self) -> &str {
                self.0.text()
            }
            fn finish(
                self,
                ending: deputize_providers::StreamEnd,
                live: &mut $crate::stream::DeltaSink<'_>,
            ) -> Result<deputize_core::model::Reply, deputize_providers::StreamError> {
                self.0.finish(ending, live)
            }
        }
    };
}

/// Everything that can be seen of a body.
#[derive(Debug, PartialEq)]
struct BodyResult {
    /// Pieces in the order in which they came: whether it is reasoning, and the text.
    live: Vec<(bool, String)>,
    partial: String,
    result: Result<Reply, String>,
}

/// Reads each kind of growing body in two lengths: the work grows with the length, not with its
/// square. Work is counted as in [`crate::meter`].
///
/// # Panics
/// When it grows faster.
pub fn grows_with_length<W: Wire>() {
    for (beginning, piece) in W::GROWING {
        let [short, long] = [SHORT, LONG].map(|bytes| {
            let body = format!("{beginning}{}", piece.repeat(bytes / piece.len()));
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(1_000).collect();
            asked(|| read::<W>(&pieces, StreamEnd::Broken)).1
        });
        let most = SLACK * (LONG / SHORT) * short;
        assert!(long <= most, "{short} bytes for a short body of {piece:?}, {long} for a long one");
    }
}

/// Holds the laws against a body.
///
/// # Panics
/// When one is broken.
pub fn check<W: Wire>(body: &[u8]) {
    let [in_order, broken] = [StreamEnd::InOrder, StreamEnd::Broken].map(|ending| {
        let whole = LIMIT.during(body.len(), || read::<W>(&[body], ending));
        for pieces in deliveries(body) {
            // What comes in pieces waits in buffers that grow.
            let seen = LIMIT.during(body.len(), || read::<W>(&pieces, ending));
            assert_eq!(
                seen,
                whole,
                "in pieces of {:?}",
                pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>()
            );
        }
        whole
    });
    if broken.result.is_ok() {
        assert_eq!(broken, in_order, "complete although the connection broke, and otherwise not");
    }
    for seen in [in_order, broken] {
        holds::<W>(body, &seen);
    }
}

fn read<W: Wire>(pieces: &[&[u8]], ending: StreamEnd) -> BodyResult {
    let mut seen = Vec::new();
    let mut live = |delta: Delta<'_>| match delta {
        Delta::Text(text) => seen.push((false, text.to_owned())),
        Delta::Reasoning(text) => seen.push((true, text.to_owned())),
        Delta::Call(_) => {}
    };
    let mut wire = W::begin();
    let mut fed = Ok(StreamStatus::More);
    for piece in pieces {
        fed = wire.feed(piece, &mut live);
        if !matches!(fed, Ok(StreamStatus::More)) {
            break;
        }
    }
    let partial = wire.text().to_owned();
    let result = fed.and_then(|_| wire.finish(ending, &mut live));
    let result = result.map_err(|error| {
        one_line(&error.to_string(), ERROR_CHARS);
        format!("{:?}: {error}", error.kind(!partial.is_empty()))
    });
    BodyResult { live: seen, partial, result }
}

fn holds<W: Wire>(body: &[u8], seen: &BodyResult) {
    let text = seen.live.iter().filter(|(thought, _)| !thought).map(|(_, text)| text.as_str());
    let shown: String = text.collect();
    // What was shown as text turns out to be thoughts where their block is closed without having
    // been opened.
    let is_end = |text: &str| text.len() < shown.len() && shown.ends_with(text);
    let stays = shown.starts_with(&seen.partial) || is_end(&seen.partial) || !W::SHOWN_STAYS;
    assert!(stays, "shown {shown:?}, kept {:?}", seen.partial);
    let Ok(reply) = &seen.result else { return };
    let thought = reply.reasoning.as_str();
    let in_block = !thought.is_empty() && shown.trim_start().starts_with(thought);
    let stays = reply.text.starts_with(&shown) || in_block || !W::SHOWN_STAYS;
    assert!(stays, "shown {shown:?}, answered {:?}", reply.text);
    assert!(reply.calls.len() <= CALLS);
    assert!(may_be_whole(body, W::END_MARKS), "a reply without an end mark: {reply:?}");
}

/// Whether an end mark can stand in a body, perhaps in escapes, or it is a document that ends.
fn may_be_whole(body: &[u8], marks: &[&str]) -> bool {
    let holds = |mark: &[u8]| body.windows(mark.len()).any(|part| part == mark);
    let text = String::from_utf8_lossy(body);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let document = text.starts_with(['{', '[']);
    let ended = text.ends_with(['}', ']']);
    (document && ended) || holds(b"\\u") || marks.iter().any(|mark| holds(mark.as_bytes()))
}
