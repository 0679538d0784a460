//! `deputize mcp`: the servers of the Model Context Protocol.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deputize_core::sanitize::{for_question, for_terminal_line};
use deputize_core::server_names::server_toolset;
use deputize_core::wording::count;
use deputize_mcp::{
    ApprovalStore, McpError, McpErrorKind, ReachError, ServerChange, ServerConfig, ServerListing,
    ServerRecord, ServerTarget, look,
};
use deputize_tools::Processes;
use serde_json::{Value, json};

use crate::args::{Mcp, Settings, View};
use crate::command::print_list;
use crate::compose::load_config;
use crate::compose::mcp::{approval_store, not_given, server};
use crate::compose::sign_in;
use crate::config::{Config, LoadedConfig, McpServer, Sources, nearest};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::processes::setup;
use crate::stdio::{output_columns, print, tell, wrap_lines};

mod add;
mod editor;
mod file;
mod login;
pub(crate) mod show;

/// Why a server is not dealt with.
#[derive(Debug, thiserror::Error)]
enum ServerError {
    #[error("there is no MCP server `{}`", for_question(.0))]
    Missing(String),
    #[error("there is an MCP server `{0}` already")]
    Taken(String),
    #[error("nothing was approved")]
    Declined,
    #[error("nothing was added")]
    NotAdded,
    #[error("no answer: nobody is at the terminal")]
    Nobody,
    #[error("mcp {name}: it is not started: {why} since you approved it")]
    Held { name: String, why: String },
}

/// Runs the command.
pub(crate) fn mcp(env: &ProcessEnv, command: &Mcp) -> Result<(), CliError> {
    match command {
        Mcp::List { view } => list(env, view),
        Mcp::Add(args) => add::add(env, args),
        Mcp::Remove { name, settings } => remove(env, name, settings),
        Mcp::Login(args) => login::login(env, args),
        Mcp::Logout { name, settings } => login::logout(env, name, settings),
        Mcp::Test { name, settings } => test(env, name, settings),
        Mcp::Review { name, yes, settings } => review(env, name, *yes, settings),
    }
}

/// Whether a person can use a server that may want a sign-in.
enum SignInState {
    NotNeeded,
    SignedIn,
    /// With the reason, and what to do.
    Missing(String),
}

/// One server that is configured, and what is kept of it.
struct ConfiguredServer<'a> {
    entry: &'a McpServer,
    server: ServerConfig,
    approvals: ApprovalStore,
    record: ServerRecord,
}

impl<'a> ConfiguredServer<'a> {
    fn of(env: &ProcessEnv, loaded: &'a LoadedConfig, name: &str) -> Result<Self, CliError> {
        let servers = &loaded.config.mcp_servers;
        let entry = servers.get(name).ok_or_else(|| missing(name, loaded))?;
        let server = server(name, entry, env)?;
        let approvals = approval_store(env)?;
        let record = approvals.read(name, &server.start()).map_err(CliError::failed)?;
        Ok(Self { entry, server, approvals, record })
    }

    fn sign_in_state(&self, name: &str, env: &ProcessEnv) -> SignInState {
        match sign_in::missing(name, self.entry, &self.record, env) {
            Some(why) => SignInState::Missing(why),
            None if sign_in::status(name, self.entry, env).is_some() => SignInState::SignedIn,
            None => SignInState::NotNeeded,
        }
    }

    /// Asks the server what it has, and hears it. Whether it wants a sign-in is kept either way.
    fn ask(&mut self, env: &ProcessEnv, cwd: &Path) -> Result<(ServerListing, Duration), CliError> {
        let (name, start) = (self.server.name.clone(), self.server.start());
        match ask(env, &self.server, cwd) {
            Ok((listed, took)) => {
                self.record.wants_sign_in = sign_in::status(&name, self.entry, env).is_some();
                self.record.record_listing(&start, listed.clone());
                Ok((listed, took))
            }
            Err(error) => {
                if wants_sign_in(&error) {
                    self.keep_wants_sign_in(&name)?;
                }
                Err(error)
            }
        }
    }

    /// Keeps that the server wants a sign-in.
    fn keep_wants_sign_in(&mut self, name: &str) -> Result<(), CliError> {
        self.record.wants_sign_in = true;
        self.approvals.write(name, &self.server.start(), &self.record).map_err(CliError::failed)
    }
}

