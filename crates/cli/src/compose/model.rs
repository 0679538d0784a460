//! From a resolved model to one that answers, and the secrets of the environment.

use std::sync::Arc;

use deputize_core::door::Secrets;
use deputize_core::{Model, ModelOptions};
use deputize_providers::offline::{NAME, Offline};
use deputize_providers::openai_chat::Dialect;
use deputize_providers::{Endpoint as HttpEndpoint, HttpClient, OpenAiChat, Secret};

use crate::config::{self, Endpoint, ModelChoice};
use crate::exit::{CliError, Exit};
use crate::surroundings::Surroundings;

/// A key that a provider needs and that is not set.
#[derive(Debug, thiserror::Error)]
#[error("provider {provider} needs a key: set {}", variables.join(" or "))]
struct MissingKey {
    provider: String,
    variables: Vec<String>,
}

/// The name by which agents know a model.
pub(super) fn name(choice: &ModelChoice) -> String {
    match choice.endpoint {
        Endpoint::Offline => NAME.to_owned(),
        Endpoint::Http(_) => format!("{}/{}", choice.provider, choice.model),
    }
}

/// The models that a run asks: decided, and neither made nor given their keys.
pub(crate) struct Asked {
    /// The top agent's, as agents name it.
    pub(crate) name: String,
    /// What is wanted of it.
    pub(crate) options: ModelOptions,
    /// All of them, the top agent's first.
    pub(super) choices: Vec<ModelChoice>,
}

impl Asked {
    /// How a model's requests are written: what the provider calls it, and its dialect. For a
    /// model that has no wire, the usual one.
    pub(crate) fn wire<'n>(&'n self, name: &'n str) -> Result<(&'n str, Dialect), CliError> {
        let Some(choice) = self.choices.iter().find(|choice| self::name(choice) == name) else {
            return Ok((name, Dialect::default()));
        };
        let dialect = match &choice.endpoint {
            Endpoint::Offline => Dialect::default(),
            Endpoint::Http(at) => Dialect::of(&endpoint(choice, at)).map_err(CliError::usage)?,
        };
        Ok((&choice.model, dialect))
    }
}

/// Where a model is reached, without its key.
pub(super) fn endpoint(choice: &ModelChoice, at: &config::HttpEndpoint) -> HttpEndpoint {
    let header =
        |(name, value): (&String, &config::Secret)| (name.clone(), value.expose().to_owned());
    HttpEndpoint {
        headers: at.headers.iter().map(header).collect(),
        connect_timeout: at.connect_timeout,
        first_byte_timeout: at.first_byte_timeout,
        idle_timeout: at.stream_idle_timeout,
        ..HttpEndpoint::new(choice.provider.clone(), at.base_url.clone())
    }
}

/// Makes a model. Its key and its headers become secrets of the session.
pub(super) fn make(
    choice: &ModelChoice,
    surroundings: &Surroundings,
    http: &HttpClient,
    secrets: &mut Secrets,
) -> Result<Arc<dyn Model>, CliError> {
    let Endpoint::Http(at) = &choice.endpoint else { return Ok(Arc::new(Offline)) };
    for variable in &at.api_key_envs {
        if let Some(value) = surroundings.var(variable) {
            secrets.add(variable, value);
        }
    }
    let found = at.api_key_envs.iter().find(|variable| surroundings.var(variable).is_some());
    if found.is_none() && !at.api_key_envs.is_empty() {
        let (provider, variables) = (choice.provider.clone(), at.api_key_envs.clone());
        return Err(CliError::new(Exit::Provider, MissingKey { provider, variables })
            .hint("to look around without a key and a network: -m offline"));
    }
    for (name, value) in &at.headers {
        secrets.add(name, value.expose());
    }
    let key = found.and_then(|variable| surroundings.var(variable));
    let endpoint = HttpEndpoint {
        key: key.map(|key| Secret::new(key.to_owned())),
        key_env: found.cloned(),
        ..endpoint(choice, at)
    };
    let model = OpenAiChat::new(endpoint, http).map_err(CliError::usage)?;
    Ok(Arc::new(model))
}

/// What variables' names say that their values are secrets.
const SECRET_ENDINGS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS"];

/// The values of the environment that look like secrets by their variables' names.
pub(crate) fn environment_secrets(surroundings: &Surroundings) -> Secrets {
    let mut secrets = Secrets::default();
    for (name, value) in &surroundings.env {
        let upper = name.to_ascii_uppercase();
        if SECRET_ENDINGS.iter().any(|ending| upper.ends_with(ending)) {
            secrets.add(name, value);
        }
    }
    secrets
}
