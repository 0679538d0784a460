//! Profiles that come with this crate, and the names that other programs have for its tools.

use deputize_documents::{ProfileLibrary, ToolAliases};

const EXPLORE: &str = include_str!("../profiles/explore.md");
const REVIEW: &str = include_str!("../profiles/review.md");
const WORK: &str = include_str!("../profiles/work.md");

/// The names of Claude Code, where a tool here does no more than its own. Others are left out.
const ALIASES: ToolAliases = ToolAliases {
    names: &[
        ("AskUserQuestion", &["clarify"]),
        ("Bash", &["terminal"]),
        ("BashOutput", &["process"]),
        ("Edit", &["edit_file"]),
        ("Glob", &["list_dir"]),
        ("Grep", &["search_files"]),
        ("KillShell", &["process"]),
        ("LS", &["list_dir"]),
        ("MultiEdit", &["edit_file"]),
        ("Read", &["read_file"]),
        ("Skill", &["skill_view", "skills_list"]),
        ("TodoWrite", &["todo"]),
        ("WebFetch", &["web_fetch"]),
        ("WebSearch", &["web_search"]),
        ("Write", &["write_file"]),
    ],
    servers: "mcp__",
};

/// Returns the profiles that come with this crate: `explore`, `review` and `work`. A program adds
/// its places.
///
/// ```
/// let (profiles, _faulty) = deputize_tools::bundled_profiles().list().into_profiles();
/// let names: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
/// assert_eq!(names, ["explore", "review", "work"]);
/// ```
#[must_use]
pub fn bundled_profiles() -> ProfileLibrary {
    [EXPLORE, REVIEW, WORK]
        .into_iter()
        .fold(ProfileLibrary::default(), ProfileLibrary::with_bundled)
        .with_aliases(ALIASES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use deputize_core::Catalog;

    use super::*;
    use crate::LINK;

    #[test]
    fn bundled_profiles_are_whole_and_aliases_are_of_tools() {
        let listing = bundled_profiles().list();
        assert_eq!(listing.faults, []);
        let notes: Vec<_> = listing.profiles.iter().flat_map(|it| &it.notes).collect();
        assert_eq!(notes, Vec::<&String>::new());
        let catalog = Catalog::linked(&[LINK]).unwrap();
        let tools: BTreeSet<&str> =
            ALIASES.names.iter().flat_map(|(_, tools)| *tools).copied().collect();
        let is_unknown = |tool: &&str| catalog.get(tool).is_none();
        let is_linked = |tool: &&str| cfg!(feature = "web") || !tool.starts_with("web_");
        let unknown: Vec<_> = tools.into_iter().filter(is_linked).filter(is_unknown).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }

    #[test]
    fn one_that_explores_has_no_tool_that_changes_anything() {
        let catalog = Catalog::linked(&[LINK]).unwrap();
        let profile = bundled_profiles().find("explore").unwrap().profile;
        let tools = catalog.iter().filter(|entry| profile.tools.allows(&catalog, entry));
        let tools: Vec<&str> = tools.map(|entry| entry.name().as_str()).collect();
        assert_eq!(tools, ["list_dir", "read_file", "search_files"]);
    }
}
