//! Who may depend on whom (invariant I2), and that no file of this test binary is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::semver::VersionReq;
use cargo_metadata::{Dependency, DependencyKind, MetadataCommand, Package};

/// Packages that nothing depends on and that may depend on everything.
const OURS_ALONE: [&str; 3] = ["deputize-bench", "deputize-examples", "deputize-tests"];

/// Crates that do IO, and so are not for `core` (invariant I1). Tokio's `sync` half, which
/// comes with the cancellation token, does none.
const DOES_IO: [&str; 9] =
    ["tokio", "reqwest", "rustix", "libc", "tempfile", "ignore", "cap-std", "jiff", "fastrand"];

fn packages() -> BTreeMap<String, Package> {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    metadata.packages.into_iter().map(|package| (package.name.to_string(), package)).collect()
}

fn normal_dependencies(package: &Package) -> BTreeSet<&str> {
    let normal = package.dependencies.iter().filter(|dep| dep.kind == DependencyKind::Normal);
    normal.map(|dep| dep.name.as_str()).collect()
}

/// Returns the arrows in the block of ARCHITECTURE.md: the folder of a crate, and those of the crates
/// that it builds on. A folder below `crates` stands there by its name.
fn arrows(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let (_, block) = page.split_once("## Dependencies between crates\n\n```text\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let statements = block.lines().flat_map(|line| line.split("     "));
    for statement in statements.filter(|it| !it.trim().is_empty()) {
        let (users, used) = statement.split_once("──▶").expect(statement);
        let used = used.replace("(by feature)", "").replace(',', "");
        let used: BTreeSet<&str> = match used.trim() {
            "nothing of ours" => BTreeSet::new(),
            used => used.split_whitespace().collect(),
        };
        for user in users.split_whitespace() {
            arrows
                .entry(user.to_owned())
                .or_default()
                .extend(used.iter().map(|it| (*it).to_owned()));
        }
    }
    arrows
}

#[test]
fn the_arrows_of_the_architecture_are_read() {
    let page = "## Dependencies between crates\n\n```text\na b ──▶ c     a ──▶ d (by feature)\nc ──▶ nothing of ours\n```\n";
    let found: Vec<String> =
        arrows(page).iter().map(|(user, used)| format!("{user}: {used:?}")).collect();
    assert_eq!(found, [r#"a: {"c", "d"}"#, r#"b: {"c"}"#, "c: {}"]);
}

#[test]
fn crates_depend_on_each_other_only_as_the_architecture_says() {
    let packages = packages();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let written = arrows(&std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap());
    let folder = |package: &Package| {
        let folder = package.manifest_path.parent().unwrap().strip_prefix(root).unwrap();
        folder.strip_prefix("crates").unwrap_or(folder).to_string()
    };
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, package) in &packages {
        if !OURS_ALONE.contains(&name.as_str()) {
            let used = normal_dependencies(package);
            let ours = used.into_iter().filter_map(|dep| packages.get(dep));
            found.insert(folder(package), ours.map(folder).collect());
        }
    }
    assert_eq!(found, written, "the crates, and the block of ARCHITECTURE.md");
}

/// Returns the crates of ours that a registry must have before a package: those that it builds on,
/// and those that its tests name with a version.
fn published_before<'p>(
    package: &'p Package,
    ours: &BTreeMap<String, Package>,
) -> BTreeSet<&'p str> {
    let counts =
        |dep: &&Dependency| dep.kind != DependencyKind::Development || dep.req != VersionReq::STAR;
    let ours = |name: &&str| ours.contains_key(*name);
    package.dependencies.iter().filter(counts).map(|dep| dep.name.as_str()).filter(ours).collect()
}

#[test]
fn published_crates_have_an_order_and_say_what_they_are() {
    let packages = packages();
    let mut left: BTreeMap<&str, &Package> = packages
        .iter()
        .filter(|(_, package)| package.publish.is_none())
        .map(|(name, package)| (name.as_str(), package))
        .collect();
    assert!(left.contains_key("deputize-core") && !left.contains_key("deputize-tests"));
    for (name, package) in &left {
        let actual = [&package.description, &package.license];
        assert!(actual.into_iter().all(Option::is_some) && package.readme.is_some(), "{name}");
    }
    let mut published = BTreeSet::new();
    loop {
        let next =
            left.iter().find(|(_, it)| published_before(it, &packages).is_subset(&published));
        let Some(name) = next.map(|(name, _)| *name) else { break };
        published.insert(name);
        left.remove(name);
    }
    assert!(
        left.is_empty(),
        "these wait for each other, or for one that is not published: {:?}",
        left.keys()
    );
}

