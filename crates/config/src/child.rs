//! From the configuration to the endpoint that answers children: a pure function. Provider,
//! endpoint and key travel together.

use std::collections::BTreeMap;

use deputize_providers::Wire;

use super::keys::Config;
use super::known::OFFLINE;
use super::resolve::{
    Endpoint, KeySource, ModelChoice, ModelOverrides, ResolveError, resolve_model,
};

/// What a server speaks of which no provider is named.
pub const SPOKEN: &str = Wire::OpenAiChat.name();
/// A known provider whose own settings are not used: only how it is spoken to elsewhere.
const ANY_SERVER: &str = "openai";

/// Returns the name of the children's model; `None` if they use their parent's.
///
/// A model with its own address or key has a name of its own, which keeps it apart from a model of
/// the same name elsewhere.
pub fn child_model_name(config: &Config) -> Option<String> {
    let set = &config.delegation;
    let model = Some(set.model.as_str()).filter(|model| !model.is_empty());
    if !has_own_way(config) {
        return model.map(str::to_owned);
    }
    if set.provider == OFFLINE {
        return Some(OFFLINE.to_owned());
    }
    let provider = if set.provider.is_empty() { SPOKEN } else { set.provider.as_str() };
    Some(match model {
        Some(model) if is_whole(config) => format!("delegation:{provider}/{model}"),
        Some(model) => format!("delegation:{model}"),
        None => format!("delegation:{provider}"),
    })
}

/// Whether children's model is reached in a way of its own.
fn has_own_way(config: &Config) -> bool {
    let set = &config.delegation;
    // A key that is meant for no endpoint goes nowhere.
    let key = !set.api_key_env.is_empty() || set.api_key.is_some();
    is_whole(config) || key && !set.model.is_empty()
}

/// Whether the name of the model is taken whole, since something else says the provider.
fn is_whole(config: &Config) -> bool {
    !config.delegation.provider.is_empty() || !config.delegation.base_url.is_empty()
}

/// Returns the children's model and its endpoint; `None` if they use their parent's. If only a
/// provider or an address is configured, the main model's name is used there.
///
/// An address that the command line gives for their provider holds for them too, unless they have
/// one of their own (`delegation.base_url`). A key that is configured for children is meant for the
/// address that is configured, and is not sent to another.
///
/// # Errors
/// When it cannot be reached in this version; see [`ResolveError`].
pub fn resolve_child_model(
    config: &Config,
    main: &ModelChoice,
    given: &ModelOverrides,
) -> Result<Option<ModelChoice>, ResolveError> {
    let Some(alias) = child_model_name(config) else { return Ok(None) };
    let set = &config.delegation;
    if !has_own_way(config) {
        return resolve_model(config, &given.for_model(main, &alias)).map(Some);
    }
    if set.provider == OFFLINE {
        return offline(config).map(Some);
    }
    let model = if set.model.is_empty() { &main.model } else { &set.model };
    let set_to = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let provider = set_to(&set.provider).unwrap_or_else(|| ANY_SERVER.to_owned());
    let name = if is_whole(config) { format!("{provider}/{model}") } else { model.to_owned() };
    let for_run = given.for_model(main, &name);
    let has_key = !set.api_key_env.is_empty() || set.api_key.is_some();
    let overrides = ModelOverrides {
        model: Some(name),
        base_url: set_to(&set.base_url),
        api_key_env: match &for_run {
            ModelOverrides { base_url: None, api_key_env, .. }
                if !has_key && set.base_url.is_empty() =>
            {
                api_key_env.clone()
            }
            _ => set_to(&set.api_key_env),
        },
    };
    if set.base_url.is_empty() && for_run.base_url.is_some() {
        let moved = resolve_model(config, &for_run)?;
        let stays = resolve_model(config, &overrides);
        let stays = has_key && stays.is_ok_and(|own| own.base_url() == moved.base_url());
        if !stays {
            return Ok(Some(ModelChoice { alias: Some(alias), ..moved }));
        }
    }
    let mut choice = if is_whole(config) && set.provider.is_empty() {
        // No provider's settings are meant for this address.
        let others = Config { providers: BTreeMap::new(), ..config.clone() };
        let choice = resolve_model(&others, &overrides)?;
        ModelChoice { provider: SPOKEN.to_owned(), ..choice }
    } else {
        resolve_model(config, &overrides)?
    };
    if let Endpoint::Http(at) = &mut choice.endpoint {
        if is_whole(config) && set.provider.is_empty() {
            at.api = Wire::OpenAiChat;
            // Not even the known key of a known address, unless it is named.
            at.keys = KeySource::Variables(set_to(&set.api_key_env).into_iter().collect());
        }
        if let Some(key) = &set.api_key {
            at.keys = KeySource::Value(key.clone());
        }
    }
    choice.alias = Some(alias);
    Ok(Some(choice))
}

