//! `deputize plugin check`: what a file is, whether its tools keep their contract, and the entry
//! that the configuration needs for it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::Path;
use std::sync::Arc;

use deputize_agent::plugins::{add_plugin_tools, with_file_name};
use deputize_check::{CallRule, CheckReport, ToolCheck, Violations};
use deputize_core::wording::count;
use deputize_core::{Catalog, Effects, Tool};
use deputize_plugin_host::{Description, PluginBoundary, PluginFile, PluginFileError, entries};
use deputize_process::Supervisor;
use serde_json::{Value, json};

use crate::args::Settings;
use crate::compose::{AssemblyInput, LinkedTools, load_config, plugins, without_plugins};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::processes;
use crate::stdio::print;

/// Report of a plugin's check.
struct Report {
    file: PluginFile,
    description: Description,
    checked: Vec<(Arc<dyn Tool>, ToolVerdict)>,
}

/// Verdict on a tool.
enum ToolVerdict {
    Fine(CheckReport),
    /// Its examples need files, and no directory with them was named: what is missing.
    Untried(Violations),
    Wrong(Violations),
}

impl ToolVerdict {
    fn of(checked: Result<CheckReport, Violations>, within: Option<&Path>) -> Self {
        match checked {
            Ok(checked) => Self::Fine(checked),
            Err(found)
                if within.is_none()
                    && found.0.iter().all(|one| one.rule == CallRule::Files.into()) =>
            {
                Self::Untried(found)
            }
            Err(found) => Self::Wrong(found),
        }
    }

    const fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong(_))
    }
}

/// Looks at a file, tries its tools, and prints what was found. 1: a tool breaks its contract.
pub(super) fn check(
    links: &LinkedTools,
    env: &ProcessEnv,
    path: &Path,
    within: Option<&Path>,
    as_json: bool,
) -> Result<u8, CliError> {
    let within = within.map(|dir| env.cwd(Some(dir))).transpose()?;
    let path = env.cwd(None)?.join(path);
    let path = path.canonicalize().unwrap_or(path);
    let file = PluginFile::read(&path).map_err(file_error)?;
    file.table().map_err(file_error)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::failed)?;
    let supervisor = Supervisor::with(processes::setup(env.open_files));
    let supervisor = Arc::new(supervisor.map_err(CliError::failed)?);
    let plugin: Arc<dyn PluginBoundary> =
        Arc::new(plugins::loader(env).isolate(&file, &supervisor));
    let sources = env.sources(&Settings::default(), Vec::new())?;
    let loaded = load_config(env, &sources)?;
    let ingredients = AssemblyInput::here(links, &loaded.config, env, &sources);
    let beside = without_plugins(&ingredients)?;
    let report = runtime.block_on(look(file, &plugin, within.as_deref(), beside));
    drop(runtime);
    let report = report?;
    let text = if as_json { format!("{:#}\n", report.json()) } else { report.text() };
    print(&text)?;
    Ok(u8::from(report.checked.iter().any(|(_, found)| found.is_wrong())))
}

/// Says what to name where a file is no library.
fn file_error(error: PluginFileError) -> CliError {
    let is_other =
        matches!(error, PluginFileError::Read { .. } | PluginFileError::NoLibrary { .. });
    let error = CliError::usage(error);
    if !is_other {
        return error;
    }
    error.hint(format!(
        "build the crate, and give its library, such as target/release/{DLL_PREFIX}NAME{DLL_SUFFIX}"
    ))
}

async fn look(
    file: PluginFile,
    plugin: &Arc<dyn PluginBoundary>,
    within: Option<&Path>,
    mut beside: Catalog,
) -> Result<Report, CliError> {
    let described = plugin.describe().await.map_err(CliError::failed)?;
    let description = Description::parse(&described)
        .map_err(|error| CliError::failed(with_file_name(error, file.path())))?;
    // What every run would refuse is told before anything is tried.
    add_plugin_tools(&description, file.path(), plugin, &mut beside).map_err(CliError::usage)?;
    let mut checked = Vec::new();
    for entry in entries(&description, file.path(), plugin) {
        let mut check = ToolCheck::new(&entry.tool);
        if let Some(dir) = within {
            check = check.inside(dir);
        }
        let found = ToolVerdict::of(check.run().await, within);
        checked.push((entry.tool, found));
    }
    Ok(Report { file, description, checked })
}

