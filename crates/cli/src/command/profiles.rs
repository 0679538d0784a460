//! `deputize profiles`: lists, shows and creates profiles.

use deputize_core::profile::Profile;
use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_documents::{
    DocumentFault, DocumentOrigin, ProfileDocument, ProfileLibrary, ProfileListing,
};
use serde_json::{Value, json};

use crate::args::Profiles;
use crate::command::print_list;
use crate::compose::{
    AssemblyInput, LinkedTools, load_config, profile_error, profile_library, profile_warnings,
    unknown_toolsets,
};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};

/// Characters of a description in a list.
const LINE_CHARS: usize = 200;

/// A new profile would take the place of one of the program.
#[derive(Debug, thiserror::Error)]
#[error("the program has a profile `{name}` already")]
struct BundledProfile {
    name: String,
}

/// Runs the command.
pub(crate) fn profiles(
    links: &LinkedTools,
    env: &ProcessEnv,
    command: &Profiles,
) -> Result<(), CliError> {
    let settings = match command {
        Profiles::List { view } | Profiles::Show { view, .. } => &view.settings,
        Profiles::New { settings, .. } => settings,
    };
    let sources = env.sources(settings, Vec::new())?;
    let loaded = load_config(env, &sources)?;
    let from = AssemblyInput::here(links, &loaded.config, env, &sources);
    let library = profile_library(&from);
    match command {
        Profiles::List { view } => list(&library, &from, view.json),
        Profiles::Show { name, view } => {
            let document = library.find(name).map_err(profile_error)?;
            tell_warnings(profile_warnings(&document, &from));
            match view.json {
                true => print(&format!("{:#}\n", row_json(&document, &from))),
                false => print(&for_terminal(&text(&document, &from))),
            }
        }
        Profiles::New { name, replace, .. } => {
            let is_bundled = |it: ProfileDocument| it.origin == DocumentOrigin::Bundled;
            if !replace && library.find(name).is_ok_and(is_bundled) {
                return Err(CliError::usage(BundledProfile { name: name.clone() }).hint(
                    "choose another name; with --replace, yours replaces it, and its limits no longer apply",
                ));
            }
            let path = library.create(name, &template(name)).map_err(profile_error)?;
            print(&format!("written: {}\n", for_terminal(&path.display().to_string())))
        }
    }
}

fn tell_warnings(warnings: impl IntoIterator<Item = String>) {
    warnings.into_iter().for_each(|warning| tell(&format!("warning: {warning}")));
}

fn list(library: &ProfileLibrary, from: &AssemblyInput<'_>, as_json: bool) -> Result<(), CliError> {
    let ProfileListing { profiles, faults, faulty } = library.list();
    faults.iter().for_each(|fault| tell(&format!("warning: {fault}")));
    let warnings = profiles.iter().flat_map(|document| profile_warnings(document, from));
    tell_warnings(warnings);
    if as_json {
        let row = |document| row_json(document, from);
        let profiles: Vec<Value> = profiles.iter().map(row).collect();
        return print(&format!("{:#}\n", json!(profiles)));
    }
    let row = |document: &ProfileDocument| {
        let ProfileDocument { profile, origin, .. } = document;
        let unknown = unknown_toolsets(profile, from);
        let note = match unknown.as_slice() {
            [] => String::new(),
            names => format!("(no toolset {}) ", quoted(names)),
        };
        let description = note + &for_terminal_line(&profile.description, LINE_CHARS);
        [profile.name.clone(), origin.as_str().to_owned(), description]
    };
    let row_of_fault = |(name, fault): (String, DocumentFault)| {
        [name, "faulty".to_owned(), for_terminal_line(&fault.reason, LINE_CHARS)]
    };
    let mut rows: Vec<_> = profiles.iter().map(row).collect();
    rows.extend(faulty.into_iter().map(row_of_fault));
    rows.sort();
    print_list(
        ["PROFILE", "FROM", "WHAT IT IS FOR"],
        rows,
        &["WHAT IT IS FOR"],
        "there are no profiles",
    )
}

/// Returns names as a person reads them in a sentence.
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn row_json(document: &ProfileDocument, from: &AssemblyInput<'_>) -> Value {
    let ProfileDocument { profile, origin, path, notes } = document;
    json!({
        "name": profile.name,
        "from": origin.as_str(),
        "description": profile.description,
        "toolsets": profile.tools.toolsets,
        "unknown_toolsets": unknown_toolsets(profile, from),
        "tools": profile.tools.only,
        "without_tools": profile.tools.without,
        "without_toolsets": profile.tools.without_toolsets,
        "model": profile.model,
        "reasoning_effort": profile.reasoning_effort,
        "max_iterations": profile.max_iterations,
        "role": profile.role.map(|role| role.as_str()),
        "output_schema": profile.output_schema,
        "instructions": profile.instructions,
        "path": path,
        "notes": notes,
    })
}

/// Returns a profile for a person: what it sets, and its instructions.
fn text(document: &ProfileDocument, from: &AssemblyInput<'_>) -> String {
    let Profile { name, description, instructions, tools, .. } = &document.profile;
    let profile = &document.profile;
    let listed = |names: Vec<&str>| match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let place = match &document.path {
        Some(path) => format!("{} ({})", document.origin.as_str(), path.display()),
        None => document.origin.as_str().to_owned(),
    };
    let mut out = format!("{name}: {description}\nfrom: {place}\n");
    let (without, without_sets) = (&tools.without, &tools.without_toolsets);
    let unknown = unknown_toolsets(profile, from);
    let toolset = |name: &str| match unknown.contains(&name) {
        true => format!("{name} (there is none)"),
        false => name.to_owned(),
    };
    let toolsets = tools.toolsets.as_ref().map(|names| {
        let names: Vec<String> = names.iter().map(|name| toolset(name.as_str())).collect();
        listed(names.iter().map(String::as_str).collect())
    });
    let fields = [
        ("toolsets", toolsets),
        ("tools", tools.only.as_ref().map(|it| listed(it.iter().map(|it| it.as_str()).collect()))),
        (
            "without tools",
            (!without.is_empty()).then(|| listed(without.iter().map(|it| it.as_str()).collect())),
        ),
        (
            "without toolsets",
            (!without_sets.is_empty())
                .then(|| listed(without_sets.iter().map(|it| it.as_str()).collect())),
        ),
        ("model", profile.model.clone()),
        ("reasoning effort", profile.reasoning_effort.clone()),
        ("max iterations", profile.max_iterations.map(|count| count.to_string())),
        ("role", profile.role.map(|role| role.as_str().to_owned())),
        ("output schema", profile.output_schema.as_ref().map(Value::to_string)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            out.push_str(&format!("{name}: {value}\n"));
        }
    }
    if !instructions.is_empty() {
        out.push_str(&format!("\n{instructions}\n"));
    }
    out
}

fn template(name: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: what the agent is for\n# Upper bounds; an omitted one \
         sets no limit.\n# toolsets: [file_read]\n# max_iterations: 20\n# role: leaf\n---\n\
         Instructions for the agent.\n"
    )
}
