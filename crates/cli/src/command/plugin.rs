//! `deputize plugin`: lists the configured plugins, checks one, starts a new one.

use deputize_core::Catalog;
use deputize_core::sanitize::for_terminal_line;
use deputize_plugin_host::Description;
use serde_json::{Value, json};

use crate::args::{Plugin, View};
use crate::command::{new, print_list};
use crate::compose::{AssemblyInput, LinkedTools, load_config, plugins, without_plugins};
use crate::config::{Config, PluginEntry};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::{output_columns, print, wrap_lines};

mod check;

/// Runs the command. Returns 1 if a plugin cannot be used.
pub(crate) fn plugin(
    links: &LinkedTools,
    env: &ProcessEnv,
    command: &Plugin,
) -> Result<u8, CliError> {
    match command {
        Plugin::List { view } => list(links, env, view),
        Plugin::Check { path, within, json } => {
            check::check(links, env, path, within.as_deref(), *json)
        }
        Plugin::New(project) => new::plugin(env, project).map(|()| 0),
    }
}

/// One configured plugin in the list.
struct PluginRow {
    path: String,
    isolated: bool,
    found: Result<Description, String>,
}

fn list(links: &LinkedTools, env: &ProcessEnv, view: &View) -> Result<u8, CliError> {
    let sources = env.sources(&view.settings, Vec::new())?;
    let loaded = load_config(env, &sources)?;
    let beside = without_plugins(&AssemblyInput::here(links, &loaded.config, env, &sources))?;
    let rows = rows(&loaded.config, env, beside);
    let code = u8::from(rows.iter().any(|row| row.found.is_err()));
    if view.json {
        let rows: Vec<Value> = rows.iter().map(PluginRow::json).collect();
        print(&format!("{:#}\n", json!(rows)))?;
    } else {
        // Why one cannot be used is a sentence, and would make its column as wide.
        let why = rows.iter().filter_map(PluginRow::why_not).collect::<String>();
        let rows = rows.iter().map(PluginRow::cells).collect();
        let head = ["PLUGIN", "VERSION", "RUNS", "USABLE", "TOOLS", "FILE"];
        let if_empty = "there are no plugins: `deputize plugin check FILE` prints the entry of one";
        print_list(head, rows, &["FILE", "VERSION", "TOOLS"], if_empty)?;
        print(&wrap_lines(&why, output_columns()))?;
    }
    Ok(code)
}

/// Returns a row for each plugin. Each is checked together with those above it, as a run loads
/// them.
fn rows(config: &Config, env: &ProcessEnv, mut beside: Catalog) -> Vec<PluginRow> {
    let loader = plugins::loader(env);
    let row = |entry: &PluginEntry| {
        let found = loader.describe(&plugins::plugin(entry, env)).and_then(|found| {
            // One that is refused takes no name from those below it.
            let mut with = beside.clone();
            let description = loader.add(&found, &mut with)?;
            beside = with;
            Ok(description)
        });
        PluginRow {
            path: plugins::place(entry, env).display().to_string(),
            isolated: entry.isolated,
            found: found.map_err(|error| CliError::usage(error).in_one_line()),
        }
    };
    config.plugins.iter().map(row).collect()
}

impl PluginRow {
    /// Returns where its calls run.
    const fn runs(&self) -> &'static str {
        if self.isolated { "isolated" } else { "inside" }
    }

    fn cells(&self) -> [String; 6] {
        let path = for_terminal_line(&self.path, 200);
        let runs = self.runs().to_owned();
        match &self.found {
            Ok(found) => {
                let tools = found.tools.iter().map(|tool| tool.spec.decl.name.to_string());
                let tools: Vec<String> = tools.collect();
                let name = found.name.to_string();
                let version = found.version.clone();
                [name, version, runs, "yes".to_owned(), tools.join(", "), path]
            }
            Err(_) => {
                let dash = || "-".to_owned();
                [dash(), dash(), runs, "no".to_owned(), dash(), path]
            }
        }
    }

    /// Explains why it cannot be used; `None` if it can.
    fn why_not(&self) -> Option<String> {
        let why = self.found.as_ref().err()?;
        Some(format!(
            "\n{}:\n  {}\n",
            for_terminal_line(&self.path, 200),
            for_terminal_line(why, 400)
        ))
    }

    fn json(&self) -> Value {
        let mut row = json!({"path": self.path, "isolated": self.isolated});
        let more = match &self.found {
            Ok(found) => json!({
                "usable": true,
                "name": found.name,
                "version": found.version,
                "tools": found.tools.iter().map(|tool| &tool.spec.decl.name).collect::<Vec<_>>(),
            }),
            Err(why) => json!({"usable": false, "why_not": why}),
        };
        if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
            row.extend(more);
        }
        row
    }
}
