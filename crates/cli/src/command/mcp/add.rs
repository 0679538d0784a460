//! `deputize mcp add`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use deputize_mcp::{ServerLimits, ServerRecord, WORKSPACE, server_name};
use serde_json::{Map, Value, json};

use super::{
    ServerError, ask, ask_consent, file, left_where_it_started, load_sources, note_if_not_given,
    show, wants_sign_in,
};
use crate::args::AddServer;
use crate::compose::mcp::{approval_store, server};
use crate::config::{McpServer, Secret};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};
use deputize_agent::is_secret_name;

/// Tries a server, shows all of it, and adds it when the person says so.
pub(super) fn add(env: &ProcessEnv, args: &AddServer) -> Result<(), CliError> {
    let name = &args.name;
    let (sources, loaded) = load_sources(env, &args.settings)?;
    server_name(name).map_err(CliError::usage)?;
    if loaded.config.mcp_servers.contains_key(name) {
        let taken = CliError::usage(ServerError::Taken(name.clone()));
        let remove = format_command("mcp remove");
        return Err(taken.hint(format!("take it out first: {remove} {name}")));
    }
    let start_in = args.start_in.as_deref().map(|given| start_in(given, &sources.cwd));
    let entry = entry(args, start_in.clone());
    let server = server(name, &entry, env)?;
    let given_in = approval_store(env)?.start_dir(name).map_err(CliError::failed)?;
    // Where it was there before, another configuration has a server of that name.
    let is_new = !given_in.exists();
    let not_added = || if is_new { left_where_it_started(env, name) } else { Ok(()) };
    let asked = ask(env, &server, &sources.cwd);
    let (listed, took) = match asked {
        Ok(asked) => asked,
        Err(error) if wants_sign_in(&error) => {
            tell(&format!("mcp {name}: {} wants a person to sign in", server.start().line()));
            if !args.yes && !ask_consent(env, "add this server?")? {
                return Err(CliError::failed(ServerError::NotAdded));
            }
            let path = file::add(&sources, name, &written(args, start_in))?;
            let record = ServerRecord { wants_sign_in: true, ..ServerRecord::default() };
            approval_store(env)?.write(name, &server.start(), &record).map_err(CliError::failed)?;
            say_sign_in_is_next(args, &path);
            note_if_not_given(&loaded.config, name);
            return Ok(());
        }
        Err(error) => {
            let started_in = match &entry.cwd {
                Some(cwd) if cwd == WORKSPACE => sources.cwd.clone(),
                Some(cwd) => PathBuf::from(cwd),
                None => given_in.clone(),
            };
            let hint = is_here(&entry.args, &started_in, &sources.cwd);
            not_added()?;
            return Err(match hint {
                Some(hint) => error.hint(hint),
                None => error,
            });
        }
    };
    let start = server.start();
    print(&show::whole(name, &start, &listed, &[]))?;
    tell(&format!("it answered in {:.2} s", took.as_secs_f32()));
    if !args.yes && !ask_consent(env, "add this server and approve all of this?")? {
        not_added()?;
        return Err(CliError::failed(ServerError::NotAdded));
    }
    let path = file::add(&sources, name, &written(args, start_in))?;
    let mut record = ServerRecord::default();
    record.record_and_approve(&start, listed);
    approval_store(env)?.write(name, &start, &record).map_err(CliError::failed)?;
    tell(&format!("added: mcp {name}, to {}", path.display()));
    in_the_file(args).into_iter().for_each(|note| tell(&note));
    note_if_not_given(&loaded.config, name);
    Ok(())
}

/// Says what the person does after a server was added that shows nothing before a sign-in.
fn say_sign_in_is_next(args: &AddServer, path: &Path) {
    let name = &args.name;
    tell(&format!("added: mcp {name}, to {}; agents do not have it yet", path.display()));
    in_the_file(args).into_iter().for_each(|note| tell(&note));
    let (login, review) = (format_command("mcp login"), format_command("mcp review"));
    tell(&format!("note: sign in to it: {login} {name}"));
    tell(&format!("note: then see what it has, and approve it: {review} {name}"));
}

