//! Resolves imports to the files or folders of the project that they name.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::Inventory;
use super::language::file_name;
use super::paths::{join, normal, parent};
use super::syntax::Import;

/// Extensions that an import of JavaScript or TypeScript may leave out. Declarations come last:
/// beside a source they only describe it.
const SCRIPTS: [&str; 11] =
    ["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs", "d.ts", "d.mts", "d.cts"];
/// Extensions of compiled files, and of what each is compiled from.
const COMPILED: [(&str, &[&str]); 4] =
    [("js", &["ts", "tsx"]), ("jsx", &["tsx"]), ("mjs", &["mts"]), ("cjs", &["cts"])];

/// Knowledge of a project that resolves its imports.
#[derive(Debug, Default)]
pub(super) struct Resolver<'i> {
    paths: BTreeSet<&'i str>,
    /// Files by their last component.
    by_name: BTreeMap<&'i str, Vec<&'i str>>,
    /// Import name and source folder of each Rust library.
    crates: BTreeMap<String, String>,
    /// Folders of Cargo packages.
    cargo: BTreeSet<String>,
    /// Module path and folder of each Go module, the longest path first.
    modules: Vec<(String, String)>,
    /// Folders of Go modules, the deepest first, and the paths of the modules that each requires.
    required: Vec<(String, Vec<String>)>,
    /// Names and folders of npm packages.
    packages: BTreeMap<String, String>,
    /// Folders in which top-level Python modules lie.
    python: BTreeSet<String>,
}

impl<'i> Resolver<'i> {
    /// Learns the files of a project.
    pub(super) fn new(inventory: &'i Inventory) -> Self {
        let mut out = Self::default();
        for file in &inventory.files {
            out.paths.insert(&file.path);
            out.by_name.entry(file_name(&file.path)).or_default().push(&file.path);
        }
        let inits = out.by_name.get("__init__.py").cloned().unwrap_or_default();
        for init in inits {
            let package = parent(init);
            let above = parent(package);
            if !out.paths.contains(join(above, "__init__.py").as_str()) {
                out.python.insert(above.to_owned());
            }
        }
        out.python.insert(String::new());
        out.python.insert("src".to_owned());
        out
    }

    /// Adds a Rust package: its folder and name.
    pub(super) fn add_crate(&mut self, folder: &str, name: &str) {
        self.cargo.insert(folder.to_owned());
        if !name.is_empty() {
            self.crates.insert(name.replace('-', "_"), join(folder, "src"));
        }
    }

    /// Adds a Go module: its folder and path, and the paths of the modules that it requires.
    pub(super) fn add_module(&mut self, folder: &str, path: &str, required: Vec<String>) {
        self.modules.push((path.to_owned(), folder.to_owned()));
        self.modules.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        self.required.push((folder.to_owned(), required));
        self.required.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
    }

    /// Returns the required module that an import in a Go file names, with the folder of the
    /// module that requires it.
    pub(super) fn requirement(&self, from: &str, import: &str) -> Option<(&str, &str)> {
        let holds = |folder: &str| folder.is_empty() || from.starts_with(&join(folder, ""));
        let (folder, modules) = self.required.iter().find(|(folder, _)| holds(folder))?;
        Some((folder, longest_module(modules, import)?))
    }

    /// Adds an npm package: its folder and name.
    pub(super) fn add_package(&mut self, folder: &str, name: &str) {
        if !name.is_empty() {
            self.packages.insert(name.to_owned(), folder.to_owned());
        }
    }

    /// Returns the file or folder of the project that an import in a file names; `None` if it is
    /// elsewhere or unknown.
    pub(super) fn resolve(&self, from: &str, import: &Import) -> Option<String> {
        let found = match import {
            Import::Rust(segments) => self.rust(from, segments),
            Import::Python { dots, module, name } => self.python(from, *dots, module, name),
            Import::Script(specifier) => self.script(from, specifier),
            Import::Go(path) => self.go(path),
            Import::C(path) => self.include(from, path),
            Import::Java(name) => self.java(name),
        }?;
        (found != from).then_some(found)
    }

    fn file(&self, path: String) -> Option<String> {
        self.paths.contains(path.as_str()).then_some(path)
    }

    fn rust(&self, from: &str, segments: &[String]) -> Option<String> {
        let (base, at) = self.module_of(from)?;
        let mut rest = segments.iter().map(String::as_str).peekable();
        let (base, mut module) = match rest.next()? {
            "crate" => (base, Vec::new()),
            "self" => (base, at),
            "super" => {
                let mut at = at;
                at.pop();
                while rest.next_if_eq(&"super").is_some() {
                    at.pop();
                }
                (base, at)
            }
            other => {
                let Some(other_base) = self.crates.get(other) else {
                    // A module of the crate root, as its own files may name it.
                    return None;
                };
                (other_base.clone(), Vec::new())
            }
        };
        module.extend(rest.map(str::to_owned));
        loop {
            if module.is_empty() {
                let library = self.file(join(&base, "lib.rs"));
                let program = self.file(join(&base, "main.rs"));
                // Which of the two a file belongs to is not told by where it lies.
                return if library.is_some() && program.is_some() {
                    None
                } else {
                    library.or(program)
                };
            }
            let path = join(&base, &module.join("/"));
            let found =
                self.file(format!("{path}.rs")).or_else(|| self.file(join(&path, "mod.rs")));
            if found.is_some() {
                return found;
            }
            module.pop();
        }
    }

