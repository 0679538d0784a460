//! The content of one file between the page cache and the storage.

use std::ops::Range;

use fastrand::Rng;

/// A file's content as readers see it, and the part that is certain to survive.
#[derive(Debug, Default)]
pub(super) struct PageCache {
    /// The content that readers see.
    pub(super) now: Vec<u8>,
    /// The content at the last successful sync.
    pub(super) durable: Vec<u8>,
    /// Ranges that a failed sync dropped: readers see them until the power is cut, and no later
    /// sync writes them.
    dropped: Vec<Range<usize>>,
    /// Where it was truncated since the last sync: durable content after that may come back.
    cut: Option<usize>,
}

impl PageCache {
    /// Returns how many bytes are certain to survive.
    pub(super) fn certain(&self) -> usize {
        let whole = self.durable.len().min(self.cut.unwrap_or(usize::MAX));
        self.dropped.iter().map(|range| range.start).fold(whole, usize::min)
    }

    /// Truncates the content to this many bytes.
    pub(super) fn truncate(&mut self, bytes: usize) {
        self.now.truncate(bytes);
        self.cut = Some(bytes.min(self.cut.unwrap_or(bytes)));
    }

    /// Records a successful sync of this content.
    pub(super) fn synced(&mut self, content: Vec<u8>) {
        self.durable = content;
        self.cut = None;
    }

    /// Records a failed sync of this many bytes.
    pub(super) fn sync_failed(&mut self, bytes: usize) {
        if bytes > self.durable.len() {
            self.dropped.push(self.durable.len()..bytes);
        }
    }

    /// Writes the content from this byte on again, so that dropped ranges can be synced.
    pub(super) fn rewritten(&mut self, from: usize) {
        self.dropped.iter_mut().for_each(|range| range.end = range.end.min(from));
        self.dropped.retain(|range| range.start < range.end);
    }

    /// Cuts the power. Each sector that was not durable was written or not, in any order, and the
    /// length is the old one, the new one, or one between.
    pub(super) fn power_cut(&mut self, dice: &mut Rng) {
        let sector = 32 << dice.usize(..5);
        let luck = dice.choice([0, 50, 90, 100]).unwrap_or_default();
        let old = self.durable.len();
        let new = self.now.len();
        let len = match dice.u8(..3) {
            0 => old,
            1 => new,
            _ => dice.usize(old.min(new)..=old.max(new)),
        };
        let mut left = Vec::with_capacity(len);
        while left.len() < len {
            let range = left.len()..(left.len() + sector).min(len);
            let from = if dice.u8(..100) < luck { &self.now } else { &self.durable };
            left.extend(range.map(|at| from.get(at).copied().unwrap_or(0)));
        }
        for range in self.dropped.drain(..) {
            let end = range.end.min(left.len());
            left.get_mut(range.start..end).into_iter().for_each(|lost| lost.fill(0));
        }
        self.now.clone_from(&left);
        self.durable = left;
        self.cut = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_durable_survives_and_the_rest_is_there_is_zero_or_is_not() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut file = PageCache { now: vec![7; 300], ..PageCache::default() };
            file.synced(vec![7; 100]);
            file.power_cut(&mut Rng::with_seed(seed));
            let left = file.now;
            assert!((100..=300).contains(&left.len()), "{}", left.len());
            assert_eq!(left[..100], [7; 100]);
            assert!(left.iter().all(|byte| [0, 7].contains(byte)));
            let hole = left.iter().position(|byte| *byte == 0);
            let reordered = hole.is_some_and(|hole| left[hole..].contains(&7));
            outcomes.insert((left.len() == 100, left.len() == 300, reordered));
        }
        assert!(outcomes.contains(&(true, false, false)), "nothing new survives");
        assert!(outcomes.contains(&(false, true, true)), "the end does, what is before it not");
    }

    #[test]
    fn what_was_cut_off_may_come_back_until_the_next_sync() {
        let mut file = PageCache { now: vec![7; 100], ..PageCache::default() };
        file.synced(vec![7; 100]);
        file.truncate(40);
        file.now.extend([8; 90]);
        assert_eq!(file.certain(), 40);
        let mixed = (0..50).any(|seed| {
            let mut file =
                PageCache { now: file.now.clone(), durable: vec![7; 100], ..PageCache::default() };
            file.power_cut(&mut Rng::with_seed(seed));
            assert_eq!(file.now[..40], [7; 40]);
            file.now[40..].contains(&7) && file.now.contains(&8)
        });
        assert!(mixed);
        file.synced(file.now.clone());
        assert_eq!(file.certain(), 130);
    }

    #[test]
    fn what_a_failed_sync_dropped_is_lost_although_a_later_one_succeeds() {
        let mut file = PageCache { now: vec![7; 10], ..PageCache::default() };
        file.sync_failed(10);
        file.synced(vec![7; 10]);
        assert_eq!(file.certain(), 0);
        file.rewritten(4);
        file.synced(vec![7; 10]);
        file.power_cut(&mut Rng::with_seed(1));
        assert_eq!(file.now, [0, 0, 0, 0, 7, 7, 7, 7, 7, 7]);
    }
}
