//! Mistakes that a schema cannot tell: names, addresses, and keys that contradict each other.

use std::collections::BTreeSet;
use std::path::Path;

use super::findings::Findings;
use super::known::{self, RESERVED};
use super::place::{ConfigPlace, shown};
use super::resolve::UnknownProvider;
use super::tree::{PlacedEntry, PlacedValue, Value};
use super::{messaging, plugin};
use crate::hint::format_command;
use deputize_http::AllowedHost;
use deputize_mcp::{ServerNameError, server_name};
use deputize_providers::Wire;

/// Applies every rule. Values of a wrong type are passed over: they are reported already.
pub(super) fn check(config: &PlacedValue, found: &mut Findings) {
    providers(config, found);
    models(config, found);
    delegation(config, found);
    mcp_servers(config, found);
    plugin::check(config, found);
    programs_of_the_environment(config, found);
    terminal_cwd(config, found);
    durable_commands(config, found);
    browser_program(config, found);
    web(config, found);
    messaging::check(config, found);
}

/// Hosts and addresses of the tools for the web.
fn web(config: &PlacedValue, found: &mut Findings) {
    for host in config.at(&["fetch", "allow_hosts"]).into_iter().flat_map(PlacedValue::items) {
        if let Some(Err(fault)) = host.text().map(str::parse::<AllowedHost>) {
            found.error(&host.place, format!("`fetch.allow_hosts`: {fault}"));
        }
    }
    let Some(search) = config.at(&["search"]) else { return };
    if let Some(url) = search.at(&["base_url"])
        && let Some(text) = url.text().filter(|text| !text.is_empty())
        && let Err(fault) = known::endpoint(text)
    {
        found.error(&url.place, format!("`search.base_url` {fault}"));
    }
    // Only an address of their own tells where such servers are.
    if let Some(backend) = search.at(&["backend"]).filter(|it| it.text() == Some("searxng"))
        && search.at(&["base_url"]).and_then(PlacedValue::text).is_none_or(str::is_empty)
    {
        found.warn(&backend.place, "`search.backend`: set `search.base_url`, its address");
    }
}

/// What starts programs before anybody is asked. The environment is what any directory's helper
/// may set, and a task that runs in it.
fn programs_of_the_environment(config: &PlacedValue, found: &mut Findings) {
    let keys: [&[&str]; 5] = [
        &["plugins"],
        &["mcp_servers"],
        &["hooks"],
        &["messaging", "targets"],
        &["delegation", "acp_command"],
    ];
    for path in keys {
        let set = config.at(path).and_then(PlacedValue::of_the_environment);
        if let Some(place) = set {
            let message = format!(
                "`{}` is not read from the environment, since it starts programs; write it into \
                 the file that `{}` names, or use `--set`",
                path.join("."),
                format_command("config path")
            );
            found.error(place, message);
        }
    }
}

/// Commands must not run in another directory than the person thinks.
fn terminal_cwd(config: &PlacedValue, found: &mut Findings) {
    let Some(cwd) = config.at(&["terminal", "cwd"]) else { return };
    let Some(text) = cwd.text().filter(|text| !text.is_empty()) else { return };
    let fault = match Path::new(text) {
        path if !path.is_absolute() => "is not an absolute path",
        path if !path.is_dir() => "is not a directory of this machine",
        _ => return,
    };
    let shown = shown(text);
    found.error(
        &cwd.place,
        format!("`terminal.cwd`: `{shown}` {fault}; leave it out for the agent's own directory"),
    );
}

/// What outlives the session is named by a file of the person, and not by accident.
fn durable_commands(config: &PlacedValue, found: &mut Findings) {
    let Some(durable) = config.at(&["terminal", "durable"]) else { return };
    if let Some(place) = durable.of_the_environment() {
        let message = format!(
            "`terminal.durable` is not read from the environment, since its commands outlive the \
             session; write it into the file that `{}` names, or use `--set`",
            format_command("config path")
        );
        found.error(place, message);
    }
    for command in durable.items() {
        if command.text().is_some_and(|text| text.trim().is_empty()) {
            found.error(&command.place, "`terminal.durable`: a command is empty; leave it out");
        }
    }
}

