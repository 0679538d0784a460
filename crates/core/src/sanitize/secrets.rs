//! Secret values, and their redaction.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use data_encoding::{BASE64_NOPAD, HEXLOWER, HEXUPPER};
use memchr::memmem;
use parking_lot::RwLock;

/// What people write where a server on their own machine wants a key, from the shortest length of
/// a secret. These are words of innocent text too.
const PLACEHOLDERS: [&str; 8] = [
    "lm-studio",
    "not-needed",
    "no-key-required",
    "sk-no-key-required",
    "sk-local",
    "password",
    "localhost",
    "12345678",
];

/// Secret values that must not leave the program, such as keys.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<SecretValue>,
    /// Values that others add while the program runs.
    rotating: Vec<RotatingSecrets>,
}

/// A value and what stands in its place.
#[derive(Clone, PartialEq, Eq)]
struct SecretValue {
    value: String,
    /// How it looks in Base64 and in hexadecimal digits, wherever it begins in what was encoded.
    encoded: Vec<String>,
    mask: String,
}

/// Secret values that change while the program runs, such as tokens that are refreshed. Clones
/// share them. Whoever has one among its [`Secrets`] redacts each value from when it is added.
#[derive(Clone, Default)]
pub struct RotatingSecrets(Arc<RwLock<VecDeque<SecretValue>>>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} values)", self.values.len())
    }
}

impl fmt::Debug for RotatingSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RotatingSecrets({} values)", self.0.read().len())
    }
}

impl SecretValue {
    /// Returns a value with the name that replaces it; `None` if it is too short, or no secret.
    fn new(name: &str, value: &str) -> Option<Self> {
        let mask = || format!("{}{name}]", Secrets::MASK);
        let is_secret = value.len() >= Secrets::SHORTEST && !PLACEHOLDERS.contains(&value);
        is_secret.then(|| Self {
            value: value.to_owned(),
            encoded: encoded_forms(value.as_bytes()),
            mask: mask(),
        })
    }

    /// Returns the texts by which it is known.
    fn forms(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.value).chain(&self.encoded).map(String::as_str)
    }

    fn replace_in(&self, text: &mut Cow<'_, str>) {
        for form in self.forms() {
            // Several times as fast as `contains`, because most texts have no secret.
            if memmem::find(text.as_bytes(), form.as_bytes()).is_some() {
                *text = Cow::Owned(text.replace(form, &self.mask));
            }
        }
    }

    /// Returns how many bytes at the end of a text may be the beginning of it.
    fn partial_len(&self, text: &str) -> Option<usize> {
        self.forms().filter_map(|form| partial_len_of(form, text)).max()
    }

    /// Returns the value as it is escaped in quotes, if it looks different there.
    fn escape(&self) -> Option<Self> {
        let value = self.value.escape_debug().to_string();
        let is_other = value != self.value;
        is_other.then(|| Self { value, encoded: Vec::new(), mask: self.mask.clone() })
    }
}

/// Returns how many bytes at the end of a text may be the beginning of a form of a secret.
fn partial_len_of(form: &str, text: &str) -> Option<usize> {
    let starts = form.char_indices().map(|(at, _)| at).rev();
    starts.filter(|at| *at > 0).find(|at| form.get(..*at).is_some_and(|part| text.ends_with(part)))
}

/// Returns the characters of an encoded text that come of these bytes alone: in Base64 with both
/// alphabets, after a number of bytes that three divides or does not, and in hexadecimal digits.
fn encoded_forms(value: &[u8]) -> Vec<String> {
    let mut forms = vec![HEXLOWER.encode(value), HEXUPPER.encode(value)];
    for before in 0..3 {
        let bytes = [vec![0; before], value.to_owned()].concat();
        let whole = BASE64_NOPAD.encode(&bytes);
        // The characters at the edges have bits of other bytes too.
        let certain = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        let form = whole.get(certain).unwrap_or_default().to_owned();
        let of_addresses = form.replace('+', "-").replace('/', "_");
        if of_addresses != form {
            forms.push(of_addresses);
        }
        forms.push(form);
    }
    forms
}

impl RotatingSecrets {
    /// How many values are kept. A refreshed token is worthless soon, and the oldest goes first.
    pub const MOST: usize = 256;

    /// Adds a value, with the name that replaces it.
    pub fn add(&self, name: &str, value: &str) {
        let Some(added) = SecretValue::new(name, value) else { return };
        let mut values = self.0.write();
        if values.contains(&added) {
            return;
        }
        if values.len() >= Self::MOST {
            values.pop_front();
        }
        values.push_back(added);
    }
}

impl Secrets {
    /// Shorter values are ignored: they would match innocent text.
    pub const SHORTEST: usize = 8;
    /// What stands in place of a value begins with this.
    pub const MASK: &str = "[redacted:";

    /// Adds a value, with the name that replaces it. One that people write where no key is needed,
    /// such as `lm-studio`, is ignored.
    pub fn add(&mut self, name: &str, value: &str) {
        self.values.extend(SecretValue::new(name, value));
    }

    /// Adds the values that these have and will have.
    pub fn add_rotating(&mut self, rotating: &RotatingSecrets) {
        if !self.rotating.iter().any(|known| Arc::ptr_eq(&known.0, &rotating.0)) {
            self.rotating.push(rotating.clone());
        }
    }

    /// Adds the values that are not known yet.
    pub fn add_all(&mut self, others: &Self) {
        for value in &others.values {
            if !self.values.contains(value) {
                self.values.push(value.clone());
            }
        }
        others.rotating.iter().for_each(|rotating| self.add_rotating(rotating));
    }

