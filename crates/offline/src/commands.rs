//! How a package is built and tested, by its manifest and the files beside it.

use super::inventory::Inventory;
use super::language::file_name;
use super::manifest::{Package, Tool};
use super::part::{Part, part_of};
use super::paths::{join, parent};

/// Commands to build and to test.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Commands {
    pub(super) build: Vec<String>,
    pub(super) test: Vec<String>,
}

/// Folders below the top whose commands are named.
const BELOW: usize = 2;

/// Returns the commands of the packages of a directory: those at its top, and those of other
/// tools below it. `entries` are the names of what lies at the top, also of what is hidden.
pub(super) fn commands(
    packages: &[Package],
    top: &str,
    inventory: &Inventory,
    entries: &[&str],
) -> Commands {
    let mut out = Commands::default();
    let mut tools = Vec::new();
    let at_top = || packages.iter().filter(|package| package.folder() == top);
    // A Makefile beside another tool mostly calls that tool.
    let others = at_top().any(|package| package.tool != Tool::Make);
    let mut mine: Vec<&Package> =
        at_top().filter(|package| package.tool != Tool::Make || !others).collect();
    mine.sort_by_key(|package| package.tool);
    for package in mine {
        if tools.contains(&package.tool) {
            continue;
        }
        tools.push(package.tool);
        let (build, test) = of_package(package, inventory, entries);
        out.build.extend(build);
        out.test.extend(test);
    }
    let mut below = 0;
    for package in packages.iter().filter(|package| package.folder() != top) {
        let own = part_of(&package.path) == Part::Main;
        if !own || tools.contains(&package.tool) || below >= BELOW {
            continue;
        }
        tools.push(package.tool);
        below += 1;
        let beside = inventory.files.iter().filter(|it| parent(&it.path) == package.folder());
        let beside: Vec<&str> = beside.map(|it| file_name(&it.path)).collect();
        let (build, test) = of_package(package, inventory, &beside);
        let there = |command: String| format!("cd {} && {command}", package.folder());
        out.build.extend(build.into_iter().map(there));
        out.test.extend(test.into_iter().map(there));
    }
    out
}

fn of_package(
    package: &Package,
    inventory: &Inventory,
    entries: &[&str],
) -> (Vec<String>, Vec<String>) {
    let has = |name: &str| entries.contains(&name);
    let one = |text: &str| vec![text.to_owned()];
    match package.tool {
        Tool::Cargo => {
            let joins = package.workspace.joins && !package.name.is_empty();
            let all = if joins { " --workspace" } else { "" };
            (vec![format!("cargo build{all}")], vec![format!("cargo test{all}")])
        }
        Tool::Npm => npm(package, entries),
        Tool::Python => (one("python -m pip install ."), python_tests(package, inventory, entries)),
        Tool::Go => (one("go build ./..."), one("go test ./...")),
        Tool::Maven => {
            let maven = if has("mvnw") { "./mvnw" } else { "mvn" };
            (vec![format!("{maven} package")], vec![format!("{maven} test")])
        }
        Tool::Gradle => {
            let gradle = if has("gradlew") { "./gradlew" } else { "gradle" };
            (vec![format!("{gradle} build")], vec![format!("{gradle} test")])
        }
        Tool::CMake => {
            let tests = package.targets.scripts.contains_key("test");
            let test = tests.then(|| "ctest --test-dir build".to_owned());
            (one("cmake -B build && cmake --build build"), test.into_iter().collect())
        }
        Tool::Meson => {
            (one("meson setup build && meson compile -C build"), one("meson test -C build"))
        }
        Tool::Autotools => {
            let made = has("configure");
            let first = if made { "" } else { "autoreconf -i && " };
            (vec![format!("{first}./configure && make")], one("make check"))
        }
        Tool::Make => {
            let test = ["test", "check", "tests"]
                .iter()
                .find(|name| package.targets.scripts.contains_key(**name));
            (one("make"), test.map(|name| format!("make {name}")).into_iter().collect())
        }
    }
}

fn npm(package: &Package, entries: &[&str]) -> (Vec<String>, Vec<String>) {
    let locks = [
        ("pnpm-lock.yaml", "pnpm"),
        ("pnpm-workspace.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("bun.lockb", "bun"),
        ("bun.lock", "bun"),
    ];
    let manager = locks.iter().find(|(lock, _)| entries.contains(lock)).map_or("npm", |(_, m)| m);
    let mut build = vec![format!("{manager} install")];
    if package.targets.scripts.contains_key("build") {
        build.push(format!("{manager} run build"));
    }
    // What `npm init` writes is no test.
    let test =
        package.targets.scripts.get("test").filter(|text| !text.contains("no test specified"));
    let call = if manager == "bun" { "bun run test".to_owned() } else { format!("{manager} test") };
    let test = test.map(|text| {
        if text.is_empty() || text.len() > 80 { call } else { format!("{call} ({text})") }
    });
    (build, test.into_iter().collect())
}

fn python_tests(package: &Package, inventory: &Inventory, entries: &[&str]) -> Vec<String> {
    let has = |name: &str| entries.contains(&name);
    let conftest = inventory.files.iter().any(|file| {
        let folder = package.folder();
        file.path == join(folder, "conftest.py")
            || file.path.ends_with("/conftest.py") && file.path.starts_with(folder)
    });
    let mut out = Vec::new();
    if package.targets.scripts.contains_key("pytest") || has("pytest.ini") || conftest {
        out.push("python -m pytest".to_owned());
    }
    if has("tox.ini") {
        out.push("tox".to_owned());
    }
    if has("noxfile.py") {
        out.push("nox".to_owned());
    }
    out
}