fn browser_program(config: &PlacedValue, found: &mut Findings) {
    let Some(program) = config.at(&["browser", "program"]) else { return };
    let Some(text) = program.text().filter(|text| !text.is_empty()) else { return };
    if !Path::new(text).is_absolute() {
        let shown = shown(text);
        found.error(
            &program.place,
            format!(
                "`browser.program`: `{shown}` is not an absolute path; leave it out to look for a \
                 browser in PATH"
            ),
        );
    }
}

fn providers(config: &PlacedValue, found: &mut Findings) {
    for (name, entry) in config.entry("providers").into_iter().flat_map(|e| e.node.entries()) {
        found.check_name("provider", name, &entry.key);
        if RESERVED.contains(&name.as_str()) {
            found.error(&entry.key, format!("`{name}` is built in and takes no entry"));
        }
        let path = format!("providers.{}", shown(name));
        url_rule(&path, "base_url", &entry.node, found);
        if entry.node.entry("base_url").is_none() && known::known_provider(name).is_none() {
            found.error(&entry.key, format!("`{path}` needs `base_url`"));
        }
        headers_rule(&path, &entry.node, found);
        network_rules(&path, &entry.node, found);
        if let Some(file) = entry.node.entry("ca_file")
            && let Value::Text(text) = &file.node.value
        {
            found.ca_files.push((name.clone(), text.clone(), file.key.clone()));
        }
        body_rule(&path, &entry.node, found);
        tools_rule(&path, name, &entry.node, found);
        if let Some(several) = entry.node.entry("api_key_envs")
            && entry.node.entry("api_key_env").is_some()
            && !several.node.items().is_empty()
        {
            let message = format!("`{path}` has both `api_key_env` and `api_key_envs`; keep one");
            found.error(&several.key, message);
        }
    }
}

fn url_rule(path: &str, key: &str, node: &PlacedValue, found: &mut Findings) {
    if let Some(url) = node.at(&[key])
        && let Value::Text(text) = &url.value
        && let Err(fault) = known::endpoint(text)
    {
        found.error(&url.place, format!("`{path}.{key}` {fault}"));
    }
}

/// How the provider is reached. The file itself is read when it is needed.
fn network_rules(path: &str, node: &PlacedValue, found: &mut Findings) {
    if let Some(proxy) = node.at(&["proxy"])
        && let Value::Text(text) = &proxy.value
        && let Err(fault) = known::proxy(text)
    {
        found.error(&proxy.place, format!("`{path}.proxy` {fault}; `none` is none at all"));
    }
    if let Some(file) = node.at(&["ca_file"])
        && let Value::Text(text) = &file.value
        && !(text.starts_with("~/") || Path::new(text).is_absolute())
    {
        let message = format!("`{path}.ca_file` must be an absolute path or begin with `~/`");
        found.error(&file.place, message);
    }
}

/// Constrained tools need Chat Completions. A known provider without `api` may be asked at an address
/// of the command line, where it speaks what it speaks elsewhere.
fn tools_rule(path: &str, name: &str, node: &PlacedValue, found: &mut Findings) {
    let Some(tools) = node.at(&["tools"]).filter(|tools| tools.text() == Some("constrained"))
    else {
        return;
    };
    let elsewhere = || known::known_provider(name).map(|known| known.wire_elsewhere.name());
    let api = node.at(&["api"]).and_then(PlacedValue::text).or_else(elsewhere);
    if let Some(api) = api.filter(|api| *api != Wire::OpenAiChat.name()) {
        let message = format!(
            "`{path}.tools`: `constrained` tools need Chat Completions (`{}`), and this provider \
             speaks `{}`",
            Wire::OpenAiChat.name(),
            shown(api)
        );
        found.error(&tools.place, message);
    }
}

/// Fields of the body that hold the conversation, in any of the protocols.
const OWN_FIELDS: [&str; 11] = [
    "background",
    "conversation",
    "input",
    "instructions",
    "messages",
    "model",
    "previous_response_id",
    "stream",
    "system",
    "tool_choice",
    "tools",
];