fn offline(config: &Config) -> Result<ModelChoice, ResolveError> {
    let set = &config.delegation;
    if !set.base_url.is_empty() {
        return Err(ResolveError::OfflineOnly("delegation.base_url"));
    }
    if !set.api_key_env.is_empty() || set.api_key.is_some() {
        return Err(ResolveError::OfflineOnly("delegation.api_key_env"));
    }
    let overrides = ModelOverrides { model: Some(OFFLINE.to_owned()), ..ModelOverrides::default() };
    resolve_model(config, &overrides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sources, load};

    /// How children are reached under these settings, in one line.
    fn reached(set: &[&str]) -> String {
        reached_with(set, &ModelOverrides::default())
    }

    /// The same where the command line gives this.
    fn reached_with(set: &[&str], given: &ModelOverrides) -> String {
        let providers = "providers={near: {base_url: 'http://127.0.0.1:1/v1', api_key_env: NEAR, \
                         headers: {x-own: secret}}, openai: {api: openai-responses, api_key_env: MINE}}";
        let mut all = vec!["model=openai/top/one".to_owned(), providers.to_owned()];
        all.extend(set.iter().map(|set| format!("delegation.{set}")));
        let loaded = match load(&Sources { set: all, ..Sources::default() }) {
            Ok(loaded) => loaded,
            Err(error) => return error.to_string(),
        };
        let name = child_model_name(&loaded.config);
        let main = resolve_model(&loaded.config, given).unwrap();
        match resolve_child_model(&loaded.config, &main, given) {
            Ok(None) => "the parent's".to_owned(),
            Err(error) => error.to_string(),
            Ok(Some(choice)) => {
                let at = match choice.endpoint {
                    Endpoint::Offline => "offline".to_owned(),
                    Endpoint::Http(at) => format!(
                        "{} at {} keys {:?}{} headers {:?}",
                        at.api.name(),
                        at.base_url,
                        at.keys.variables(),
                        match at.keys {
                            KeySource::Variables(_) => "",
                            KeySource::Value(_) => " and the key itself",
                        },
                        at.headers.keys().collect::<Vec<_>>(),
                    ),
                };
                format!("{} = {} {at}", name.unwrap(), choice.model)
            }
        }
    }

    #[test]
    fn provider_endpoint_and_key_travel_together() {
        let lines = [
            &[][..],
            &["model=near/small/one"],
            &["provider=near", "model=small/one"],
            &["provider=near"],
            &["provider=near", "model=m", "api_key_env=OTHER"],
            &["provider=near", "model=m", "base_url=http://127.0.0.1:2/v1"],
            &["provider=near", "model=m", "base_url=http://127.0.0.1:1/v1"],
            &["provider=near", "model=m", "base_url=http://127.0.0.1:2/v1", "api_key_env=OTHER"],
            &["base_url=http://127.0.0.1:2/v1", "model=small/one"],
            &["base_url=http://127.0.0.1:2/v1"],
            &["base_url=http://127.0.0.1:2/v1", "model=m", "api_key_env=OTHER"],
            &["base_url=https://api.openai.com/v1", "model=m"],
            &["model=near/m", "api_key_env=OTHER"],
            &["api_key_env=OTHER"],
            &["provider=offline"],
            &["provider=offline", "base_url=http://127.0.0.1:2/v1"],
            &["provider=nowhere", "model=m"],
            &["provider=near", "model=m", "api_key=k"],
        ];
        let shown = lines.map(|set| format!("{}\n  {}", set.join(" "), reached(set)));
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn an_address_given_for_a_provider_holds_for_children_and_their_key_goes_nowhere_else() {
        let near = |base_url: Option<&str>, api_key_env: Option<&str>| ModelOverrides {
            model: Some("near/m1".to_owned()),
            base_url: base_url.map(str::to_owned),
            api_key_env: api_key_env.map(str::to_owned),
        };
        let there = near(Some("http://127.0.0.1:9/v1"), None);
        let with_key = near(Some("http://127.0.0.1:9/v1"), Some("GIVEN"));
        let same = near(Some("http://127.0.0.1:1/v1/"), None);
        let key_alone = near(None, Some("GIVEN"));
        let mut shown = String::new();
        for set in [
            &["model=near/m"][..],
            &["provider=near", "model=m"],
            &["provider=near"],
            &["provider=near", "model=m", "api_key_env=OTHER"],
            &["model=near/m", "api_key_env=OTHER"],
            &["provider=near", "model=m", "base_url=http://127.0.0.1:2/v1"],
            &["base_url=http://127.0.0.1:2/v1", "model=m"],
            &["model=openai/m"],
        ] {
            shown += &format!("{}\n", set.join(" "));
            for given in [&there, &with_key, &same, &key_alone] {
                shown += &format!("  {}\n", reached_with(set, given));
            }
        }
        insta::assert_snapshot!(shown);
    }
}
