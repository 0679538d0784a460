//! What the rules say of a path.

use std::path::{Component, Path, PathBuf};

use deputize_core::Authority;
use deputize_core::protected_path::instruction_file;

use super::decision::Decision;
use crate::args::FileAccess;

/// Decides whether a file tool of an agent in `cwd` may read or write a path.
pub(super) fn decide(authority: &Authority, cwd: &Path, path: &Path, op: FileAccess) -> Decision {
    let denial = denial(authority, cwd, path, op);
    let (got, rule, reason) = match denial {
        None => {
            ("allow", "none", "it lies under a directory that the agent was granted".to_owned())
        }
        Some((rule, reason)) => ("deny", rule, reason),
    };
    Decision { field: "decision", got, rule, reason }
}

fn denial(
    authority: &Authority,
    cwd: &Path,
    path: &Path,
    op: FileAccess,
) -> Option<(&'static str, String)> {
    let lexical = without_dots(&cwd.join(path));
    let is_granted = |path: &Path| match op {
        FileAccess::Read => authority.may_read(path),
        FileAccess::Write => authority.write_roots().iter().any(|root| path.starts_with(root)),
    };
    if !is_granted(&lexical) {
        return Some(("outside-workspace", format!("outside the workspace: {}", path.display())));
    }
    let Some(real) = without_links(&lexical) else {
        return Some(("link", format!("a link leads nowhere: {}", path.display())));
    };
    if !is_granted(&real) && !real_roots(authority, op).iter().any(|root| real.starts_with(root)) {
        return Some(("link", format!("symlink leaves the workspace: {}", path.display())));
    }
    if let Ok(metadata) = real.metadata()
        && !metadata.is_file()
        && !metadata.is_dir()
    {
        return Some(("special-file", format!("not a regular file: {}", path.display())));
    }
    if op == FileAccess::Read {
        return None;
    }
    let protected = [&lexical, &real].into_iter().find_map(|it| authority.protects(it));
    if let Some(protected) = protected {
        return Some(("protected-path", protected.rule()));
    }
    let instructions = [&lexical, &real].into_iter().find_map(|it| instruction_file(it));
    instructions.map(|name| {
        let reason = format!("`{name}` is what later sessions obey: a person must agree");
        ("write-instructions", reason)
    })
}

fn real_roots(authority: &Authority, op: FileAccess) -> Vec<PathBuf> {
    let roots = match op {
        FileAccess::Read => authority.read_roots(),
        FileAccess::Write => authority.write_roots(),
    };
    roots.iter().filter_map(|root| root.canonicalize().ok()).collect()
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Returns a path without links, as far as it exists; `None` if a link on it leads nowhere.
fn without_links(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let (parent, name) = (path.parent()?, path.file_name()?);
    without_links(parent).map(|parent| parent.join(name))
}
