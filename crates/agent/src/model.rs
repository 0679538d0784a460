//! Where an agent's model comes from.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::budget::Price;
use deputize_core::sanitize::Secrets;
use deputize_core::{Clock, Model};
#[cfg(feature = "http")]
use deputize_providers::{
    Endpoint, EndpointError, KNOWN_PROVIDERS, Key, Wire, http_client, is_loopback, known_provider,
    published_context_window, published_price,
};

use crate::capped_model::cap_output;

/// The model of an agent: a name such as `openai/gpt-5`, an address, or a value.
///
/// ```
/// use std::sync::Arc;
/// use deputize_agent::AgentModel;
///
/// let hosted: AgentModel = "openai/gpt-5".into();
/// let local = AgentModel::at("http://127.0.0.1:8080/v1", "qwen3");
/// # let _ = (hosted, local);
/// ```
#[derive(Clone)]
pub struct AgentModel {
    source: AgentModelSource,
    /// Its price; `None` for the published one.
    price: Option<Price>,
    /// The most tokens of one answer; `None` for the provider's own limit.
    max_output_tokens: Option<u32>,
    /// Tokens that fit into its context; `None` for the published number.
    context_window: Option<u32>,
}

#[derive(Clone)]
enum AgentModelSource {
    #[cfg(feature = "http")]
    Name(String),
    #[cfg(feature = "http")]
    Server {
        base_url: String,
        model: String,
        key_variable: Option<String>,
    },
    #[cfg(feature = "http")]
    Endpoint {
        name: String,
        wire: Wire,
        endpoint: Box<Endpoint>,
        model: String,
    },
    Value {
        name: String,
        model: Arc<dyn Model>,
    },
}

impl std::fmt::Debug for AgentModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.source {
            #[cfg(feature = "http")]
            AgentModelSource::Name(name) => write!(f, "AgentModel({name})"),
            #[cfg(feature = "http")]
            AgentModelSource::Server { base_url, model, .. } => {
                write!(f, "AgentModel({model} {base_url})")
            }
            #[cfg(feature = "http")]
            AgentModelSource::Endpoint { name, .. } => write!(f, "AgentModel({name})"),
            AgentModelSource::Value { name, .. } => write!(f, "AgentModel({name})"),
        }
    }
}

#[cfg(feature = "http")]
impl From<&str> for AgentModel {
    fn from(name: &str) -> Self {
        Self::of(AgentModelSource::Name(name.to_owned()))
    }
}

#[cfg(feature = "http")]
impl From<String> for AgentModel {
    fn from(name: String) -> Self {
        Self::of(AgentModelSource::Name(name))
    }
}

impl AgentModel {
    const fn of(source: AgentModelSource) -> Self {
        Self { source, price: None, max_output_tokens: None, context_window: None }
    }

    /// Sets what the model costs. A budget in dollars needs it where no price is published.
    #[must_use]
    pub const fn with_price(mut self, price: Price) -> Self {
        self.price = Some(price);
        self
    }

    /// Limits the tokens of one answer, whichever agent asks.
    #[must_use]
    pub const fn with_max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Sets how many tokens fit into the model's context, whose conversations are compacted before
    /// they fill it. Where that is neither set nor published, they are compacted once the provider
    /// refuses them as too long.
    #[must_use]
    pub const fn with_context_window(mut self, tokens: u32) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// Creates a model that speaks Chat Completions at an address, up to and with its version. It
    /// is sent no key; see [`Self::with_key`].
    #[cfg(feature = "http")]
    #[must_use]
    pub fn at(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let model = model.into();
        Self::of(AgentModelSource::Server { base_url, model, key_variable: None })
    }

    /// Names the environment variable that holds the key of a server given with [`Self::at`].
    #[cfg(feature = "http")]
    #[must_use]
    pub fn with_key(mut self, variable: impl Into<String>) -> Self {
        if let AgentModelSource::Server { key_variable, .. } = &mut self.source {
            *key_variable = Some(variable.into());
        }
        self
    }

