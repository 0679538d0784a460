//! Names of servers' tools: `mcp__SERVER__TOOL`.

use std::collections::BTreeMap;

use deputize_core::server_names::{server_tool, server_toolset};
use deputize_core::{ToolName, ToolsetName};
use sha2::{Digest as _, Sha256};

/// Limit on a server's name, in characters; it leaves room for distinct tool names.
pub const SERVER_CHARS: usize = 32;
/// Limit on a tool's name, in characters.
const CHARS: usize = 64;
/// Returns the toolset of a server, `mcp-SERVER`; `None` if the name is not valid for a server.
#[must_use]
pub fn toolset(server: &str) -> Option<ToolsetName> {
    server_name(server).ok()?;
    ToolsetName::new(server_toolset(server)).ok()
}

/// Why a name is not valid for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerNameError {
    /// Empty, too long, or with other characters.
    #[error("the name of a server is made of 1 to {SERVER_CHARS} letters, digits, `-` and `_`")]
    Form,
    /// Its end inside a tool's name would be ambiguous.
    #[error(
        "the name of a server has no `__` and no `_` at its end: its tools could have the names of \
         another server's"
    )]
    Marks,
}

/// Checks that a server may have this name.
///
/// # Errors
/// When it may not.
pub fn server_name(name: &str) -> Result<(), ServerNameError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !(1..=SERVER_CHARS).contains(&name.len()) || !name.chars().all(plain) {
        return Err(ServerNameError::Form);
    }
    if name.contains("__") || name.ends_with('_') {
        return Err(ServerNameError::Marks);
    }
    Ok(())
}

/// Why a tool has no name here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ToolNameError {
    #[error("its name is empty")]
    Empty,
    #[error("its name has characters that cannot be seen")]
    Unseen,
    #[error("its name is longer than 256 bytes")]
    Long,
    #[error("its name has no letter and no digit")]
    Marks,
}

/// The names of a server's tools, by the names that the server gives them, and those that have
/// none. What names may not hold becomes `_`; where that makes two alike, or where a name is too
/// long, the changed ones end with a digest of the server's own name.
pub(crate) fn names<'a>(
    server: &str,
    tools: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, Result<ToolName, ToolNameError>> {
    let mut found: BTreeMap<String, Result<String, ToolNameError>> = BTreeMap::new();
    for tool in tools {
        found.entry(tool.to_owned()).or_insert_with(|| plain(tool));
    }
    let room = CHARS.saturating_sub(server_tool(server, "").len());
    let wanted: Vec<String> = found.values().filter_map(|name| name.clone().ok()).collect();
    let alike = |name: &String| wanted.iter().filter(|other| *other == name).count() > 1;
    let named = |(tool, name): (String, Result<String, ToolNameError>)| {
        let name = name.map(|name| {
            let changed = name != tool;
            let fits = name.len() <= room;
            let name = if fits && !(changed && alike(&name)) {
                name
            } else {
                let sum = Sha256::digest(tool.as_bytes());
                let mark = data_encoding::HEXLOWER.encode(sum.get(..4).unwrap_or_default());
                let kept: String = name.chars().take(room.saturating_sub(9)).collect();
                format!("{kept}_{mark}")
            };
            server_tool(server, &name)
        });
        let name = name.and_then(|name| ToolName::new(name).map_err(|_| ToolNameError::Long));
        (tool, name)
    };
    found.into_iter().map(named).collect()
}

fn plain(tool: &str) -> Result<String, ToolNameError> {
    if tool.is_empty() {
        return Err(ToolNameError::Empty);
    }
    if tool.len() > 256 {
        return Err(ToolNameError::Long);
    }
    // What a question would have to escape cannot be told apart by a person.
    if deputize_core::sanitize::for_question(tool) != tool || tool.contains('\n') {
        return Err(ToolNameError::Unseen);
    }
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !tool.chars().any(|c| c.is_ascii_alphanumeric()) {
        return Err(ToolNameError::Marks);
    }
    Ok(tool.chars().map(|c| if safe(c) { c } else { '_' }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(server: &str, tools: &[&str]) -> Vec<String> {
        let names = names(server, tools.iter().copied());
        let text = |name: &Result<ToolName, ToolNameError>| match name {
            Ok(name) => name.to_string(),
            Err(why) => why.to_string(),
        };
        tools.iter().map(|tool| text(&names[*tool])).collect()
    }

    #[test]
    fn a_plain_name_stays() {
        assert_eq!(named("git", &["log", "a-b"]), ["mcp__git__log", "mcp__git__a-b"]);
        assert_eq!(toolset("git").unwrap().as_str(), "mcp-git");
        for bad in ["", "a b", "ü", &"x".repeat(SERVER_CHARS + 1)] {
            assert_eq!(server_name(bad), Err(ServerNameError::Form), "{bad}");
        }
    }

    #[test]
    fn names_that_would_be_alike_are_distinguished_and_the_plain_one_stays() {
        let found = named("s", &["a_b", "a.b", "a/b", "c.d"]);
        assert_eq!((&*found[0], &*found[3]), ("mcp__s__a_b", "mcp__s__c_d"));
        assert!(found[1].starts_with("mcp__s__a_b_") && found[2].starts_with("mcp__s__a_b_"));
        assert_ne!(found[1], found[2]);
    }

    #[test]
    fn no_tool_of_a_server_has_the_name_of_another_servers() {
        for (one, two) in [(("a", "b__echo"), ("a__b", "echo")), (("a", "_b"), ("a_", "b"))] {
            assert_eq!(named(one.0, &[one.1]), named(two.0, &[two.1]));
            assert_eq!((server_name(one.0), toolset(two.0)), (Ok(()), None));
            assert_eq!(server_name(two.0), Err(ServerNameError::Marks));
        }
        assert_eq!(server_name("_a_b-c"), Ok(()));
    }

    #[test]
    fn a_long_name_is_cut_and_marked() {
        let one = format!("{}1", "x".repeat(80));
        let two = format!("{}2", "x".repeat(80));
        let found = named(&"s".repeat(SERVER_CHARS), &[&one, &two]);
        assert!(found.iter().all(|name| name.len() == 64), "{found:?}");
        assert_ne!(found[0], found[1]);
    }

    #[test]
    fn what_cannot_be_seen_has_no_name() {
        let found = named("s", &["", "a\u{1b}[2K", "a\u{200b}b", "a\nb", "__", "ünï"]);
        assert_eq!(found[0], "its name is empty");
        let unseen = "its name has characters that cannot be seen";
        assert_eq!(found[1..4], [unseen, unseen, unseen]);
        assert_eq!(found[4..], ["its name has no letter and no digit", "mcp__s___n_"]);
    }
}
