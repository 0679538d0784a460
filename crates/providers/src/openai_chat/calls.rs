//! Calls, put together from pieces whose indexes and ids cannot be trusted.

use deputize_core::message::OpaqueBlock;
use deputize_core::model::RawCall;

use super::details::ReasoningDetails;
use super::extra_members::ExtraMembers;
use crate::arguments::{self, ObjectProgress, is_object, mended};
use crate::json::Json;
use crate::limits::CALLS;
use crate::stream_error::{ReplyTooLarge, StreamError};
use crate::text::Utf16Text;

/// The calls of a reply in the order in which they first appeared, or by index where every
/// call has its own.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<PartialCall>);

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: Utf16Text,
    shape: ObjectProgress,
    own: ExtraMembers,
}

/// A piece of a call as it came.
struct CallPiece<'v> {
    index: Option<u64>,
    id: &'v str,
    name: &'v str,
    arguments: String,
}

impl<'v> CallPiece<'v> {
    fn of(value: &'v Json<'v>) -> Self {
        let function = value.get("function").unwrap_or(value);
        let text = |value: Option<&'v Json<'v>>| value.and_then(Json::as_str).unwrap_or_default();
        let index = value.get("index");
        let index = index.and_then(|it| it.as_u64().or_else(|| it.as_str()?.trim().parse().ok()));
        let arguments = arguments::text_of(function.get("arguments"));
        Self {
            index,
            id: text(value.get("id")).trim(),
            name: text(function.get("name")),
            arguments,
        }
    }

    fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.arguments.is_empty()
    }
}

impl Calls {
    /// Takes a piece of a call, with its bytes where they are known; says by how many bytes that
    /// grew, if it changed anything.
    pub(super) fn add(
        &mut self,
        value: &Json<'_>,
        raw: Option<&str>,
        marked: bool,
    ) -> Result<Option<usize>, StreamError> {
        let piece = CallPiece::of(value);
        if piece.is_empty() {
            return Ok(None);
        }
        let place = self.place(&piece).unwrap_or(self.0.len());
        if place == CALLS {
            return Err(ReplyTooLarge::Calls.into());
        }
        if place == self.0.len() {
            self.0.push(PartialCall { index: piece.index, ..PartialCall::default() });
        }
        let Some(call) = self.0.get_mut(place) else { return Ok(None) };
        call.own.add_member(value, raw);
        Ok(call.add_piece(&piece, marked))
    }

