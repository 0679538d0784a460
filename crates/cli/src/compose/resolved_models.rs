//! The models of a run: which are asked, with which keys, and what they cost.

use std::sync::Arc;

use deputize_core::Clock;
use deputize_core::model::ModelOptions;
use deputize_core::sanitize::Secrets;
use deputize_runtime::Models;

use super::{DollarLimits, ModelSelection, ModelUse, model, prices};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;

/// The models of a run.
#[derive(Clone)]
pub(crate) struct ResolvedModels {
    /// The top agent's, as agents name it.
    pub(crate) name: String,
    /// Options of its requests.
    pub(crate) options: ModelOptions,
    pub(crate) models: Models,
    pub(crate) secrets: Secrets,
    /// Warnings for the person.
    pub(crate) warnings: Vec<String>,
}

impl ResolvedModels {
    /// Makes the models of a run, with their keys.
    pub(super) fn connect(
        asked: ModelSelection,
        limits: DollarLimits<'_>,
        clock: &Arc<dyn Clock>,
        environment: &ProcessEnv,
    ) -> Result<Self, CliError> {
        let config = limits.config;
        let mut secrets = Secrets::default();
        let mut warnings = Vec::new();
        let mut models = Models::default();
        let dollars = limits.any();
        let http = deputize_providers::http_client(Arc::clone(clock));
        for (choice, used) in &asked.choices {
            if let Some(why) = used.skip_reason(choice, environment) {
                warnings.push(why);
                continue;
            }
            warnings.extend(model::short_keys(choice, environment));
            let has_fallback = !asked.fallback.is_empty();
            let made = model::make(choice, environment, &http, &mut secrets, has_fallback)?;
            let name = model::name(choice);
            models.insert(&name, &choice.model, made);
            if let Some(tokens) = model::context_window(choice) {
                models.context_window(&name, tokens);
            }
            if dollars && prices::counts_as_free(choice, config) {
                warnings.push(format!(
                    "{name} is on this machine and counts as free; set providers.{}.prices if it \
                     is not",
                    choice.provider
                ));
            }
            match prices::price(choice, config) {
                Some(price) => models.price(&name, price),
                None if dollars
                    && matches!(
                        used,
                        ModelUse::Fallback | ModelUse::ChildFallback | ModelUse::Summary
                    ) =>
                {
                    warnings.push(format!(
                        "{} {name} is passed over: its price is not known, and the budget is in \
                         dollars; set providers.{}.prices",
                        used.word(),
                        choice.provider
                    ));
                }
                None => {}
            }
        }
        // Also those that this run does not use: a command may find them elsewhere.
        model::add_environment(&mut secrets, environment);
        environment.log.redact(&secrets);
        let ModelSelection { name, options, fallback, child_fallback, .. } = asked;
        models.fallback(fallback);
        models.pinned_fallback(child_fallback);
        Ok(Self { name, options, models, secrets, warnings })
    }
}
