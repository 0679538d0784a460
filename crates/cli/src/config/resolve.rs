//! From the configuration to the endpoint that answers: a pure function.

use std::collections::BTreeMap;
use std::time::Duration;

use url::Url;

use super::keys::Config;
use super::known::{self, KNOWN, Known, OFFLINE, UrlFault};
use super::place::{nearest, shown};
use super::provider::{Api, ProviderEntry, ToolCalling};
use super::secret::Secret;

/// Protocols that this version speaks.
const SPOKEN: &[Api] = &[Api::OpenaiChat];

const CONNECT_SECONDS: u32 = 10;
const FIRST_BYTE_SECONDS: u32 = 60;
/// On this machine, where models are slow to begin.
const FIRST_BYTE_SECONDS_LOOPBACK: u32 = 600;
const STREAM_IDLE_SECONDS: u32 = 90;

/// What the command line says of the model, stronger than the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelOverrides {
    /// `--model`, as PROVIDER/MODEL.
    pub model: Option<String>,
    /// `--base-url`.
    pub base_url: Option<String>,
    /// `--api-key-env`.
    pub api_key_env: Option<String>,
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
}

/// How a model is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Inside this process: no key, no network.
    Offline,
    /// Over HTTP.
    Http(HttpEndpoint),
}

/// An endpoint over HTTP. Keys and headers in it are those meant for this very address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpEndpoint {
    /// The protocol.
    pub api: Api,
    /// The address up to and including its version, without a slash at the end.
    pub base_url: String,
    /// Environment variables that hold keys, in the order to try them; none: no key is sent.
    pub api_key_envs: Vec<String>,
    /// Headers of every request.
    pub headers: BTreeMap<String, Secret>,
    /// How tools are offered.
    pub tools: ToolCalling,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long the first byte of an answer may take.
    pub first_byte_timeout: Duration,
    /// How long an answer may pause.
    pub stream_idle_timeout: Duration,
}

/// Why there is no model to use. All of them are faults of usage or configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Neither configured nor given.
    #[error(
        "no model is configured. Give one with `-m openai/NAME` (key in OPENAI_API_KEY), or write \
         `model: PROVIDER/NAME` in the file that `deputize config path` names.\n\
         Any compatible server: `--base-url http://127.0.0.1:8080/v1 -m openai/NAME`.\n\
         To look around without a key and a network: `-m offline`."
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
    /// A protocol of a later version.
    #[error(
        "provider `{provider}` speaks `{}`, which this version does not; it speaks `openai-chat`. \
         Reach the model through a provider that does, such as `-m openrouter/NAME` (key in \
         OPENROUTER_API_KEY), or through any compatible server: `--base-url URL -m openai/NAME`",
        api.name()
    )]
    NotSpoken {
        /// The provider.
        provider: String,
        /// Its protocol.
        api: Api,
    },
    /// `offline` together with an address or a key.
    #[error("`offline` uses no network and no key; leave out {0}")]
    OfflineOnly(&'static str),
    /// `--api-key-env` holds no name. What it holds is not told: it may be a key.
    #[error("--api-key-env takes the name of an environment variable, not the key itself")]
    KeyEnv,
}

/// A provider's name that is neither known nor configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProvider {
    name: String,
    nearest: Option<String>,
    choices: Vec<String>,
}

impl std::fmt::Display for UnknownProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown provider `{}`; ", shown(&self.name))?;
        if let Some(nearest) = &self.nearest {
            return write!(f, "did you mean `{nearest}`?");
        }
        write!(f, "there are {}. ", self.choices.join(", "))?;
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
        if name == OFFLINE || choices.contains(&name) || known::known(name).is_some() {
            return None;
        }
        // What this version cannot speak to is no way out.
        let spoken = KNOWN.iter().filter(|known| SPOKEN.contains(&known.api));
        choices.extend(spoken.map(|known| known.name));
        choices.push(OFFLINE);
        choices.sort_unstable();
        choices.dedup();
        let nearest = nearest(name, choices.iter().copied()).map(shown);
        let choices = choices.into_iter().map(shown).collect();
        Some(Self { name: name.to_owned(), nearest, choices })
    }
}

