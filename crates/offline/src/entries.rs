//! Where programs and libraries begin.

use super::figures::Figures;
use super::inventory::Inventory;
use super::language::file_name;
use super::manifest::{Package, Tool};
use super::part::{Part, part_of};
use super::paths::{join, parent};
use super::wording::count;

mod python;

/// Starting points beside those of packages that are named.
const SCRIPTS: usize = 4;

/// Where something begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// `program` or `library`, and its name.
    pub(super) what: String,
    /// Its place; empty where no file is known.
    pub(super) at: String,
}

/// Returns where the programs and libraries of a project begin.
pub(super) fn entries(
    packages: &[Package],
    inventory: &Inventory,
    figures: &Figures,
) -> Vec<Entry> {
    let mut libraries = Vec::new();
    let mut programs = Vec::new();
    let own = packages.iter().filter(|package| part_of(&package.path) == Part::Main);
    let mut owners = 0;
    for package in own {
        let before = libraries.len();
        match package.tool {
            Tool::Cargo => cargo(package, inventory, figures, &mut libraries, &mut programs),
            Tool::Npm => npm(package, packages, inventory, &mut libraries, &mut programs),
            Tool::CMake => add_built(package, figures, &mut programs),
            Tool::Python => {
                libraries.extend(python::libraries(package, packages, inventory));
                programs.extend(python::programs(package, inventory));
            }
            _ => programs.extend(python::programs(package, inventory)),
        }
        owners += usize::from(libraries.len() > before);
    }
    from_sources(packages, inventory, figures, &mut programs);
    let many = libraries.len();
    if many > 3 && owners > 1 {
        let place = if many == owners {
            "one in each package".to_owned()
        } else {
            format!("in {owners} packages")
        };
        libraries = vec![Entry { what: format!("{many} libraries, {place}"), at: String::new() }];
    }
    let mut out = libraries;
    out.extend(programs);
    out
}

fn entry(kind: &str, name: &str, at: String) -> Entry {
    let what = if name.is_empty() { kind.to_owned() } else { format!("{kind} `{name}`") };
    Entry { what, at }
}

/// Returns the place of `main` in a file, if it was parsed.
fn place_text(figures: &Figures, path: &str) -> String {
    match figures.mains.iter().find(|main| main.path == path) {
        Some(main) => format!("{path}:{}", main.line),
        None => path.to_owned(),
    }
}

fn cargo(
    package: &Package,
    inventory: &Inventory,
    figures: &Figures,
    libraries: &mut Vec<Entry>,
    programs: &mut Vec<Entry>,
) {
    if package.name.is_empty() {
        return;
    }
    let folder = package.folder();
    let library = if package.targets.library.is_empty() {
        join(folder, "src/lib.rs")
    } else {
        package.targets.library.clone()
    };
    if inventory.has(&library) {
        let named = &package.targets.library_name;
        let name = if named.is_empty() { &package.name } else { named };
        libraries.push(entry("library", &name.replace('-', "_"), library));
    }
    let main = join(folder, "src/main.rs");
    let mut seen = Vec::new();
    for program in &package.targets.programs {
        let usual = [
            program.at.clone(),
            join(folder, &format!("src/bin/{}.rs", program.name)),
            join(folder, &format!("src/bin/{}/main.rs", program.name)),
            main.clone(),
        ];
        let at = usual.into_iter().find(|path| inventory.has(path)).unwrap_or_default();
        // Some declare their examples and benchmarks as programs.
        if part_of(&at) != Part::Main {
            continue;
        }
        programs.push(entry("program", &program.name, place_text(figures, &at)));
        seen.push(at);
    }
    if inventory.has(&main) && !seen.contains(&main) {
        programs.push(entry("program", &package.name, place_text(figures, &main)));
    }
    let bin = join(folder, "src/bin");
    for file in inventory.below(&bin) {
        let rest = file.path.strip_prefix(&join(&bin, "")).unwrap_or_default();
        let name = match rest.split_once('/') {
            None => rest.strip_suffix(".rs"),
            Some((name, "main.rs")) => Some(name),
            Some(_) => None,
        };
        if let Some(name) = name.filter(|_| !seen.contains(&file.path)) {
            programs.push(entry("program", name, place_text(figures, &file.path)));
        }
    }
}

