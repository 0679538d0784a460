//! Several keys for one endpoint: which of them the next attempt takes. No clock here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::limits::KEY_REST;
use crate::server_error::ServerError;

/// The keys of an endpoint. One is used until it is limited or refused, then the next.
pub(super) struct KeyRing {
    header: HeaderName,
    keys: Vec<(String, HeaderValue)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: usize,
    /// As many as there are keys.
    rests: Vec<Rest>,
}

#[derive(Clone, Copy)]
enum Rest {
    Ready,
    Until(Instant),
    /// The provider does not take the key.
    Refused,
}

/// The rings of a program: models behind one address take their keys from one ring, so that what
/// one learns of a key holds for all.
#[derive(Default)]
pub(super) struct KeyRings(Mutex<BTreeMap<Whose, Arc<KeyRing>>>);

/// An address, and the variables of its keys.
type Whose = (String, Vec<String>);

impl KeyRings {
    /// The ring for an address and its keys; another one when header or keys became others.
    pub(super) fn ring(
        &self,
        address: &str,
        header: HeaderName,
        keys: Vec<(String, HeaderValue)>,
    ) -> Arc<KeyRing> {
        let variables = keys.iter().map(|(variable, _)| variable.clone()).collect();
        let mut rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
            Some(429) => Some(Self::Limited(error.retry_after)),
            Some(401 | 403) => Some(Self::Refused),
            _ => None,
        }
    }
}

/// What an attempt goes out with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// There are no keys.
    Nothing,
    /// The key of this number.
    Key(usize),
    /// No key can be used now.
    Resting(Next),
}

/// The key that comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// Its variable.
    pub(super) variable: String,
    /// How long it still rests; zero: it is ready.
    pub(super) wait: Duration,
}

/// What becomes of a key that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The variable of the key that failed.
    pub(super) variable: String,
    /// For how long it rests; nothing: it is not used any more.
    pub(super) rests: Option<Duration>,
    /// Which comes next, if any is left.
    pub(super) next: Option<Next>,
}

impl KeyRing {
    pub(super) fn new(header: HeaderName, keys: Vec<(String, HeaderValue)>) -> Self {
        let state = State { current: 0, rests: vec![Rest::Ready; keys.len()] };
        Self { header, keys, state: Mutex::new(state) }
    }

    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// All keys: their variables and the header's values.
    pub(super) fn all(&self) -> &[(String, HeaderValue)] {
        &self.keys
    }

    /// The key of a number, if there is one.
    pub(super) fn get(&self, number: usize) -> Option<&(String, HeaderValue)> {
        self.keys.get(number)
    }

    /// The key for an attempt that goes out now.
    pub(super) fn take(&self, now: Instant) -> Taken {
        if self.keys.is_empty() {
            return Taken::Nothing;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match soonest(&state.rests, state.current, now) {
            Some((number, wait)) if wait.is_zero() => {
                state.current = number;
                Taken::Key(number)
            }
            Some((number, wait)) => Taken::Resting(self.next(number, wait)),
            // All were refused: the provider says once more what is wrong with this one.
            None => Taken::Key(state.current),
        }
    }

    /// Takes note of what went wrong with a key. Nothing to tell when no other key could have
    /// been used instead.
    pub(super) fn failed(&self, used: usize, fault: KeyFault, now: Instant) -> Option<Turn> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = state.rests.iter().enumerate().filter(|(number, _)| *number != used);
        let alone = others.all(|(_, rest)| matches!(rest, Rest::Refused));
        let rests = match fault {
            KeyFault::Limited(_) if alone => return None,
            KeyFault::Limited(wait) => Some(wait.unwrap_or(KEY_REST)),
            KeyFault::Refused => None,
        };
        let (variable, _) = self.keys.get(used)?;
        let until = |wait| now.checked_add(wait).map_or(Rest::Refused, Rest::Until);
        if let Some(rest) = state.rests.get_mut(used) {
            *rest = rests.map_or(Rest::Refused, until);
        }
        if self.keys.len() < 2 {
            return None;
        }
        let next = soonest(&state.rests, used, now);
        if let Some((number, wait)) = next
            && wait.is_zero()
        {
            state.current = number;
        }
        let next = next.map(|(number, wait)| self.next(number, wait));
        Some(Turn { variable: variable.clone(), rests, next })
    }

    fn next(&self, number: usize, wait: Duration) -> Next {
        let variable = self.keys.get(number).map(|(variable, _)| variable.clone());
        Next { variable: variable.unwrap_or_default(), wait }
    }
}