    /// Returns those values that look different in quotes, as they are escaped there.
    #[must_use]
    pub fn escape(&self) -> Self {
        let values = self.values.iter().filter_map(SecretValue::escape).collect();
        Self { values, rotating: Vec::new() }
    }

    /// Returns the text with all values replaced.
    #[must_use]
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        self.values.iter().for_each(|value| value.replace_in(&mut text));
        for rotating in &self.rotating {
            rotating.0.read().iter().for_each(|value| value.replace_in(&mut text));
        }
        text
    }

    /// Returns what stands in a text in place of one of the values; `None` if nothing does.
    #[must_use]
    pub fn mask_in(&self, text: &str) -> Option<String> {
        if !text.contains(Self::MASK) {
            return None;
        }
        let stands = |value: &SecretValue| text.contains(&value.mask).then(|| value.mask.clone());
        let rotating = |rotating: &RotatingSecrets| rotating.0.read().iter().find_map(stands);
        let fixed = self.values.iter().find_map(stands);
        fixed.or_else(|| self.rotating.iter().find_map(rotating))
    }

    /// Returns how many bytes at the end of a text may be the beginning of a value that continues
    /// in the next piece.
    #[must_use]
    pub fn partial_len(&self, text: &str) -> usize {
        let fixed = self.values.iter().filter_map(|value| value.partial_len(text)).max();
        let longest = |rotating: &RotatingSecrets| {
            rotating.0.read().iter().filter_map(|value| value.partial_len(text)).max()
        };
        let rotating = self.rotating.iter().filter_map(longest).max();
        fixed.max(rotating).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_replaced_by_its_name() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "sk-12345678");
        secrets.add("SHORT", "abc");
        assert_eq!(secrets.scrub("abc sk-12345678!"), "abc [redacted:KEY]!");
        let begun =
            ["", "x", "xs", "x sk-1234", "sk-12345678"].map(|text| secrets.partial_len(text));
        assert_eq!(begun, [0, 0, 1, 7, 0]);
    }

    #[test]
    fn a_secret_in_another_encoding_is_replaced_wherever_it_begins() {
        let key = "sk-\u{ff}?>~12345678";
        let mut secrets = Secrets::default();
        secrets.add("KEY", key);
        for (before, after) in
            [("", ""), ("a", ""), ("ab", "z"), ("abc", "yz"), ("{\"k\":\"", "\"}")]
        {
            let text = format!("{before}{key}{after}");
            for encoding in [
                data_encoding::BASE64,
                data_encoding::BASE64_NOPAD,
                data_encoding::BASE64URL,
                data_encoding::BASE64URL_NOPAD,
                HEXLOWER,
                HEXUPPER,
            ] {
                let encoded = encoding.encode(text.as_bytes());
                let scrubbed = secrets.scrub(&encoded);
                assert!(scrubbed.contains("[redacted:KEY]"), "{text}: {encoded}: {scrubbed}");
                assert!(scrubbed.len() <= encoded.len().max(40), "{encoded}: {scrubbed}");
            }
        }
        let encoded = data_encoding::BASE64.encode(key.as_bytes());
        assert_eq!(secrets.partial_len(&format!("x {}", &encoded[..7])), 7);
        let other = data_encoding::BASE64.encode(b"sk-another-key");
        assert_eq!(secrets.scrub(&other), other);
    }

    #[test]
    fn what_stands_for_no_key_is_no_secret() {
        let mut secrets = Secrets::default();
        PLACEHOLDERS.iter().for_each(|value| secrets.add("KEY", value));
        assert_eq!(secrets.scrub("lm-studio on localhost"), "lm-studio on localhost");
        assert!(PLACEHOLDERS.iter().all(|value| value.len() >= Secrets::SHORTEST));
    }

    #[test]
    fn the_mark_of_a_known_secret_is_found() {
        let rotating = RotatingSecrets::default();
        let mut secrets = Secrets::default();
        secrets.add("KEY", "sk-12345678");
        secrets.add_rotating(&rotating);
        rotating.add("TOKEN", "token-12345678");
        let found = ["a [redacted:KEY]", "[redacted:TOKEN]", "[redacted:OTHER]", "sk-12345678"];
        let found = found.map(|text| secrets.mask_in(text));
        let known = ["[redacted:KEY]", "[redacted:TOKEN]"].map(|mask| Some(mask.to_owned()));
        assert_eq!(found, [known.as_slice(), &[None, None]].concat().as_slice());
    }

    #[test]
    fn a_value_that_is_added_later_is_replaced_from_then_on_and_the_oldest_go_first() {
        let rotating = RotatingSecrets::default();
        let mut early = Secrets::default();
        early.add_rotating(&rotating);
        let mut copied = Secrets::default();
        copied.add_all(&early.clone());
        copied.add_all(&early);
        assert_eq!(copied.rotating.len(), 1);
        assert_eq!(copied.scrub("token-12345678"), "token-12345678");
        rotating.add("TOKEN", "token-12345678");
        rotating.add("TOKEN", "short");
        for secrets in [&early, &copied] {
            assert_eq!(secrets.scrub("a token-12345678"), "a [redacted:TOKEN]");
            assert_eq!(secrets.partial_len("a token-"), 6);
        }
        for n in 0..RotatingSecrets::MOST {
            rotating.add("TOKEN", &format!("other-{n:08}"));
        }
        assert_eq!(early.scrub("token-12345678 other-00000000"), "token-12345678 [redacted:TOKEN]");
        assert_eq!(rotating.0.read().len(), RotatingSecrets::MOST);
    }
}