/// Returns how many crates `deputize-agent` is built from with these features.
fn crates_of_an_agent(features: &[&str]) -> usize {
    let mut tree = std::process::Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--locked", "-p", "deputize-agent", "-e", "normal,build"])
        .args(["--prefix", "none"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches(" (*)")).collect::<BTreeSet<_>>().len()
}

#[test]
fn what_an_embedder_compiles_is_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/embedding.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (row, features) in [
        ("none", &["--no-default-features"][..]),
        ("`http` (on", &["--no-default-features", "--features", "http"]),
        ("`http` and `tools`", &[]),
        ("the same with `web`", &["--features", "web"]),
        ("the same with `browser`", &["--features", "browser"]),
        ("the same with `session-search`", &["--features", "session-search"]),
        ("the same with `mcp`", &["--features", "mcp"]),
        ("the same with `mcp-oauth`", &["--features", "mcp-oauth"]),
        ("the same with `cron`", &["--features", "cron"]),
        ("the same with `plugins`", &["--features", "plugins"]),
        ("the same with `acp`", &["--features", "acp"]),
    ] {
        let start = format!("| {row}");
        let line = page.lines().find(|line| line.starts_with(&start)).expect(row);
        let written = line.trim_end_matches([' ', '|']).rsplit(' ').next();
        let counted = crates_of_an_agent(features);
        assert_eq!(written, Some(counted.to_string().as_str()), "{line}");
    }
}

#[test]
fn core_does_no_io() {
    let packages = packages();
    let used = normal_dependencies(&packages["deputize-core"]);
    let wrong: Vec<_> = used.iter().filter(|dep| DOES_IO.contains(*dep)).collect();
    assert!(wrong.is_empty(), "core must not depend on {wrong:?}");

    // Imports in braces would hide a module; `std::io::Error` is only the type of an error.
    let forbidden = [
        "std::{",
        "std::fs",
        "std::io",
        "std::net",
        "std::process",
        "std::thread",
        "std::env",
        "SystemTime",
        "Instant",
        "println!",
    ];
    for (path, text) in sources(&packages["deputize-core"]) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code: String =
            code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.replace("std::io::Error", "");
        let found: Vec<_> = forbidden.iter().filter(|word| code.contains(**word)).collect();
        assert!(found.is_empty(), "{path} uses {found:?}");
    }
}

fn sources(package: &Package) -> Vec<(String, String)> {
    let root = package.manifest_path.parent().unwrap().join("src");
    let mut folders = vec![root.into_std_path_buf()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.display().to_string(), text));
            }
        }
    }
    files
}

#[test]
fn every_crate_takes_its_lints_versions_and_licence_from_the_workspace() {
    for (name, package) in packages() {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} has lints of its own");
        assert!(manifest.contains("license.workspace = true"), "{name} has a licence of its own");
        // No registries: it is published nowhere.
        let published = package.publish.as_ref().is_none_or(|where_to| !where_to.is_empty());
        let readme = manifest.contains("readme.workspace = true");
        assert_eq!(readme, published, "{name}: a registry shows its readme");
        let own = manifest
            .lines()
            .filter(|line| line.contains("version = \"") && !line.contains("workspace"));
        assert_eq!(own.collect::<Vec<_>>(), Vec::<&str>::new(), "{name} names versions itself");
    }
}

#[test]
fn unsafe_code_is_only_in_the_process_crate_and_the_plugin_boundary() {
    for (name, package) in packages() {
        if ["deputize-process", "deputize-plugin", "deputize-plugin-host", "deputize-tests"]
            .contains(&name.as_str())
        {
            continue;
        }
        for (path, text) in sources(&package) {
            // The workspace denies unsafe code; only these words lift that.
            let lifts = ["expect(unsafe_code", "allow(unsafe_code"];
            assert!(!lifts.iter().any(|word| text.contains(word)), "{path} has unsafe code");
        }
    }
}

#[test]
fn no_hash_order_and_no_linker_order() {
    for (name, package) in packages() {
        if name == "deputize-tests" {
            continue;
        }
        for (path, text) in sources(&package) {
            if path.ends_with("mcp/src/http.rs") {
                // What the library of MCP hands its headers over in; no order of it is seen.
                continue;
            }
            let hashed = ["HashMap", "HashSet"].iter().any(|word| text.contains(word));
            assert!(!hashed, "{path} has a collection without an order");
        }
    }
    // What the linker brought comes out by name, and so do the toolsets.
    let catalog = deputize_core::Catalog::linked(&[deputize_tools::LINK]).unwrap();
    let names: Vec<_> = catalog.iter().map(|entry| entry.name().as_str().to_owned()).collect();
    assert!(names.is_sorted() && names.len() > 1, "{names:?}");
}

#[test]
fn no_test_file_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("it");
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.extension().is_some_and(|ending| ending == "rs") && name != "main" {
            assert!(main.contains(&format!("mod {name};")), "tests/it/main.rs lacks `mod {name};`");
        }
    }
}

/// The front page of `core` has a table of its modules.
#[test]
fn the_front_page_of_core_has_a_row_for_each_public_module() {
    let page = std::fs::read_to_string("../crates/core/src/lib.rs").unwrap();
    let modules = page.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let table: Vec<&str> = page.lines().filter(|line| line.starts_with("//! | [`")).collect();
    let is_missing = |module: &&str| {
        let links = [format!("[`{module}`]"), format!("[`mod@{module}`]")];
        !table.iter().any(|row| links.iter().any(|link| row.contains(link)))
    };
    assert_eq!(modules.filter(is_missing).collect::<Vec<_>>(), [""; 0]);
}
