//! Tokens, as the events of a reply tell them bit by bit.

use deputize_core::model::Usage;

use crate::json::Json;

/// The usage so far. Servers report numbers at the start, at the end or at both, with zeros for
/// unknown ones: the last number that is not zero counts.
#[derive(Debug, Default)]
pub(super) struct UsageCount {
    /// Input neither read from the cache nor written to it.
    input: u64,
    read: u64,
    written: u64,
    output: u64,
    reasoning: u64,
    /// The sum over the requests that the server made for this one, where it lists them: with
    /// compaction the numbers beside the list are those of the last one alone.
    iterations: Option<Box<Self>>,
    /// All input of the last of them.
    context_input: Option<u64>,
}

impl UsageCount {
    /// Takes a `usage` object, or what is in its place.
    pub(super) fn add_usage(&mut self, usage: Option<&Json<'_>>) {
        let Some(usage) = usage else { return };
        if let Some([.., last]) = usage.get("iterations").and_then(Json::as_array) {
            let mut counted = Self::default();
            counted.add_usage(Some(last));
            self.context_input = Some(counted.usage().input).filter(|input| *input > 0);
            self.iterations = Some(Box::new(Self::sum(usage.get("iterations"))));
        }
        let number = |key: &str| usage.get(key).and_then(Json::as_u64);
        let within = |group: &str, key: &str| usage.get(group)?.get(key)?.as_u64();
        let lived = ["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"];
        let lived = lived.into_iter().filter_map(|key| within("cache_creation", key));
        let written = number("cache_creation_input_tokens");
        let written = written.unwrap_or_else(|| lived.fold(0, u64::saturating_add));
        let reasoning = within("output_tokens_details", "thinking_tokens");
        let reasoning = reasoning.or_else(|| within("output_tokens_details", "reasoning_tokens"));
        for (count, latest) in [
            (&mut self.input, number("input_tokens").unwrap_or(0)),
            (&mut self.read, number("cache_read_input_tokens").unwrap_or(0)),
            (&mut self.written, written),
            (&mut self.output, number("output_tokens").unwrap_or(0)),
            (&mut self.reasoning, reasoning.unwrap_or(0)),
        ] {
            if latest > 0 {
                *count = latest;
            }
        }
    }

    /// The sum over a list of usages.
    fn sum(iterations: Option<&Json<'_>>) -> Self {
        let mut sum = Self::default();
        for usage in iterations.and_then(Json::as_array).into_iter().flatten() {
            let mut one = Self::default();
            one.add_usage(Some(usage));
            sum.input = sum.input.saturating_add(one.input);
            sum.read = sum.read.saturating_add(one.read);
            sum.written = sum.written.saturating_add(one.written);
            sum.output = sum.output.saturating_add(one.output);
            sum.reasoning = sum.reasoning.saturating_add(one.reasoning);
        }
        sum
    }

    /// The sum: this wire counts cached input beside the input.
    pub(super) fn usage(&self) -> Usage {
        if let Some(iterations) = &self.iterations {
            let all = iterations.usage();
            let context_input = self.context_input.filter(|input| *input < all.input);
            return Usage { reasoning: all.reasoning.max(self.reasoning), context_input, ..all };
        }
        Usage {
            input: self.input.saturating_add(self.read).saturating_add(self.written),
            cached: self.read,
            cache_write: self.written,
            output: self.output,
            reasoning: self.reasoning,
            context_input: None,
        }
    }
}