/// Returns a remedy if an argument names a file that is here, and not in the server's directory.
fn is_here(args: &[String], started_in: &Path, cwd: &Path) -> Option<String> {
    let here = |arg: &&String| {
        let is_path = Path::new(arg).is_relative() && !arg.is_empty();
        is_path && cwd.join(arg).exists() && !started_in.join(arg).exists()
    };
    let file = args.iter().find(here)?;
    let whole: PathBuf = cwd.join(file).components().collect();
    Some(format!(
        "it starts in `{}`, which has no `{file}`; give `{}`, or `--start-in .` before the `--`",
        started_in.display(),
        whole.display()
    ))
}

/// The directory to start it in, as it is written: one here is meant wherever it is read.
fn start_in(given: &str, cwd: &Path) -> String {
    if given == WORKSPACE {
        return given.to_owned();
    }
    let path: PathBuf = cwd.join(given).components().collect();
    path.display().to_string()
}

/// Returns notes on secrets that are in the file and could be in the environment.
fn in_the_file(args: &AddServer) -> Vec<String> {
    let noted = |option: &'static str, pairs: &[(String, String)]| -> Vec<String> {
        let secret = |name: &str| {
            is_secret_name(name)
                || ["authorization", "cookie"].iter().any(|it| name.eq_ignore_ascii_case(it))
        };
        let bare = |(name, value): &&(String, String)| secret(name) && !value.contains("${");
        let note = |(name, value): &(String, String)| {
            // Before a key there is the word for its kind.
            let kind = value.split_once(' ').filter(|_| name.eq_ignore_ascii_case("authorization"));
            let kind = kind.map_or(String::new(), |(kind, _)| format!("{kind} "));
            let variable = match option {
                "--env" => name.clone(),
                _ => format!("{}_KEY", args.name.to_uppercase().replace('-', "_")),
            };
            format!(
                "note: the value of `{name}` is in that file. To keep a secret out of it, put the \
                 secret into an environment variable, and name that: {option} \
                 '{name}={kind}${{{variable}}}'"
            )
        };
        pairs.iter().filter(bare).map(note).collect()
    };
    [noted("--env", &args.env), noted("--header", &args.header)].concat()
}

/// Returns the entry as it will be read.
fn entry(args: &AddServer, cwd: Option<String>) -> McpServer {
    let pairs = |pairs: &[(String, String)]| -> BTreeMap<String, Secret> {
        pairs.iter().map(|(name, value)| (name.clone(), Secret::new(value.as_str()))).collect()
    };
    let mut command = args.command.iter().cloned();
    McpServer {
        command: command.next(),
        args: command.collect(),
        env: pairs(&args.env),
        cwd,
        url: args.url.clone(),
        headers: pairs(&args.header),
        start_timeout_seconds: args.start_timeout.unwrap_or(ServerLimits::START_SECONDS),
        ..McpServer::default()
    }
}

/// Returns the entry as it is written into the file.
fn written(args: &AddServer, cwd: Option<String>) -> Value {
    let pairs = |pairs: &[(String, String)]| -> Value {
        let pairs = pairs.iter().map(|(name, value)| (name.clone(), json!(value)));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
    if let Some(url) = &args.url {
        put("url", json!(url));
    }
    if let Some((command, rest)) = args.command.split_first() {
        put("command", json!(command));
        if !rest.is_empty() {
            put("args", json!(rest));
        }
    }
    if !args.env.is_empty() {
        put("env", pairs(&args.env));
    }
    if let Some(cwd) = cwd {
        put("cwd", json!(cwd));
    }
    if !args.header.is_empty() {
        put("headers", pairs(&args.header));
    }
    if let Some(seconds) = args.start_timeout {
        put("start_timeout_seconds", json!(seconds));
    }
    Value::Object(map)
}
