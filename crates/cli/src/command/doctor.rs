//! `deputize doctor`: what works on this machine.

#[cfg(feature = "browser")]
mod browser;
mod check;
mod extensions;
mod jobs;
mod messaging;
mod models;
mod python;
mod storage;

use deputize_core::Availability;
use deputize_core::authority::ApproverMode;
use serde_json::{Value, json};

use check::{Check, Health};

use crate::args::Doctor;
use crate::command::aligned;
use crate::command::run::overrides;
use crate::compose::{
    AssembledProgram, AssemblyInput, LinkedTools, approvals, external, profile_library,
    profile_warnings, redact_in_log,
};
use crate::config::{Config, load};
use crate::exit::CliError;
use crate::hooks::program::{faults, on_path};
use crate::process_env::ProcessEnv;
use crate::processes;
use crate::stdio::{output_columns, print};

/// Checks everything and prints the report. Returns 1 if something does not work.
pub(crate) fn doctor(links: &LinkedTools, env: &ProcessEnv, args: &Doctor) -> Result<u8, CliError> {
    let sources = env.sources(&args.view.settings, Vec::new())?;
    let mut checks = vec![storage::check(env)];
    checks.extend(storage::memory(env));
    match load(&sources) {
        Err(error) => {
            checks.push(Check::new("configuration", Err(error.to_string())));
            checks.extend(jobs::checks(env, None));
        }
        Ok(loaded) => {
            redact_in_log(&loaded.config, env);
            let file = sources.user_file().filter(|path| path.is_file());
            let file =
                file.map_or("no file, all defaults".to_owned(), |path| path.display().to_string());
            checks.push(Check::new("configuration", Ok(file)));
            let warnings = loaded.warnings.iter().map(ToString::to_string);
            checks.extend(warnings.map(|warning| Check::less("configuration", warning)));
            checks.extend(jobs::checks(env, Some(&loaded)));
            let here = AssemblyInput::here(links, &loaded.config, env, &sources);
            let overrides = overrides(&args.model);
            let composition = AssembledProgram::new(&AssemblyInput { overrides, ..here });
            if let Ok(composition) = &composition {
                checks.extend(models::checks(composition, env, args)?);
                checks.extend(check_tools_of_children(composition));
                checks.extend(check_skills(composition));
                let here = AssemblyInput::here(links, &loaded.config, env, &sources);
                checks.extend(check_profiles(&here));
                checks.extend(messaging::checks(&composition.tools.messages)?);
                #[cfg(feature = "browser")]
                checks.extend(browser::check(composition, env));
            }
            checks.extend(external_agent(&loaded.config, env));
            let hooks = faults(&loaded.config.hooks, env).into_iter();
            checks.extend(hooks.map(|(_, fault)| Check::less("hook", fault)));
            checks.extend(extensions::plugins(&loaded.config, env));
            let servers = extensions::servers(&loaded.config, env, &sources.cwd)?;
            let wrong = servers.iter().filter(|(_, check)| check.health != Health::Good);
            let mut reported: Vec<String> =
                wrong.map(|(name, _)| format!("mcp {name}: ")).collect();
            let is_memory = |check: &&Check| check.what == storage::MEMORY;
            reported.extend(checks.iter().filter(is_memory).map(|check| check.found.clone()));
            checks.extend(servers.into_iter().map(|(_, check)| check));
            checks.extend(tools(composition, &reported));
        }
    }
    checks.extend(machine(env));
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
        let rows: Vec<[String; 3]> = checks.iter().flat_map(Check::rows).collect();
        aligned(&rows, output_columns())
    };
    print(&text)?;
    Ok(u8::from(checks.iter().any(|check| check.health == Health::Bad)))
}