/// Whether a package that a registry takes has another one in its folder.
fn holds(package: &Package, other: &Package) -> bool {
    let folder = package.folder();
    let below = other.folder();
    let within = folder.is_empty() || below.starts_with(&join(folder, ""));
    package.tool == Tool::Npm && !package.private && within && folder != below
}

fn npm(
    package: &Package,
    packages: &[Package],
    inventory: &Inventory,
    libraries: &mut Vec<Entry>,
    programs: &mut Vec<Entry>,
) {
    let built = |path: &str| match node_file(inventory, path) {
        Some(file) => file,
        None if path.is_empty() => String::new(),
        None => format!("{path}` (built)"),
    };
    for program in &package.targets.programs {
        programs.push(entry("program", &program.name, built(&program.at)));
    }
    let published = !package.private && !package.version.is_empty();
    let nested = !published && packages.iter().any(|above| holds(above, package));
    if nested || package.private && packages.iter().any(Package::is_published) {
        return;
    }
    let kind = if package.private { "private package" } else { "library" };
    let index = join(package.folder(), "index.js");
    if !package.targets.library.is_empty() {
        libraries.push(entry(kind, &package.name, built(&package.targets.library)));
    } else if inventory.has(&index) && !package.name.is_empty() {
        libraries.push(entry(kind, &package.name, index));
    }
}

/// Returns the file that Node loads for a path: the file itself, or one whose ending the path
/// leaves out. Of a package that is not compiled yet it is the source.
fn node_file(inventory: &Inventory, path: &str) -> Option<String> {
    let ends = ["", ".js", ".json", ".node", "/index.js", "/index.json", "/index.node"];
    let sources = [".ts", ".tsx", ".mts", ".cts", "/index.ts", "/index.tsx"];
    let mut files = ends.iter().chain(&sources).map(|end| format!("{path}{end}"));
    files.find(|file| inventory.has(file))
}

/// Programs that a build file makes of sources.
fn add_built(package: &Package, figures: &Figures, programs: &mut Vec<Entry>) {
    for program in &package.targets.programs {
        let mut sources = program.at.split_whitespace().map(|path| join(package.folder(), path));
        let main = sources.find_map(|path| figures.mains.iter().find(|main| main.path == path));
        if let Some(main) = main {
            programs.push(entry("program", &program.name, format!("{}:{}", main.path, main.line)));
        }
    }
}

/// Programs that only their sources show: `package main` in Go, `main` in C and Java, modules of
/// Python that can be run.
fn from_sources(
    packages: &[Package],
    inventory: &Inventory,
    figures: &Figures,
    programs: &mut Vec<Entry>,
) {
    for file in &inventory.files {
        if file_name(&file.path) == "__main__.py" && part_of(&file.path) == Part::Main {
            let module = parent(&file.path).trim_start_matches("src/").replace('/', ".");
            programs.push(entry("`python -m` module", &module, file.path.clone()));
        }
    }
    let mut scripts = 0;
    for main in &figures.mains {
        let name = file_name(&main.path);
        let at = format!("{}:{}", main.path, main.line);
        let known = programs.iter().any(|entry| entry.at == at || entry.at == main.path);
        if known || name.ends_with(".rs") || name == "__main__.py" {
            continue;
        }
        if name.ends_with(".py") {
            scripts += 1;
            if scripts <= SCRIPTS {
                programs.push(entry("script", "", at));
            }
        } else if name.ends_with(".go") {
            programs.push(entry("program", go_program(packages, parent(&main.path)), at));
        } else {
            let stem = name.split('.').next().unwrap_or_default();
            programs.push(entry("program", stem, at));
        }
    }
    if scripts > SCRIPTS {
        let what = count((scripts - SCRIPTS) as u64, "more script");
        programs.push(Entry { what, at: String::new() });
    }
}

/// Returns the name of the program that Go builds from a folder: that of the module where it lies
/// there, without the version of its path, and else that of the folder.
fn go_program<'a>(packages: &'a [Package], folder: &'a str) -> &'a str {
    let is_module = |package: &&Package| package.tool == Tool::Go && package.folder() == folder;
    let Some(module) = packages.iter().find(is_module) else { return file_name(folder) };
    let name = module.name.as_str();
    let is_version = |word: &str| {
        word.strip_prefix('v').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
    };
    match name.rsplit_once('/') {
        Some((rest, last)) if is_version(last) => file_name(rest),
        _ => file_name(name),
    }
}
