//! Several keys for one endpoint: which of them an agent has, and when it gets another. No clock
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::model::FailureKind;
use parking_lot::{Mutex, MutexGuard};
use reqwest::header::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::limits::{KEY_REST, LEAST_REST};
use crate::server_error::ServerError;

/// The keys of an endpoint, and how many agents have each.
pub(super) struct KeyRing {
    header: HeaderName,
    keys: Vec<(String, HeaderValue)>,
    state: Mutex<RingState>,
}

struct RingState {
    /// As many as there are keys.
    rests: Vec<KeyRest>,
    /// The same: agents that have the key.
    holders: Vec<usize>,
}

/// One agent's hold on a key. A provider's cache is by key, so it keeps to the one that it has
/// until that is limited or refused; then, and at first, it gets the one that is ready and that
/// the fewest agents have.
pub(super) struct KeyLease {
    ring: Arc<KeyRing>,
    held: Mutex<HeldKey>,
}

/// What an agent has, and has had.
#[derive(Default)]
struct HeldKey {
    key: Option<usize>,
    /// Keys that failed since something was last answered. They are no reason to try at once
    /// again, else a short rest would send an agent round and round.
    tried: BTreeSet<usize>,
}

#[derive(Clone, Copy)]
enum KeyRest {
    Ready,
    Until(Instant),
    /// The provider does not take the key.
    Refused,
}

/// The rings of a program: models behind one address take their keys from one ring, so that what
/// one learns of a key holds for all.
#[derive(Default)]
pub(super) struct KeyRings(Mutex<BTreeMap<RingKey, Arc<KeyRing>>>);

/// An address, and the variables of its keys.
type RingKey = (String, Vec<String>);

impl KeyRings {
    /// The ring for an address and its keys; another one when header or keys became others.
    pub(super) fn ring(
        &self,
        address: &str,
        header: HeaderName,
        keys: Vec<(String, HeaderValue)>,
    ) -> Arc<KeyRing> {
        let variables = keys.iter().map(|(variable, _)| variable.clone()).collect();
        let mut rings = self.0.lock();
        let whose = (address.to_owned(), variables);
        match rings.get(&whose).filter(|ring| ring.header == header && ring.keys == keys) {
            Some(ring) => Arc::clone(ring),
            None => {
                let ring = Arc::new(KeyRing::new(header, keys));
                rings.insert(whose, Arc::clone(&ring));
                ring
            }
        }
    }
}

/// What a failure says of the key that was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyFault {
    /// It was used too much; the provider may say for how long.
    Limited(Option<Duration>),
    /// It is not accepted, or its credit is used up, which no wait brings back.
    Refused,
}

impl KeyFault {
    pub(super) fn of(error: &ServerError) -> Option<Self> {
        match error.meaning() {
            _ if error.is_quota() && error.retry_after.is_none() => Some(Self::Refused),
            _ if error.is_quota() => Some(Self::Limited(error.retry_after)),
            // Another request fits.
            _ if error.kind() == FailureKind::ContextOverflow => None,
            Some(429) => Some(Self::Limited(error.retry_after)),
            Some(401 | 403) => Some(Self::Refused),
            _ => None,
        }
    }
}

/// What an attempt goes out with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TakenKey {
    /// There are no keys.
    Nothing,
    /// The key of this number.
    Key(usize),
    /// No key can be used now.
    Resting(NextKey),
}

/// The key that comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NextKey {
    pub(super) variable: String,
    /// How long it still rests; zero if it is ready.
    pub(super) wait: Duration,
    /// Whether it failed for this request before.
    pub(super) tried: bool,
}

/// What becomes of a key that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyFailure {
    /// The variable of the key that failed.
    pub(super) variable: String,
    /// How long it rests; `None` if it is not used again.
    pub(super) rests: Option<Duration>,
    /// Which comes next, if any is left.
    pub(super) next: Option<NextKey>,
}