    /// Creates a model at an endpoint, of which everything can be set: the format, keys, headers,
    /// proxies, limits of time. Agents and records know it by the endpoint's name and its own.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn endpoint(wire: Wire, endpoint: Endpoint, model: impl Into<String>) -> Self {
        let model = model.into();
        let name = format!("{}/{model}", endpoint.name);
        let endpoint = Box::new(endpoint);
        Self::of(AgentModelSource::Endpoint { name, wire, endpoint, model })
    }

    /// A model that settings name.
    pub(crate) fn named(name: &str) -> Result<Self, ModelSourceError> {
        #[cfg(feature = "http")]
        return Ok(name.into());
        #[cfg(not(feature = "http"))]
        Err(ModelSourceError::NoSource { name: name.to_owned() })
    }

    /// Creates a model of the program's own. Agents and records know it by the name.
    #[must_use]
    pub fn value(name: impl Into<String>, model: impl Model + 'static) -> Self {
        Self::shared(name, Arc::new(model))
    }

    /// Returns the same for a model that the program keeps.
    #[must_use]
    pub fn shared(name: impl Into<String>, model: Arc<dyn Model>) -> Self {
        Self::of(AgentModelSource::Value { name: name.into(), model })
    }

    /// Returns the name by which agents know the model.
    pub(crate) fn name(&self) -> &str {
        match &self.source {
            #[cfg(feature = "http")]
            AgentModelSource::Name(name) | AgentModelSource::Endpoint { name, .. } => name,
            #[cfg(feature = "http")]
            AgentModelSource::Server { model, .. } => model,
            AgentModelSource::Value { name, .. } => name,
        }
    }

    /// Returns the price that the program set.
    pub(crate) const fn price(&self) -> Option<Price> {
        self.price
    }

    /// Returns how many tokens fit into its context, if that is set or published.
    pub(crate) fn context_window(&self) -> Option<u32> {
        #[cfg(feature = "http")]
        if let (None, AgentModelSource::Name(name)) = (self.context_window, &self.source) {
            let (provider, model) = name.split_once('/')?;
            return published_context_window(provider, model);
        }
        self.context_window
    }

    /// Makes the model. Its key becomes a secret.
    pub(crate) fn connect(
        &self,
        env: &BTreeMap<String, String>,
        clock: &Arc<dyn Clock>,
        secrets: &mut Secrets,
    ) -> Result<ConnectedModel, ModelSourceError> {
        let connected = self.connect_source(env, clock, secrets)?;
        let model = cap_output(connected.model, self.max_output_tokens);
        Ok(ConnectedModel { model, ..connected })
    }

    #[cfg_attr(
        not(feature = "http"),
        expect(unused_variables, reason = "a value needs neither key nor clock")
    )]
    fn connect_source(
        &self,
        env: &BTreeMap<String, String>,
        clock: &Arc<dyn Clock>,
        secrets: &mut Secrets,
    ) -> Result<ConnectedModel, ModelSourceError> {
        match &self.source {
            AgentModelSource::Value { name, model } => Ok(ConnectedModel {
                name: name.clone(),
                at_provider: name.clone(),
                model: Arc::clone(model),
                price: None,
            }),
            #[cfg(feature = "http")]
            AgentModelSource::Name(name) => {
                let no_provider = || ModelSourceError::Name { name: name.clone() };
                let (provider, at_provider) = name.split_once('/').ok_or_else(no_provider)?;
                let known = known_provider(provider).ok_or_else(no_provider)?;
                let endpoint = Endpoint::new(provider, known.base_url);
                let endpoint = with_key(endpoint, known.key_variable, env, secrets)?;
                let price =
                    published_price(provider, at_provider).or_else(|| price_here(&endpoint));
                let model = known.wire.model(endpoint, &http_client(Arc::clone(clock)))?;
                Ok(ConnectedModel {
                    name: name.clone(),
                    at_provider: at_provider.to_owned(),
                    model,
                    price,
                })
            }
            #[cfg(feature = "http")]
            AgentModelSource::Server { base_url, model, key_variable } => {
                let endpoint = Endpoint::new("server", base_url.clone());
                let endpoint = with_key(endpoint, key_variable.as_deref(), env, secrets)?;
                let name = model.clone();
                let price = price_here(&endpoint);
                let model = Wire::OpenAiChat.model(endpoint, &http_client(Arc::clone(clock)))?;
                Ok(ConnectedModel { at_provider: name.clone(), name, model, price })
            }
            #[cfg(feature = "http")]
            AgentModelSource::Endpoint { name, wire, endpoint, model } => {
                endpoint.add_secrets(secrets);
                let name = name.clone();
                let at_provider = model.clone();
                let price = price_here(endpoint);
                let model = wire.model((**endpoint).clone(), &http_client(Arc::clone(clock)))?;
                Ok(ConnectedModel { name, at_provider, model, price })
            }
        }
    }
}

/// A model that can be asked.
pub(crate) struct ConnectedModel {
    /// As agents name it.
    pub(crate) name: String,
    /// As its provider names it.
    pub(crate) at_provider: String,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) price: Option<Price>,
}

#[cfg(feature = "http")]
fn with_key(
    endpoint: Endpoint,
    variable: Option<&str>,
    env: &BTreeMap<String, String>,
    secrets: &mut Secrets,
) -> Result<Endpoint, ModelSourceError> {
    let Some(variable) = variable else { return Ok(endpoint) };
    let missing = || ModelSourceError::Key { variable: variable.to_owned() };
    let key = env.get(variable).filter(|key| !key.trim().is_empty()).ok_or_else(missing)?;
    secrets.add(variable, key);
    Ok(Endpoint { keys: vec![Key::new(variable, key)], ..endpoint })
}

/// Returns the price of a model on this machine: nothing.
#[cfg(feature = "http")]
fn price_here(endpoint: &Endpoint) -> Option<Price> {
    let url = endpoint.base_url.parse().ok()?;
    is_loopback(&url).then_some(Price::FREE)
}

/// Why a model cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelSourceError {
    /// The settings of delegation name a model that was not added.
    #[cfg(not(feature = "http"))]
    #[error("`{name}` is a model for children that was not added; call `child_model`")]
    NoSource {
        /// Name that was asked for.
        name: String,
    },
    /// The name has no known provider.
    #[cfg(feature = "http")]
    #[error(
        "`{name}` names no known provider; write PROVIDER/MODEL with one of {}, or give an address",
        KNOWN_PROVIDERS.map(|known| known.name).join(", ")
    )]
    Name {
        /// Name that was asked for.
        name: String,
    },
    /// The variable that holds the key is not set.
    #[cfg(feature = "http")]
    #[error("the model needs a key: set {variable}")]
    Key {
        /// Name of the environment variable.
        variable: String,
    },
    /// The address cannot be used.
    #[cfg(feature = "http")]
    #[error("the model cannot be reached")]
    Endpoint(#[from] EndpointError),
}
