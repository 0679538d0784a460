//! The models of an agent and of its children.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::Clock;
use deputize_core::sanitize::Secrets;
use deputize_runtime::Models;

use super::build_error::BuildError;
use crate::model::AgentModel;

/// Which models an agent and its children ask.
#[derive(Debug, Default)]
pub(super) struct ModelSettings {
    pub(super) own: Option<AgentModel>,
    pub(super) children: Vec<AgentModel>,
    pub(super) fallback: Vec<AgentModel>,
}

/// What connections to models depend on.
pub(super) struct ModelContext<'a> {
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) clock: &'a Arc<dyn Clock>,
    /// Whether dollars are limited, so that each model needs a price.
    pub(super) in_dollars: bool,
}

impl ModelSettings {
    /// Returns models that stand for those with which agents may go on, and are never asked.
    pub(super) fn recorded_models(&self) -> Models {
        let mut models = Models::default();
        models.fallback(self.fallback.iter().map(|it| it.name().to_owned()).collect());
        models
    }

    /// Connects the agent's model, which is returned by name, and those that its other settings
    /// name.
    pub(super) fn connect<'s>(
        &self,
        cx: &ModelContext<'_>,
        settings: impl Iterator<Item = &'s String>,
        secrets: &mut Secrets,
    ) -> Result<(String, Models), BuildError> {
        let mut models = Models::default();
        let mut connect = |source: &AgentModel, is_fallback: bool| -> Result<String, BuildError> {
            let model = source.connect(cx.env, cx.clock, secrets)?;
            let price = source.price().or(model.price);
            if cx.in_dollars && !is_fallback && price.is_none() {
                return Err(BuildError::NoPrice { model: model.name });
            }
            models.insert(&model.name, &model.at_provider, model.model);
            if let Some(price) = price {
                models.price(&model.name, price);
            }
            if let Some(tokens) = source.context_window() {
                models.context_window(&model.name, tokens);
            }
            Ok(model.name)
        };
        let own = connect(self.own.as_ref().ok_or(BuildError::NoModel)?, false)?;
        let mut names = vec![own.clone()];
        for model in &self.children {
            names.push(connect(model, false)?);
        }
        for name in settings {
            if !names.contains(name) {
                names.push(connect(&AgentModel::named(name)?, false)?);
            }
        }
        let mut fallback = Vec::new();
        for model in &self.fallback {
            fallback.push(match names.iter().find(|name| *name == model.name()) {
                Some(name) => name.clone(),
                None => connect(model, true)?,
            });
        }
        models.fallback(fallback);
        Ok((own, models))
    }
}
