//! What the proxy of a browser did not connect to, and why.

use parking_lot::Mutex;
use url::Url;

/// Refusals that are kept for the next result. A page may cause any number of them.
const KEPT: usize = 100;

/// The refusals since the last result.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Vec<Refusal>>);

/// A request that the proxy refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Host and port, if it was an address at all.
    place: Option<(String, u16)>,
    pub(crate) reason: String,
}

impl Refusals {
    /// Adds a request for an address that was refused.
    pub(crate) fn add(&self, address: &str, reason: &str) {
        let place = Url::parse(address).ok().and_then(|url| place(&url));
        let refusal = Refusal { place, reason: reason.to_owned() };
        let mut refusals = self.0.lock();
        if refusals.len() < KEPT && !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }

    /// Takes all of them out.
    pub(crate) fn take(&self) -> Vec<Refusal> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Refusal {
    /// Returns whether it was about the host and port of an address.
    pub(crate) fn is_about(&self, address: &str) -> bool {
        let place = Url::parse(address).ok().and_then(|url| place(&url));
        place.is_some() && place == self.place
    }
}

fn place(url: &Url) -> Option<(String, u16)> {
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}
