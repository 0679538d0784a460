//! What models cost, as far as it is published: see `prices.txt`, which has a date.

use deputize_core::budget::Price;

const TABLE: &str = include_str!("../prices.txt");

/// Returns the published price of a provider's model. A model that is named as `VENDOR/MODEL` (as
/// `openrouter` does) has the price of its vendor. Unknown models have none, never zero.
///
/// ```
/// let price = deputize_providers::published_price("openai", "gpt-5-2025-08-07").unwrap();
/// assert_eq!(price.output, 10.0);
/// assert!(deputize_providers::published_price("openai", "gpt-0").is_none());
/// ```
#[must_use]
pub fn published_price(provider: &str, model: &str) -> Option<Price> {
    let (provider, model) = vendor_and_model(provider, model);
    let wanted = plain(model);
    let undated = without_date(&wanted);
    let price = row(provider, &wanted).or_else(|| row(provider, undated))?;
    let mut numbers = price.map(str::parse);
    let mut number = || numbers.next()?.ok();
    let [input, cached, output] = [number()?, number()?, number()?];
    Some(Price { input, cached, cache_write: number().unwrap_or(input), output })
}

/// Returns the vendor of a model and its name there: `VENDOR/MODEL` names both.
pub(crate) fn vendor_and_model<'n>(provider: &'n str, model: &'n str) -> (&'n str, &'n str) {
    model.split_once('/').unwrap_or((provider, model))
}

/// What stands after a model's name in the table.
fn row(provider: &str, model: &str) -> Option<impl Iterator<Item = &'static str>> {
    TABLE.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut words = line.split(' ');
        let found = words.next() == Some(provider) && plain(words.next()?) == model;
        found.then_some(words)
    })
}

/// A name without the spellings in which providers differ.
pub(crate) fn plain(model: &str) -> String {
    model.to_ascii_lowercase().replace('.', "-")
}

/// `m-2025-08-07`, `m-20250807` and `m-latest` are versions of `m`.
pub(crate) fn without_date(model: &str) -> &str {
    ["-latest", "-0000-00-00", "-00000000"]
        .into_iter()
        .find_map(|shape| {
            let (name, end) = model.split_at_checked(model.len().checked_sub(shape.len())?)?;
            let fits = |(c, like): (char, char)| c == like || (like == '0' && c.is_ascii_digit());
            end.chars().zip(shape.chars()).all(fits).then_some(name)
        })
        .unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_price_and_no_model_has_two() {
        let mut names = std::collections::BTreeSet::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let [provider, model, numbers @ ..] = &words[..] else { panic!("{line}") };
            let numbers: Vec<f64> = numbers.iter().map(|word| word.parse().unwrap()).collect();
            assert!(
                matches!(
                    numbers[..],
                    [input, cached, output, ref written @ ..]
                        if cached <= input && output > 0.0 && written.len() <= 1
                            && written.iter().all(|it| *it >= input)
                ),
                "{line}"
            );
            names.insert((*provider, *model));
        }
        assert!(names.len() > 100);
    }

    #[test]
    fn versions_and_vendors_are_seen_through() {
        let output = |provider, model| published_price(provider, model).map(|it| it.output);
        assert_eq!(output("openai", "gpt-5.1"), Some(10.0));
        assert_eq!(output("openai", "gpt-5-mini-2025-08-07"), Some(2.0));
        assert_eq!(output("anthropic", "claude-sonnet-4-5-20250929"), Some(15.0));
        assert_eq!(output("anthropic", "claude-sonnet-4-5-latest"), Some(15.0));
        assert_eq!(output("openrouter", "anthropic/claude-sonnet-4.5"), Some(15.0));
        assert_eq!(output("local", "gpt-5"), None);
        assert_eq!(output("openai", "20250101"), None);
        assert_eq!(output("openai", ""), None);
    }

    #[test]
    fn what_is_written_to_a_cache_costs_more_where_that_is_published() {
        let price = published_price("anthropic", "claude-sonnet-4-5").unwrap();
        assert_eq!((price.input, price.cache_write), (3.0, 3.75));
        let price = published_price("openai", "gpt-5").unwrap();
        assert_eq!(price.input, price.cache_write);
    }
}