/// Returns whether a server says what it has only to a person who signed in.
fn wants_sign_in(error: &CliError) -> bool {
    let error = error.source_as::<McpError>();
    error.is_some_and(|error| matches!(error.fault, McpErrorKind::Reach(ReachError::SignIn(_))))
}

fn missing(name: &str, loaded: &LoadedConfig) -> CliError {
    let names = loaded.config.mcp_servers.keys().map(String::as_str);
    let error = CliError::usage(ServerError::Missing(name.to_owned()));
    match nearest(name, names) {
        Some(near) => error.hint(format!("the nearest name is `{near}`")),
        None => error.hint(format!("`{}` lists them", format_command("mcp list"))),
    }
}

fn load_sources(
    env: &ProcessEnv,
    settings: &Settings,
) -> Result<(Sources, LoadedConfig), CliError> {
    let sources = env.sources(settings, Vec::new())?;
    let loaded = load_config(env, &sources)?;
    Ok((sources, loaded))
}

/// Returns what to do about a server by HTTP that cannot be used, around its address.
const fn advice(fault: &McpErrorKind) -> Option<(&'static str, &'static str)> {
    let McpErrorKind::Reach(fault) = fault else { return None };
    Some(match fault {
        ReachError::Http(_) => ("check the address", ", and whether the server runs"),
        ReachError::Status { code: 300..=399, .. } => {
            ("if you trust the address that it names, give that instead of", "")
        }
        ReachError::Status { code: 401 | 403, .. } => {
            ("check the credentials that `--header` or the sign-in sends to", "")
        }
        ReachError::Status { code: 429, .. } => {
            ("try again later:", " limits how often it is asked")
        }
        ReachError::Status { code: 500..=599, .. } => ("try again later, or tell whoever runs", ""),
        ReachError::Status { .. } | ReachError::NoServer(_) => {
            ("check the address", ": that of an MCP server often ends in /mcp")
        }
        _ => return None,
    })
}

