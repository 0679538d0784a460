//! Texts of an external agent, on their way to the record.

use deputize_core::sanitize::{Secrets, clean};
use deputize_core::truncate::truncate_bytes;

/// Limit on its text in one record, in bytes.
const WORDS_BYTES: usize = 4096;
/// Limit on its recorded text between two calls or prompts, in bytes.
const REPLY_WORDS_BYTES: usize = 256 * 1024;
/// Limit on all its recorded text, in bytes.
const ALL_WORDS_BYTES: usize = 8 * 1024 * 1024;
/// Stands on record for words that are not.
const WORDS_LEFT_OUT: &str = "\n[what it said then is not on record]\n";

/// Texts of an external agent. Each function returns the texts that go on record now.
#[derive(Debug, Default)]
pub(crate) struct ExternalWords {
    /// Text that is not on record yet.
    pending: String,
    /// Bytes on record since its last call or prompt.
    reply_bytes: usize,
    /// Bytes of all on record.
    all_bytes: usize,
    /// Whether some since its last call or prompt are left out.
    has_left_out: bool,
}

impl ExternalWords {
    /// Adds a piece of what it says.
    pub(crate) fn push(&mut self, piece: &str, secrets: &Secrets) -> Vec<String> {
        let mut texts = Vec::new();
        let mut rest = piece;
        while !rest.is_empty() {
            if self.room() == 0 {
                texts.extend(self.leave_out());
                break;
            }
            let room = WORDS_BYTES.saturating_sub(self.pending.len()).max(4);
            let (now, later) = rest.split_at(rest.floor_char_boundary(room));
            self.pending.push_str(now);
            rest = later;
            if self.pending.len() >= WORDS_BYTES {
                texts.append(&mut self.flush(secrets));
            }
        }
        texts
    }

    /// Takes what it said, but for the end that may be the beginning of a secret.
    pub(crate) fn flush(&mut self, secrets: &Secrets) -> Vec<String> {
        let ready = self.pending.len() - secrets.partial_len(&self.pending);
        let rest = self.pending.split_off(ready);
        let words = std::mem::replace(&mut self.pending, rest);
        let text = clean(&secrets.scrub(&words)).text.into_owned();
        let kept = truncate_bytes(&text, self.room());
        let mut texts = Vec::new();
        if !kept.is_empty() {
            self.reply_bytes += kept.len();
            self.all_bytes += kept.len();
            texts.push(kept.to_owned());
        }
        if kept.len() < text.len() {
            texts.extend(self.leave_out());
        }
        texts
    }

    /// Ends the text before a call or a prompt; later text is a new message.
    pub(crate) fn end(&mut self, secrets: &Secrets) -> Vec<String> {
        let texts = self.flush(secrets);
        self.reply_bytes = 0;
        self.has_left_out = false;
        texts
    }

    /// Returns how many more bytes of text may go on record now.
    fn room(&self) -> usize {
        let of_reply = REPLY_WORDS_BYTES.saturating_sub(self.reply_bytes);
        of_reply.min(ALL_WORDS_BYTES.saturating_sub(self.all_bytes))
    }

    /// Returns the mark that words are left out, once between two calls or prompts.
    fn leave_out(&mut self) -> Option<String> {
        let is_first = !std::mem::replace(&mut self.has_left_out, true);
        is_first.then(|| WORDS_LEFT_OUT.to_owned())
    }
}
