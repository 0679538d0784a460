//! The order of a message's items, kept beside it.
//!
//! A conversation holds of a reply one text, a list of calls and a list of opaque blocks. A
//! server wants its own items back where they stood, above all reasoning directly before what
//! it led to. So the blocks are a line of items as received, with marks between them where
//! text or calls stood: `["text", CHARACTERS]`, `["text", CHARACTERS, PHASE]`,
//! `["calls", NUMBER]`. Whatever is left after the last block follows: the text, then the
//! calls. The usual reply (reasoning, text, calls) thus needs no mark.

use deputize_core::ToolCall;
use deputize_core::message::{AssistantMessage, OpaqueBlock};
use deputize_core::truncate::truncate_chars;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The wire's name in [`OpaqueBlock`].
pub(super) const WIRE: &str = "openai-responses";

/// What stands between the texts of two messages.
pub(super) const BETWEEN: &str = "\n\n";

/// A place in the order of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OutputSlot {
    Item(String),
    Text { chars: usize, phase: String },
    Calls(usize),
}

/// The blocks that keep an order.
pub(super) fn to_opaque(slots: Vec<OutputSlot>) -> Vec<OpaqueBlock> {
    let mut line: Vec<OutputSlot> = Vec::new();
    for slot in slots {
        match (line.last_mut(), slot) {
            (Some(OutputSlot::Calls(before)), OutputSlot::Calls(more)) => *before += more,
            (_, slot) => line.push(slot),
        }
    }
    line.pop_if(|slot| matches!(slot, OutputSlot::Calls(_)));
    line.pop_if(|slot| matches!(slot, OutputSlot::Text { phase, .. } if phase.is_empty()));
    line.into_iter().map(|slot| OpaqueBlock::new(WIRE, slot.into_raw())).collect()
}