    /// Returns the source folder of the crate of a file, and the module that the file is.
    fn module_of(&self, path: &str) -> Option<(String, Vec<String>)> {
        let mut folder = parent(path);
        loop {
            if self.cargo.contains(folder)
                || self.paths.contains(join(folder, "Cargo.toml").as_str())
            {
                break;
            }
            if folder.is_empty() {
                return None;
            }
            folder = parent(folder);
        }
        let base = join(folder, "src");
        let rest = path.strip_prefix(&join(&base, ""))?;
        let mut module: Vec<String> =
            rest.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            module.pop();
        }
        // Each program is a crate of its own.
        if module.first().is_some_and(|first| first == "bin") {
            return None;
        }
        Some((base, module))
    }

    fn python(&self, from: &str, dots: usize, module: &str, name: &str) -> Option<String> {
        let below = module.replace('.', "/");
        let at = |base: &str| {
            let path = join(base, &below);
            let named = join(&path, name);
            [
                (!name.is_empty()).then(|| format!("{named}.py")),
                (!name.is_empty()).then(|| join(&named, "__init__.py")),
                (!below.is_empty()).then(|| format!("{path}.py")),
                Some(join(&path, "__init__.py")),
            ]
            .into_iter()
            .flatten()
            .find_map(|path| self.file(path))
        };
        if dots > 0 {
            let mut base = parent(from);
            for _ in 1..dots {
                base = parent(base);
            }
            return at(base);
        }
        if below.is_empty() {
            return None;
        }
        self.python.iter().find_map(|base| at(base))
    }

    fn script(&self, from: &str, specifier: &str) -> Option<String> {
        let path = if specifier.starts_with('.') {
            normal(&join(parent(from), specifier))?
        } else {
            let (package, folder) = self.packages.iter().find(|(name, _)| {
                specifier
                    .strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })?;
            let rest = specifier.strip_prefix(package.as_str())?.trim_start_matches('/');
            if rest.is_empty() {
                let entries = ["src/index", "index", "lib/index"];
                return entries.iter().find_map(|entry| self.with_extension(&join(folder, entry)));
            }
            join(folder, rest)
        };
        let index = || self.with_extension(&join(&path, "index"));
        if names_folder(specifier) {
            return index();
        }
        // In TypeScript a compiled name stands for its source, though both may be there.
        let source = || self.compiled_from(&path);
        let file = || self.file(path.clone());
        let named =
            if is_typescript(from) { source().or_else(file) } else { file().or_else(source) };
        named
            .or_else(|| self.with_extension(&path))
            .or_else(|| {
                let (stem, extension) = path.rsplit_once('.')?;
                let compiled = COMPILED.iter().any(|(compiled, _)| *compiled == extension);
                compiled.then(|| self.with_extension(stem)).flatten()
            })
            .or_else(index)
    }

    /// Returns the source of a compiled file in its folder.
    fn compiled_from(&self, path: &str) -> Option<String> {
        let (stem, extension) = path.rsplit_once('.')?;
        let (_, sources) = COMPILED.iter().find(|(compiled, _)| *compiled == extension)?;
        sources.iter().find_map(|source| self.file(format!("{stem}.{source}")))
    }

    fn with_extension(&self, path: &str) -> Option<String> {
        SCRIPTS.iter().find_map(|extension| self.file(format!("{path}.{extension}")))
    }

    fn go(&self, path: &str) -> Option<String> {
        let (module, folder) = self.modules.iter().find(|(module, _)| {
            path.strip_prefix(module.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })?;
        let rest = path.strip_prefix(module.as_str())?.trim_start_matches('/');
        let dir = if rest.is_empty() { folder.clone() } else { join(folder, rest) };
        let prefix = join(&dir, "");
        let from = if dir.is_empty() { "" } else { prefix.as_str() };
        let mut below = self.paths.range(from..).take_while(|path| path.starts_with(from));
        below.next()?;
        Some(if dir.is_empty() { "./".to_owned() } else { prefix })
    }

    fn include(&self, from: &str, path: &str) -> Option<String> {
        let beside = normal(&join(parent(from), path)).and_then(|path| self.file(path));
        beside.or_else(|| {
            let name = file_name(path);
            let suffix = format!("/{path}");
            let mut fits = self
                .by_name
                .get(name)?
                .iter()
                .filter(|file| **file == path || file.ends_with(&suffix));
            // Of two files of a name, only the build knows which is meant.
            let only = fits.next()?;
            fits.next().is_none().then(|| (*only).to_owned())
        })
    }

    fn java(&self, name: &str) -> Option<String> {
        let segments: Vec<&str> = name.split('.').collect();
        // A class, or something in a class.
        (1..=segments.len()).rev().take(3).find_map(|count| {
            let path = format!("{}.java", segments.get(..count)?.join("/"));
            let suffix = format!("/{path}");
            let name = file_name(&path).to_owned();
            let mut fits = self
                .by_name
                .get(name.as_str())?
                .iter()
                .filter(|file| **file == path || file.ends_with(&suffix));
            let only = fits.next()?;
            fits.next().is_none().then(|| (*only).to_owned())
        })
    }
}

