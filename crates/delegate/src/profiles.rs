//! What a profile says of a child: read beside the call, and only to narrow it.

use std::collections::BTreeSet;

use deputize_core::agent::Role;
use deputize_core::profile::Profile;
use deputize_core::prompt::{FillError, Section, fill};
use deputize_core::sanitize::{for_terminal_line, frame_quote};
use deputize_core::source::Source;
use deputize_core::{Catalog, CatalogEntry, ToolKind, ToolsetName};

use crate::config::DelegationConfig;

const OWN: &str = include_str!("../prompts/child_profile.md");
const PROJECT: &str = include_str!("../prompts/child_project_profile.md");
/// Beginning of the list that models read.
const LIST: &str = "Kinds";
/// Limit on a description in the list, in characters.
const DESCRIPTION_CHARS: usize = 160;
/// Limit on the list with descriptions, in bytes; profiles beyond it have only names.
const LIST_BYTES: usize = 1_500;
/// Limit on what is wrong with the file of a profile, in characters.
const FAULT_CHARS: usize = 400;
/// Limit on the names in an error; the rest are counted.
const NAMED: usize = 20;

/// What a task asks of its parent's tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolRequest<'a> {
    /// The toolsets that the call names; `None` if it names none.
    pub toolsets: Option<&'a BTreeSet<ToolsetName>>,
    /// Whether the child is to delegate.
    pub role: Role,
    /// The child's profile.
    pub profile: Option<&'a Profile>,
}

impl<'a> ToolRequest<'a> {
    /// Returns the toolsets that the call names, or else the default ones; `None` for any.
    pub(crate) fn toolsets_or_default(
        &self,
        config: &'a DelegationConfig,
    ) -> Option<&'a BTreeSet<ToolsetName>> {
        let default = Some(&config.toolsets.default).filter(|sets| !sets.is_empty());
        self.toolsets.or(default)
    }
}

/// Returns whether a top agent of a profile has a tool. Of the tools that delegate, an orchestrator
/// has all and a leaf none.
#[must_use]
pub fn profile_allows(profile: &Profile, catalog: &Catalog, entry: &CatalogEntry) -> bool {
    match profile.role {
        Some(role) if entry.tool.spec().kind == ToolKind::Delegate => role == Role::Orchestrator,
        _ => profile.tools.allows(catalog, entry),
    }
}

/// Returns the part of a prompt that has a profile's instructions; `None` if it has none.
///
/// # Errors
/// When a template of this crate and its values do not fit.
pub fn profile_section(profile: &Profile) -> Result<Option<Section>, FillError> {
    let Profile { name, instructions, .. } = profile;
    if instructions.trim().is_empty() {
        return Ok(None);
    }
    let text = if profile.from_project {
        let source = Source::project(format!("agents/{name}"));
        let frame = frame_quote(&source, instructions).into_string();
        fill(PROJECT, &[("name", name), ("instructions", &frame)])?
    } else {
        fill(OWN, &[("name", name), ("instructions", instructions.trim())])?
    };
    Ok(Some(Section::plain(&text)))
}

/// Returns the profiles for the parent's model, a line each.
pub(crate) fn profile_list(profiles: &[Profile]) -> String {
    let mut list = format!("{LIST}:");
    for profile in profiles {
        let description = for_terminal_line(&profile.description, DESCRIPTION_CHARS);
        let whose = if profile.from_project { " (the project's)" } else { "" };
        let line = format!("\n{}{whose}: {description}", profile.name);
        match list.len() + line.len() <= LIST_BYTES {
            true => list.push_str(&line),
            false => list.push_str(&format!("\n{}", profile.name)),
        }
    }
    list
}

/// Says what to do about a profile whose file is faulty.
pub(crate) fn faulty_profile(fault: &str) -> String {
    let fault = for_terminal_line(fault, FAULT_CHARS);
    format!("its file is faulty, and a person must correct it ({fault}): leave `profile` out")
}

/// Returns the names of profiles for an error.
pub(crate) fn profile_names(profiles: &[Profile]) -> String {
    let names: Vec<&str> = profiles.iter().take(NAMED).map(|it| it.name.as_str()).collect();
    match profiles.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
