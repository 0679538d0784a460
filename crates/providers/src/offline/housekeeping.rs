//! What is missing or odd at the top of a project.

use serde_json::json;

use super::conversation::{Ask, Done};
use super::facts::Facts;
use super::language::{self, Class, LOCKS};
use super::scope::under;
use super::wording::count;

/// A file at the top that is larger than this is named.
const LARGE: u64 = 1024 * 1024;

/// Manifests that have a lock file beside them.
const LOCKED: &[(&str, &[&str])] = &[
    ("Cargo.toml", &["Cargo.lock"]),
    (
        "package.json",
        &[
            "package-lock.json",
            "npm-shrinkwrap.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "bun.lock",
            "bun.lockb",
        ],
    ),
    ("Gemfile", &["Gemfile.lock"]),
    ("composer.json", &["composer.lock"]),
];

/// Entries that configure continuous integration.
const CI: &[&str] = &[
    ".gitlab-ci.yml",
    ".travis.yml",
    ".circleci",
    ".cirrus.yml",
    ".ci",
    ".buildkite",
    ".woodpecker.yml",
    ".woodpecker",
    ".drone.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "appveyor.yml",
    ".appveyor.yml",
    "bitbucket-pipelines.yml",
    ".forgejo",
    ".gitea",
];

/// Remarks on the top of a tree; nothing when it does not look like the top of a project.
pub(super) fn remarks(
    ask: &mut Ask<'_, '_>,
    root: &str,
    listing: Option<&Done>,
    facts: &Facts,
) -> Vec<String> {
    let Some(listing) = listing.and_then(Done::ok) else { return Vec::new() };
    let entries = entries(listing);
    let code = facts.languages.keys().any(|name| language::by_name(name).class == Class::Code);
    let has = |name: &str| entries.iter().any(|(entry, _)| *entry == name);
    let project = has(".git")
        || facts
            .packages
            .iter()
            .any(|package| under(root, language::file_name(&package.path)) == package.path);
    if !project {
        return large(&entries);
    }
    let workflows = under(root, ".github/workflows");
    let github = has(".github")
        .then(|| ask.call("list_dir", json!({"path": workflows, "depth": 1, "hidden": true})))
        .flatten()
        .and_then(Done::ok);
    let workflows: Vec<&str> = github.map(workflow_names).unwrap_or_default();
    let mut out = missing(&entries, code);
    if !workflows.is_empty() {
        out.push(format!(
            "continuous integration by {} in `.github/workflows`: {}",
            count(workflows.len() as u64, "workflow"),
            workflows.join(", ")
        ));
    } else if let Some(ci) = CI.iter().find(|name| has(name)) {
        out.push(format!("continuous integration by `{ci}`"));
    } else if code {
        out.push("no configuration of continuous integration that I know".to_owned());
    }
    out.extend(large(&entries));
    out
}

fn missing(entries: &[(&str, u64)], code: bool) -> Vec<String> {
    let starts = |heads: &[&str]| {
        entries
            .iter()
            .any(|(entry, _)| heads.iter().any(|head| entry.to_ascii_lowercase().starts_with(head)))
    };
    let has = |name: &str| entries.iter().any(|(entry, _)| *entry == name);
    let mut out = Vec::new();
    if !starts(&["readme"]) {
        out.push("no README".to_owned());
    }
    if !starts(&["licen", "copying", "unlicen"]) {
        out.push("no licence file".to_owned());
    }
    for (manifest, locks) in LOCKED {
        if has(manifest) && !locks.iter().any(|lock| has(lock)) {
            out.push(format!(
                "no lock file beside `{manifest}` (usual for a library, not for a program)"
            ));
        }
    }
    if code && !has(".gitignore") {
        out.push("no `.gitignore`".to_owned());
    }
    if has(".env") {
        out.push("a file `.env` lies at the top: see that it is not committed".to_owned());
    }
    out
}

fn large(entries: &[(&str, u64)]) -> Vec<String> {
    let large = entries.iter().filter(|(name, bytes)| *bytes > LARGE && !LOCKS.contains(name));
    large.take(5).map(|(name, bytes)| format!("`{name}` is large: {} KiB", bytes / 1024)).collect()
}

fn workflow_names(listing: &str) -> Vec<&str> {
    let names = entries(listing).into_iter().map(|(name, _)| name);
    names.filter(|name| name.ends_with(".yml") || name.ends_with(".yaml")).take(8).collect()
}

/// The entries of a listing of one level, by name, with their bytes.
pub(super) fn entries(listing: &str) -> Vec<(&str, u64)> {
    listing
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let (path, bytes) = line.split_once('\t').unwrap_or((line, "0"));
            let name = language::file_name(path.trim_end_matches('/'));
            (name, bytes.trim().parse().unwrap_or(0))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let bare = entries("src/\nCargo.toml\t120\n.env\t9\n");
        let said = missing(&bare, true).join("; ");
        for part in ["no README", "no licence", "beside `Cargo.toml`", "`.gitignore`", "`.env`"] {
            assert!(said.contains(part), "{said}");
        }
        let full =
            entries("README.md\t1\nLICENSE-MIT\t1\nCargo.toml\t1\nCargo.lock\t1\n.gitignore\t3\n");
        assert_eq!(missing(&full, true), Vec::<String>::new());
        assert_eq!(large(&entries("a.bin\t5242880\n")), ["`a.bin` is large: 5120 KiB"]);
    }
}