fn body_rule(path: &str, node: &PlacedValue, found: &mut Findings) {
    let extra = node.entry("extra_body").into_iter().flat_map(|entry| entry.node.entries());
    let extra = extra.map(|(name, entry)| ("extra_body", name.as_str(), &entry.key));
    let omitted = node.entry("omit_body").into_iter().flat_map(|entry| entry.node.items());
    let omitted = omitted.filter_map(|item| Some(("omit_body", item.text()?, &item.place)));
    for (key, name, place) in extra.chain(omitted) {
        if name == "stream" {
            found.error(place, format!("`{path}.{key}`: `{path}.streaming` says that"));
        } else if OWN_FIELDS.contains(&name) {
            let message = format!("`{path}.{key}` cannot change `{name}`, which the request fills");
            found.error(place, message);
        }
    }
}

fn models(config: &PlacedValue, found: &mut Findings) {
    let providers: BTreeSet<&str> = config
        .entry("providers")
        .into_iter()
        .flat_map(|entry| entry.node.entries())
        .map(|(name, _)| name.as_str())
        .collect();
    let empty = |path: &[&str]| config.at(path).and_then(PlacedValue::text).is_none();
    let mut named = vec![("model", config.at(&["model"]))];
    if empty(&["delegation", "provider"]) && empty(&["delegation", "base_url"]) {
        named.push(("delegation.model", config.at(&["delegation", "model"])));
    }
    let summaries = config.at(&["compaction", "model"]);
    let summaries = summaries.filter(|node| node.text().is_some_and(|text| !text.is_empty()));
    named.push(("compaction.model", summaries));
    for (key, path) in [
        ("fallback_models", &["fallback_models"][..]),
        ("delegation.models", &["delegation", "models"]),
        ("delegation.fallback_models", &["delegation", "fallback_models"]),
    ] {
        let items = config.at(path).into_iter().flat_map(|node| node.items());
        named.extend(items.map(|item| (key, Some(item))));
    }
    let of_profiles = config.at(&["delegation", "profile_models"]);
    let of_profiles = of_profiles.into_iter().flat_map(PlacedValue::entries);
    named.extend(of_profiles.map(|(_, entry)| ("delegation.profile_models", Some(&entry.node))));
    for (key, node) in named {
        let Some((node, text)) = node.and_then(|node| Some((node, node.text()?))) else { continue };
        match known::split_model(text) {
            None => found.error(
                &node.place,
                format!("`{key}` must be PROVIDER/MODEL or `offline`, not `{}`", shown(text)),
            ),
            Some((provider, _)) => provider_rule(key, provider, &providers, node, found),
        }
    }
    if let Some(node) = config.at(&["delegation", "provider"])
        && let Some(provider) = node.text()
    {
        provider_rule("delegation.provider", provider, &providers, node, found);
    }
}

fn provider_rule(
    key: &str,
    provider: &str,
    configured: &BTreeSet<&str>,
    node: &PlacedValue,
    found: &mut Findings,
) {
    if let Some(unknown) = UnknownProvider::find(provider, configured.iter().copied()) {
        found.error(&node.place, format!("`{key}`: {unknown}"));
    }
}

