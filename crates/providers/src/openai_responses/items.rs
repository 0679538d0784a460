//! The items of a reply, put together from events that leave parts out or name them oddly.
//!
//! An item is known by its id, by its `output_index`, or (where an event has neither, or only
//! one that nobody has seen before) by being the only one of its kind that is still open.
//!
//! What is said of an item more than once is taken from the later of: its pieces, the event
//! that ends a text, the event that ends the item, the final `response.output`. An empty
//! later word takes nothing away. The final output counts where it has at least as many items
//! of each kind as the stream had; a shorter one is a stub, and the stream counts.

use super::item::{ItemKind, PartialItem, TextKey, TextPart};
use crate::limits::{CALLS, ITEMS};
use crate::stream_error::{ReplyTooLarge, StreamError};

/// Which item an event speaks of.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemAddress<'v> {
    pub(super) id: &'v str,
    pub(super) index: Option<u64>,
}

/// A text of an item that grew: the item's serial, which text, and by what.
pub(super) type TextGrowth = (usize, TextKey, String);

/// The items in the order in which they first appeared.
#[derive(Debug, Default)]
pub(super) struct PartialItems {
    list: Vec<PartialItem>,
    next_serial: usize,
    steps: u64,
}

impl PartialItems {
    /// Returns the number of starts and ends of items.
    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.list.iter().map(PartialItem::held_bytes).sum()
    }

    /// Whether none of them says anything.
    pub(super) fn are_empty(&self) -> bool {
        self.list.iter().all(PartialItem::is_empty)
    }

    /// Returns the item that pieces of text belong to, made if there is none; `None` if it has
    /// ended, so that late or repeated pieces change nothing.
    pub(super) fn at(
        &mut self,
        kind: ItemKind,
        at: ItemAddress<'_>,
    ) -> Result<Option<&mut PartialItem>, StreamError> {
        let place = match self.find(kind, at) {
            Some(place) => place,
            None => self.push(PartialItem::new(kind, at.id, at.index))?,
        };
        Ok(self.list.get_mut(place).filter(|item| !item.closed))
    }

    fn find(&self, kind: ItemKind, at: ItemAddress<'_>) -> Option<usize> {
        let last = |test: &dyn Fn(&PartialItem) -> bool| {
            self.list.iter().rposition(|item| item.kind == kind && test(item))
        };
        let same_id = |item: &PartialItem| item.has_id(at.id);
        let same_index = |item: &PartialItem| at.index.is_some() && item.index == at.index;
        last(&|item| same_id(item) && same_index(item))
            .or_else(|| last(&same_id))
            // Some servers give an item a new id with each event.
            .or_else(|| last(&|item| same_index(item) && !item.closed))
            .or_else(|| {
                let open = |item: &PartialItem| {
                    !item.closed && (item.index.is_none() || at.index.is_none())
                };
                let place = last(&open)?;
                let only =
                    self.list.iter().filter(|item| item.kind == kind && open(item)).count() == 1;
                (only || (at.id.is_empty() && at.index.is_none())).then_some(place)
            })
    }

    fn push(&mut self, mut item: PartialItem) -> Result<usize, StreamError> {
        let calls = self.list.iter().filter(|it| it.kind == ItemKind::Call).count();
        if item.kind == ItemKind::Call && calls == CALLS {
            return Err(ReplyTooLarge::Calls.into());
        }
        if self.list.len() == ITEMS {
            return Err(ReplyTooLarge::Items.into());
        }
        item.serial = self.next_serial;
        self.next_serial += 1;
        self.steps += 1;
        self.list.push(item);
        Ok(self.list.len() - 1)
    }

    /// An item begins, unless it has begun already.
    pub(super) fn open(&mut self, mut item: PartialItem) -> Result<Vec<TextGrowth>, StreamError> {
        // What stands in it now may not be all.
        item.raw = None;
        let again = self.list.iter().rposition(|known| {
            let same_index = known.index.is_some() && known.index == item.index;
            let may_be = same_index || known.index.is_none() || item.index.is_none();
            let same = known.shares_id(&item) && may_be;
            known.kind == item.kind
                && ((same && (same_index || !known.closed))
                    || (item.has_no_id() && same_index && !known.closed))
        });
        match again {
            Some(place) if self.list.get(place).is_some_and(|known| known.closed) => Ok(Vec::new()),
            Some(place) => Ok(self.absorb(place, item)),
            None => self.push_whole(item),
        }
    }

    /// An item ends as it is here.
    pub(super) fn close(&mut self, mut item: PartialItem) -> Result<Vec<TextGrowth>, StreamError> {
        item.closed = true;
        let at = ItemAddress { id: item.id(), index: item.index };
        let place = self.find(item.kind, at).filter(|place| {
            let known = self.list.get(*place);
            // An ended item that is ended once more is another one, unless all says the same.
            known.is_some_and(|it| !it.closed || (it.shares_id(&item) && it.index == item.index))
        });
        match place {
            Some(place) => Ok(self.absorb(place, item)),
            None => self.push_whole(item),
        }
    }

    fn push_whole(&mut self, item: PartialItem) -> Result<Vec<TextGrowth>, StreamError> {
        let texts = item.all_texts();
        let place = self.push(item)?;
        let serial = self.list.get(place).map_or(0, |item| item.serial);
        Ok(texts.into_iter().map(|(key, text)| (serial, key, text)).collect())
    }

    fn absorb(&mut self, place: usize, whole: PartialItem) -> Vec<TextGrowth> {
        let Some(item) = self.list.get_mut(place) else { return Vec::new() };
        self.steps += u64::from(whole.closed && !item.closed);
        item.closed |= whole.closed;
        let serial = item.serial;
        item.absorb(whole).into_iter().map(|(key, text)| (serial, key, text)).collect()
    }

    /// Takes the final output.
    pub(super) fn settle(
        &mut self,
        mut output: Vec<PartialItem>,
    ) -> Result<Vec<TextGrowth>, StreamError> {
        output.retain(|item| !item.is_empty());
        let stub =
            ItemKind::ALL.into_iter().any(|kind| count(&output, kind) < count(&self.list, kind));
        if stub {
            return Ok(Vec::new());
        }
        let mut alike = ItemKind::ALL.to_vec();
        alike.retain(|kind| count(&output, *kind) == count(&self.list, *kind));
        self.sort();
        let mut before = std::mem::take(&mut self.list);
        let mut grown = Vec::new();
        for (index, mut item) in (0..).zip(output) {
            item.closed = true;
            item.index = Some(index);
            let same = before.iter().position(|it| it.kind == item.kind && it.shares_id(&item));
            let next = before.iter().position(|it| it.kind == item.kind);
            match same.or_else(|| next.filter(|_| alike.contains(&item.kind))) {
                Some(place) => {
                    let mut known = before.remove(place);
                    known.index = item.index;
                    self.list.push(known);
                    grown.extend(self.absorb(self.list.len() - 1, item));
                }
                None => grown.extend(self.push_whole(item)?),
            }
        }
        Ok(grown)
    }

    /// By index, where each item has its own.
    fn sort(&mut self) {
        let mut indexes: Vec<_> = self.list.iter().map(|item| item.index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        if indexes.len() == self.list.len() && !indexes.contains(&None) {
            self.list.sort_by_key(|item| item.index);
        }
    }

    /// Whether a text of an item is one to show.
    pub(super) fn shows(&self, serial: usize, part: TextPart) -> bool {
        let item = self.list.iter().rfind(|item| item.serial == serial);
        item.is_some_and(|item| item.shows(part))
    }

    /// The items in their order.
    pub(super) fn into_list(mut self) -> Vec<PartialItem> {
        self.sort();
        self.list
    }
}

/// Counts the items of a kind that have content.
fn count(items: &[PartialItem], kind: ItemKind) -> usize {
    items.iter().filter(|item| item.kind == kind && !item.is_empty()).count()
}
