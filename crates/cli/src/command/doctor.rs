//! `deputize doctor`: what works on this machine.

use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deputize_core::ToolCrate;
use deputize_process::Supervisor;
use serde_json::{Value, json};
use url::Url;

use crate::args::Doctor;
use crate::command::run::overrides;
use crate::compose::{Composition, Ingredients};
use crate::config::{Config, Endpoint, HttpEndpoint, ModelChoice, load, resolve_model};
use crate::exit::CliError;
use crate::surroundings::{Surroundings, print};

/// How long a provider's address may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// It works with less.
    Less,
    Bad,
}

impl Health {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Less => "warn",
            Self::Bad => "fail",
        }
    }
}

/// One thing that was looked at.
struct Check {
    what: &'static str,
    health: Health,
    found: String,
}

impl Check {
    fn new(what: &'static str, found: Result<String, String>) -> Self {
        match found {
            Ok(found) => Self { what, health: Health::Good, found },
            Err(found) => Self { what, health: Health::Bad, found },
        }
    }

    const fn less(what: &'static str, found: String) -> Self {
        Self { what, health: Health::Less, found }
    }
}

/// Looks at everything and prints it; 1 when something does not work.
pub(crate) fn doctor(
    links: &[ToolCrate],
    around: &Surroundings,
    args: &Doctor,
) -> Result<u8, CliError> {
    let sources = around.sources(&args.view.settings, Vec::new())?;
    let mut checks = vec![state(around)];
    match load(&sources) {
        Err(error) => checks.push(Check::new("configuration", Err(error.to_string()))),
        Ok(loaded) => {
            let file = sources.user_file().filter(|path| path.is_file());
            let file =
                file.map_or("no file, all defaults".to_owned(), |path| path.display().to_string());
            checks.push(Check::new("configuration", Ok(file)));
            let warnings = loaded.warnings.iter().map(ToString::to_string);
            checks.extend(warnings.map(|warning| Check::less("configuration", warning)));
            checks.extend(model(&loaded.config, around, args));
            let composition =
                Composition::new(&Ingredients::here(links, &loaded.config, around, &sources));
            checks.extend(tools(composition));
        }
    }
    checks.extend(machine(around));
    report(&checks, args.view.json)
}

fn report(checks: &[Check], as_json: bool) -> Result<u8, CliError> {
    let text = if as_json {
        let rows: Vec<Value> = checks
            .iter()
            .map(|check| {
                json!({"what": check.what, "health": check.health.word(), "found": check.found})
            })
            .collect();
        format!("{:#}\n", json!(rows))
    } else {
        let row = |check: &Check| {
            let found = check.found.replace('\n', "\n                       ");
            format!("{:<4}  {:<15}  {found}\n", check.health.word(), check.what)
        };
        checks.iter().map(row).collect()
    };
    print(&text)?;
    Ok(u8::from(checks.iter().any(|check| check.health == Health::Bad)))
}

/// Whether sessions can be kept.
fn state(around: &Surroundings) -> Check {
    let found = around.sessions().map_err(|error| error.chain()).and_then(|dir| {
        let path = dir.path();
        let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        match rustix::fs::access(existing, access) {
            Ok(()) => Ok(path.display().to_string()),
            Err(error) => Err(format!("{} cannot be written: {error}", existing.display())),
        }
    });
    Check::new("sessions", found)
}

/// Which model, whether its key is there, and whether its provider answers the phone.
fn model(config: &Config, around: &Surroundings, args: &Doctor) -> Vec<Check> {
    let choice = match resolve_model(config, &overrides(&args.model)) {
        Ok(choice) => choice,
        Err(error) => return vec![Check::new("model", Err(error.to_string()))],
    };
    let ModelChoice { provider, model, endpoint, .. } = choice;
    match endpoint {
        Endpoint::Offline => vec![Check::new("model", Ok("offline: by rule, no network".into()))],
        Endpoint::Http(at) => vec![
            Check::new("model", Ok(format!("{provider}/{model} at {}", at.base_url))),
            key(&at, around),
            Check::new("provider", reach(&at.base_url)),
        ],
    }
}

fn key(at: &HttpEndpoint, around: &Surroundings) -> Check {
    let found = at.api_key_envs.iter().find(|variable| around.var(variable).is_some());
    match found {
        Some(variable) => Check::new("key", Ok(format!("in {variable}"))),
        None if at.api_key_envs.is_empty() => Check::new("key", Ok("none is sent".to_owned())),
        None => Check::new("key", Err(format!("set {}", at.api_key_envs.join(" or ")))),
    }
}

/// Whether the provider's address accepts a connection. Nothing is sent, no key least of all.
fn reach(base_url: &str) -> Result<String, String> {
    let url = Url::parse(base_url).map_err(|error| error.to_string())?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(443);
    let addresses =
        (host, port).to_socket_addrs().map_err(|error| format!("{host} is not found: {error}"))?;
    let mut last = format!("{host} has no address");
    for address in addresses {
        match std::net::TcpStream::connect_timeout(&address, CONNECT) {
            Ok(_) => return Ok(format!("{host}:{port} accepts connections")),
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    Err(last)
}

fn tools(composition: Result<Composition, CliError>) -> Vec<Check> {
    let composition = match composition {
        Ok(composition) => composition,
        Err(error) => return vec![Check::new("tools", Err(error.chain()))],
    };
    let mut checks = Vec::new();
    let mut usable = 0;
    for entry in composition.catalog.iter() {
        match &entry.tool.spec().usable {
            deputize_core::Usable::Yes => usable += 1,
            deputize_core::Usable::No(why) => {
                checks.push(Check::less("tools", format!("{}: {why}", entry.name())));
            }
        }
    }
    checks.insert(0, Check::new("tools", Ok(format!("{usable} can be used"))));
    checks.extend(composition.warnings.into_iter().map(|text| Check::less("project", text)));
    checks
}

/// What the machine has of what tools need.
fn machine(around: &Surroundings) -> Vec<Check> {
    let on_path = |program: &str| {
        let path = around.var("PATH").unwrap_or_default();
        let runs = |path: &PathBuf| {
            path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
        };
        std::env::split_paths(path).map(|dir| dir.join(program)).find(runs)
    };
    let program = |what: &'static str| match on_path(what) {
        Some(path) => Check::new(what, Ok(path.display().to_string())),
        None => Check::less(what, "not on the PATH".to_owned()),
    };
    let processes = match Supervisor::start() {
        Ok(_) => Check::new("processes", Ok("whole trees are ended".to_owned())),
        Err(error) => Check::new("processes", Err(error.to_string())),
    };
    let sandbox = "none in this version: commands are asked for (--approve)".to_owned();
    vec![program("bash"), program("git"), processes, Check::less("sandbox", sandbox)]
}
