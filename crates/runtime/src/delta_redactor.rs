//! Pieces of a reply on their way to who watches.

use deputize_core::model::Delta;
use deputize_core::sanitize::Secrets;

/// Takes secrets out of pieces of text, also one that several pieces make up: an end that may
/// be the beginning of one waits for what follows.
pub(crate) struct DeltaRedactor<'s> {
    secrets: &'s Secrets,
    text: String,
    reasoning: String,
}

impl<'s> DeltaRedactor<'s> {
    pub(crate) const fn new(secrets: &'s Secrets) -> Self {
        Self { secrets, text: String::new(), reasoning: String::new() }
    }

    /// Takes a piece, and shows what cannot be a part of a secret any more.
    pub(crate) fn redact(&mut self, delta: Delta<'_>, show: &mut dyn FnMut(Delta<'_>)) {
        let (held, kind) = match delta {
            Delta::Text(text) => (append(&mut self.text, text), Delta::Text as fn(_) -> _),
            Delta::Reasoning(text) => (append(&mut self.reasoning, text), Delta::Reasoning as _),
            Delta::Call(bytes) => return show(Delta::Call(bytes)),
        };
        let clean = self.secrets.scrub(held);
        let (ready, rest) = clean.split_at(clean.len() - self.secrets.partial_len(&clean));
        if !ready.is_empty() {
            show(kind(ready));
        }
        *held = rest.to_owned();
    }

    /// The reply is over: what waited is shown.
    pub(crate) fn end(self, show: &mut dyn FnMut(Delta<'_>)) {
        if !self.reasoning.is_empty() {
            show(Delta::Reasoning(&self.reasoning));
        }
        if !self.text.is_empty() {
            show(Delta::Text(&self.text));
        }
    }
}

fn append<'h>(held: &'h mut String, text: &str) -> &'h mut String {
    held.push_str(text);
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str]) -> Vec<String> {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "sk-sk-0123");
        let mut seen = Vec::new();
        let mut live = DeltaRedactor::new(&secrets);
        let mut show = |delta: Delta<'_>| {
            let (Delta::Text(text) | Delta::Reasoning(text)) = delta else { return };
            seen.push(text.to_owned());
        };
        pieces.iter().for_each(|piece| live.redact(Delta::Text(piece), &mut show));
        live.end(&mut show);
        seen
    }

    #[test]
    fn a_secret_in_pieces_is_found_and_all_else_comes_at_once() {
        assert_eq!(shown(&["a", "b sk", "y"]), ["a", "b ", "sky"]);
        let one_by_one: Vec<String> = "x sk-sk-sk-0123 y".chars().map(String::from).collect();
        let one_by_one: Vec<&str> = one_by_one.iter().map(String::as_str).collect();
        assert_eq!(shown(&one_by_one).concat(), "x sk-[redacted:KEY] y");
        assert_eq!(shown(&["the end sk-sk"]).concat(), "the end sk-sk");
    }

    #[test]
    fn text_and_reasoning_do_not_mix() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "0123456789");
        let mut live = DeltaRedactor::new(&secrets);
        let mut seen = Vec::new();
        let mut show = |delta: Delta<'_>| seen.push(format!("{delta:?}"));
        live.redact(Delta::Reasoning("01234"), &mut show);
        live.redact(Delta::Text("56789"), &mut show);
        live.end(&mut show);
        assert_eq!(seen, ["Text(\"56789\")", "Reasoning(\"01234\")"]);
    }
}