impl OutputSlot {
    fn into_raw(self) -> String {
        match self {
            Self::Item(raw) => raw,
            Self::Text { chars, phase } if phase.is_empty() => format!(r#"["text",{chars}]"#),
            Self::Text { chars, phase } => serde_json::json!(["text", chars, phase]).to_string(),
            Self::Calls(number) => format!(r#"["calls",{number}]"#),
        }
    }

    /// Reads a mark.
    fn read(mark: &str) -> Option<Self> {
        let short = |_| serde_json::from_str(mark).map(|(what, n)| (what, n, String::new()));
        let (what, number, phase): (String, usize, String) =
            serde_json::from_str(mark).or_else(short).ok()?;
        match what.as_str() {
            "text" => Some(Self::Text { chars: number, phase }),
            "calls" => Some(Self::Calls(number)),
            _ => None,
        }
    }
}

/// A piece of a message, as it goes back.
#[derive(Debug)]
pub(super) enum OutputPiece<'m> {
    Item(&'m RawValue),
    Text { text: &'m str, phase: String },
    Call(&'m ToolCall),
}

/// The pieces of a message in their order.
pub(super) fn pieces(message: &AssistantMessage) -> Vec<OutputPiece<'_>> {
    let mut pieces = Vec::new();
    let mut text = message.text.as_str();
    let mut calls = message.calls.as_slice();
    for block in message.opaque.iter().filter(|block| block.wire == WIRE) {
        if !block.raw.starts_with('[') {
            pieces.extend(sendable(&block.raw).map(OutputPiece::Item));
            continue;
        }
        match OutputSlot::read(&block.raw) {
            Some(OutputSlot::Text { chars, phase }) => {
                let (head, rest) = split(text, chars);
                pieces.push(OutputPiece::Text { text: head, phase });
                text = rest;
            }
            Some(OutputSlot::Calls(number)) => {
                let (head, rest) = calls.split_at(number.min(calls.len()));
                pieces.extend(head.iter().map(OutputPiece::Call));
                calls = rest;
            }
            Some(OutputSlot::Item(_)) | None => {}
        }
    }
    pieces.push(OutputPiece::Text { text, phase: String::new() });
    pieces.extend(calls.iter().map(OutputPiece::Call));
    pieces.retain(|piece| !matches!(piece, OutputPiece::Text { text, .. } if text.is_empty()));
    // Reasoning that leads to nothing is refused.
    while pieces
        .pop_if(|piece| matches!(piece, OutputPiece::Item(raw) if is_reasoning(raw)))
        .is_some()
    {}
    pieces
}

/// The first message of a text, and the rest. A text that is not as it was when it was
/// measured (a secret in it was replaced) is one message.
fn split(text: &str, chars: usize) -> (&str, &str) {
    let (head, rest) = text.split_at(truncate_chars(text, chars).len());
    rest.strip_prefix(BETWEEN).map_or((text, ""), |rest| (head, rest))
}

/// An item, unless servers could not read it: half of a character passes as an escape.
fn sendable(raw: &str) -> Option<&RawValue> {
    let whole = !raw.contains("\\u") || serde_json::from_str::<serde_json::Value>(raw).is_ok();
    serde_json::from_str(raw).ok().filter(|_| whole)
}

fn is_reasoning(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct SlotHead<'a> {
        #[serde(rename = "type", borrow)]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_str::<SlotHead<'_>>(raw.get()).is_ok_and(|head| head.kind == "reasoning")
}

#[cfg(test)]
mod tests {
    use deputize_core::CallId;
    use proptest::prelude::*;

    use super::*;

    fn item(n: usize) -> OutputSlot {
        OutputSlot::Item(format!(r#"{{ "type":"compaction", "n":{n} }}"#))
    }

    /// A message of these texts and items, as a reply would have it.
    fn message(slots: Vec<OutputSlot>, texts: &[String]) -> AssistantMessage {
        let calls = slots.iter().map(|it| if let OutputSlot::Calls(n) = it { *n } else { 0 });
        let call =
            |slot| ToolCall { id: CallId::new(1, slot), name: "f".into(), arguments: "{}".into() };
        let calls = u32::try_from(calls.sum::<usize>()).unwrap();
        AssistantMessage {
            text: texts.join(BETWEEN),
            calls: (0..calls).map(call).collect(),
            opaque: to_opaque(slots),
            ..AssistantMessage::default()
        }
    }

    fn shown(message: &AssistantMessage) -> Vec<String> {
        let show = |piece| match piece {
            OutputPiece::Item(raw) => raw.get().to_owned(),
            OutputPiece::Text { text, phase } => format!("{phase}:{text}"),
            OutputPiece::Call(call) => call.id.to_string(),
        };
        pieces(message).into_iter().map(show).collect()
    }

    proptest! {
        #[test]
        fn any_order_comes_back(
            slots in proptest::collection::vec((0..4_u8, 1..3_usize, "[a-z \n🌍]{1,6}"), 0..12)
        ) {
            let mut order = vec![];
            let mut texts = vec![];
            let mut expected = vec![];
            let mut call = 0;
            for (place, (kind, number, text)) in slots.into_iter().enumerate() {
                match kind {
                    0 => {
                        let OutputSlot::Item(raw) = item(place) else { unreachable!() };
                        expected.push(raw);
                        order.push(item(place));
                    }
                    1 => {
                        for _ in 0..number {
                            expected.push(format!("call_1_{call}"));
                            call += 1;
                        }
                        order.push(OutputSlot::Calls(number));
                    }
                    _ => {
                        let phase = if kind == 2 { String::new() } else { "final".to_owned() };
                        expected.push(format!("{phase}:{text}"));
                        order.push(OutputSlot::Text { chars: text.chars().count(), phase });
                        texts.push(text);
                    }
                }
            }
            prop_assert_eq!(shown(&message(order, &texts)), expected);
        }

        #[test]
        fn whatever_the_blocks_say_all_text_and_all_calls_go_back_once(
            blocks in proptest::collection::vec("\\[\"(text|calls|x)\",[0-9]{1,3}(,\"p\")?\\]?|[{].{0,4}", 0..6),
            text in "[a\n]{0,8}",
            calls in 0..4_usize,
        ) {
            let mut message = message(vec![OutputSlot::Calls(calls)], std::slice::from_ref(&text));
            message.opaque = blocks.iter().map(|raw| OpaqueBlock::new(WIRE, raw)).collect();
            let mut said = Vec::new();
            let mut called = 0;
            for piece in pieces(&message) {
                match piece {
                    OutputPiece::Item(_) => {}
                    OutputPiece::Text { text, .. } => said.push(text.to_owned()),
                    OutputPiece::Call(call) => {
                        prop_assert_eq!(call.id.slot, called);
                        called += 1;
                    }
                }
            }
            prop_assert_eq!(usize::try_from(called).unwrap(), calls);
            let letters = |text: &str| text.replace('\n', "");
            prop_assert_eq!(letters(&said.concat()), letters(&text));
        }
    }

    #[test]
    fn the_usual_reply_needs_no_marks() {
        let text = |chars| OutputSlot::Text { chars, phase: String::new() };
        let raws = |slots| to_opaque(slots).into_iter().map(|it| it.raw).collect::<Vec<_>>();
        assert!(raws(vec![text(3), OutputSlot::Calls(1), OutputSlot::Calls(1)]).is_empty());
        assert_eq!(raws(vec![item(1), text(3), OutputSlot::Calls(1)]), raws(vec![item(1)]));
        let turned = raws(vec![OutputSlot::Calls(1), OutputSlot::Calls(2), item(1), text(3)]);
        assert_eq!(turned, [r#"["calls",3]"#, r#"{ "type":"compaction", "n":1 }"#]);
    }

    #[test]
    fn a_text_that_was_changed_since_is_one_message() {
        let text = |chars| OutputSlot::Text { chars, phase: String::new() };
        let slots = vec![text(3), OutputSlot::Calls(1), text(3)];
        let mut message = message(slots, &["abc".into(), "def".into()]);
        assert_eq!(shown(&message), [":abc", "call_1_0", ":def"]);
        message.text = "[redacted]\n\ndef".into();
        assert_eq!(shown(&message), [":[redacted]\n\ndef", "call_1_0"]);
    }

    #[test]
    fn reasoning_that_leads_to_nothing_stays_away() {
        let mut message = message(vec![], &["x".into()]);
        let raws =
            [r#"{"type":"reasoning","n":1}"#, "[\"text\",1]", r#"{"type":"reasoning","n":2}"#];
        message.opaque = raws.map(|raw| OpaqueBlock::new(WIRE, raw)).to_vec();
        assert_eq!(shown(&message), [raws[0], ":x"]);
    }

    #[test]
    fn blocks_of_other_wires_and_broken_ones_stay_away() {
        let mut message = message(vec![], &["x".into()]);
        let half = r#"{"type":"x","y":"\ud83d"}"#;
        message.opaque = ["{", "null{", half].map(|raw| OpaqueBlock::new(WIRE, raw)).to_vec();
        message.opaque.push(OpaqueBlock::new("other", "{}"));
        assert_eq!(shown(&message), [":x"]);
    }
}