/// The model to use and how to reach it.
///
/// A key goes only to the address it was configured for: with `base_url` overridden, neither the
/// provider's keys nor its headers are sent, unless `api_key_env` is given too. For the model of
/// children pass `delegation.model` as the override.
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
        _ => Endpoint::Http(http(provider, entry, overrides)?),
    };
    let tokens = [entry.max_output_tokens, config.max_output_tokens];
    Ok(ModelChoice {
        provider: provider.to_owned(),
        model: model.to_owned(),
        endpoint,
        max_output_tokens: tokens.into_iter().find(|tokens| *tokens > 0),
        context_window: Some(entry.context_window).filter(|tokens| *tokens > 0),
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
    let known = known::known(provider);
    let api = entry.api.or(known.map(|known| known.api)).unwrap_or(Api::OpenaiChat);
    if !SPOKEN.contains(&api) {
        return Err(ResolveError::NotSpoken { provider: provider.to_owned(), api });
    }
    let own = own_url(provider, entry, known)?;
    let given = overrides.base_url.as_deref().map(|text| parsed("--base-url", text)).transpose()?;
    let meant = own.is_some() && (given.is_none() || given == own);
    let url = given
        .or_else(|| own.clone())
        .ok_or_else(|| ResolveError::NoBaseUrl(provider.to_owned()))?;
    let api_key_envs = match &overrides.api_key_env {
        Some(name) if known::is_env_name(name) => vec![name.clone()],
        Some(_) => return Err(ResolveError::KeyEnv),
        None if meant => own_keys(entry, known, own.as_ref()),
        None => Vec::new(),
    };
    let first_byte = match entry.first_byte_timeout_seconds {
        Some(seconds) => seconds,
        None if known::is_loopback(&url) => FIRST_BYTE_SECONDS_LOOPBACK,
        None => FIRST_BYTE_SECONDS,
    };
    Ok(HttpEndpoint {
        api,
        base_url: url.as_str().trim_end_matches('/').to_owned(),
        api_key_envs,
        headers: if meant { entry.headers.clone() } else { BTreeMap::new() },
        tools: entry.tools,
        connect_timeout: seconds(entry.connect_timeout_seconds.unwrap_or(CONNECT_SECONDS)),
        first_byte_timeout: seconds(first_byte),
        stream_idle_timeout: seconds(
            entry.stream_idle_timeout_seconds.unwrap_or(STREAM_IDLE_SECONDS),
        ),
    })
}

/// The address that the provider's keys and headers are meant for.
fn own_url(
    provider: &str,
    entry: &ProviderEntry,
    known: Option<&Known>,
) -> Result<Option<Url>, ResolveError> {
    let key = format!("`providers.{provider}.base_url`");
    let text = entry.base_url.as_deref().or(known.map(|known| known.base_url));
    text.map(|text| parsed(&key, text)).transpose()
}

/// The keys meant for `own`: the entry's, or the known provider's at the known address.
fn own_keys(entry: &ProviderEntry, known: Option<&Known>, own: Option<&Url>) -> Vec<String> {
    let configured = entry.api_key_env.iter().chain(&entry.api_key_envs);
    let configured: Vec<String> = configured.cloned().collect();
    if !configured.is_empty() {
        return configured;
    }
    let known = known.filter(|known| known::endpoint(known.base_url).ok().as_ref() == own);
    known.and_then(|known| known.api_key_env).map(str::to_owned).into_iter().collect()
}

fn parsed(key: &str, text: &str) -> Result<Url, ResolveError> {
    known::endpoint(text).map_err(|fault| ResolveError::Url { key: key.to_owned(), fault })
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}