impl Report {
    fn text(&self) -> String {
        let Self { file, description, checked } = self;
        let mut lines = vec![
            format!("plugin   {} {}", description.name, description.version),
            format!("file     {} ({} bytes)", file.path().display(), file.len()),
            format!("sha256   {}", file.sha256()),
            format!("abi      {}", deputize_plugin_host::ABI),
        ];
        lines.extend(description.unknown.iter().map(|what| format!("warning  {what}")));
        for (tool, checked) in checked {
            let name = &tool.spec().decl.name;
            let effects = effects(tool.spec().effects);
            match checked {
                ToolVerdict::Fine(CheckReport { calls, advice }) => {
                    lines.push(format!("tool     {name}: {effects}; {}", calls_text(*calls)));
                    lines.extend(advice.iter().map(|advice| format!("  advice {advice}")));
                }
                ToolVerdict::Untried(Violations(all)) => {
                    lines.push(format!("tool     {name}: {effects}; not tried: needs --within"));
                    lines.extend(all.iter().map(|one| format!("  example {}", one.found)));
                }
                ToolVerdict::Wrong(Violations(all)) => {
                    lines.push(format!("tool     {name}: {effects}"));
                    lines.extend(all.iter().map(|one| format!("  WRONG  {one}")));
                }
            }
        }
        let wrong = checked.iter().filter(|(_, found)| found.is_wrong()).count();
        lines.push(String::new());
        if wrong > 0 {
            let tools = count(checked.len(), "tool");
            lines.push(format!("{wrong} of {tools} fail the check"));
        } else {
            lines.push(format!(
                "To use it, write this into the file that `{}` names. It then runs in a separate \
                 process, with all your rights:",
                format_command("config path")
            ));
            lines.push(String::new());
            lines.push("plugins:".to_owned());
            lines.push(format!("  - path: {}", quote_path(file.path())));
            lines.push(format!("    sha256: {}", file.sha256()));
        }
        lines.join("\n") + "\n"
    }

    fn json(&self) -> Value {
        let tool = |(tool, found): &(Arc<dyn Tool>, ToolVerdict)| {
            let spec = tool.spec();
            let texts = |all: &[deputize_check::Violation]| -> Vec<String> {
                all.iter().map(ToString::to_string).collect()
            };
            let (calls, advice, untried, wrong) = match found {
                ToolVerdict::Fine(CheckReport { calls, advice }) => {
                    (*calls, texts(advice), Vec::new(), Vec::new())
                }
                ToolVerdict::Untried(Violations(all)) => (0, Vec::new(), texts(all), Vec::new()),
                ToolVerdict::Wrong(Violations(all)) => (0, Vec::new(), Vec::new(), texts(all)),
            };
            json!({
                "name": spec.decl.name,
                "effects": spec.effects,
                "calls": calls,
                "advice": advice,
                "untried": untried,
                "wrong": wrong,
            })
        };
        json!({
            "name": self.description.name,
            "version": self.description.version,
            "path": self.file.path(),
            "bytes": self.file.len(),
            "sha256": self.file.sha256(),
            "abi": deputize_plugin_host::ABI,
            "warnings": self.description.unknown,
            "tools": self.checked.iter().map(tool).collect::<Vec<_>>(),
        })
    }
}

fn calls_text(calls: usize) -> String {
    match calls {
        0 => "not tried, since it has no examples".to_owned(),
        calls => format!("fine in {}", count(calls, "call")),
    }
}

const fn effects(effects: Effects) -> &'static str {
    match effects {
        Effects::ReadOnly => "says that it only looks, so its calls are not asked for",
        Effects::WritesFiles => "says that it writes files only, so its calls are not asked for",
        Effects::Unknown => "may do anything, so each call needs approval",
    }
}

/// A path in YAML: as JSON, which YAML reads, where it is not plain.
fn quote_path(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { Value::String(text).to_string() }
}
