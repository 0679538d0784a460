//! `deputize memory`: lists, shows, edits and deletes what agents keep for later sessions.

use deputize_core::sanitize::{Secrets, for_terminal};
use deputize_tools::{MemoryFileError, MemoryFiles, MemoryTopic};
use serde_json::{Value, json};

use crate::args::{MemoryCommand, Settings};
use crate::command::editor::edit_text;
use crate::command::print_list;
use crate::compose::{all_secrets, load_config, memory_files};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};

#[derive(Debug, thiserror::Error)]
#[error("this program keeps its memory by itself; there are no files of it")]
struct OwnMemory;

/// Runs the command.
pub(crate) fn memory(env: &ProcessEnv, command: &MemoryCommand) -> Result<(), CliError> {
    match command {
        MemoryCommand::List { view } => list(&readable(env, &view.settings)?, view.json),
        MemoryCommand::Show { topic, settings } => {
            let text = readable(env, settings)?.text(topic_of(topic)?).map_err(memory_error)?;
            print(&for_terminal(&text))
        }
        MemoryCommand::Edit { topic, settings } => {
            edit(&files(env, settings)?, env, topic_of(topic)?)
        }
        MemoryCommand::Rm { topic, text, settings } => {
            let removed = files(env, settings)?.remove(topic_of(topic)?, text);
            print(&format!("deleted: {}\n", for_terminal(&removed.map_err(memory_error)?)))
        }
    }
}

fn files(env: &ProcessEnv, settings: &Settings) -> Result<MemoryFiles, CliError> {
    let loaded = load_config(env, &env.sources(settings, Vec::new())?)?;
    let secrets = all_secrets(&loaded.config, env);
    memory_files(env, secrets).ok_or_else(|| without_files(env))
}

/// Returns the files to read from. They need no configuration, so one that is faulty is only told.
fn readable(env: &ProcessEnv, settings: &Settings) -> Result<MemoryFiles, CliError> {
    let sources = env.sources(settings, Vec::new())?;
    if let Err(error) = load_config(env, &sources) {
        tell(&format!("warning: {}", error.chain()));
    }
    memory_files(env, Secrets::default()).ok_or_else(|| without_files(env))
}

fn without_files(env: &ProcessEnv) -> CliError {
    let without_folder = env.state().err().filter(|_| env.own.memory.is_none());
    without_folder.unwrap_or_else(|| CliError::usage(OwnMemory))
}

fn topic_of(name: &str) -> Result<MemoryTopic, CliError> {
    name.parse().map_err(memory_error)
}

fn list(files: &MemoryFiles, as_json: bool) -> Result<(), CliError> {
    let mut rows = Vec::new();
    let mut fault = None;
    for topic in MemoryTopic::ALL {
        match files.entries(topic).map_err(memory_error) {
            Ok(entries) => rows.extend(entries.into_iter().map(|entry| (topic.as_str(), entry))),
            Err(error) => {
                // The last one is told at the end.
                let before = fault.replace(error);
                before.iter().for_each(|error| tell(&format!("warning: {}", error.chain())));
            }
        }
    }
    let nothing = if fault.is_some() { "nothing else is kept" } else { "nothing is kept" };
    print_entries(rows, as_json, nothing)?;
    fault.map_or(Ok(()), Err)
}

fn print_entries(rows: Vec<(&str, String)>, as_json: bool, nothing: &str) -> Result<(), CliError> {
    if as_json {
        let row = |(topic, entry): &(&str, String)| json!({"topic": topic, "entry": entry});
        let rows: Vec<Value> = rows.iter().map(row).collect();
        return print(&format!("{:#}\n", json!(rows)));
    }
    let row = |(topic, entry): (&str, String)| [topic.to_owned(), for_terminal(&entry)];
    let rows = rows.into_iter().map(row).collect();
    print_list(["MEMORY", "ENTRY"], rows, &["ENTRY"], nothing)
}

fn edit(files: &MemoryFiles, env: &ProcessEnv, topic: MemoryTopic) -> Result<(), CliError> {
    let before = files.entries(topic).map_err(memory_error)?;
    let text = files.text(topic).map_err(memory_error)?;
    let name = format!("{}.md", topic.as_str());
    let written = edit_text(env, &name, &text, |text| {
        files.replace_all(topic, &before, text).map_err(memory_error)
    })?;
    if written.is_some() {
        tell(&format!("written: {}", for_terminal(&files.path(topic).display().to_string())));
    }
    Ok(())
}

fn memory_error(error: MemoryFileError) -> CliError {
    match error {
        MemoryFileError::Io { .. } => CliError::failed(error),
        MemoryFileError::NoMatch { .. } => {
            let list = format_command("memory list");
            CliError::usage(error).hint(format!("`{list}` shows all entries"))
        }
        error => CliError::usage(error),
    }
}
