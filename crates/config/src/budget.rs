//! What may be spent, and what models cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a session may spend in all its runs. An absent key sets no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Maximum cost in US dollars. Every model must then have a price: see `providers.NAME.prices`.
    /// 0 allows no request.
    #[schemars(range(min = 0))]
    pub usd: Option<f64>,
    /// Maximum number of tokens, sent and received. 0 allows no request.
    pub tokens: Option<u64>,
    /// Time limit of a run in seconds. No limit if 0.
    pub seconds: Option<u32>,
}

impl Budget {
    /// Returns the budget without its time, which is a limit of each agent.
    pub fn spending(&self) -> deputize_core::budget::Budget {
        deputize_core::budget::Budget { usd: self.usd, tokens: self.tokens }
    }
}

/// What a tree of children may spend. An absent key sets no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChildBudget {
    /// Maximum cost in US dollars. Every model of children must then have a price: see
    /// `providers.NAME.prices`. 0 allows no request.
    #[schemars(range(min = 0))]
    pub usd: Option<f64>,
    /// Maximum number of tokens, sent and received. 0 allows no request.
    pub tokens: Option<u64>,
    /// Time limit in seconds, which counts while any child runs. 0 allows no request.
    pub seconds: Option<u32>,
}

impl ChildBudget {
    /// Returns the budget without its time.
    pub fn spending(&self) -> deputize_core::budget::Budget {
        deputize_core::budget::Budget { usd: self.usd, tokens: self.tokens }
    }
}

/// US dollars for a million tokens of one model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Input tokens.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Input tokens read from the provider's cache. Absent: the price of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cached: Option<f64>,
    /// Input tokens written to the provider's cache. Absent: the price of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cache_write: Option<f64>,
    /// Output tokens, including reasoning.
    #[schemars(range(min = 0))]
    pub output: f64,
}

impl From<ModelPrice> for deputize_core::budget::Price {
    fn from(price: ModelPrice) -> Self {
        let ModelPrice { input, cached, cache_write, output } = price;
        let cached = cached.unwrap_or(input);
        let cache_write = cache_write.unwrap_or(input);
        Self { input, cached, cache_write, output }
    }
}
