//! Texts of words by chance, the same in each run.

/// Words that there are; the most frequent one, `w0`, is in nine of ten texts of 60 words.
const VOCABULARY: u64 = 20_000;

/// Makes texts, the same in each run.
pub(crate) struct Words(u64);

impl Words {
    pub(crate) const fn new() -> Self {
        Self(7)
    }

    pub(crate) fn text(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            // Small numbers are more frequent, as words are.
            let share = (self.0 % 1_000_003) as f64 / 1_000_003.0;
            let word = (share * share * share * VOCABULARY as f64) as u64;
            text.push_str(&format!("w{word:x} "));
        }
        text
    }
}
