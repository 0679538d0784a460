//! Which manifests a directory has. A search does not show those that an ignore file hides, so
//! the folders that may be packages are listed as well.

use std::collections::BTreeSet;

use serde_json::json;

use super::{BYTES, NAMES, READ, TOP_ONLY};
use crate::conversation::{Ask, TurnCall};
use crate::inventory::Inventory;
use crate::language::{LOCKS, file_name};
use crate::licence::is_licence;
use crate::part::{Part, part_of};
use crate::paths::{join, parent};
use crate::wording::count;

/// Folders that are listed, those nearest to the top first, and levels below it.
const FOLDERS: usize = 40;
const LEVELS: usize = 3;

/// Folders of sources, in which a package hardly begins.
const SOURCES: [&str; 2] = ["src", "lib"];

/// Manifests that a directory has.
#[derive(Debug, Default)]
pub(super) struct ManifestPaths {
    /// Their paths, those nearest to the top first.
    pub(super) paths: Vec<String>,
    /// Parts that were not read, and why.
    pub(super) gaps: Vec<String>,
}

/// Returns the paths of the manifests of a directory; what is missing is asked for.
pub(super) fn manifest_paths(
    ask: &mut Ask<'_, '_>,
    inventory: &Inventory,
    root: &str,
) -> ManifestPaths {
    let top = if root == "." { "" } else { root };
    let files = inventory.files.iter().map(|file| (file.path.as_str(), file.bytes));
    let found = files.filter(|(path, bytes)| is_manifest(path, *bytes, top));
    let mut paths: BTreeSet<String> = found.map(|(path, _)| path.to_owned()).collect();
    let mut folders = package_folders(inventory, top, &paths);
    let left = folders.split_off(folders.len().min(FOLDERS)).len() as u64;
    for folder in folders {
        let path = if folder.is_empty() { "." } else { &folder };
        let listed = ask.call("list_dir", json!({"path": path, "depth": 1, "hidden": true}));
        for line in listed.and_then(TurnCall::ok).unwrap_or_default().lines() {
            let Some((name, bytes)) = line.rsplit_once('\t') else { continue };
            let path = join(&folder, name);
            if bytes.parse().is_ok_and(|bytes| is_manifest(&path, bytes, top)) {
                paths.insert(path);
            }
        }
    }
    let mut paths: Vec<String> = paths.into_iter().collect();
    paths.sort_by_key(|path| path.matches('/').count());
    paths.truncate(READ);
    let gap =
        || format!("manifests that an ignore file hides: {} not listed", count(left, "folder"));
    ManifestPaths { paths, gaps: (left > 0).then(gap).into_iter().collect() }
}

/// Whether a file is a manifest that says something of a directory.
fn is_manifest(path: &str, bytes: u64, top: &str) -> bool {
    let name = file_name(path);
    let at_top = parent(path) == top;
    let says = at_top || !TOP_ONLY.contains(&name) && part_of(path) == Part::Main;
    NAMES.contains(&name) && bytes <= BYTES && says
}

/// Returns the folders that may be packages though no manifest of theirs is known, those nearest
/// to the top first: the top, folders beside packages, and folders whose files are those of one.
fn package_folders(inventory: &Inventory, top: &str, known: &BTreeSet<String>) -> Vec<String> {
    let packages: BTreeSet<&str> = known.iter().map(|path| parent(path)).collect();
    let beside: BTreeSet<&str> =
        packages.iter().filter(|folder| **folder != top).map(|folder| parent(folder)).collect();
    let mut folders = BTreeSet::new();
    for file in inventory.files.iter().filter(|file| file.part() != Part::Foreign) {
        let mut path = file.path.as_str();
        let mut below = false;
        while parent(path) != top && !parent(path).is_empty() {
            let folder = parent(path);
            let marked = marks_package(path, below) || beside.contains(parent(folder));
            if marked && !packages.contains(folder) && is_place_of_package(folder, top) {
                folders.insert(folder.to_owned());
            }
            path = folder;
            below = true;
        }
    }
    let mut folders: Vec<String> = folders.into_iter().collect();
    folders.sort_by_key(|folder| folder.matches('/').count());
    folders.insert(0, top.to_owned());
    folders
}

/// Returns whether an entry of a folder shows that the folder may be a package. `below` means that
/// the entry is a folder itself.
fn marks_package(path: &str, below: bool) -> bool {
    let name = file_name(path);
    if below {
        return SOURCES.contains(&name);
    }
    let stem = name.split('.').next().unwrap_or_default();
    matches!(stem, "README" | "readme" | "index" | "tsconfig" | "jsr" | "deno")
        || matches!(name, "main.go" | "build.rs" | "MANIFEST.in" | "tox.ini")
        || is_licence(name)
        || LOCKS.contains(&name)
}

/// Whether a package may begin in a folder, by its path.
fn is_place_of_package(folder: &str, top: &str) -> bool {
    let below = folder.strip_prefix(&join(top, "")).unwrap_or(folder);
    let mut names = below.split('/');
    names.clone().count() <= LEVELS
        && !names.any(|name| SOURCES.contains(&name))
        && part_of(&join(folder, "package.json")) == Part::Main
}
