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
    /// Whether Chromium asked for it by itself, and no page did.
    pub(crate) is_own: bool,
}

impl Refusals {
    /// Adds a request for an address that was refused.
    pub(crate) fn add(&self, address: &str, reason: &str) {
        self.push(address, reason.to_owned(), false);
    }

    /// Adds a request for a host that Chromium asks by itself. It matters only to whoever wants to
    /// open a page there.
    pub(crate) fn add_own(&self, address: &str, host: &str) {
        let reason = format!("only Chromium itself asks {host}: nothing is sent there");
        self.push(address, reason, true);
    }

    fn push(&self, address: &str, reason: String, is_own: bool) {
        let place = Url::parse(address).ok().and_then(|url| place(&url));
        let refusal = Refusal { place, reason, is_own };
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