impl KeyRing {
    pub(super) fn new(header: HeaderName, keys: Vec<(String, HeaderValue)>) -> Self {
        let state =
            RingState { rests: vec![KeyRest::Ready; keys.len()], holders: vec![0; keys.len()] };
        Self { header, keys, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, RingState> {
        self.state.lock()
    }

    /// The key for an attempt that goes out now.
    fn take(&self, held: &mut HeldKey, now: Instant) -> TakenKey {
        if self.keys.is_empty() {
            return TakenKey::Nothing;
        }
        let mut state = self.state();
        let mine = held.key.and_then(|mine| Some((mine, state.wait(mine, now)?)));
        match mine.filter(|(_, wait)| wait.is_zero()).or_else(|| state.best(held.key, now)) {
            Some((number, wait)) if wait.is_zero() => {
                state.hold(&mut held.key, number);
                TakenKey::Key(number)
            }
            Some((number, wait)) => TakenKey::Resting(self.next(held, number, wait)),
            // All were refused: the provider says once more what is wrong with this one.
            None => TakenKey::Key(held.key.unwrap_or_default()),
        }
    }

    fn next(&self, held: &HeldKey, number: usize, wait: Duration) -> NextKey {
        let variable = self.keys.get(number).map(|(variable, _)| variable.clone());
        let tried = held.tried.contains(&number);
        NextKey { variable: variable.unwrap_or_default(), wait, tried }
    }
}

impl RingState {
    /// Returns how long a key still rests; `None` if it was refused.
    fn wait(&self, number: usize, now: Instant) -> Option<Duration> {
        match self.rests.get(number)? {
            KeyRest::Ready => Some(Duration::ZERO),
            KeyRest::Until(until) => Some(until.saturating_duration_since(now)),
            KeyRest::Refused => None,
        }
    }

    /// The key that is ready first and how long it still rests. Of equals the one that the fewest
    /// agents have, and of those the next one behind `from`.
    fn best(&self, from: Option<usize>, now: Instant) -> Option<(usize, Duration)> {
        let count = self.rests.len();
        let first = from.unwrap_or_default();
        let cycle = (0..count).map(|step| (first + step) % count);
        let ready = cycle.filter_map(|number| Some((number, self.wait(number, now)?)));
        ready.min_by_key(|(number, wait)| (*wait, self.holders.get(*number).copied()))
    }

    /// An agent gets this key and gives back the one that it had.
    fn hold(&mut self, held: &mut Option<usize>, number: usize) {
        self.give_back(held);
        if let Some(holders) = self.holders.get_mut(number) {
            *holders += 1;
            *held = Some(number);
        }
    }

    fn give_back(&mut self, held: &mut Option<usize>) {
        let had = held.take().and_then(|had| self.holders.get_mut(had));
        if let Some(holders) = had {
            *holders = holders.saturating_sub(1);
        }
    }
}

impl KeyLease {
    /// A hold on a key of this ring, which one is decided when it is needed.
    pub(super) fn new(ring: Arc<KeyRing>) -> Self {
        Self { ring, held: Mutex::default() }
    }

    /// One for another agent.
    pub(super) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.ring))
    }

    pub(super) fn header(&self) -> &HeaderName {
        &self.ring.header
    }

    /// All keys: their variables and the header's values.
    pub(super) fn all(&self) -> &[(String, HeaderValue)] {
        &self.ring.keys
    }

    /// The key of a number, if there is one.
    pub(super) fn get(&self, number: usize) -> Option<&(String, HeaderValue)> {
        self.ring.keys.get(number)
    }

    /// The key for an attempt that goes out now.
    pub(super) fn take(&self, now: Instant) -> TakenKey {
        self.ring.take(&mut self.lock_held(), now)
    }

    /// Takes note of what went wrong with a key. Nothing to tell when no other key could have
    /// been used instead.
    pub(super) fn failed(&self, used: usize, fault: KeyFault, now: Instant) -> Option<KeyFailure> {
        let mut held = self.lock_held();
        let mut state = self.ring.state();
        let mut others = state.rests.iter().enumerate().filter(|(number, _)| *number != used);
        let alone = others.all(|(_, rest)| matches!(rest, KeyRest::Refused));
        let rests = match fault {
            KeyFault::Limited(_) if alone => return None,
            KeyFault::Limited(wait) => Some(wait.unwrap_or(KEY_REST).max(LEAST_REST)),
            KeyFault::Refused => None,
        };
        let (variable, _) = self.ring.keys.get(used)?;
        let until = |wait| now.checked_add(wait).map_or(KeyRest::Refused, KeyRest::Until);
        if let Some(rest) = state.rests.get_mut(used) {
            *rest = rests.map_or(KeyRest::Refused, until);
        }
        if self.ring.keys.len() < 2 {
            return None;
        }
        held.tried.insert(used);
        let next = state.best(Some(used), now);
        if let Some((number, wait)) = next
            && wait.is_zero()
        {
            state.hold(&mut held.key, number);
        }
        let next = next.map(|(number, wait)| self.ring.next(&held, number, wait));
        let other = next.as_ref().map(|next| next.variable.as_str());
        tracing::warn!(variable, other, "a key is limited or refused");
        Some(KeyFailure { variable: variable.clone(), rests, next })
    }

    /// Something was answered: what failed before is past.
    pub(super) fn answered(&self) {
        self.lock_held().tried.clear();
    }

    fn lock_held(&self) -> MutexGuard<'_, HeldKey> {
        self.held.lock()
    }
}

