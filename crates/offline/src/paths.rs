//! Paths in a project, and places in its files.

use serde::{Deserialize, Serialize};

/// A file and a line in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) path: String,
    pub(super) line: u64,
}

/// Returns the folder of a path, empty for the top.
pub(super) fn parent(path: &str) -> &str {
    path.trim_end_matches('/').rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Joins a folder, empty for the top, and a path below it.
pub(super) fn join(folder: &str, path: &str) -> String {
    if folder.is_empty() || folder == "." {
        return path.to_owned();
    }
    if path.is_empty() { format!("{folder}/") } else { format!("{folder}/{path}") }
}

/// Resolves `.` and `..` in a path. `None` for what leads out of its first folder. Where the
/// directory that is looked at is above or elsewhere, its paths begin with `..` or `/`.
pub(super) fn normal(path: &str) -> Option<String> {
    let mut rest = path.trim_start_matches('/');
    let mut start = if rest.len() < path.len() { "/".to_owned() } else { String::new() };
    while let Some(above) = rest.strip_prefix("../") {
        start.push_str("../");
        rest = above;
    }
    let mut out: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                out.pop()?;
            }
            part => out.push(part),
        }
    }
    Some(format!("{start}{}", out.join("/")))
}
