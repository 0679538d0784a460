//! The MCP servers of a program: what is known of them, and how to reach them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use deputize_agent::is_secret_name;
use deputize_agent::mcp::{KnownServer, ServerOffers};
use deputize_core::ResourceMap;
use deputize_core::sanitize::Secrets;
use deputize_core::server_names::{server_of_toolset, server_toolset};
use deputize_core::setting_names::SettingNames;
use deputize_mcp::{
    ApprovalStore, HintCommands, ServerConfig, ServerDirectory, ServerLimits, Servers, WORKSPACE,
};
use deputize_process::{ProgramError, base_env};
use deputize_tools::Processes;

use super::sign_in;
use crate::config::{Config, McpServer, Secret, UrlFault, server_url};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;

/// Why a configured server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    #[error("mcp {server}: its program cannot be run")]
    Program {
        server: String,
        #[source]
        source: ProgramError,
    },
    #[error("mcp {server}: `{key}` names the variable `{variable}`, which is not set")]
    Variable { server: String, key: String, variable: String },
    #[error("mcp {server}: its address {fault}")]
    Address { server: String, fault: UrlFault },
    #[error("mcp {0}: it has neither a command nor a url")]
    Nothing(String),
}

/// Returns the store of approvals, beside the sessions.
pub(crate) fn approval_store(env: &ProcessEnv) -> Result<ApprovalStore, CliError> {
    let sessions = env.sessions()?;
    let state = sessions.path().parent().unwrap_or(Path::new("."));
    Ok(ApprovalStore::new(state.join("mcp")))
}

/// Returns the store of approvals for servers that editors add. An approval there does not hold for
/// a configured server of the same name.
pub(crate) fn editor_approval_store(env: &ProcessEnv) -> Result<ApprovalStore, CliError> {
    let sessions = env.sessions()?;
    let state = sessions.path().parent().unwrap_or(Path::new("."));
    Ok(ApprovalStore::new(state.join("mcp").join("editor")))
}

pub(crate) fn approval_store_of(
    entry: &McpServer,
    env: &ProcessEnv,
) -> Result<ApprovalStore, CliError> {
    if entry.of_editor { editor_approval_store(env) } else { approval_store(env) }
}

/// Returns whether the top agent has a server's tools. It always has those of a server added for
/// the session.
pub(crate) fn is_wanted(config: &Config, name: &str) -> bool {
    let wanted = |set: &String| server_of_toolset(set) == Some(name);
    let of_editor = config.mcp_servers.get(name).is_some_and(|entry| entry.of_editor);
    config.toolsets.is_empty() || of_editor || config.toolsets.iter().any(wanted)
}

/// Returns the commands that hints about a server name.
fn hint_commands() -> HintCommands {
    HintCommands { review: format_command("mcp review"), test: format_command("mcp test") }
}

/// Explains why no agent has a server's tools if `toolsets` leaves them out, and what to do.
pub(crate) fn not_given(config: &Config, name: &str) -> Option<String> {
    (!is_wanted(config, name)).then(|| {
        let toolset = server_toolset(name);
        format!(
            "no agent is given it: `toolsets` is a list without {toolset} ({} {toolset})",
            format_command("tools enable")
        )
    })
}

/// Returns the toolsets of the servers that an editor added.
pub(super) fn toolsets_of_editor(config: &Config) -> impl Iterator<Item = String> {
    let named = config.mcp_servers.iter().filter(|(_, entry)| entry.of_editor);
    named.map(|(name, _)| server_toolset(name))
}

/// Returns the toolsets of the configured servers.
pub(crate) fn toolsets(config: &Config) -> impl Iterator<Item = String> {
    config.mcp_servers.keys().map(|name| server_toolset(name))
}

