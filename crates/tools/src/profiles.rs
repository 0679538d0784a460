//! Profiles that come with this crate, and the names that other programs have for its tools.

use deputize_documents::{ProfileLibrary, ToolAliases};

const EXPLORE: &str = include_str!("../profiles/explore.md");
const REVIEW: &str = include_str!("../profiles/review.md");
const WORK: &str = include_str!("../profiles/work.md");

/// The names of Claude Code. Allowed, they stand for tools that do no more, and denied for tools that
/// do no less: a script of `execute_code` opens files and starts programs itself.
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
    denials: &[
        ("Bash", &["execute_code", "process", "terminal"]),
        ("Edit", WRITING),
        ("Glob", &["execute_code", "list_dir", "search_files"]),
        ("Grep", &["execute_code", "search_files"]),
        ("LS", &["execute_code", "list_dir", "search_files"]),
        ("MultiEdit", WRITING),
        ("NotebookEdit", WRITING),
        ("NotebookRead", READING),
        ("Read", READING),
        ("WebFetch", &["browser_open", "execute_code", "web_fetch"]),
        ("Write", WRITING),
    ],
    has_servers: true,
};
/// The tools that write files.
const WRITING: &[&str] = &["apply_patch", "edit_file", "execute_code", "write_file"];
/// The tools that read files.
const READING: &[&str] = &["execute_code", "read_file", "search_files"];

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
    use deputize_core::Catalog;
    use deputize_documents::{DocumentOrigin, ProfileDocument};

    use super::*;
    use crate::LINK;

    #[test]
    fn bundled_profiles_are_whole_and_aliases_are_of_tools() {
        let listing = bundled_profiles().list();
        assert_eq!(listing.faults, []);
        let notes: Vec<_> = listing.profiles.iter().flat_map(|it| &it.notes).collect();
        assert_eq!(notes, Vec::<&String>::new());
        let catalog = Catalog::linked(&[LINK]).unwrap();
        let tools =
            ALIASES.names.iter().chain(ALIASES.denials).flat_map(|(_, tools)| *tools).copied();
        let is_unknown = |tool: &&str| catalog.get(tool).is_none();
        // Those of other crates are there by features.
        let is_linked = |tool: &&str| {
            !tool.starts_with("browser_") && (cfg!(feature = "web") || !tool.starts_with("web_"))
        };
        let unknown: Vec<_> = tools.filter(is_linked).filter(is_unknown).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }

    /// Each tool that is denied takes away what does the same here, and what can do it by other means.
    #[test]
    fn a_denied_tool_takes_away_the_tools_that_do_no_less() {
        let catalog = Catalog::linked(&[LINK]).unwrap();
        let left = |denied: &str| {
            let text = format!("---\ndescription: d\ndisallowedTools: {denied}\n---\n");
            let parsed = ProfileDocument::parse("p", &text, DocumentOrigin::User, ALIASES).unwrap();
            let bounds = parsed.profile.tools;
            let gone = catalog.iter().filter(|entry| !bounds.allows(&catalog, entry));
            gone.map(|entry| entry.name().as_str()).collect::<Vec<_>>().join(" ")
        };
        let names =
            ["Write", "NotebookEdit", "Bash", "Bash(rm:*)", "Read", "Grep", "Glob", "TodoWrite"];
        let own = ["apply_patch", "memory, todo"];
        let shown = names.iter().chain(&own).map(|name| format!("{name}: {}", left(name)));
        insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @"
        Write: apply_patch edit_file execute_code write_file
        NotebookEdit: apply_patch edit_file execute_code write_file
        Bash: execute_code process terminal
        Bash(rm:*): execute_code process terminal
        Read: execute_code read_file search_files
        Grep: execute_code search_files
        Glob: execute_code list_dir search_files
        TodoWrite: todo
        apply_patch: apply_patch
        memory, todo: memory todo
        ");
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
