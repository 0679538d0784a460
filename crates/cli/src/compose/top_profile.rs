//! The profile of the top agent.

use deputize_core::profile::Profile;
use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_core::server_names::server_of_toolset;
use deputize_documents::{ProfileDocument, ProfileError};
use serde_json::json;

use super::input::{AssemblyInput, did_you_mean};
use super::profile_library;
use crate::config::{Config, ModelOverrides, OPTIONAL_TOOLSETS, nearest};
use crate::exit::CliError;
use crate::invocation::format_command;

/// Limit on the name of a model in a warning, in characters.
const MODEL_CHARS: usize = 100;

/// The profile that the command line names for the top agent.
pub(crate) struct TopProfile {
    pub(crate) profile: Profile,
    /// The configuration under it: with its limit, its effort and its model.
    pub(crate) config: Config,
    /// Warnings of what its file says in vain.
    pub(crate) warnings: Vec<String>,
}

impl TopProfile {
    /// Finds it, and applies it to the configuration. A model of the command line comes first, and one
    /// that is not offered is not used.
    pub(crate) fn find(
        from: &AssemblyInput<'_>,
        name: &str,
        given: &ModelOverrides,
    ) -> Result<Self, CliError> {
        let document = profile_library(from).find(name).map_err(profile_error)?;
        let warnings = profile_warnings(&document, from);
        let config = from.config.clone();
        let mut found = Self { profile: document.profile, config, warnings };
        let unused = found.apply(given);
        found.warnings.extend(unused);
        Ok(found)
    }

    /// Applies it to its configuration. Returns a warning if its model is not used.
    fn apply(&mut self, given: &ModelOverrides) -> Option<String> {
        let Self { profile, config, .. } = self;
        let iterations = [Some(config.max_iterations), profile.max_iterations];
        config.max_iterations = iterations.into_iter().flatten().min().unwrap_or_default();
        if let Some(effort) = &profile.reasoning_effort
            && let Ok(effort) = serde_json::from_value(json!(effort))
        {
            config.reasoning_effort = effort;
        }
        if given.model.is_some() {
            return None;
        }
        let delegation = &config.delegation;
        if let Some(model) = delegation.profile_models.get(&profile.name) {
            config.model.clone_from(model);
            return None;
        }
        let model = profile.model.as_ref()?;
        if delegation.models.contains(model) {
            config.model.clone_from(model);
            return None;
        }
        (*model != config.model).then(|| {
            format!(
                "the profile `{}` names the model `{}`, which is not used: put it into \
                 `delegation.models`, or pass -m",
                profile.name,
                for_terminal_line(model, MODEL_CHARS)
            )
        })
    }
}

/// Returns warnings of what a profile's file says in vain.
pub(crate) fn profile_warnings(
    document: &ProfileDocument,
    from: &AssemblyInput<'_>,
) -> Vec<String> {
    let place = match &document.path {
        Some(path) => path.display().to_string(),
        None => format!("profile {}", document.profile.name),
    };
    let unknown = unknown_toolsets(&document.profile, from);
    let unknown = unknown.into_iter().map(|name| unknown_toolset_note(name, from));
    let warning = |note: String| for_terminal(&format!("{place}: {note}"));
    document.notes.iter().cloned().chain(unknown).map(warning).collect()
}

/// Finds toolsets that a profile names and that the program does not have. What plugins bring is
/// known only when they run, and a server may be configured later.
pub(crate) fn unknown_toolsets<'p>(profile: &'p Profile, from: &AssemblyInput<'_>) -> Vec<&'p str> {
    if !from.config.plugins.is_empty() {
        return Vec::new();
    }
    let is_known = |name: &str| {
        known_toolsets(from).any(|known| known == name)
            || OPTIONAL_TOOLSETS.contains(&name)
            || server_of_toolset(name).is_some()
    };
    let names = profile.tools.toolsets.iter().flatten().map(|name| name.as_str());
    names.filter(|name| !is_known(name)).collect()
}

fn known_toolsets<'a>(from: &'a AssemblyInput<'_>) -> impl Iterator<Item = &'a str> {
    let own = from.config.composite_toolsets.keys();
    from.environment.toolsets.iter().chain(own).map(String::as_str)
}

fn unknown_toolset_note(name: &str, from: &AssemblyInput<'_>) -> String {
    let hint = did_you_mean(nearest(name, known_toolsets(from)));
    format!("`toolsets`: there is no toolset `{name}`{hint}")
}

/// Returns the error of a command that needs a profile.
pub(crate) fn profile_error(error: ProfileError) -> CliError {
    match error {
        ProfileError::Write { .. } => CliError::failed(error),
        ProfileError::Unknown { .. } => CliError::usage(error)
            .hint(format!("`{}` shows what each is for", format_command("profiles list"))),
        error => CliError::usage(error),
    }
}
