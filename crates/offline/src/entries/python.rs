//! Where programs and libraries of Python begin.

use super::{Entry, entry};
use crate::inventory::Inventory;
use crate::language::file_name;
use crate::manifest::{Package, Tool};
use crate::part::{Part, part_of};
use crate::paths::{join, parent};
use crate::wording::{and_more, code};

/// Folders that hold packages and are none themselves.
const BASES: [&str; 3] = ["src", "lib", "python"];
/// Modules of a package that are named where its own file says nothing.
const MODULES: usize = 8;

/// Returns the programs that a manifest names with a function or class.
pub(super) fn programs(package: &Package, inventory: &Inventory) -> Vec<Entry> {
    let of = |program: &crate::manifest::Program| {
        let (module, _) = program.at.split_once(':').unwrap_or((&program.at, ""));
        let path = module.replace('.', "/");
        let files = ["", "src/", "lib/"]
            .iter()
            .flat_map(|base| [format!("{base}{path}.py"), format!("{base}{path}/__init__.py")]);
        let known =
            files.map(|path| join(package.folder(), &path)).find(|path| inventory.has(path));
        entry("program", &program.name, known.unwrap_or_else(|| program.at.clone()))
    };
    package.targets.programs.iter().map(of).collect()
}

/// A package or module that can be imported.
struct Importable<'i> {
    /// Its name, with dots.
    name: String,
    path: &'i str,
    /// The folder in which Python looks for it, as seen from the manifest.
    base: &'i str,
}

/// Returns what a package of Python lets others import: the packages and modules of its name,
/// those beside them in a folder for sources, and without one of its name all of them.
pub(super) fn libraries(
    package: &Package,
    packages: &[Package],
    inventory: &Inventory,
) -> Vec<Entry> {
    if package.name.is_empty() {
        return Vec::new();
    }
    let all = importable(package, packages, inventory);
    let own = plain(&package.name);
    let is_own = |it: &Importable<'_>| plain(&it.name) == own;
    let bases: Vec<&str> = all.iter().filter(|it| is_own(it)).map(|it| it.base).collect();
    let is_public = |it: &&Importable<'_>| !it.name.starts_with('_');
    let chosen = |it: &&Importable<'_>| {
        let beside = !it.base.is_empty() && bases.contains(&it.base) && is_package(it.path);
        is_own(it) || beside || bases.is_empty() && is_package(it.path)
    };
    let chosen = all.iter().filter(is_public).filter(chosen);
    chosen
        .map(|it| {
            let modules = modules_of_empty(it, inventory);
            let name = format!("library {}{modules}", code(&it.name));
            Entry { what: name, at: it.path.to_owned() }
        })
        .collect()
}

fn is_package(path: &str) -> bool {
    file_name(path) == "__init__.py"
}

/// Returns a name in the form in which names of distributions and of packages are compared.
fn plain(name: &str) -> String {
    name.replace(['-', '.'], "_").to_lowercase()
}

fn importable<'i>(
    package: &Package,
    packages: &[Package],
    inventory: &'i Inventory,
) -> Vec<Importable<'i>> {
    let folder = package.folder();
    let others = packages.iter().filter(|other| other.tool == Tool::Python);
    let others: Vec<&str> = others.map(Package::folder).filter(|other| *other != folder).collect();
    let mut out = Vec::new();
    for file in inventory.below(if folder.is_empty() { "." } else { folder }) {
        let path = file.path.as_str();
        let foreign = others.iter().any(|other| path.starts_with(&join(other, "")));
        let within = others.iter().any(|other| folder.starts_with(&join(other, "")));
        if !path.ends_with(".py") || part_of(path) != Part::Main || foreign && !within {
            continue;
        }
        let stem = path.strip_suffix(".py").unwrap_or(path);
        let stem = if is_package(path) { parent(path) } else { stem };
        let rest = stem.strip_prefix(&join(folder, "")).unwrap_or(stem);
        let base = BASES.into_iter().find(|base| rest.starts_with(&join(base, "")));
        let rest = base.and_then(|base| rest.strip_prefix(&join(base, ""))).unwrap_or(rest);
        // What lies in a package is imported as part of it.
        let inner = inventory.has(&join(parent(stem), "__init__.py"));
        let single = !is_package(path) && rest.contains('/');
        if !rest.is_empty() && stem != folder && !inner && !single {
            let name = rest.replace('/', ".");
            out.push(Importable { name, path, base: base.unwrap_or_default() });
        }
    }
    out
}

/// Returns the public modules of a package whose own file is empty, in brackets.
fn modules_of_empty(importable: &Importable<'_>, inventory: &Inventory) -> String {
    let empty = inventory.get(importable.path).is_some_and(|file| file.bytes == 0);
    if !empty || !is_package(importable.path) {
        return String::new();
    }
    let folder = parent(importable.path);
    let module = |path: &str| {
        let rest = path.strip_prefix(&join(folder, ""))?.strip_suffix(".py")?;
        let name = rest.strip_suffix("/__init__").unwrap_or(rest);
        let public = !name.starts_with('_') && !name.contains('/');
        (public && part_of(path) == Part::Main).then(|| code(name))
    };
    let modules: Vec<String> =
        inventory.below(folder).filter_map(|file| module(&file.path)).collect();
    match modules.len() {
        0 => String::new(),
        _ => format!(" with {}", and_more(modules, MODULES)),
    }
}