/// Returns how to reach a configured server.
pub(crate) fn server(
    name: &str,
    entry: &McpServer,
    env: &ProcessEnv,
) -> Result<ServerConfig, CliError> {
    let filled = |kind: &str, values: &BTreeMap<String, Secret>| {
        let fill = |(key, value): (&String, &Secret)| {
            let missing = |variable: &str| {
                CliError::usage(Unreachable::Variable {
                    server: name.to_owned(),
                    key: format!("mcp_servers.{name}.{kind}.{key}"),
                    variable: variable.to_owned(),
                })
            };
            let value = value_of(entry, value, env).map_err(missing)?;
            Ok((key.clone(), value))
        };
        values.iter().map(fill).collect::<Result<BTreeMap<String, String>, CliError>>()
    };
    let reached = match (&entry.command, &entry.url) {
        (Some(command), _) => {
            // Of the environment nothing by which foreign code is run; what is configured is meant.
            let mut variables = base_env(&env.os_env);
            let own = filled("env", &entry.env)?;
            variables
                .extend(own.into_iter().map(|(key, value)| (key.into(), OsString::from(value))));
            let args = entry.args.iter().map(OsString::from).collect();
            let cwd = match entry.cwd.as_deref() {
                Some(WORKSPACE) => ServerDirectory::Workspace,
                Some(path) => ServerDirectory::At(path.into()),
                None => {
                    let own = approval_store_of(entry, env)?.start_dir(name);
                    ServerDirectory::Own(own.map_err(CliError::failed)?)
                }
            };
            let wrong = |source| Unreachable::Program { server: name.to_owned(), source };
            ServerConfig::program(name, command, args, variables, cwd)
                .map_err(|source| CliError::usage(wrong(source)))?
        }
        (None, Some(url)) => {
            let wrong = |fault| Unreachable::Address { server: name.to_owned(), fault };
            server_url(url).map_err(|fault| CliError::usage(wrong(fault)))?;
            let server = ServerConfig::url(name, url, filled("headers", &entry.headers)?);
            match sign_in::tokens(name, entry, env)? {
                Some(tokens) => server.with_tokens(tokens),
                None => server,
            }
        }
        (None, None) => return Err(CliError::usage(Unreachable::Nothing(name.to_owned()))),
    };
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let limits = ServerLimits {
        start: seconds(entry.start_timeout_seconds),
        idle: seconds(entry.call_timeout_seconds),
        ..ServerLimits::default()
    };
    // Only what is configured: the rest of the environment differs from one terminal to the next.
    let names = entry.env.keys().chain(entry.headers.keys()).cloned().collect();
    let start = format!("mcp_servers.{name}.start_timeout_seconds (of `mcp add`: --start-timeout)");
    let sign_in = sign_in::address(entry).map(|_| ("sign_in", sign_in::command(name)));
    let setting_names = SettingNames::from_iter([("start", start)].into_iter().chain(sign_in));
    Ok(ServerConfig { limits, names, setting_names, ..reached })
}

/// Returns the value of a server's variable or header, or the name of a variable that is not set.
/// An editor's values are literal.
fn value_of<'v>(entry: &McpServer, value: &'v Secret, env: &ProcessEnv) -> Result<String, &'v str> {
    if entry.of_editor {
        return Ok(value.expose().to_owned());
    }
    env.expand(value.expose())
}

/// Adds the values that are passed to servers and must stay secret.
pub(super) fn secrets(config: &Config, env: &ProcessEnv, secrets: &mut Secrets) {
    for (name, entry) in &config.mcp_servers {
        // What comes from the environment was kept out of the file for a reason.
        let secret = |(key, value): &(&String, &Secret)| {
            is_secret_name(key) || (value.expose().contains("${") && !entry.of_editor)
        };
        sign_in::secrets(name, entry, env, secrets);
        let values = entry.env.iter().filter(secret);
        for (key, value) in values.chain(&entry.headers) {
            if let Ok(value) = value_of(entry, value, env) {
                secrets.add(&format!("mcp_servers.{name}.{key}"), &value);
                // A header's value has its scheme before it.
                if let Some((_, value)) = value.split_once(' ') {
                    secrets.add(&format!("mcp_servers.{name}.{key}"), value.trim());
                }
            }
        }
    }
}

