//! Prices of models, and runs that cannot start without them.

use deputize_core::budget::Price;
use deputize_providers::published_price;

use super::external;
use super::model::{ModelSelection, ModelUse, name};
use crate::config::{Config, Endpoint, ModelChoice};
use crate::process_env::ProcessEnv;

/// Why a run does not begin in which dollars or tokens are limited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MissingPrice {
    /// Nobody knows what a model costs.
    #[error(
        "`{limit}` is a limit in dollars, and the price of `{name}` is not known: {remedy}, or \
         limit tokens instead"
    )]
    Model { limit: &'static str, name: String, remedy: String },
    /// The same where children are runs of a program.
    #[error(
        "`{limit}` is a limit in dollars, and the cost of children that are another program \
         (`delegation.acp_command`) is unknown: limit `delegation.budget.seconds` instead, or \
         remove one of the two"
    )]
    Program { limit: &'static str },
    /// Tokens are limited, and children are runs of a program.
    #[error(
        "`{limit}` is a limit in tokens, and the tokens of children that are another program \
         (`delegation.acp_command`) are unknown: limit `delegation.budget.seconds` instead, or \
         remove one of the two"
    )]
    Tokens { limit: &'static str },
}

impl MissingPrice {
    /// The key that limits.
    pub(crate) const fn limit(&self) -> &'static str {
        match self {
            Self::Model { limit, .. } | Self::Program { limit } | Self::Tokens { limit } => limit,
        }
    }
}

/// The limits of dollars of a configuration.
#[derive(Clone, Copy)]
pub(crate) struct DollarLimits<'a> {
    pub(crate) config: &'a Config,
    /// Whether the top agent may have children.
    pub(crate) hands_on: bool,
}

impl DollarLimits<'_> {
    /// Whether any are limited.
    pub(super) fn any(self) -> bool {
        self.limit(true).is_some()
    }

    /// The key that limits dollars: those of the run, or, for what children spend, theirs.
    fn limit(self, of_child: bool) -> Option<&'static str> {
        let of_run = self.config.budget.usd.map(|_| "budget.usd");
        let of_children = self.config.delegation.budget.usd.map(|_| "delegation.budget.usd");
        of_run.or(of_children.filter(|_| of_child))
    }

    /// The key that limits tokens, of the run or of children.
    fn tokens(self) -> Option<&'static str> {
        let of_run = self.config.budget.tokens.map(|_| "budget.tokens");
        of_run.or(self.config.delegation.budget.tokens.map(|_| "delegation.budget.tokens"))
    }

    /// Why a run that asks these models cannot begin, if it cannot.
    pub(crate) fn refusals(self, asked: &ModelSelection, env: &ProcessEnv) -> Vec<MissingPrice> {
        let program = self.hands_on && external::name(self.config).is_some();
        let dollars = self.limit(true).map(|limit| MissingPrice::Program { limit });
        let tokens = self.tokens().map(|limit| MissingPrice::Tokens { limit });
        let program = [dollars, tokens].into_iter().flatten().filter(|_| program);
        let model = |(choice, used): &(ModelChoice, ModelUse)| {
            if used.skip_reason(choice, env).is_some() || price(choice, self.config).is_some() {
                return None;
            }
            let name = name(choice);
            let of_child = self.hands_on && asked.for_children.contains(&name);
            let needed = of_child || name == asked.name;
            let limit = self.limit(of_child).filter(|_| needed)?;
            Some(MissingPrice::Model { limit, name, remedy: self.remedy(choice) })
        };
        program.chain(asked.choices.iter().filter_map(model)).collect()
    }

    /// How a model gets a price.
    fn remedy(self, choice: &ModelChoice) -> String {
        // Quoted, for names of models have what YAML reads otherwise.
        let prices = format!("prices: {{{:?}: {{input: 1, output: 2}}}}", choice.model);
        let unit = "its dollars per million tokens";
        let set = &self.config.delegation;
        match &choice.endpoint {
            // Prices stand with providers, and this address belongs to none.
            Endpoint::Http(at)
                if choice.alias.is_some()
                    && set.provider.is_empty()
                    && !set.base_url.is_empty() =>
            {
                format!(
                    "set `providers.NAME` to `{{base_url: {}, {prices}}}` ({unit}) and \
                     `delegation.provider` to NAME in place of `delegation.base_url`",
                    at.base_url
                )
            }
            _ => format!("set `providers.{}` to have `{prices}` ({unit})", choice.provider),
        }
    }
}

/// Returns the price of a model: the configured one, zero on this machine, or the published one at
/// the provider's own address.
pub(super) fn price(choice: &ModelChoice, config: &Config) -> Option<Price> {
    let Endpoint::Http(at) = &choice.endpoint else { return Some(Price::FREE) };
    if let Some(own) = own_price(choice, config) {
        return Some(own);
    }
    if at.is_loopback() {
        return Some(Price::FREE);
    }
    let published = || published_price(&choice.provider, &choice.model);
    at.is_known_address(&choice.provider).then(published).flatten()
}

fn own_price(choice: &ModelChoice, config: &Config) -> Option<Price> {
    let entry = config.providers.get(&choice.provider)?;
    entry.prices.get(&choice.model).map(|own| (*own).into())
}

/// Whether a server is taken to cost nothing for no other reason than that it is on this machine.
pub(super) fn counts_as_free(choice: &ModelChoice, config: &Config) -> bool {
    let Endpoint::Http(at) = &choice.endpoint else { return false };
    at.is_loopback() && own_price(choice, config).is_none()
}
