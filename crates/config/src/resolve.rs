//! From the configuration to the endpoint that answers: a pure function.

use std::collections::BTreeMap;
use std::time::Duration;

use deputize_providers::limits::CONTENT_BYTES;
use deputize_providers::{BodyOptions, EndpointTimeouts, KeyHeader, Proxy, Wire};
use serde_json::Value;
use url::Url;

use super::keys::Config;
use super::known::{self, KNOWN_PROVIDERS, KnownProvider, OFFLINE, UrlFault, known_provider};
use super::place::{listed, nearest, shown};
use super::provider::ProviderEntry;
use super::secret::Secret;
use crate::hint::format_command;

/// What the command line says of the model, stronger than the configuration. An address and a key
/// hold for every model of the main model's provider: see [`ModelOverrides::for_model`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelOverrides {
    /// The value of `--model`, as PROVIDER/MODEL.
    pub model: Option<String>,
    /// The value of `--base-url`, a URL.
    pub base_url: Option<String>,
    /// The value of `--api-key-env`, the name of a variable.
    pub api_key_env: Option<String>,
}

impl ModelOverrides {
    /// Returns what holds for another model of the same run. The address and the key that were
    /// given with the main model hold for all models of its provider, and for no others.
    #[must_use]
    pub fn for_model(&self, main: &ModelChoice, model: &str) -> Self {
        let provider = known::split_model(model).map(|(provider, _)| provider);
        let given = Some(self).filter(|_| provider == Some(main.provider.as_str()));
        Self {
            model: Some(model.to_owned()),
            base_url: given.and_then(|given| given.base_url.clone()),
            api_key_env: given.and_then(|given| given.api_key_env.clone()),
        }
    }
}

/// The model that a run uses, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// Name of the provider.
    pub provider: String,
    /// Name of the model, as the provider knows it.
    pub model: String,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// Tokens of one answer; `None`: the model's own limit.
    pub max_output_tokens: Option<u32>,
    /// Tokens that fit in the context, if configured.
    pub context_window: Option<u32>,
    /// The name by which agents know it, where that is not PROVIDER/MODEL.
    pub alias: Option<String>,
}

impl ModelChoice {
    /// Returns the address of its endpoint; `None` where there is no network.
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        match &self.endpoint {
            Endpoint::Offline => None,
            Endpoint::Http(at) => Some(&at.base_url),
        }
    }
}

/// How a model is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Inside this process: no key, no network.
    Offline,
    /// Over HTTP.
    Http(Box<HttpEndpoint>),
}

/// An endpoint over HTTP. Keys and headers in it are those meant for this very address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpEndpoint {
    /// The protocol.
    pub api: Wire,
    /// The address up to and including its version, without a slash at the end.
    pub base_url: String,
    /// Where its keys come from.
    pub keys: KeySource,
    /// The header that carries a key; `None`: the protocol's own.
    pub key_header: Option<KeyHeader>,
    /// Headers of every request.
    pub headers: BTreeMap<String, Secret>,
    /// Options of request bodies.
    pub body: BodyOptions,
    /// A file of authorities to trust beside the system's; `~/` begins in the person's home.
    pub ca_file: Option<String>,
    /// Which proxy is on the way.
    pub proxy: Proxy,
    /// Time limits of a request.
    pub timeouts: EndpointTimeouts,
    /// Bytes of text, reasoning and calls of one answer.
    pub reply_bytes: usize,
}

/// Where the keys of an endpoint come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// Environment variables, in the order to try them. No key is sent if there are none.
    Variables(Vec<String>),
    /// The key itself, from the configuration.
    Value(Secret),
}

impl KeySource {
    /// Returns the environment variables that may hold a key.
    #[must_use]
    pub fn variables(&self) -> &[String] {
        match self {
            Self::Variables(variables) => variables,
            Self::Value(_) => &[],
        }
    }
}

impl HttpEndpoint {
    /// Returns whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        Url::parse(&self.base_url).is_ok_and(|url| known::is_loopback(&url))
    }

    /// Returns whether it is the address that is known of a provider.
    pub fn is_known_address(&self, provider: &str) -> bool {
        let known = known_provider(provider).and_then(|known| known::endpoint(known.base_url).ok());
        known.is_some_and(|known| known.as_str().trim_end_matches('/') == self.base_url)
    }
}