/// Checks the external agent, if children are one.
fn external_agent(config: &Config, env: &ProcessEnv) -> Option<Check> {
    match external::program(config, env) {
        Ok(None) => None,
        Ok(Some(program)) => {
            let path = program.path().to_string_lossy().into_owned();
            if config.delegation.child_approvals() == ApproverMode::Deny {
                let found =
                    format!("{path}, but none is started: `delegation.approvals` is `deny`");
                return Some(Check::less("external agent", found));
            }
            Some(Check::new("external agent", Ok(path)))
        }
        Err(error) => Some(Check::new("external agent", Err(error.chain()))),
    }
}

/// Checks the skills, and names each file that is none.
fn check_skills(composition: &AssembledProgram) -> Vec<Check> {
    let listing = composition.tools.skills.list();
    let faults = listing.faults.iter().map(|fault| Check::less("skills", fault.to_string()));
    let count = format!("{} usable", listing.skills.len());
    std::iter::once(Check::new("skills", Ok(count))).chain(faults).collect()
}

/// Checks the profiles, and names each file that is none or that says something in vain.
fn check_profiles(from: &AssemblyInput<'_>) -> Vec<Check> {
    let listing = profile_library(from).list();
    let count = format!("{} usable", listing.profiles.len());
    let faults = listing.faults.iter().map(ToString::to_string);
    let warnings = listing.profiles.iter().flat_map(|document| profile_warnings(document, from));
    let less = faults.chain(warnings).map(|text| Check::less("profiles", text));
    std::iter::once(Check::new("profiles", Ok(count))).chain(less).collect()
}

/// Lists the tools that children lack, and how to grant them.
fn check_tools_of_children(composition: &AssembledProgram) -> Option<Check> {
    let names = composition.assembly.tools_denied_to_children();
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let found = format!(
        "lack {}: each call needs approval, and {} (`ask` asks you at each call; `auto` approves \
         each)",
        names.join(", "),
        approvals(composition)
    );
    (!names.is_empty()).then(|| Check::new("children", Ok(found)))
}

/// Checks the tools. Warnings in `reported` (compared by prefix) were reported already and are left
/// out.
fn tools(composition: Result<AssembledProgram, CliError>, reported: &[String]) -> Vec<Check> {
    let composition = match composition {
        Ok(composition) => composition,
        Err(error) => return vec![Check::new("tools", Err(error.chain()))],
    };
    let mut checks = Vec::new();
    let mut usable = 0;
    let settings = composition.tool_settings();
    for entry in composition.assembly.tools.catalog.iter() {
        let here = entry.tool.availability(&settings);
        match (&entry.tool.spec().usable, here) {
            (Availability::No(why), _) => {
                checks.push(Check::less("tools", format!("{}: {why}", entry.name())));
            }
            (Availability::Yes, Availability::Yes) => usable += 1,
            // What the person did not configure is no fault.
            (Availability::Yes, Availability::No(why)) => {
                checks.push(Check::new("tools", Ok(format!("without `{}`: {why}", entry.name()))));
            }
        }
    }
    checks.insert(0, Check::new("tools", Ok(format!("{usable} usable"))));
    let is_same = |text: &str, told: &str| text.starts_with(told) || told.starts_with(text);
    let is_new = |text: &String| !reported.iter().any(|told| is_same(text, told));
    let warnings = composition.warnings.into_iter().filter(is_new);
    checks.extend(warnings.map(|text| Check::less("project", text)));
    checks
}

/// Checks the programs that tools need.
fn machine(env: &ProcessEnv) -> Vec<Check> {
    let program = |what: &'static str| match on_path(what, env) {
        Some(path) => Check::new(what, Ok(path.display().to_string())),
        None => Check::less(what, "not on the PATH".to_owned()),
    };
    let processes =
        Check::new("processes", processes::containment(processes::setup(env.open_files)));
    let open_files = match processes::open_files(env.open_files) {
        Ok(found) => Check::new("open files", Ok(found)),
        Err(found) => Check::less("open files", found),
    };
    let sandbox = "none in this version; commands need approval (--approve)".to_owned();
    let sandbox = Check::less("sandbox", sandbox);
    let python = python::check(env);
    vec![program("bash"), program("git"), python, processes, open_files, sandbox]
}
