//! Counts tokens with the tokenizers that makers of models publish.

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};
use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton, o200k_harmony_singleton};

use crate::prices::vendor_and_model;

/// Bytes that are counted at once. Borders between such parts may add a token each; in return no
/// text makes the tokenizer's search long.
const PART_BYTES: usize = 16 * 1024;
/// Bytes of a token in a part that the tokenizer gives up on.
const BYTES_PER_TOKEN: usize = 3;

/// Returns how many tokens a provider's model makes of a text; `None` if its tokenizer is not
/// published. A model that is named as `VENDOR/MODEL` is its vendor's. Marks of chat formats count
/// as text.
///
/// ```
/// use deputize_providers::count_tokens;
///
/// assert_eq!(count_tokens("openai", "gpt-4o-mini", "Hello, world!"), Some(4));
/// assert_eq!(count_tokens("anthropic", "claude-sonnet-4-5", "Hello, world!"), None);
/// ```
#[must_use]
pub fn count_tokens(provider: &str, model: &str, text: &str) -> Option<u64> {
    let tokenizer = tokenizer_of(provider, model)?;
    let mut rest = text;
    let mut tokens = 0;
    while !rest.is_empty() {
        let (part, next) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        // No mark is special.
        let count = tokenizer.count(part, &Default::default());
        tokens += count.unwrap_or_else(|_| part.len().div_ceil(BYTES_PER_TOKEN)) as u64;
        rest = next;
    }
    Some(tokens)
}

/// Returns the tokenizer of a model. It is read when it is first needed, which takes some 0.1 s.
fn tokenizer_of(provider: &str, model: &str) -> Option<&'static CoreBPE> {
    let (vendor, model) = vendor_and_model(provider, model);
    let model = model.to_ascii_lowercase().replace(':', "-");
    // Anybody may serve the open one.
    if vendor != "openai" && !model.starts_with("gpt-oss") {
        return None;
    }
    match get_tokenizer(&model)? {
        Tokenizer::O200kBase => Some(o200k_base_singleton()),
        Tokenizer::O200kHarmony => Some(o200k_harmony_singleton()),
        Tokenizer::Cl100kBase => Some(cl100k_base_singleton()),
        // Of models that do not chat.
        Tokenizer::P50kBase | Tokenizer::R50kBase | Tokenizer::P50kEdit | Tokenizer::Gpt2 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_the_tokenizer_of_its_maker() {
        let count = |provider, model| count_tokens(provider, model, "お誕生日おめでとう");
        // As the maker's cookbook has it for both vocabularies.
        assert_eq!(count("openai", "gpt-5.1-mini"), Some(8));
        assert_eq!(count("openai", "gpt-4-turbo"), Some(9));
        assert_eq!(count("openrouter", "openai/gpt-4o"), Some(8));
        assert_eq!(count("local", "gpt-oss:20b"), Some(8));
        for (provider, model) in [
            ("local", "gpt-4o"),
            ("openai", "text-davinci-003"),
            ("openai", "something-new"),
            ("anthropic", "claude-sonnet-4-5"),
            ("local", ""),
        ] {
            assert_eq!(count(provider, model), None, "{provider}/{model}");
        }
    }

    #[test]
    fn a_text_in_parts_has_nearly_as_many_tokens_as_the_whole() {
        let line = "The quick brown fox jumps over the lazy dog; naïve 日本語 🦊.\n";
        let whole = count_tokens("openai", "gpt-4o", line).unwrap();
        let many = count_tokens("openai", "gpt-4o", &line.repeat(10_000)).unwrap();
        let parts = (line.len() * 10_000).div_ceil(PART_BYTES) as u64;
        assert!(many.abs_diff(whole * 10_000) <= 10_000 + 2 * parts, "{many} of {whole}");
    }

    #[test]
    fn hostile_texts_are_counted_too() {
        assert_eq!(count_tokens("openai", "gpt-4o", ""), Some(0));
        for unit in [" ", "\n", "a", "'", "\u{0}", "<|endoftext|>", "\u{200d}", "é"] {
            let text = unit.repeat(300_000 / unit.len());
            let tokens = count_tokens("openai", "gpt-4o", &text).unwrap();
            assert!((1_000..=300_000).contains(&tokens), "{unit:?}: {tokens}");
        }
    }
}