/// Why there is no model to use. All of them are faults of usage or configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Neither configured nor given.
    #[error(
        "no model is configured. Give one with `-m openai/NAME` (key in OPENAI_API_KEY), or write \
         `model: PROVIDER/NAME` in the file that `{}` names.\n\
         Any compatible server: `--base-url http://127.0.0.1:8080/v1 -m openai/NAME`.\n\
         To try it without a key or network: `-m offline`.",
        format_command("config path")
    )]
    NoModel,
    /// The name is not PROVIDER/MODEL.
    #[error(
        "`{0}` is not PROVIDER/MODEL, such as openai/NAME or ollama/NAME; only `offline` stands alone"
    )]
    NoProvider(String),
    /// No such provider is known or configured.
    #[error("{0}")]
    UnknownProvider(UnknownProvider),
    /// A configured provider without an address.
    #[error("provider `{0}` has no address; set `providers.{0}.base_url`")]
    NoBaseUrl(String),
    /// An address that cannot be used.
    #[error("{key} {fault}")]
    Url {
        /// The key or option that holds it.
        key: String,
        /// What is wrong.
        fault: UrlFault,
    },
    /// `offline` together with an address or a key.
    #[error("`offline` uses no network and no key; leave out {0}")]
    OfflineOnly(&'static str),
    /// `--api-key-env` holds no valid name. Its value is never shown, since it may be a key.
    #[error("--api-key-env takes the name of an environment variable, not the key itself")]
    KeyEnv,
}

/// A provider's name that is neither known nor configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProvider {
    name: String,
    nearest: Option<String>,
    choices: String,
}

impl std::fmt::Display for UnknownProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown provider `{}`; ", shown(&self.name))?;
        if let Some(nearest) = &self.nearest {
            return write!(f, "did you mean `{nearest}`?");
        }
        write!(f, "there are {}. ", self.choices)?;
        write!(f, "Any other server that speaks `openai-chat`: `--base-url URL -m openai/NAME`, ")?;
        write!(f, "or an entry under `providers`")
    }
}

impl UnknownProvider {
    /// `None` when there is such a provider.
    pub(super) fn find<'a>(
        name: &str,
        configured: impl IntoIterator<Item = &'a str>,
    ) -> Option<Self> {
        let mut choices: Vec<&str> = configured.into_iter().collect();
        if name == OFFLINE || choices.contains(&name) || known_provider(name).is_some() {
            return None;
        }
        choices.extend(KNOWN_PROVIDERS.iter().map(|known| known.name));
        choices.push(OFFLINE);
        choices.sort_unstable();
        choices.dedup();
        let nearest = nearest(name, choices.iter().copied()).map(shown);
        let choices = listed(choices);
        Some(Self { name: name.to_owned(), nearest, choices })
    }
}

/// Returns the model to use and how to reach it.
///
/// A key goes only to the address it was configured for: with `base_url` overridden, neither the
/// provider's keys nor its headers are sent, unless `api_key_env` is given too.
///
/// # Errors
///
/// When no model is named, or the named one cannot be reached in this version. See
/// [`ResolveError`].
pub fn resolve_model(
    config: &Config,
    overrides: &ModelOverrides,
) -> Result<ModelChoice, ResolveError> {
    let name = overrides.model.as_deref().unwrap_or(&config.model);
    if name.is_empty() {
        return Err(ResolveError::NoModel);
    }
    let (provider, model) =
        known::split_model(name).ok_or_else(|| ResolveError::NoProvider(shown(name)))?;
    let entry = config.providers.get(provider);
    let configured = config.providers.keys().map(String::as_str);
    if let Some(unknown) = UnknownProvider::find(provider, configured) {
        return Err(ResolveError::UnknownProvider(unknown));
    }
    let empty = ProviderEntry::default();
    let entry = entry.unwrap_or(&empty);
    let endpoint = match provider {
        OFFLINE => offline(overrides)?,
        _ => {
            let reply_bytes = config.limits.reply_bytes as usize;
            let at = http(provider, entry, overrides)?;
            Endpoint::Http(Box::new(HttpEndpoint { reply_bytes, ..at }))
        }
    };
    let tokens = [entry.max_output_tokens, config.max_output_tokens];
    Ok(ModelChoice {
        provider: provider.to_owned(),
        model: model.to_owned(),
        endpoint,
        max_output_tokens: tokens.into_iter().find(|tokens| *tokens > 0),
        context_window: Some(entry.context_window).filter(|tokens| *tokens > 0),
        alias: None,
    })
}

fn offline(overrides: &ModelOverrides) -> Result<Endpoint, ResolveError> {
    match overrides {
        ModelOverrides { base_url: Some(_), .. } => Err(ResolveError::OfflineOnly("--base-url")),
        ModelOverrides { api_key_env: Some(_), .. } => {
            Err(ResolveError::OfflineOnly("--api-key-env"))
        }
        _ => Ok(Endpoint::Offline),
    }
}

