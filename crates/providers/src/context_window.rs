//! How much fits into the context of a model, as far as it is published: see
//! `context_windows.txt`, which has a date.

use crate::prices::{plain, vendor_and_model, without_date};

const TABLE: &str = include_str!("../context_windows.txt");

/// Returns the published tokens of input and output that fit into the context of a provider's
/// model. A model that is named as `VENDOR/MODEL` has the number of its vendor; an unknown one has
/// none.
///
/// ```
/// use deputize_providers::published_context_window;
///
/// assert_eq!(published_context_window("anthropic", "claude-sonnet-4-5-20250929"), Some(200_000));
/// assert_eq!(published_context_window("openai", "gpt-0"), None);
/// ```
#[must_use]
pub fn published_context_window(provider: &str, model: &str) -> Option<u32> {
    let (provider, model) = vendor_and_model(provider, model);
    let wanted = plain(model);
    row(provider, &wanted).or_else(|| row(provider, without_date(&wanted)))
}

fn row(provider: &str, model: &str) -> Option<u32> {
    TABLE.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut words = line.split(' ');
        let is_own = words.next() == Some(provider);
        let tokens = words.next()?.parse().ok()?;
        (is_own && words.any(|word| word == model)).then_some(tokens)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_tokens_and_no_model_has_two_numbers() {
        let mut names = std::collections::BTreeSet::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let [provider, tokens, models @ ..] = &words[..] else { panic!("{line}") };
            assert!(tokens.parse::<u32>().unwrap() >= 8_192, "{line}");
            for model in models {
                assert_eq!(plain(model), **model, "{line}");
                assert!(names.insert((*provider, *model)), "{model} stands twice");
            }
        }
        assert!(names.len() > 90);
    }

    #[test]
    fn spellings_dates_and_vendors_make_no_difference() {
        let tokens = |provider, model| published_context_window(provider, model);
        assert_eq!(tokens("openai", "gpt-5.1"), Some(400_000));
        assert_eq!(tokens("openai", "gpt-5-mini-2025-08-07"), Some(400_000));
        assert_eq!(tokens("anthropic", "claude-opus-4-6"), Some(1_000_000));
        assert_eq!(tokens("openrouter", "anthropic/claude-sonnet-4.5"), Some(200_000));
        assert_eq!(tokens("local", "gpt-5"), None);
        assert_eq!(tokens("openai", "400000"), None);
    }
}