    pub(super) fn held_bytes(&self) -> usize {
        let call = |it: &PartialCall| {
            it.id.len() + it.name.len() + it.arguments.len() + it.own.held_bytes()
        };
        self.0.iter().map(call).sum()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the arguments of some call have not come, or not to their end.
    pub(super) fn are_open(&self) -> bool {
        self.0
            .iter()
            .any(|call| matches!(call.shape, ObjectProgress::Blank | ObjectProgress::Open { .. }))
    }

    /// Returns the call that a piece belongs to; `None` for a new one.
    fn place(&self, piece: &CallPiece<'_>) -> Option<usize> {
        let last = |test: &dyn Fn(&PartialCall) -> bool| self.0.iter().rposition(test);
        let named = |call: &PartialCall| !piece.id.is_empty() && call.id == piece.id;
        // Where calls share an id, their indexes tell them apart.
        let by_id = last(&|call| named(call) && call.index == piece.index);
        let by_id = by_id.or_else(|| last(&named));
        let by_index = piece.index.and_then(|index| last(&|call| call.index == Some(index)));
        let found = match (by_id, piece.index) {
            // A new index that names a tool begins a call, though its id is known.
            (Some(_), Some(_)) if by_index.is_none() && !piece.name.is_empty() => None,
            (Some(place), _) => Some(place),
            (None, Some(_)) => by_index,
            (None, None) if piece.id.is_empty() || piece.name.is_empty() => {
                self.0.len().checked_sub(1)
            }
            (None, None) => None,
        };
        found.filter(|place| self.0.get(*place).is_some_and(|call| !call.is_over(piece)))
    }

    /// The finished calls, and what of them goes back as the server wrote it.
    pub(super) fn finish(mut self, details: &ReasoningDetails) -> (Vec<RawCall>, Vec<OpaqueBlock>) {
        let mut indexes: Vec<_> = self.0.iter().map(|call| call.index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        if indexes.len() == self.0.len() && !indexes.contains(&None) {
            self.0.sort_by_key(|call| call.index);
        }
        let named = self.0.into_iter().filter(|it| !it.name.is_empty() || !it.arguments.is_empty());
        let named: Vec<PartialCall> = named.collect();
        // Blocks that name a call are understood only beside a call of that id.
        let single = |id: &str| named.iter().filter(|call| call.id == id).count() == 1;
        let kept = |call: &PartialCall| details.names(&call.id) && single(&call.id);
        let own = named.iter().enumerate();
        let own = own.filter_map(|(n, call)| call.own.opaque(n, kept(call).then_some(&call.id)));
        let own = own.collect();
        let raw = |call: PartialCall| RawCall {
            name: call.name.trim().to_owned(),
            arguments: mended(&call.arguments.into_string()),
        };
        (named.into_iter().map(raw).collect(), own)
    }
}

impl PartialCall {
    /// Whether this call is over and the piece, though it has this call's index or id, or
    /// neither, begins another one.
    fn is_over(&self, piece: &CallPiece<'_>) -> bool {
        if piece.name.is_empty() {
            return false;
        }
        let other_id = !piece.id.is_empty() && !self.id.is_empty() && piece.id != self.id;
        let same_id = !piece.id.is_empty() && piece.id == self.id;
        let complete = self.shape == ObjectProgress::Closed;
        if other_id {
            // A server that invents an id for each piece repeats the name with it.
            return complete || piece.name != self.name;
        }
        let repeated = piece.arguments == self.arguments.as_str();
        complete
            && !piece.arguments.is_empty()
            && !(repeated && (same_id || piece.id.is_empty()))
            && !(same_id && piece.index.is_some() && piece.index == self.index)
    }

    /// Takes a piece; says whether it changed anything.
    fn add_piece(&mut self, piece: &CallPiece<'_>, marked: bool) -> Option<usize> {
        let before = (self.id.is_empty(), self.name.len());
        if self.id.is_empty() {
            piece.id.clone_into(&mut self.id);
        }
        self.index = self.index.or(piece.index);
        // A name comes whole, whole again, ever longer, or (before any arguments) in pieces.
        if piece.name.starts_with(self.name.as_str()) {
            piece.name.clone_into(&mut self.name);
        } else if self.arguments.is_empty() {
            self.name.push_str(piece.name);
        }
        let again = !piece.name.is_empty()
            && is_object(&piece.arguments)
            && piece.arguments == self.arguments.as_str();
        if !again {
            self.arguments.push(&piece.arguments, marked);
            self.shape = self.shape.with(&piece.arguments);
        }
        let arguments = if again { 0 } else { piece.arguments.len() };
        let changed = arguments > 0 || (self.id.is_empty(), self.name.len()) != before;
        changed.then(|| arguments + self.name.len().saturating_sub(before.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces as `index id name arguments`, `-` for what is missing.
    fn calls(pieces: &[&str]) -> String {
        let mut calls = Calls::default();
        for piece in pieces {
            let mut words = piece.splitn(4, ' ').map(|word| (word != "-").then_some(word));
            let mut next = || words.next().flatten();
            let index =
                next().map(|index| serde_json::from_str::<serde_json::Value>(index).unwrap());
            let id = next();
            let name = next();
            let arguments = next();
            let json = serde_json::json!({
                "index": index, "id": id, "function": {"name": name, "arguments": arguments},
            });
            calls.add(&json.into(), None, false).unwrap();
        }
        let show = |call: RawCall| format!("{}{}", call.name, call.arguments);
        let calls = calls.finish(&ReasoningDetails::default()).0;
        calls.into_iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pieces_as_they_should_be() {
        let parts = ["0 a f -", "0 - - {\"x\"", "1 b g {}", "0 - - :1}"];
        assert_eq!(calls(&parts), r#"f{"x":1} g{}"#);
        assert_eq!(calls(&["1 b g {}", "0 a f {}"]), "f{} g{}", "by index");
    }

    #[test]
    fn indexes_that_are_missing_or_reused() {
        assert_eq!(calls(&["- a f {\"x\"", "- a - :1}", "- b g {}"]), r#"f{"x":1} g{}"#);
        assert_eq!(calls(&["- - f {\"x\"", "- - - :1}", "- - g {}"]), r#"f{"x":1} g{}"#);
        assert_eq!(calls(&["0 a f {}", "0 b g {}"]), "f{} g{}");
        assert_eq!(calls(&["0 - f {\"x\":1}", "0 - f {\"x\":2}"]), r#"f{"x":1} f{"x":2}"#);
        assert_eq!(calls(&["\"1\" a f {\"x\"", "1 - - :1}"]), r#"f{"x":1}"#);
        assert_eq!(calls(&["0 a f {\"x\"", "1 a - :1}"]), r#"f{"x":1}"#);
        assert_eq!(calls(&["4294967296 a f {}"]), "f{}");
    }

    #[test]
    fn ids_that_are_missing_repeated_or_new_with_each_piece() {
        assert_eq!(calls(&["0 x f {}", "1 x g {}"]), "f{} g{}");
        assert_eq!(calls(&["- x f {}", "- x f {\"x\":1}"]), r#"f{} f{"x":1}"#);
        assert_eq!(calls(&["0 a f {\"x\"", "0 b - :1}"]), r#"f{"x":1}"#);
        assert_eq!(calls(&["0 a f {\"x\"", "0 b f :1}"]), r#"f{"x":1}"#);
        assert_eq!(calls(&["- a f {\"x\"", "- b - :1}"]), r#"f{"x":1}"#);
    }

    #[test]
    fn a_known_id_counts_for_more_than_an_index() {
        let reused = ["0 a f -", "0 b g -", r#"0 a - {"x":1}"#, r#"0 b - {"y":2}"#];
        assert_eq!(calls(&reused), r#"f{"x":1} g{"y":2}"#);
        let named = ["0 a f -", "0 b g -", r#"0 a f {"x":1}"#, r#"0 b g {"y":2}"#];
        assert_eq!(calls(&named), r#"f{"x":1} g{"y":2}"#);
        let crossed = ["0 a f -", "1 b g -", r#"1 a - {"x":1}"#, r#"0 b - {"y":2}"#];
        assert_eq!(calls(&crossed), r#"f{"x":1} g{"y":2}"#);
        let shared = [r#"0 x f {"x""#, r#"1 x g {"y""#, "0 x - :1}", "1 x - :2}"];
        assert_eq!(calls(&shared), r#"f{"x":1} g{"y":2}"#);
    }

    #[test]
    fn names_are_not_doubled() {
        assert_eq!(calls(&["0 a read {\"x\"", "0 a read :1}"]), r#"read{"x":1}"#);
        assert_eq!(calls(&["0 a re -", "0 a read -", "0 - - {}"]), "read{}");
        assert_eq!(calls(&["0 a read -", "0 a _file -", "0 - - {}"]), "read_file{}");
    }

    #[test]
    fn a_call_that_is_sent_whole_again_is_one_call() {
        assert_eq!(calls(&["0 a f {\"x\":1}", "0 a f {\"x\":1}"]), r#"f{"x":1}"#);
        assert_eq!(calls(&["0 a f {\"x\":1}", "0 a f -"]), r#"f{"x":1}"#);
        assert_eq!(calls(&["0 a f {\"x\":1}{\"x\":1}"]), r#"f{"x":1}"#);
        let unclear = ["0 a f {\"x\":1}", "0 a f {\"x\":2}"];
        assert_eq!(calls(&unclear), r#"f{"x":1}{"x":2}"#, "left for the model to be told");
    }

    #[test]
    fn arguments_are_mended_only_where_it_is_clear() {
        assert_eq!(calls(&["0 a f -"]), "f{}");
        assert_eq!(calls(&["0 a f  "]), "f{}");
        assert_eq!(calls(&["0 a f null"]), "f{}");
        assert_eq!(calls(&["0 a f {\"x\":"]), "f{\"x\":");
        assert_eq!(calls(&["0 a f {}{\"x\":1}"]), "f{}{\"x\":1}");
        assert_eq!(calls(&[r#"0 a f "{\"x\":"#, r#"0 - - 1}""#]), r#"f{"x":1}"#, "twice JSON");
        for as_it_is in [r#""{\"x\":""#, r#""[1]""#, r#""x""#, r#""\"{}\"""#] {
            assert_eq!(calls(&[&format!("0 a f {as_it_is}")]), format!("f{as_it_is}"));
        }
        assert_eq!(calls(&["0 a - {}"]), "{}", "without a name");
        assert_eq!(calls(&["0 a - -", "0 - - -"]), "", "nothing at all");
        assert_eq!(calls(&["0 a f €"]), "f€");
    }

    #[test]
    fn their_number_is_limited() {
        let mut calls = Calls::default();
        let call = |n: usize| serde_json::json!({"index": n, "function": {"name": "f"}});
        for n in 0..CALLS {
            calls.add(&call(n).into(), None, false).unwrap();
        }
        assert!(matches!(
            calls.add(&call(CALLS).into(), None, false),
            Err(StreamError::TooLarge(ReplyTooLarge::Calls))
        ));
        assert_eq!(calls.finish(&ReasoningDetails::default()).0.len(), CALLS);
    }
}
