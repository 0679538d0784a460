//! From resolved models to those that answer.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use deputize_agent::{add_secrets, cap_options, cap_output};
use deputize_core::Model;
use deputize_core::model::{ModelOptions, Request};
use deputize_core::sanitize::Secrets;
use deputize_offline::{NAME, Offline};
use deputize_providers::limits::ReplyLimit;
use deputize_providers::{
    CaBundle, Endpoint as HttpEndpoint, HttpClient, Key, Secret, Wire, WireDialect,
    published_context_window, publishes_vision,
};

use super::external;
use super::settings::options;
use crate::config::{
    self, Config, Endpoint, KeySource, ModelChoice, ModelOverrides, ResolveError, SPOKEN,
    resolve_child_model, resolve_model,
};
use crate::exit::{CliError, Exit};
use crate::process_env::ProcessEnv;

/// Bytes of a file of certificate authorities. The bundle of a whole system has a fourth of it.
const CA_FILE_BYTES: u64 = 1024 * 1024;

/// An address that is never asked: it makes a certificate necessary.
const NOWHERE: &str = "https://nowhere.invalid/v1";

/// A key that a provider needs and that is not set.
#[derive(Debug, thiserror::Error)]
#[error("{whose} needs a key: set {}", variables.join(" or "))]
struct MissingKey {
    whose: String,
    variables: Vec<String>,
}

/// Where a key stands that is configured as such.
const OWN_KEY: &str = "delegation.api_key";

/// Advice for a person without a key.
const LOOK_AROUND: &str = "to try it without a key or network: -m offline";

/// The same where there are others to go on with.
const NO_STAND_IN: &str = "fallback_models go on where a model fails, not where its key is not \
                           set; to begin with one of them: -m PROVIDER/MODEL";

/// A file of authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("providers.{provider}.ca_file: {path} cannot be read")]
struct CaFile {
    provider: String,
    path: String,
    #[source]
    source: io::Error,
}

/// The name by which agents know a model.
pub(crate) fn name(choice: &ModelChoice) -> String {
    if let Some(alias) = &choice.alias {
        return alias.clone();
    }
    match choice.endpoint {
        Endpoint::Offline => NAME.to_owned(),
        Endpoint::Http(_) => format!("{}/{}", choice.provider, choice.model),
    }
}

/// Purpose of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelUse {
    /// Agents are made with it.
    Own,
    /// Children are made with it.
    Child,
    /// A call may choose it for a child.
    Offered,
    /// Agents go on with it when their own cannot be used.
    Fallback,
    /// Children with a model of their own go on with it when that cannot be used.
    ChildFallback,
    /// It writes the summaries of conversations.
    Summary,
}

impl ModelUse {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Own => "model",
            Self::Child => "model of children",
            Self::Offered => "offered model",
            Self::Fallback => "fallback model",
            Self::ChildFallback => "fallback model of children",
            Self::Summary => "model of summaries",
        }
    }

    /// Whether no run begins without it.
    pub(crate) const fn is_required(self) -> bool {
        matches!(self, Self::Own | Self::Child)
    }

    /// Returns why a run goes without this model, if it does.
    pub(super) fn skip_reason(
        self,
        choice: &ModelChoice,
        environment: &ProcessEnv,
    ) -> Option<String> {
        let missing = missing_key(choice, environment).filter(|_| !self.is_required())?;
        Some(format!("{} {} is passed over: {missing}", self.word(), name(choice)))
    }
}

/// The models that a run asks: decided, and neither made nor given their keys.
pub(crate) struct ModelSelection {
    /// The top agent's, as agents name it.
    pub(crate) name: String,
    /// Options of its requests.
    pub(crate) options: ModelOptions,
    /// The names of those that children may have.
    pub(super) for_children: BTreeSet<String>,
    /// Each of them once, the top agent's first.
    pub(crate) choices: Vec<(ModelChoice, ModelUse)>,
    /// The names of those to go on with, in this order.
    pub(super) fallback: Vec<String>,
    /// The names of those that children with a model of their own go on with.
    pub(super) child_fallback: Vec<String>,
}