fn delegation(config: &PlacedValue, found: &mut Findings) {
    let Some(PlacedEntry { node, .. }) = config.entry("delegation") else { return };
    approvals(node, found);
    if node.at(&["base_url"]).and_then(PlacedValue::text).is_some() {
        url_rule("delegation", "base_url", node, found);
    }
    let set = |key: &str| node.entry(key).filter(|entry| entry.node.text().is_some());
    if let Some(command) = set("acp_command") {
        command_rule("delegation.acp_command", "acp_args", &command.node, found);
        check_unapproved(node, &command.key, found);
        for key in ["provider", "base_url"] {
            if let Some(other) = set(key) {
                let message = format!(
                    "`delegation.{key}` makes a child direct, `delegation.acp_command` ({}) makes \
                     it an external agent; keep one",
                    command.key
                );
                found.error(&other.key, message);
            }
        }
    }
    for key in ["acp_args", "acp_env"] {
        if let Some(entry) = node.entry(key).filter(|entry| is_filled(&entry.node))
            && set("acp_command").is_none()
        {
            let message = format!(
                "`delegation.{key}` does nothing without `delegation.acp_command`: children are \
                 agents of this program"
            );
            found.warn(&entry.key, message);
        }
    }
    idle_fallbacks(node, found);
    let ways = ["provider", "base_url", "model"];
    for key in ["api_key", "api_key_env"] {
        if let Some(entry) = set(key).filter(|_| ways.iter().all(|way| set(way).is_none())) {
            let message = format!(
                "`delegation.{key}` is meant for no endpoint and is sent to none: set \
                 `delegation.provider`, `delegation.base_url` or `delegation.model` with it"
            );
            found.warn(&entry.key, message);
        }
    }
    if let Some(key) = set("api_key") {
        if !key.key.is_in_file() {
            let message = "`delegation.api_key` is read from the person's own configuration file \
                           only; `delegation.api_key_env` names a variable instead";
            found.error(&key.key, message);
        }
        let message = "`delegation.api_key` keeps the key in plain text; \
                       `delegation.api_key_env` names a variable instead";
        found.warn(&key.key, message);
        if let Some(other) = set("api_key_env") {
            let message = "`delegation.api_key` and `delegation.api_key_env` are both set; keep \
                           `api_key_env`";
            found.error(&other.key, message);
        }
    }
}

/// Warns of fallbacks for children that have no model of their own to fall back from.
fn idle_fallbacks(delegation: &PlacedValue, found: &mut Findings) {
    let named = |key: &str| delegation.at(&[key]).is_some_and(is_filled);
    if let Some(entry) = delegation.entry("fallback_models").filter(|it| is_filled(&it.node))
        && !["provider", "base_url", "model", "models", "profile_models", "acp_command"]
            .into_iter()
            .any(named)
    {
        let message = "`delegation.fallback_models` has no effect: children have their parent's \
                       model, and with it `fallback_models`; it is for the models of \
                       `delegation.model`, `provider`, `base_url`, `models` and `profile_models`";
        found.warn(&entry.key, message);
    }
}

/// Warns where children are another program, and nobody may let one begin.
fn check_unapproved(delegation: &PlacedValue, command: &ConfigPlace, found: &mut Findings) {
    let auto = delegation.at(&["subagent_auto_approve"]).map(|node| &node.value);
    let denied = match delegation.at(&["approvals"]).and_then(PlacedValue::text) {
        Some(mode) => mode == "deny",
        None => !matches!(auto, Some(Value::Bool(true))),
    };
    if denied {
        let message = "`delegation.acp_command`: no such child is started while \
                       `delegation.approvals` is `deny`, for it acts on its own with all your \
                       rights; set that to `ask` (asks you at each start) or `auto` (starts them \
                       unasked)";
        found.warn(command, message);
    }
}

fn approvals(delegation: &PlacedValue, found: &mut Findings) {
    let (Some(approvals), Some(auto)) =
        (delegation.entry("approvals"), delegation.entry("subagent_auto_approve"))
    else {
        return;
    };
    let (Some(mode), Value::Bool(flag)) = (approvals.node.text(), &auto.node.value) else { return };
    let meant = if *flag { "auto" } else { "deny" };
    if mode != meant {
        let message = format!(
            "`delegation.approvals` is `{}`, but `subagent_auto_approve: {flag}` ({}) means \
             `{meant}`; keep one",
            shown(mode),
            auto.key
        );
        found.error(&approvals.node.place, message);
    }
}

