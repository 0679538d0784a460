//! `deputize policy explain`: what the rules say of a command, a path or an address.

use std::io::{self, BufRead as _};
use std::path::Path;

use deputize_core::Authority;
use deputize_core::authority::ApproverMode;
use deputize_http::AddressPolicy;
use deputize_policy::{CommandContext, classify_command};
use serde_json::{Map, Value, json};

use crate::args::{ExplainArgs, FileAccess, PolicyCommand};
use crate::compose::{AssembledProgram, AssemblyInput, LinkedTools, load_config};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::print;

mod address;
mod decision;
mod path;

use decision::Decision;

#[derive(Debug, thiserror::Error)]
#[error("line {line} of the batch: {fault}")]
struct BatchError {
    line: usize,
    fault: String,
}

/// Prints what the rules say.
pub(crate) fn policy(
    links: &LinkedTools,
    env: &ProcessEnv,
    command: &PolicyCommand,
) -> Result<(), CliError> {
    let PolicyCommand::Explain(args) = command;
    let rules = Rules::new(links, env, args)?;
    if args.batch {
        return batch(&rules);
    }
    let decision = match (&args.command, &args.path, args.op, &args.url) {
        (Some(command), ..) => rules.command(command),
        (_, Some(path), Some(op), _) => rules.path(path, op),
        (.., Some(url)) => rules.url(url),
        _ => return Ok(()),
    };
    let Decision { field, got, rule, reason } = decision;
    print(&format!("{}\n", json!({field: got, "rule": rule, "reason": reason})))
}

fn batch(rules: &Rules) -> Result<(), CliError> {
    for (at, line) in io::stdin().lock().lines().enumerate() {
        let line = line.map_err(CliError::failed)?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = rules
            .answer(&line)
            .map_err(|fault| CliError::usage(BatchError { line: at + 1, fault }))?;
        print(&format!("{answer}\n"))?;
    }
    Ok(())
}

/// The rules as they hold for a top agent here.
struct Rules {
    commands: CommandContext,
    authority: Authority,
    addresses: AddressPolicy,
    cwd: std::path::PathBuf,
}

impl Rules {
    fn new(links: &LinkedTools, env: &ProcessEnv, args: &ExplainArgs) -> Result<Self, CliError> {
        let sources = env.sources(&args.settings, Vec::new())?;
        let loaded = load_config(env, &sources)?;
        let allowed = loaded.config.fetch.allow_hosts.iter().map(|host| host.parse());
        let addresses =
            AddressPolicy::new(allowed.collect::<Result<_, _>>().map_err(CliError::usage)?);
        let here = AssemblyInput::here(links, &loaded.config, env, &sources);
        let assembly = AssembledProgram::new(&here)?.assembly;
        let authority = assembly.authority(ApproverMode::Deny, assembly.workspace.cwd.clone());
        let commands = CommandContext {
            home: assembly.workspace.home.clone(),
            directory: Some(assembly.workspace.cwd.clone()),
        };
        Ok(Self { commands, authority, addresses, cwd: assembly.workspace.cwd.clone() })
    }

    fn command(&self, command: &str) -> Decision {
        let verdict = classify_command(command, &self.commands);
        let (got, rule) = (verdict.class.name(), verdict.rule);
        Decision { field: "class", got, rule, reason: verdict.reason }
    }

    fn path(&self, path: &Path, op: FileAccess) -> Decision {
        path::decide(&self.authority, &self.cwd, path, op)
    }

    fn url(&self, url: &str) -> Decision {
        address::decide(&self.addresses, url)
    }

    /// Answers a line of a batch.
    fn answer(&self, line: &str) -> Result<Value, String> {
        let row: Map<String, Value> = serde_json::from_str(line)
            .map_err(|error| format!("it is no JSON object ({error})"))?;
        let text = |name: &str| row.get(name).and_then(Value::as_str);
        let decision = match (text("command"), text("path"), text("url")) {
            (Some(command), None, None) => self.command(command),
            (None, Some(path), None) => {
                let op = match text("op") {
                    Some("read") => FileAccess::Read,
                    Some("write") => FileAccess::Write,
                    _ => return Err("`op` beside `path` is `read` or `write`".to_owned()),
                };
                self.path(Path::new(path), op)
            }
            (None, None, Some(url)) => self.url(url),
            _ => return Err("it needs one of `command`, `path` and `url`, as a text".to_owned()),
        };
        let id = row.get("id").cloned().unwrap_or(Value::Null);
        let Decision { got, rule, reason, .. } = decision;
        Ok(json!({"id": id, "got": got, "rule": rule, "reason": reason}))
    }
}
