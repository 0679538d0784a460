//! Checks whether configured plugins load, and whether configured MCP servers start.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::wording::count;
use deputize_mcp::oauth::SignInStatus;
use deputize_mcp::{ServerConfig, ServerListing, ServerRecord, look};
use deputize_tools::Processes;
use futures_util::future::join_all;

use super::{Check, Health};
use crate::command::mcp::things_are;
use crate::compose::{mcp, plugins, sign_in};
use crate::config::{Config, McpServer, PluginEntry};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::processes::setup;

const PLUGIN: &str = "plugin";
const SERVER: &str = "mcp server";

/// Loads each plugin where its calls would run. All are asked side by side; each has its limit.
pub(super) fn plugins(config: &Config, env: &ProcessEnv) -> Vec<Check> {
    let one = |entry: &PluginEntry| {
        let runs = if entry.isolated { "isolated" } else { "inside" };
        let found = plugins::loader(env)
            .load(&plugins::plugin(entry, env))
            .map_err(|error| CliError::usage(error).in_one_line());
        let loaded = found.map(|it| {
            let tools = count(it.tools.len(), "tool");
            format!("{} {}: loads {runs}, {tools}", it.name, for_terminal_line(&it.version, 40))
        });
        Check::new(PLUGIN, loaded)
    };
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            config.plugins.iter().map(|entry| scope.spawn(move || one(entry))).collect();
        let joined = asked.into_iter().map(|asked| asked.join());
        joined.map(|check| check.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Starts each server and asks what it has, all side by side, each within its
/// `start_timeout_seconds`. What they say is kept nowhere: that is for the person to see first.
pub(super) fn servers(
    config: &Config,
    env: &ProcessEnv,
    cwd: &Path,
) -> Result<Vec<(String, Check)>, CliError> {
    if config.mcp_servers.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::failed)?;
    let processes = Arc::new(Processes::with(setup(env.open_files)));
    let looks = config.mcp_servers.iter().map(|(name, entry)| {
        let processes = Arc::clone(&processes);
        async move {
            let check = match known(name, entry, env) {
                Ok((server, record)) => {
                    let status = sign_in::status(name, entry, env);
                    let check = asked(server, record, cwd, processes, status).await;
                    match mcp::not_given(config, name).filter(|_| check.health == Health::Good) {
                        Some(why) => Check::less(SERVER, format!("{}, but {why}", check.found)),
                        None => check,
                    }
                }
                Err(error) => Check::new(SERVER, Err(error.chain())),
            };
            (name.clone(), check)
        }
    });
    Ok(runtime.block_on(join_all(looks)))
}

/// A server, and what is kept of it.
fn known(
    name: &str,
    entry: &McpServer,
    env: &ProcessEnv,
) -> Result<(ServerConfig, ServerRecord), CliError> {
    let server = mcp::server(name, entry, env)?;
    let record = mcp::approval_store(env)?.read(name, &server.start()).map_err(CliError::failed)?;
    Ok((server, record))
}

async fn asked(
    server: ServerConfig,
    mut record: ServerRecord,
    cwd: &Path,
    processes: Arc<Processes>,
    sign_in: Option<SignInStatus>,
) -> Check {
    let name = server.name.clone();
    let start = server.start();
    if let Some(approved) = record.approved.as_ref().filter(|_| record.target_changed(&start)) {
        let why = start.since(&approved.start);
        let review = format_command("mcp review");
        let remedy = format!("look at it and start it with: {review} {name}");
        return Check::less(SERVER, format!("{name}: it is not started: {why}; {remedy}"));
    }
    let begun = Instant::now();
    let listed = match look(server, cwd, move || processes.shared()).await {
        Ok(listed) => listed,
        Err(error) => return Check::new(SERVER, Err(CliError::failed(error).chain())),
    };
    let mut answers = answers(&name, &listed, begun);
    if sign_in == Some(SignInStatus::SignedIn) {
        answers.push_str(", signed in");
    }
    record.record_listing(&start, listed);
    let waits = record.changes(&start).iter().filter(|change| change.waits()).count();
    match (record.approved.is_none(), waits) {
        (false, 0) => Check::new(SERVER, Ok(answers)),
        (true, _) => {
            Check::less(SERVER, not_whole(&name, &answers, "you have not approved it yet"))
        }
        (false, waits) => {
            let why = format!("{} not as you approved it", things_are(waits));
            Check::less(SERVER, not_whole(&name, &answers, &why))
        }
    }
}

fn answers(name: &str, listed: &ServerListing, begun: Instant) -> String {
    let is =
        for_terminal_line(listed.server.as_deref().unwrap_or("it does not say what it is"), 80);
    let tools = count(listed.tools.len(), "tool");
    let took = begun.elapsed().as_secs_f32();
    format!("{name}: {is}, {tools} in {took:.2} s")
}

fn not_whole(name: &str, answers: &str, why: &str) -> String {
    format!("{answers}, but {why}: {} {name}", format_command("mcp review"))
}
