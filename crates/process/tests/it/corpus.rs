//! The trees of `tests/fixtures/process-trees`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use deputize_requirements::{check, program, root};

use crate::process_table::Mode;

/// One tree.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) script: String,
    /// Processes that must sleep before it is ended.
    pub(crate) sleeps: usize,
    /// Its processes are too short-lived to be counted.
    pub(crate) hops: bool,
}

/// The trees that this machine can run, those that hop at the end.
pub(crate) fn fixtures(mode: Mode) -> Vec<Fixture> {
    let mut found = Vec::new();
    let mut left_out = BTreeMap::new();
    for (name, text) in texts() {
        let head = |key: &str| {
            let lines = text.lines().take_while(|line| line.starts_with('#'));
            let mut values = lines.filter_map(|line| line.strip_prefix("# ")?.strip_prefix(key));
            values.next().map(|value| value.trim_start_matches(':').trim().to_owned())
        };
        let hops = head("hops");
        let needs_namespace = hops.as_deref() == Some("namespace");
        let needs = head("needs").into_iter().chain(needs_namespace.then(|| "root".to_owned()));
        if let Some(missing) = needs.into_iter().find(|what| !is_there(what)) {
            left_out.insert(name, missing);
        } else if needs_namespace && mode != Mode::Namespace {
            left_out.insert(name, "namespace".to_owned());
        } else {
            let sleeps = head("sleeps").unwrap().parse().unwrap();
            found.push(Fixture { name, script: text.clone(), sleeps, hops: hops.is_some() });
        }
    }
    for (name, missing) in &left_out {
        // A tree for namespaces is left out on purpose where there are none.
        if missing != "namespace" {
            let test = format!("deputize_process, the tree {name}");
            check(&test, need(missing));
        }
    }
    is_expected(mode, &left_out);
    found.sort_by(|a, b| (a.hops, &a.name).cmp(&(b.hops, &b.name)));
    found
}

/// Names and texts of all trees.
fn texts() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/process-trees");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|ending| ending == "sh"));
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    scripts.map(|path| (name(&path), fs::read_to_string(path).unwrap())).collect()
}

/// Checks that no tree is left out, except those that need another user, a namespace, or one of
/// three programs.
fn is_expected(mode: Mode, left_out: &BTreeMap<String, String>) {
    let may_be = |(name, missing): (&String, &String)| match missing.as_str() {
        "root" => ["another-user", "namespace-inside", "hops-many"].contains(&&**name),
        "namespace" => mode != Mode::Namespace && name == "hops-many",
        "python3" | "perl" | "script" => !is_there(missing),
        _ => false,
    };
    assert!(left_out.iter().all(may_be), "{mode:?}: {left_out:?}");
    // An administrator's machine with the three programs leaves out what only the kernel holds.
    if ["root", "python3", "perl", "script"].into_iter().all(is_there) {
        let expected = usize::from(mode != Mode::Namespace);
        assert_eq!(left_out.len(), expected, "{mode:?}: {left_out:?}");
    }
}

fn is_there(what: &str) -> bool {
    need(what).is_ok()
}

fn need(what: &str) -> Result<(), String> {
    if what == "root" { root() } else { program(what) }
}