impl ModelSelection {
    /// Returns whether the top agent's model sees images. No key is looked for.
    pub(crate) fn sees_images(&self) -> bool {
        let Some((choice, _)) = self.choices.first() else { return false };
        match &choice.endpoint {
            Endpoint::Offline => false,
            Endpoint::Http(at) => {
                let published = || publishes_vision(&choice.provider, &choice.model);
                at.body.vision.unwrap_or_else(published)
            }
        }
    }

    /// Those of a configuration. No key is looked for.
    ///
    /// # Errors
    /// When one of them cannot be reached; see [`ResolveError`].
    pub(crate) fn of(config: &Config, overrides: &ModelOverrides) -> Result<Self, ResolveError> {
        let top = resolve_model(config, overrides)?;
        let main = top.clone();
        let other = |name: &String| resolve_model(config, &overrides.for_model(&main, name));
        let mut asked = Self::new(&name(&top), options(config, top.max_output_tokens));
        asked.add(top, ModelUse::Own);
        // Children that are another program ask none of these.
        if external::name(config).is_none() {
            match resolve_child_model(config, &main, overrides)? {
                Some(child) => asked.add_for_children(child, ModelUse::Child),
                None => _ = asked.for_children.insert(asked.name.clone()),
            }
            let delegation = &config.delegation;
            for offered in delegation.models.iter().chain(delegation.profile_models.values()) {
                asked.add_for_children(other(offered)?, ModelUse::Offered);
            }
            for fallback in &config.delegation.fallback_models {
                asked.add(other(fallback)?, ModelUse::ChildFallback);
            }
        }
        for fallback in &config.fallback_models {
            asked.add(other(fallback)?, ModelUse::Fallback);
        }
        let summaries = &config.compaction.model;
        if !summaries.is_empty() {
            asked.add(other(summaries)?, ModelUse::Summary);
        }
        Ok(asked)
    }