/// Whether a specifier can only mean a folder.
fn names_folder(specifier: &str) -> bool {
    matches!(file_name(specifier), "" | "." | "..")
}

fn is_typescript(path: &str) -> bool {
    [".ts", ".tsx", ".mts", ".cts"].iter().any(|end| path.ends_with(end))
}

/// Returns the longest of some module paths in which an imported package lies.
pub(super) fn longest_module<'m>(modules: &'m [String], import: &str) -> Option<&'m String> {
    let holds =
        |module: &&String| import == module.as_str() || import.starts_with(&join(module, ""));
    modules.iter().filter(holds).max_by_key(|module| module.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::File;

    fn inventory(paths: &[&str]) -> Inventory {
        let file = |path: &&str| File::new((*path).to_owned(), 1, None);
        let mut files: Vec<File> = paths.iter().map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Inventory { files, ..Inventory::default() }
    }

    fn rust(path: &str) -> Import {
        Import::Rust(path.split("::").map(str::to_owned).collect())
    }

    #[test]
    fn a_path_keeps_where_its_directory_lies() {
        for (path, plain) in [
            ("a/./b/../c", Some("a/c")),
            ("/srv/a/../b", Some("/srv/b")),
            ("../a/b/../c", Some("../a/c")),
            ("a/../../b", None),
            ("./", Some("")),
        ] {
            assert_eq!(normal(path).as_deref(), plain, "{path}");
        }
    }

    #[test]
    fn an_import_names_the_file_that_it_means() {
        let inventory = inventory(&[
            "Cargo.toml",
            "src/lib.rs",
            "src/a.rs",
            "src/a/b.rs",
            "src/c/mod.rs",
            "two/Cargo.toml",
            "two/src/lib.rs",
            "two/src/main.rs",
            "two/src/x.rs",
            "py/kite/__init__.py",
            "py/kite/wing.py",
            "py/kite/tail/__init__.py",
            "web/a.ts",
            "web/b.tsx",
            "web/c/index.ts",
            "go/wing/w.go",
            "j/src/org/kite/Wing.java",
            "c/wing.h",
            "c/one/tail.h",
            "c/two/tail.h",
        ]);
        let mut resolver = Resolver::new(&inventory);
        resolver.add_crate("", "one");
        resolver.add_crate("two", "two");
        resolver.add_module("go", "example.org/kite", Vec::new());
        let python = |dots, module: &str, name: &str| Import::Python {
            dots,
            module: module.into(),
            name: name.into(),
        };
        let script = |path: &str| Import::Script(path.into());
        for (from, import, target) in [
            ("src/lib.rs", rust("crate::a::Thing"), Some("src/a.rs")),
            ("src/a.rs", rust("self::b::Thing"), Some("src/a/b.rs")),
            ("src/a/b.rs", rust("super::super::c"), Some("src/c/mod.rs")),
            ("src/c/mod.rs", rust("crate::Thing"), Some("src/lib.rs")),
            ("src/a.rs", rust("std::fmt"), None),
            // A library and a program share the folder: the root is either.
            ("two/src/x.rs", rust("crate::Thing"), None),
            ("src/a.rs", rust("two::x::Thing"), Some("two/src/x.rs")),
            ("py/kite/__init__.py", python(1, "wing", "lift"), Some("py/kite/wing.py")),
            ("py/kite/wing.py", python(0, "kite", "tail"), Some("py/kite/tail/__init__.py")),
            ("py/kite/wing.py", python(0, "os.path", ""), None),
            ("web/a.ts", script("./b.js"), Some("web/b.tsx")),
            ("web/a.ts", script("./c"), Some("web/c/index.ts")),
            ("web/a.ts", script("../../out"), None),
            ("go/x.go", Import::Go("example.org/kite/wing".into()), Some("go/wing/")),
            ("go/x.go", Import::Go("fmt".into()), None),
            ("c/two/x.c", Import::C("tail.h".into()), Some("c/two/tail.h")),
            ("c/x.c", Import::C("tail.h".into()), None),
            (
                "j/A.java",
                Import::Java("org.kite.Wing.lift".into()),
                Some("j/src/org/kite/Wing.java"),
            ),
        ] {
            assert_eq!(resolver.resolve(from, &import).as_deref(), target, "{from}: {import:?}");
        }
    }
}