fn http(
    provider: &str,
    entry: &ProviderEntry,
    overrides: &ModelOverrides,
) -> Result<HttpEndpoint, ResolveError> {
    let known = known_provider(provider);
    let own = own_url(provider, entry, known)?;
    let given =
        overrides.base_url.as_deref().map(|text| parse_url("--base-url", text)).transpose()?;
    let meant = own.is_some() && (given.is_none() || given == own);
    let url = given
        .or_else(|| own.clone())
        .ok_or_else(|| ResolveError::NoBaseUrl(provider.to_owned()))?;
    let variables = match &overrides.api_key_env {
        Some(name) if known::is_env_name(name) => vec![name.clone()],
        Some(_) => return Err(ResolveError::KeyEnv),
        None if meant => own_keys(entry, known, own.as_ref()),
        None => Vec::new(),
    };
    let key = || format!("providers.{}.proxy", shown(provider));
    let proxy = entry.proxy.as_deref().map(known::proxy).transpose();
    let proxy = proxy.map_err(|fault| ResolveError::Url { key: key(), fault })?;
    Ok(HttpEndpoint {
        api: entry.api.unwrap_or_else(|| spoken(known, &url)),
        base_url: url.as_str().trim_end_matches('/').to_owned(),
        keys: KeySource::Variables(variables),
        key_header: entry.key_header.as_deref().map(KeyHeader::of),
        headers: if meant { entry.headers.clone() } else { BTreeMap::new() },
        body: BodyOptions {
            streaming: entry.streaming.unwrap_or(true),
            echo_reasoning: entry.echo_reasoning,
            tools: entry.tools,
            vision: entry.vision,
            extra: extra(entry, meant),
        },
        ca_file: entry.ca_file.clone(),
        proxy: proxy.unwrap_or_default(),
        timeouts: timeouts(entry, &url),
        reply_bytes: CONTENT_BYTES,
    })
}

fn timeouts(entry: &ProviderEntry, url: &Url) -> EndpointTimeouts {
    let is_slow = known::is_loopback(url) || entry.streaming == Some(false);
    let usual = if is_slow { EndpointTimeouts::slow() } else { EndpointTimeouts::default() };
    let or = |own: Option<u32>, usual: Duration| own.map_or(usual, seconds);
    EndpointTimeouts {
        connect: or(entry.connect_timeout_seconds, usual.connect),
        first_byte: or(entry.first_byte_timeout_seconds, usual.first_byte),
        idle: or(entry.stream_idle_timeout_seconds, usual.idle),
    }
}

/// What a server speaks of which nothing is said.
fn spoken(known: Option<&KnownProvider>, url: &Url) -> Wire {
    match known {
        None => Wire::OpenAiChat,
        Some(known) if known::endpoint(known.base_url).is_ok_and(|own| own == *url) => known.wire,
        Some(known) => known.wire_elsewhere,
    }
}

/// The fields that an entry adds to the body or takes out of it. What it adds is meant for its
/// own server alone.
fn extra(entry: &ProviderEntry, meant: bool) -> BTreeMap<String, Value> {
    let mut fields = if meant { entry.extra_body.clone() } else { BTreeMap::new() };
    fields.extend(entry.omit_body.iter().map(|name| (name.clone(), Value::Null)));
    fields
}

/// The address that the provider's keys and headers are meant for.
fn own_url(
    provider: &str,
    entry: &ProviderEntry,
    known: Option<&KnownProvider>,
) -> Result<Option<Url>, ResolveError> {
    let key = format!("`providers.{provider}.base_url`");
    let text = entry.base_url.as_deref().or(known.map(|known| known.base_url));
    text.map(|text| parse_url(&key, text)).transpose()
}

/// The keys meant for `own`: the entry's, or the known provider's at the known address.
fn own_keys(
    entry: &ProviderEntry,
    known: Option<&KnownProvider>,
    own: Option<&Url>,
) -> Vec<String> {
    let configured = entry.api_key_env.iter().chain(&entry.api_key_envs);
    let configured: Vec<String> = configured.cloned().collect();
    if !configured.is_empty() {
        return configured;
    }
    let known = known.filter(|known| known::endpoint(known.base_url).ok().as_ref() == own);
    known.and_then(|known| known.key_variable).map(str::to_owned).into_iter().collect()
}

fn parse_url(key: &str, text: &str) -> Result<Url, ResolveError> {
    known::endpoint(text).map_err(|fault| ResolveError::Url { key: key.to_owned(), fault })
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}