    pub(super) fn new(name: &str, options: ModelOptions) -> Self {
        Self {
            name: name.to_owned(),
            options,
            for_children: BTreeSet::new(),
            choices: Vec::new(),
            fallback: Vec::new(),
            child_fallback: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, choice: ModelChoice, used: ModelUse) {
        let name = name(&choice);
        match used {
            ModelUse::Fallback => self.fallback.push(name.clone()),
            ModelUse::ChildFallback => self.child_fallback.push(name.clone()),
            ModelUse::Own | ModelUse::Child | ModelUse::Offered | ModelUse::Summary => {}
        }
        // Of one name there is one model: the address that was given for the first holds.
        if self.find(&name).is_none() {
            self.choices.push((choice, used));
        }
    }

    pub(super) fn add_for_children(&mut self, choice: ModelChoice, used: ModelUse) {
        self.for_children.insert(name(&choice));
        self.add(choice, used);
    }

    fn find(&self, name: &str) -> Option<&ModelChoice> {
        self.choices.iter().map(|(choice, _)| choice).find(|choice| self::name(choice) == name)
    }

    /// The bytes that a model would be sent, for a request to it as agents name it. For a model
    /// that has no wire, as Chat Completions has them.
    pub(crate) fn body(&self, request: &Request<'_>) -> Result<Vec<u8>, CliError> {
        let Some(choice) = self.find(request.model) else {
            return Ok(WireDialect::default().body(request));
        };
        let dialect = match &choice.endpoint {
            Endpoint::Offline => WireDialect::default(),
            Endpoint::Http(at) => at.api.dialect(&endpoint(choice, at)).map_err(CliError::usage)?,
        };
        let most = choice.max_output_tokens;
        let options =
            most.map_or_else(|| request.options.clone(), |it| cap_options(request.options, it));
        Ok(dialect.body(&Request { model: &choice.model, options: &options, ..request.clone() }))
    }
}

/// Returns how many tokens fit into the context of a model: as configured, or as published for its
/// provider's own address; `None` if that is unknown.
pub(super) fn context_window(choice: &ModelChoice) -> Option<u32> {
    choice.context_window.or_else(|| match &choice.endpoint {
        Endpoint::Http(at) if at.is_known_address(&choice.provider) => {
            published_context_window(&choice.provider, &choice.model)
        }
        Endpoint::Http(_) | Endpoint::Offline => None,
    })
}

/// Why a model that a list of the configuration names cannot be asked, if it cannot: its provider
/// is not known, or its key is not set.
pub(crate) fn unreachable(
    config: &Config,
    overrides: &ModelOverrides,
    model: &str,
    environment: &ProcessEnv,
) -> Option<String> {
    // Its own model, and those of the same provider, are reached as the command line says.
    let choice = match resolve_model(config, overrides) {
        Ok(main) if name(&main) == model => Ok(main),
        Ok(main) => resolve_model(config, &overrides.for_model(&main, model)),
        Err(_) => {
            let model = Some(model.to_owned());
            resolve_model(config, &ModelOverrides { model, ..ModelOverrides::default() })
        }
    };
    match choice {
        Ok(choice) => missing_key(&choice, environment).map(|missing| missing.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// Where a model is reached, without what is read from elsewhere: keys and authorities.
fn endpoint(choice: &ModelChoice, at: &config::HttpEndpoint) -> HttpEndpoint {
    let header =
        |(name, value): (&String, &config::Secret)| (name.clone(), value.expose().to_owned());
    HttpEndpoint {
        key_header: at.key_header.clone(),
        headers: at.headers.iter().map(header).collect(),
        proxy: at.proxy.clone(),
        timeouts: at.timeouts,
        reply_limit: ReplyLimit { bytes: at.reply_bytes, setting: "limits.reply_bytes".to_owned() },
        body: at.body.clone(),
        ..HttpEndpoint::new(choice.provider.clone(), at.base_url.clone())
    }
}

/// The same with the keys that are set, and the authorities.
pub(crate) fn whole_endpoint(
    choice: &ModelChoice,
    at: &config::HttpEndpoint,
    environment: &ProcessEnv,
) -> Result<HttpEndpoint, CliError> {
    let key = |variable: &String| Some(Key::new(variable, environment.var(variable)?));
    let keys = match &at.keys {
        KeySource::Variables(variables) => variables.iter().filter_map(key).collect(),
        KeySource::Value(key) => vec![Key::new(OWN_KEY, key.expose())],
    };
    Ok(HttpEndpoint {
        keys,
        authorities: authorities(&choice.provider, at.ca_file.as_deref(), environment)?,
        ..endpoint(choice, at)
    })
}

fn authorities(
    provider: &str,
    ca_file: Option<&str>,
    environment: &ProcessEnv,
) -> Result<Option<CaBundle>, CliError> {
    let Some(path) = ca_file else { return Ok(None) };
    let place = match (path.strip_prefix("~/"), environment.var("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    };
    let pem = read(&place).map_err(|source| {
        let provider = provider.to_owned();
        let path = path.to_owned();
        CliError::usage(CaFile { provider, path, source })
    })?;
    Ok(Some(CaBundle { path: path.to_owned(), pem }))
}

/// Why the authorities of a provider cannot be used, if they cannot: they are read as a run
/// reads them, and nothing is sent.
pub(crate) fn ca_file_fault(
    provider: &str,
    ca_file: &str,
    environment: &ProcessEnv,
) -> Option<String> {
    let at = HttpEndpoint::new(provider.to_owned(), NOWHERE.to_owned());
    let http = deputize_providers::http_client(Arc::new(deputize_runtime::SystemClock));
    let used = authorities(provider, Some(ca_file), environment).and_then(|authorities| {
        let at = HttpEndpoint { authorities, ..at };
        Wire::OpenAiChat.model(at, &http).map_err(CliError::usage)
    });
    used.err().map(|error| error.chain())
}

fn read(path: &std::path::Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(CA_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CA_FILE_BYTES {
        return Err(io::Error::other(format!("it has more than {CA_FILE_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Returns the model by rule, which says how to choose a language model.
fn offline() -> Offline {
    Offline::new().with_other_models(include_str!("other_models.md").trim_ascii_end())
}

/// Makes a model. Its keys and its headers become secrets of the session.
pub(super) fn make(
    choice: &ModelChoice,
    environment: &ProcessEnv,
    http: &HttpClient,
    secrets: &mut Secrets,
    has_fallback: bool,
) -> Result<Arc<dyn Model>, CliError> {
    let Endpoint::Http(at) = &choice.endpoint else { return Ok(Arc::new(offline())) };
    for variable in at.keys.variables() {
        if let Some(value) = environment.var(variable) {
            secrets.add(variable, value);
        }
    }
    for (name, value) in &at.headers {
        secrets.add(name, value.expose());
    }
    if let KeySource::Value(key) = &at.keys {
        secrets.add(OWN_KEY, key.expose());
    }
    if let Some(missing) = missing_key(choice, environment) {
        let hint = if has_fallback { NO_STAND_IN } else { LOOK_AROUND };
        return Err(CliError::new(Exit::Provider, missing).hint(hint));
    }
    let endpoint = whole_endpoint(choice, at, environment)?;
    let model = at.api.model(endpoint, http).map_err(CliError::usage)?;
    Ok(cap_output(model, choice.max_output_tokens))
}

/// The keys and headers of all providers that are configured.
pub(super) fn provider_secrets(config: &Config, environment: &ProcessEnv, secrets: &mut Secrets) {
    let delegation = &config.delegation;
    for entry in config.providers.values() {
        for variable in entry.api_key_env.iter().chain(&entry.api_key_envs) {
            if let Some(value) = environment.var(variable) {
                secrets.add(variable, value);
            }
        }
        for (name, value) in &entry.headers {
            secrets.add(name, value.expose());
        }
    }
    if let Some(value) = environment.var(&delegation.api_key_env) {
        secrets.add(&delegation.api_key_env, value);
    }
    if let Some(key) = &delegation.api_key {
        secrets.add(OWN_KEY, key.expose());
    }
}

/// Returns warnings about keys that are too short to be redacted.
pub(super) fn short_keys(choice: &ModelChoice, environment: &ProcessEnv) -> Vec<String> {
    let Endpoint::Http(at) = &choice.endpoint else { return Vec::new() };
    let is_short = |variable: &&String| {
        let value = environment.var(variable).unwrap_or_default();
        !value.trim().is_empty() && Secret::new(value).is_short()
    };
    let hint = |variable: &String| {
        let least = Secret::SHORTEST;
        format!("the key in {variable} has fewer than {least} bytes and is not redacted")
    };
    at.keys.variables().iter().filter(is_short).map(hint).collect()
}

fn missing_key(choice: &ModelChoice, environment: &ProcessEnv) -> Option<MissingKey> {
    let Endpoint::Http(at) = &choice.endpoint else { return None };
    let needed = at.keys.variables();
    let set = needed.iter().any(|variable| environment.var(variable).is_some());
    // Where children's address alone is configured, the name is that of a protocol.
    let whose = match (&choice.alias, choice.provider.as_str()) {
        (Some(_), SPOKEN) => "the server at delegation.base_url".to_owned(),
        (_, provider) => format!("provider {provider}"),
    };
    let variables = needed.to_vec();
    (!set && !needed.is_empty()).then_some(MissingKey { whose, variables })
}

/// The values of the environment that look like secrets by their variables' names.
pub(crate) fn environment_secrets(environment: &ProcessEnv) -> Secrets {
    let mut secrets = Secrets::default();
    add_environment(&mut secrets, environment);
    secrets
}

/// Adds the values of the environment that are secrets by their variables' names.
pub(super) fn add_environment(secrets: &mut Secrets, environment: &ProcessEnv) {
    let variables =
        environment.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    add_secrets(secrets, variables);
}