/// The key that is ready first, counted from `from` on, and how long it still rests.
fn soonest(rests: &[Rest], from: usize, now: Instant) -> Option<(usize, Duration)> {
    let (before, after) = rests.split_at_checked(from)?;
    let numbered = |(number, rest): (usize, &Rest)| match rest {
        Rest::Ready => Some((number, Duration::ZERO)),
        Rest::Until(until) => Some((number, until.saturating_duration_since(now))),
        Rest::Refused => None,
    };
    let after = after.iter().enumerate().map(|(number, rest)| (number + from, rest));
    let all = after.chain(before.iter().enumerate()).filter_map(numbered);
    // Of equals the first is taken.
    all.min_by_key(|(_, wait)| *wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(names: &[&str]) -> KeyRing {
        let key = |name: &&str| ((*name).to_owned(), HeaderValue::from_static("k"));
        KeyRing::new(HeaderName::from_static("k"), names.iter().map(key).collect())
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn models_behind_one_address_share_what_is_known_of_a_key() {
        let (rings, now) = (KeyRings::default(), Instant::now());
        let ring = |address, value| {
            let keys = ["A", "B"].map(|name| (name.to_owned(), HeaderValue::from_static(value)));
            rings.ring(address, HeaderName::from_static("k"), keys.to_vec())
        };
        ring("http://a/v1", "x").failed(0, KeyFault::Refused, now);
        assert_eq!(ring("http://a/v1", "x").take(now), Taken::Key(1));
        assert_eq!(ring("http://b/v1", "x").take(now), Taken::Key(0));
        assert_eq!(ring("http://a/v1", "y").take(now), Taken::Key(0), "other keys");
    }

    #[test]
    fn a_limited_key_rests_and_the_next_is_used_until_it_is_limited_too() {
        let (ring, start) = (ring(&["A", "B", "C"]), Instant::now());
        assert_eq!(ring.take(start), Taken::Key(0));
        let turn = ring.failed(0, KeyFault::Limited(Some(seconds(5))), start).unwrap();
        assert_eq!((turn.variable.as_str(), turn.rests), ("A", Some(seconds(5))));
        assert_eq!(turn.next, Some(Next { variable: "B".into(), wait: Duration::ZERO }));
        assert_eq!(ring.take(start + seconds(6)), Taken::Key(1), "a key in use stays in use");
        let turn = ring.failed(1, KeyFault::Limited(None), start).unwrap();
        assert_eq!(turn.rests, Some(KEY_REST));
        assert_eq!(turn.next.unwrap().variable, "C");
        let turn = ring.failed(2, KeyFault::Limited(None), start + seconds(1)).unwrap();
        assert_eq!(turn.next, Some(Next { variable: "A".into(), wait: seconds(4) }));
        let resting = Taken::Resting(Next { variable: "A".into(), wait: seconds(3) });
        assert_eq!(ring.take(start + seconds(2)), resting);
        assert_eq!(ring.take(start + seconds(5)), Taken::Key(0));
    }

    #[test]
    fn a_refused_key_is_not_used_again_while_there_is_another() {
        let (ring, start) = (ring(&["A", "B"]), Instant::now());
        let turn = ring.failed(0, KeyFault::Refused, start).unwrap();
        assert_eq!((turn.rests, turn.next.unwrap().variable.as_str()), (None, "B"));
        assert_eq!(ring.failed(1, KeyFault::Limited(None), start), None, "it is the only one");
        assert_eq!(ring.take(start + seconds(999_999)), Taken::Key(1));
        let turn = ring.failed(1, KeyFault::Refused, start).unwrap();
        assert_eq!((turn.variable.as_str(), turn.next), ("B", None));
        assert!(matches!(ring.take(start), Taken::Key(_)), "the provider is asked once more");
    }

    #[test]
    fn requests_that_fail_side_by_side_are_told_of_the_same_next_key() {
        let (ring, start) = (ring(&["A", "B", "C"]), Instant::now());
        for _ in 0..3 {
            let turn = ring.failed(0, KeyFault::Limited(None), start).unwrap();
            assert_eq!(turn.next.unwrap().variable, "B");
        }
        assert_eq!(ring.take(start), Taken::Key(1));
    }

    #[test]
    fn one_key_and_none_at_all_change_nothing() {
        let start = Instant::now();
        assert_eq!(ring(&[]).take(start), Taken::Nothing);
        let ring = ring(&["A"]);
        for fault in [KeyFault::Limited(Some(seconds(9))), KeyFault::Refused] {
            assert_eq!(ring.failed(0, fault, start), None);
            assert_eq!(ring.take(start), Taken::Key(0));
        }
        let forever = KeyFault::Limited(Some(Duration::MAX));
        assert!(super::tests::ring(&["A", "B"]).failed(0, forever, start).is_some());
    }
}