/// Returns what is known of the servers, and warnings for those without a record. Servers whose
/// tools no agent has get no warning.
pub(super) fn known(
    config: &Config,
    env: &ProcessEnv,
    warnings: &mut Vec<String>,
) -> BTreeMap<String, KnownServer> {
    let mut found = BTreeMap::new();
    for (name, entry) in &config.mcp_servers {
        let mut warn = |error: CliError| {
            warnings.extend(is_wanted(config, name).then(|| error.chain()));
        };
        let server = match server(name, entry, env) {
            Ok(server) => server,
            Err(error) => {
                warn(error);
                continue;
            }
        };
        let start = server.start();
        let record = approval_store_of(entry, env)
            .and_then(|approvals| approvals.read(name, &start).map_err(CliError::failed));
        match record {
            Ok(record) => {
                // One that has not listed its tools is asked, and says so itself.
                let missing = sign_in::missing(name, entry, &record, env)
                    .filter(|_| is_wanted(config, name) && !record.is_stale(&start));
                warnings.extend(missing.map(|why| format!("mcp {name}: {why}")));
                found.insert(name.clone(), KnownServer::new(start, record));
            }
            Err(error) => warn(error),
        }
    }
    found
}

/// Returns how the tools of servers are offered; servers whose tools no agent has are marked.
pub(super) fn offers(config: &Config) -> ServerOffers {
    let filter = |(name, entry): (&String, &McpServer)| (name.clone(), entry.tools.clone());
    let unused = config.mcp_servers.keys().filter(|name| !is_wanted(config, name));
    ServerOffers {
        filters: config.mcp_servers.iter().map(filter).collect(),
        unused: unused.cloned().collect(),
        commands: hint_commands(),
        listed_bytes: u64::from(config.limits.mcp_schema_bytes),
    }
}

/// Returns the servers that agents may call, none of them started. The session's supervisor owns
/// their processes.
pub(super) fn reached(config: &Config, env: &ProcessEnv, cwd: &Path) -> Servers {
    let wanted = config.mcp_servers.iter().filter(|(name, _)| is_wanted(config, name));
    // What is wrong with one was told with its tools.
    let reached = wanted.filter_map(|(name, entry)| server(name, entry, env).ok());
    let supervisor =
        |settings: &ResourceMap| settings.get_or_insert_with(Processes::default).shared();
    let mut servers = Servers::new(reached.collect(), cwd, supervisor);
    if let Ok(approvals) = approval_store(env) {
        servers = servers.with_store(approvals);
    }
    for (name, entry) in config.mcp_servers.iter().filter(|(_, entry)| entry.of_editor) {
        if let Ok(approvals) = approval_store_of(entry, env) {
            servers = servers.with_separate_store(name, approvals);
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_and_one_that_is_not_set_is_named() {
        let env = ProcessEnv::for_tests(&[("TOKEN", "hush"), ("EMPTY", "")]);
        let expanded = |text| env.expand(text).map_err(str::to_owned);
        assert_eq!(expanded("Bearer ${TOKEN}!").unwrap(), "Bearer hush!");
        assert_eq!(expanded("$TOKEN ${").unwrap(), "$TOKEN ${");
        assert_eq!(expanded("${EMPTY}").unwrap_err(), "EMPTY");
        assert_eq!(expanded("a${NONE}").unwrap_err(), "NONE");
    }

    #[test]
    fn only_servers_whose_tools_are_wanted_are_started() {
        let config = |sets: &[&str]| Config {
            toolsets: sets.iter().map(|set| (*set).to_owned()).collect(),
            ..Config::default()
        };
        assert!(is_wanted(&config(&[]), "git"));
        assert!(is_wanted(&config(&["file", "mcp-git"]), "git"));
        assert!(!is_wanted(&config(&["file", "mcp-got"]), "git"));
    }
}
