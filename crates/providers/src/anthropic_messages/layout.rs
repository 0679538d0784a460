//! Where the blocks of a message stand, when they do not stand in the usual order.

use deputize_core::message::OpaqueBlock;
use serde::{Deserialize, Serialize};

/// The name of the entry that holds the order, in [`OpaqueBlock`].
const WIRE: &str = "anthropic-messages/layout";

/// One block's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BlockSlot {
    /// The next of the opaque blocks.
    Opaque,
    /// These bytes of the message's text.
    Text(usize, usize),
    /// The next of the calls.
    Call,
}

/// The entry that keeps these places, unless they are the usual ones.
pub(super) fn entry(places: &[BlockSlot]) -> Option<OpaqueBlock> {
    let kind = |place: &BlockSlot| match place {
        BlockSlot::Opaque => 0,
        BlockSlot::Text(..) => 1,
        BlockSlot::Call => 2,
    };
    let texts = places.iter().filter(|place| matches!(place, BlockSlot::Text(..))).count();
    if places.is_sorted_by_key(kind) && texts < 2 {
        return None;
    }
    let raw = serde_json::to_string(places).ok()?;
    Some(OpaqueBlock::new(WIRE, raw))
}

/// The places of a message's blocks.
pub(super) fn places(opaque: &[OpaqueBlock], text: &str, calls: usize) -> Vec<BlockSlot> {
    let kept = opaque.iter().find(|entry| entry.wire == WIRE);
    let kept = kept.and_then(|entry| serde_json::from_str::<Vec<BlockSlot>>(&entry.raw).ok());
    let blocks = opaque.iter().filter(|entry| entry.wire == super::WIRE).count();
    if let Some(kept) = kept.filter(|places| fits(places, text, blocks, calls)) {
        return kept;
    }
    let mut places = vec![BlockSlot::Opaque; blocks];
    places.push(BlockSlot::Text(0, text.len()));
    places.extend(std::iter::repeat_n(BlockSlot::Call, calls));
    places
}

/// Whether the places take up everything there is: the text may have been changed since (a
/// secret in it), and the calls of a closing request are dropped.
fn fits(places: &[BlockSlot], text: &str, blocks: usize, calls: usize) -> bool {
    let count = |kind: BlockSlot| places.iter().filter(|place| **place == kind).count();
    let mut end = 0;
    for place in places {
        let BlockSlot::Text(from, to) = *place else { continue };
        // What is between two texts was put there to keep them apart.
        let between = text.get(end..from).is_some_and(|between| between.trim().is_empty());
        if !between || text.get(from..to).is_none() {
            return false;
        }
        end = to;
    }
    let called = count(BlockSlot::Call);
    end == text.len() && count(BlockSlot::Opaque) == blocks && (called == calls || calls == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: [BlockSlot; 6] = [
        BlockSlot::Opaque,
        BlockSlot::Text(0, 3),
        BlockSlot::Opaque,
        BlockSlot::Call,
        BlockSlot::Text(5, 8),
        BlockSlot::Call,
    ];

    fn opaque(places: &[BlockSlot]) -> Vec<OpaqueBlock> {
        let block = || OpaqueBlock::new(super::super::WIRE, "{}");
        [block(), block()].into_iter().chain(entry(places)).collect()
    }

    #[test]
    fn an_unusual_order_is_kept_and_read_back() {
        let opaque = opaque(&MIXED);
        let raw = r#"["opaque",{"text":[0,3]},"opaque","call",{"text":[5,8]},"call"]"#;
        assert_eq!(opaque[2].raw, raw);
        assert_eq!(places(&opaque, "abc\n\ndef", 2), MIXED);
        assert_eq!(places(&opaque, "abc\n\ndef", 0), MIXED, "the calls were dropped");
    }

    #[test]
    fn the_usual_order_needs_no_entry() {
        use BlockSlot::{Call, Opaque, Text};
        assert_eq!(entry(&[Opaque, Opaque, Text(0, 2), Call, Call]), None);
        assert_eq!(entry(&[Call]), None);
        assert!(entry(&[Text(0, 2), Opaque]).is_some());
        assert!(entry(&[Text(0, 2), Text(2, 3)]).is_some());
    }

    #[test]
    fn an_order_that_does_not_fit_any_more_is_not_used() {
        let usual = |text: &str, calls| {
            let mut usual =
                vec![BlockSlot::Opaque, BlockSlot::Opaque, BlockSlot::Text(0, text.len())];
            usual.extend(std::iter::repeat_n(BlockSlot::Call, calls));
            assert_eq!(places(&opaque(&MIXED), text, calls), usual, "{text}");
        };
        usual("abc\n\ndefg", 2);
        usual("abc\n\nde", 2);
        usual("abcxxdef", 2);
        usual("ab\u{e9}\ndefé", 2);
        usual("abc\n\ndef", 1);
        let broken = [OpaqueBlock::new(WIRE, "[{\"text\":[3,0]}]")];
        assert_eq!(places(&broken, "abc", 0), [BlockSlot::Text(0, 3)]);
        assert_eq!(places(&[OpaqueBlock::new(WIRE, "no JSON")], "", 0), [BlockSlot::Text(0, 0)]);
    }
}