/// Starts a server, asks what it has, and ends it.
fn ask(
    env: &ProcessEnv,
    server: &ServerConfig,
    cwd: &Path,
) -> Result<(ServerListing, Duration), CliError> {
    let processes = Arc::new(Processes::with(setup(env.open_files)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::failed)?;
    let begun = Instant::now();
    let looked = runtime.block_on(look(server.clone(), cwd, move || processes.shared()));
    let listed = looked.map_err(|error| {
        let advice = advice(&error.fault);
        let error = CliError::failed(error);
        match advice {
            Some((before, after)) => {
                error.hint(format!("{before} {}{after}", server.start().place))
            }
            None => error,
        }
    })?;
    Ok((listed, begun.elapsed()))
}

fn list(env: &ProcessEnv, view: &View) -> Result<(), CliError> {
    let (_, loaded) = load_sources(env, &view.settings)?;
    let mut rows = Vec::new();
    for name in loaded.config.mcp_servers.keys() {
        rows.push(match ConfiguredServer::of(env, &loaded, name) {
            Ok(configured) => {
                let sign_in = configured.sign_in_state(name, env);
                let row = ServerRow::of(name, configured.server.start(), &configured.record);
                row.with_sign_in(sign_in).but(&loaded.config)
            }
            Err(error) => {
                ServerRow { name: name.clone(), state: error.chain(), ..ServerRow::default() }
            }
        });
    }
    rows.extend(editor::rows(env, &loaded.config)?);
    if view.json {
        let rows: Vec<Value> = rows.iter().map(ServerRow::json).collect();
        return print(&format!("{:#}\n", json!(rows)));
    }
    let rows = rows.iter().map(ServerRow::cells).collect();
    let head = ["SERVER", "PROGRAM", "REACHED BY", "TOOLS", "STATE"];
    let add = format_command("mcp add");
    let if_empty = format!("there are no MCP servers: `{add} NAME -- COMMAND` adds one");
    print_list(head, rows, &["PROGRAM", "REACHED BY", "STATE"], &if_empty)
}

/// How a server stands.
#[derive(Default)]
struct ServerRow {
    name: String,
    is: Option<String>,
    start: ServerTarget,
    tools: Vec<String>,
    changes: Vec<String>,
    state: String,
}

impl ServerRow {
    fn of(name: &str, start: ServerTarget, record: &ServerRecord) -> Self {
        let name = name.to_owned();
        let waiting: Vec<ServerChange> =
            record.changes(&start).into_iter().filter(ServerChange::waits).collect();
        let review = format_command("mcp review");
        let state = match waiting.len() {
            1 => format!("1 change waits: {review} {name}"),
            more @ 2.. => format!("{more} changes wait: {review} {name}"),
            0 if record.listed.is_some() && record.approved.is_none() => {
                format!("nobody approved it yet: {review} {name}")
            }
            0 if record.listed.is_none() => {
                format!("it has not listed its tools yet: {review} {name}")
            }
            0 if record.is_stale(&start) => {
                "its configuration changed since it listed its tools; it will be asked again"
                    .to_owned()
            }
            0 => "ready".to_owned(),
        };
        Self {
            is: record.listed.as_ref().and_then(|listed| listed.server.clone()),
            tools: record.offered_tools(&start).into_iter().map(|tool| tool.name.clone()).collect(),
            changes: waiting.iter().map(ServerChange::describe).collect(),
            name,
            start,
            state,
        }
    }

    /// The same, where no agent is given it.
    fn but(mut self, config: &Config) -> Self {
        if let Some(why) = not_given(config, &self.name) {
            self.state = format!("{}, but {why}", self.state);
        }
        self
    }

    /// The same with whether somebody is signed in to it, which comes before all else.
    fn with_sign_in(mut self, sign_in: SignInState) -> Self {
        match sign_in {
            SignInState::NotNeeded => {}
            SignInState::SignedIn => self.state.push_str("; signed in"),
            SignInState::Missing(why) => self.state = why,
        }
        self
    }

    fn cells(&self) -> [String; 5] {
        let is = self.is.as_deref().unwrap_or("-");
        // Nothing is known of how one is reached that cannot be made ready to be.
        let place = match self.start.place.as_str() {
            "" => "-".to_owned(),
            _ => self.start.line(),
        };
        let line = |text: &str| for_terminal_line(text, text.len());
        let tools = self.tools.len().to_string();
        [self.name.clone(), line(is), line(&place), tools, line(&self.state)]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "is": self.is,
            "reached_by": self.start.place,
            "arguments": self.start.args,
            "given": self.start.names,
            "started_in": self.start.cwd,
            "tools": self.tools,
            "changes": self.changes,
            "state": self.state,
        })
    }
}

/// `1 thing is` or `2 things are`.
pub(crate) fn things_are(n: usize) -> String {
    format!("{} {}", count(n, "thing"), if n == 1 { "is" } else { "are" })
}

fn test(env: &ProcessEnv, name: &str, settings: &Settings) -> Result<(), CliError> {
    let (sources, loaded) = load_sources(env, settings)?;
    let mut configured = ConfiguredServer::of(env, &loaded, name)?;
    let start = configured.server.start();
    if let Some(approved) =
        configured.record.approved.as_ref().filter(|_| configured.record.target_changed(&start))
    {
        let held = ServerError::Held { name: name.to_owned(), why: start.since(&approved.start) };
        let review = format_command("mcp review");
        let hint = format!("look at it and start it with: {review} {name}");
        return Err(CliError::failed(held).hint(hint));
    }
    let (listed, took) = configured.ask(env, &sources.cwd)?;
    configured.approvals.write(name, &start, &configured.record).map_err(CliError::failed)?;
    print(&wrap_lines(&show::short(name, &listed, took), output_columns()))?;
    let waiting = configured.record.changes(&start).into_iter().filter(ServerChange::waits).count();
    if configured.record.approved.is_none() {
        tell(&format!(
            "note: nothing of it is offered to agents before you read and approve it: {} {name}",
            format_command("mcp review")
        ));
    } else if waiting > 0 {
        tell(&format!(
            "note: of that, {} not as you approved it. Review with: {} {name}",
            things_are(waiting),
            format_command("mcp review")
        ));
    }
    Ok(())
}