impl Drop for KeyLease {
    fn drop(&mut self) {
        let mut held = self.lock_held();
        self.ring.state().give_back(&mut held.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One agent's hold on keys of these names.
    fn ring(names: &[&str]) -> KeyLease {
        let key = |name: &&str| ((*name).to_owned(), HeaderValue::from_static("k"));
        let ring = KeyRing::new(HeaderName::from_static("k"), names.iter().map(key).collect());
        KeyLease::new(Arc::new(ring))
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn next(variable: &str, wait: u64) -> NextKey {
        NextKey { variable: variable.to_owned(), wait: seconds(wait), tried: false }
    }

    fn next_tried(variable: &str, wait: u64) -> NextKey {
        NextKey { tried: true, ..next(variable, wait) }
    }

    #[test]
    fn models_behind_one_address_share_what_is_known_of_a_key() {
        let rings = KeyRings::default();
        let now = Instant::now();
        let ring = |address, value| {
            let keys = ["A", "B"].map(|name| (name.to_owned(), HeaderValue::from_static(value)));
            KeyLease::new(rings.ring(address, HeaderName::from_static("k"), keys.to_vec()))
        };
        ring("http://a/v1", "x").failed(0, KeyFault::Refused, now);
        assert_eq!(ring("http://a/v1", "x").take(now), TakenKey::Key(1));
        assert_eq!(ring("http://b/v1", "x").take(now), TakenKey::Key(0));
        assert_eq!(ring("http://a/v1", "y").take(now), TakenKey::Key(0), "other keys");
    }

    #[test]
    fn a_limited_key_rests_and_the_next_is_used_until_it_is_limited_too() {
        let ring = ring(&["A", "B", "C"]);
        let start = Instant::now();
        assert_eq!(ring.take(start), TakenKey::Key(0));
        let turn = ring.failed(0, KeyFault::Limited(Some(seconds(5))), start).unwrap();
        assert_eq!((turn.variable.as_str(), turn.rests), ("A", Some(seconds(5))));
        assert_eq!(turn.next, Some(next("B", 0)));
        assert_eq!(ring.take(start + seconds(6)), TakenKey::Key(1), "a key in use stays in use");
        let turn = ring.failed(1, KeyFault::Limited(None), start).unwrap();
        assert_eq!(turn.rests, Some(KEY_REST));
        assert_eq!(turn.next.unwrap().variable, "C");
        let turn = ring.failed(2, KeyFault::Limited(None), start + seconds(1)).unwrap();
        assert_eq!(turn.next, Some(next_tried("A", 4)));
        let resting = TakenKey::Resting(next_tried("A", 3));
        assert_eq!(ring.take(start + seconds(2)), resting);
        assert_eq!(ring.take(start + seconds(5)), TakenKey::Key(0));
    }

    #[test]
    fn a_key_that_was_tried_is_no_other_key_until_something_is_answered() {
        let ring = ring(&["A", "B"]);
        let start = Instant::now();
        let short = KeyFault::Limited(Some(Duration::ZERO));
        let fails = |used, now| ring.failed(used, short, now).unwrap();
        let turn = fails(0, start);
        assert_eq!((turn.rests, turn.next), (Some(LEAST_REST), Some(next("B", 0))));
        let turn = fails(1, start + seconds(1));
        assert_eq!(turn.next, Some(next_tried("A", 0)), "it is ready, but was tried");
        assert_eq!(ring.take(start + seconds(1)), TakenKey::Key(0));
        ring.answered();
        assert_eq!(fails(0, start + seconds(9)).next, Some(next("B", 0)));
    }

    #[test]
    fn a_refused_key_is_not_used_again_while_there_is_another() {
        let ring = ring(&["A", "B"]);
        let start = Instant::now();
        let turn = ring.failed(0, KeyFault::Refused, start).unwrap();
        assert_eq!((turn.rests, turn.next.unwrap().variable.as_str()), (None, "B"));
        assert_eq!(ring.failed(1, KeyFault::Limited(None), start), None, "it is the only one");
        assert_eq!(ring.take(start + seconds(999_999)), TakenKey::Key(1));
        let turn = ring.failed(1, KeyFault::Refused, start).unwrap();
        assert_eq!((turn.variable.as_str(), turn.next), ("B", None));
        assert!(matches!(ring.take(start), TakenKey::Key(_)), "the provider is asked once more");
    }

    #[test]
    fn each_agent_has_the_key_that_the_fewest_have_and_keeps_to_it() {
        let one = ring(&["A", "B", "C"]);
        let start = Instant::now();
        let agents = [one.another(), one.another(), one.another(), one.another()];
        let taken = || agents.each_ref().map(|agent| agent.take(start));
        let [a, b, c] = [0, 1, 2].map(TakenKey::Key);
        assert_eq!(taken(), [a, b, c, TakenKey::Key(0)]);
        assert_eq!(taken(), [0, 1, 2, 0].map(TakenKey::Key), "it keeps to its key");
        let [first, second, third, fourth] = agents;
        drop(second);
        assert_eq!(one.take(start), TakenKey::Key(1), "a key that is given back is free");
        drop((first, fourth));
        assert_eq!(third.another().take(start), TakenKey::Key(0));
        assert_eq!(third.take(start), TakenKey::Key(2));
    }

    #[test]
    fn whoever_has_a_limited_key_gets_another_and_stays_with_that() {
        let one = ring(&["A", "B", "C"]);
        let start = Instant::now();
        let [two, three, four] = [one.another(), one.another(), one.another()];
        let all = [&one, &two, &three, &four];
        assert_eq!(all.map(|agent| agent.take(start)), [0, 1, 2, 0].map(TakenKey::Key));
        let turn = one.failed(0, KeyFault::Limited(Some(seconds(5))), start).unwrap();
        assert_eq!(turn.next.unwrap().variable, "B");
        // The other one that has it finds it resting, and the others keep to theirs.
        assert_eq!(four.take(start), TakenKey::Key(2), "the fewest have it");
        let later = start + seconds(9);
        assert_eq!(all.map(|agent| agent.take(later)), [1, 1, 2, 2].map(TakenKey::Key));
        assert_eq!(one.another().take(later), TakenKey::Key(0), "nobody has it by now");
    }

    #[test]
    fn one_key_and_none_at_all_change_nothing() {
        let start = Instant::now();
        assert_eq!(ring(&[]).take(start), TakenKey::Nothing);
        let ring = ring(&["A"]);
        for fault in [KeyFault::Limited(Some(seconds(9))), KeyFault::Refused] {
            assert_eq!(ring.failed(0, fault, start), None);
            assert_eq!(ring.take(start), TakenKey::Key(0));
        }
        let forever = KeyFault::Limited(Some(Duration::MAX));
        assert!(super::tests::ring(&["A", "B"]).failed(0, forever, start).is_some());
    }
}