fn mcp_servers(config: &PlacedValue, found: &mut Findings) {
    for (name, entry) in config.entry("mcp_servers").into_iter().flat_map(|e| e.node.entries()) {
        found.check_name("server", name, &entry.key);
        if name.len() > deputize_mcp::SERVER_CHARS {
            let most = deputize_mcp::SERVER_CHARS;
            let message = format!("the name of a server has at most {most} characters");
            found.error(&entry.key, message);
        } else if let Err(why @ ServerNameError::Marks) = server_name(name) {
            found.error(&entry.key, format!("{why}; rename `{name}`"));
        }
        let path = format!("mcp_servers.{}", shown(name));
        let has = |key: &str| entry.node.entry(key);
        let (kind, misplaced): (_, &[&str]) = match (has("command"), has("url")) {
            (Some(_), None) => ("command", &["headers", "oauth"]),
            (None, Some(_)) => ("url", &["args", "env", "cwd"]),
            (None, None) => {
                found.error(&entry.key, format!("`{path}` needs `command` or `url`"));
                continue;
            }
            (Some(_), Some(url)) => {
                found.error(&url.key, format!("`{path}` has both `command` and `url`; keep one"));
                continue;
            }
        };
        if let Some(command) = has("command") {
            command_rule(&format!("{path}.command"), "args", &command.node, found);
        }
        for key in misplaced {
            if let Some(extra) = has(key).filter(|entry| is_filled(&entry.node)) {
                let message = format!("`{path}.{key}` does nothing for a server with `{kind}`");
                found.error(&extra.key, message);
            }
        }
        if let Some(cwd) = has("cwd")
            && let Some(text) = cwd.node.text()
            && !(text == deputize_mcp::WORKSPACE || Path::new(text).is_absolute())
        {
            let message = format!("`{path}.cwd` must be an absolute path, or `workspace`");
            found.error(&cwd.node.place, message);
        }
        if let Some(url) = has("url")
            && let Some(text) = url.node.text()
            && let Err(fault) = known::server_url(text)
        {
            found.error(&url.node.place, format!("`{path}.url` {fault}"));
        }
        headers_rule(&path, &entry.node, found);
        sign_in_rule(&path, &entry.node, found);
    }
}

/// Reports what a sign-in cannot be done with.
fn sign_in_rule(path: &str, node: &PlacedValue, found: &mut Findings) {
    let Some(oauth) = node.at(&["oauth"]) else { return };
    for host in oauth.at(&["allow_hosts"]).into_iter().flat_map(PlacedValue::items) {
        if let Some(Err(fault)) = host.text().map(str::parse::<AllowedHost>) {
            found.error(&host.place, format!("`{path}.oauth.allow_hosts`: {fault}"));
        }
    }
    let has = |key: &str| oauth.entry(key).filter(|entry| is_filled(&entry.node));
    if has("client_id").is_some() {
        return;
    }
    if let Some(alone) = has("client_secret") {
        let message = format!("`{path}.oauth.client_secret` does nothing without `client_id`");
        found.error(&alone.key, message);
    }
}

/// Reports a command that can never be a program. A missing program is reported by the run, which
/// goes on without it.
fn command_rule(path: &str, args: &str, command: &PlacedValue, found: &mut Findings) {
    let Some(text) = command.text().filter(|text| !Path::new(text).is_absolute()) else { return };
    let fault = if text.contains(' ') {
        format!("is a program with its arguments: put those into `{args}`")
    } else if text.contains('/') {
        "is a relative path: give an absolute path or a plain name".to_owned()
    } else {
        return;
    };
    found.error(&command.place, format!("`{path}`: `{}` {fault}", shown(text)));
}

/// Reports headers that HTTP cannot carry. Values are never shown, since they may be keys.
fn headers_rule(path: &str, node: &PlacedValue, found: &mut Findings) {
    let named = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let carried = |c: char| matches!(c, ' '..='~' | '\t');
    for (name, entry) in node.entry("headers").into_iter().flat_map(|e| e.node.entries()) {
        let wrong = match name.chars().find(|c| !named(*c)) {
            None if name.is_empty() => "a header needs a name".to_owned(),
            None if entry.node.text().is_some_and(|value| !value.trim().chars().all(carried)) => {
                let message =
                    format!("`{path}.headers.{name}` has characters that HTTP does not carry");
                found.error(&entry.node.place, message);
                continue;
            }
            None => continue,
            Some(c) => format!(
                "the name of a header is made of letters, digits and `-`; this one has `{}`",
                shown(&c.to_string())
            ),
        };
        found.error(&entry.key, format!("`{path}.headers`: {wrong}"));
    }
}

fn is_filled(node: &PlacedValue) -> bool {
    node.text().is_some() || !node.items().is_empty() || node.entries().next().is_some()
}