fn review(env: &ProcessEnv, name: &str, yes: bool, settings: &Settings) -> Result<(), CliError> {
    let (sources, loaded) = load_sources(env, settings)?;
    if let Some(named) = editor::EditorServer::of(env, &loaded.config, name)? {
        return named.review(env, name, yes);
    }
    let mut configured = ConfiguredServer::of(env, &loaded, name)?;
    let start = configured.server.start();
    if let Some(approved) =
        configured.record.approved.as_ref().filter(|_| configured.record.target_changed(&start))
    {
        print(&show::started(name, &approved.start, &start))?;
        if !yes && !ask_consent(env, "start it like this?")? {
            return Err(CliError::failed(ServerError::Declined));
        }
    }
    let (listed, _) = configured.ask(env, &sources.cwd)?;
    let changes = configured.record.changes(&start);
    print(&show::whole(name, &start, &listed, &changes))?;
    let ConfiguredServer { approvals, record, .. } = &mut configured;
    approve(env, ServerReview { name, approvals, record }, &start, yes)?;
    note_if_not_given(&loaded.config, name);
    Ok(())
}

/// Says that no agent is given a server, where that is so.
fn note_if_not_given(config: &Config, name: &str) {
    if let Some(why) = not_given(config, name) {
        tell(&format!("note: {why}"));
    }
}

/// A server that the person is shown, and what is kept of it.
struct ServerReview<'a> {
    name: &'a str,
    approvals: &'a ApprovalStore,
    record: &'a mut ServerRecord,
}

/// Keeps what a server said, and that it is approved where the person says so.
fn approve(
    env: &ProcessEnv,
    review: ServerReview<'_>,
    start: &ServerTarget,
    yes: bool,
) -> Result<(), CliError> {
    let ServerReview { name, approvals, record } = review;
    let new = record.approved.is_none();
    if !new && record.changes(start).is_empty() {
        approvals.write(name, start, record).map_err(CliError::failed)?;
        tell("all of it is as you approved it");
        return Ok(());
    }
    if !yes && !ask_consent(env, "approve all of this?")? {
        return Err(CliError::failed(ServerError::Declined));
    }
    record.approve(start.clone());
    approvals.write(name, start, record).map_err(CliError::failed)?;
    tell(&format!("approved: mcp {name}; new sessions have it"));
    Ok(())
}

/// Whether the person says yes.
fn ask_consent(env: &ProcessEnv, question: &str) -> Result<bool, CliError> {
    if !env.terminals.stdin {
        return Err(CliError::failed(ServerError::Nobody).hint("--yes says yes beforehand"));
    }
    tell(&format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(CliError::failed)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Takes away where a server was started that is not configured, and says where that is now.
fn left_where_it_started(env: &ProcessEnv, name: &str) -> Result<(), CliError> {
    let aside = approval_store(env)?.clear_start_dir(name).map_err(CliError::failed)?;
    if let Some(aside) = aside {
        let aside = aside.display();
        tell(&format!("note: the files in its start directory are now in `{aside}`"));
    }
    Ok(())
}

fn remove(env: &ProcessEnv, name: &str, settings: &Settings) -> Result<(), CliError> {
    let (sources, loaded) = load_sources(env, settings)?;
    if let Some(named) = editor::EditorServer::of(env, &loaded.config, name)? {
        return named.forget(name);
    }
    let Some(entry) = loaded.config.mcp_servers.get(name) else {
        return Err(missing(name, &loaded));
    };
    let server = server(name, entry, env);
    let path = file::remove(&sources, name)?;
    tell(&format!("removed: mcp {name}, from {}", path.display()));
    let set = server_toolset(name);
    if loaded.config.toolsets.contains(&set) {
        let disable = format_command("tools disable");
        tell(&format!("note: `toolsets` names {set} still: {disable} {set}"));
    }
    left_where_it_started(env, name)?;
    sign_in::forget_removed(name, entry, env)?;
    match server {
        Ok(server) => {
            let approvals = approval_store(env)?;
            approvals.remove(name, &server.start()).map(drop).map_err(CliError::failed)
        }
        Err(error) => {
            // Which one that was cannot be told any more.
            tell(&format!("note: its approval stays on record: {}", error.chain()));
            Ok(())
        }
    }
}
