//! The profile of the top agent.

use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_documents::{ProfileDocument, ProfileError};
use serde_json::json;

use super::{AssemblyInput, did_you_mean, profile_library};
use crate::config::{Config, ModelOverrides, OPTIONAL_TOOLSETS, SERVER_TOOLSETS, nearest};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::stdio::tell;

/// Limit on the name of a model in a warning, in characters.
const MODEL_CHARS: usize = 100;

/// The profile that the command line names for the top agent.
pub(crate) struct TopProfile(pub(crate) ProfileDocument);

impl TopProfile {
    /// Finds it, and prints warnings of what its file says in vain.
    pub(crate) fn find(from: &AssemblyInput<'_>, name: &str) -> Result<Self, CliError> {
        let document = profile_library(from).find(name).map_err(profile_error)?;
        profile_warnings(&document, from).iter().for_each(|warning| tell(warning));
        Ok(Self(document))
    }

    /// Applies its limit, its effort and its model to a configuration. A model of the command line
    /// comes first, and one that is not offered is not used.
    pub(crate) fn apply(&self, config: &mut Config, given: &ModelOverrides) {
        let profile = &self.0.profile;
        let iterations = [Some(config.max_iterations), profile.max_iterations];
        config.max_iterations = iterations.into_iter().flatten().min().unwrap_or_default();
        if let Some(effort) = &profile.reasoning_effort
            && let Ok(effort) = serde_json::from_value(json!(effort))
        {
            config.reasoning_effort = effort;
        }
        if given.model.is_some() {
            return;
        }
        let delegation = &config.delegation;
        if let Some(model) = delegation.profile_models.get(&profile.name) {
            config.model.clone_from(model);
        } else if let Some(model) = &profile.model {
            if delegation.models.contains(model) {
                config.model.clone_from(model);
            } else if *model != config.model {
                tell(&format!(
                    "warning: the profile `{}` names the model `{}`, which is not used: put it into \
                     `delegation.models`, or pass -m",
                    profile.name,
                    for_terminal_line(model, MODEL_CHARS)
                ));
            }
        }
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
    let unknown = unknown_toolsets(document, from).into_iter();
    let warning = |note: String| for_terminal(&format!("warning: {place}: {note}"));
    document.notes.iter().cloned().chain(unknown).map(warning).collect()
}

/// Finds toolsets that a profile names and that the program does not have. What plugins bring is
/// known only when they run, and a server may be configured later.
fn unknown_toolsets(document: &ProfileDocument, from: &AssemblyInput<'_>) -> Vec<String> {
    let config = from.config;
    if !config.plugins.is_empty() {
        return Vec::new();
    }
    let known = || {
        let own = config.composite_toolsets.keys();
        from.environment.toolsets.iter().chain(own).map(String::as_str)
    };
    let is_known = |name: &str| {
        known().any(|known| known == name)
            || OPTIONAL_TOOLSETS.contains(&name)
            || name.starts_with(SERVER_TOOLSETS)
    };
    let names = document.profile.tools.toolsets.iter().flatten().map(|name| name.as_str());
    let note = |name: &str| {
        let hint = did_you_mean(nearest(name, known()));
        format!("`toolsets`: there is no toolset `{name}`{hint}")
    };
    names.filter(|name| !is_known(name)).map(note).collect()
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
