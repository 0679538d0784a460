//! What the configuration says of the tools for the web.

use std::time::Duration;

use deputize_core::sanitize::Secrets;
use deputize_core::setting_names::SettingNames;
use deputize_http::{AddressPolicy, AllowedHostError};
use deputize_process::Helper;
use deputize_web::{Converter, FetchSettings, SearchKey, SearchSettings, Settings};

use crate::config::{Config, SearchBackend};
use crate::process_env::ProcessEnv;
use crate::processes::CONVERTER;

/// Returns the settings of the tools for the web. The secrets of a session are added later.
pub(super) fn settings(config: &Config, env: &ProcessEnv) -> Result<Settings, AllowedHostError> {
    let allowed = config.fetch.allow_hosts.iter().map(|host| host.parse());
    let converter = Helper::this_program([CONVERTER]).map_or(Converter::Thread, |helper| {
        Converter::Process { program: helper.program, args: helper.args }
    });
    Ok(Settings {
        fetch: FetchSettings {
            policy: AddressPolicy::new(allowed.collect::<Result<_, _>>()?),
            timeout: Duration::from_secs(config.fetch.timeout_seconds.into()),
            max_bytes: config.fetch.max_bytes.into(),
            ..FetchSettings::default()
        },
        search: search(config, env),
        converter,
        secrets: Secrets::default(),
        setting_names: setting_names(),
    })
}

fn setting_names() -> SettingNames {
    SettingNames::from_iter([
        ("allow_hosts", "fetch.allow_hosts"),
        ("search_backend", "search.backend"),
        ("search_base_url", "search.base_url"),
        ("search_key", "search.api_key_env"),
    ])
}

fn search(config: &Config, env: &ProcessEnv) -> Option<SearchSettings> {
    let backend = match config.search.backend {
        SearchBackend::None => return None,
        SearchBackend::Searxng => deputize_web::SearchBackend::Searxng,
        SearchBackend::Brave => deputize_web::SearchBackend::Brave,
        SearchBackend::Tavily => deputize_web::SearchBackend::Tavily,
    };
    // Which address it is was checked where it was read.
    let base_url = config.search.base_url.parse().ok();
    let key = key_variable(config).map(|name| {
        let key = env.var(&name).map(SearchKey::new);
        key.ok_or_else(|| format!("the variable `{name}` with its key is not set"))
    });
    Some(SearchSettings { backend, base_url, key })
}

/// The variable with the key of the search engine. A key never goes to an address that it was not
/// meant for, so with an address of its own it must be named.
fn key_variable(config: &Config) -> Option<String> {
    let search = &config.search;
    if !search.api_key_env.is_empty() {
        return Some(search.api_key_env.clone());
    }
    let usual = match search.backend {
        SearchBackend::None | SearchBackend::Searxng => None,
        SearchBackend::Brave => Some("BRAVE_API_KEY"),
        SearchBackend::Tavily => Some("TAVILY_API_KEY"),
    };
    usual.filter(|_| search.base_url.is_empty()).map(str::to_owned)
}

/// The key of the search engine, which nobody else may see.
pub(super) fn secrets(config: &Config, env: &ProcessEnv, secrets: &mut Secrets) {
    if let Some(name) = key_variable(config)
        && let Some(value) = env.var(&name)
    {
        secrets.add(&name, value);
    }
}
