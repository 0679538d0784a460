//! Modules of a crate have no circle, and an inherent impl stands in the module of its type.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;

/// The sources of a crate without comments, texts and tests, by module path.
type Modules = BTreeMap<Vec<String>, String>;

/// Returns the name and the source folder of each crate of this repository that others build on.
fn crates() -> Vec<(String, PathBuf)> {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let ours = metadata.packages.into_iter().filter(|package| {
        !["deputize-bench", "deputize-examples", "deputize-tests"].contains(&package.name.as_str())
    });
    let folder = |manifest: &Path| manifest.parent().unwrap().join("src");
    ours.map(|package| (package.name.to_string(), folder(package.manifest_path.as_std_path())))
        .collect()
}

fn modules(folder: &Path) -> Modules {
    let mut sources = Vec::new();
    let mut folders = vec![(folder.to_owned(), Vec::new())];
    while let Some((folder, path)) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let mut path: Vec<String> = path.clone();
            if file.is_dir() {
                path.push(name);
                folders.push((file, path));
            } else if file.extension().is_some_and(|ending| ending == "rs") {
                if !["lib", "main", "mod"].contains(&name.as_str()) {
                    path.push(name);
                }
                sources.push((path, std::fs::read_to_string(&file).unwrap()));
            }
        }
    }
    let tests: BTreeSet<_> =
        sources.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    let mut modules = Modules::new();
    for (path, text) in sources {
        if !(1..=path.len()).any(|length| tests.contains(&path[..length])) {
            modules.entry(path).or_default().push_str(&code(&text));
        }
    }
    modules
}

/// Returns what stands before each `#[cfg(test)] mod NAME`, with the rest that begins with NAME.
fn test_modules(source: &str) -> impl Iterator<Item = (&str, &str)> {
    const MARK: &str = "#[cfg(test)]\nmod ";
    source.match_indices(MARK).map(|(at, mark)| (&source[..at], &source[at + mark.len()..]))
}

/// Returns the modules in files of their own that only tests have.
fn test_files(module: &[String], source: &str) -> Vec<Vec<String>> {
    let names = test_modules(source).filter_map(|(_, rest)| {
        let end = rest.find([';', '{'])?;
        rest[end..].starts_with(';').then(|| rest[..end].to_owned())
    });
    names.map(|name| module.iter().cloned().chain([name]).collect()).collect()
}

/// Returns a source without comments, texts and the tests at its end.
fn code(source: &str) -> String {
    let mut code = String::new();
    let inline = |rest: &str| rest.find([';', '{']).is_some_and(|at| rest[at..].starts_with('{'));
    let tests = test_modules(source).find(|(_, rest)| inline(rest));
    let mut rest = tests.map_or(source, |(before, _)| before);
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' {
            text_length(rest)
        } else if let Some(hashes) = raw_text(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = hashes + 2;
            rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len())
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find('\'').map_or(1, |at| at + 2)
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skipped..];
    }
    code
}

fn text_length(text: &str) -> usize {
    let mut escaped = true;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    // The first quote counts as escaped.
    end.map_or(text.len(), |at| at + 1)
}

/// Returns how many hashes a raw text begins with, if one begins here.
fn raw_text(rest: &str) -> Option<usize> {
    let quoted = rest.strip_prefix('r')?;
    let hashes = quoted.len() - quoted.trim_start_matches('#').len();
    quoted[hashes..].starts_with('"').then_some(hashes)
}

/// Returns the paths in a source that begin at the root of its crate, without braces.
fn paths(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (keyword, ups) in [("crate::", usize::MAX), ("super::", 1)] {
        for (at, _) in code.match_indices(keyword) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || before == ':' {
                continue;
            }
            let base = module[..module.len().saturating_sub(ups.min(module.len()))].to_vec();
            expand(&code[at + keyword.len()..], base, &mut found);
        }
    }
    found
}

/// Adds the paths that begin here; returns how much of the text they are.
fn expand(text: &str, base: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    if let Some(list) = text.strip_prefix('{') {
        let mut at = 0;
        loop {
            at += list[at..].len() - list[at..].trim_start_matches([' ', '\n', ',']).len();
            if at >= list.len() || list[at..].starts_with('}') {
                return at + 2;
            }
            let length = expand(&list[at..], base.clone(), found);
            at += length.max(1);
            // A renamed item: its new name is none of a module.
            if list[at..].starts_with(" as ") {
                let end = list[at..].find([',', '}']).unwrap_or(list.len() - at);
                at += end;
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let name = &text[..end];
    let mut path = base;
    if name == "super" {
        path.pop();
    } else if name != "self" {
        path.push(name.to_owned());
    }
    match text[end..].strip_prefix("::") {
        Some(rest) if !rest.starts_with('<') => end + 2 + expand(rest, path, found),
        _ => {
            found.push(path);
            end
        }
    }
}

/// The items that modules import or re-export: where each is, by the module and the item's name there.
type Imports = BTreeMap<(Vec<String>, String), Vec<String>>;

/// Returns what each module imports, which its children and those that use it find under its path.
fn imports(modules: &Modules) -> Imports {
    let mut items = Imports::new();
    for (module, code) in modules {
        for (at, keyword) in code.match_indices("use ") {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let text = &code[at + keyword.len()..];
            let (text, base) = match text.strip_prefix("crate::") {
                Some(rest) => (rest, Vec::new()),
                None => (text, module.clone()),
            };
            let mut found = Vec::new();
            expand(text, base, &mut found);
            for path in found {
                let Some(item) = path.last().cloned() else { continue };
                // A module stands for itself.
                if !modules.contains_key(&path) {
                    items.insert((module.clone(), item), path);
                }
            }
        }
    }
    items
}

/// Returns the path under which an item is defined, as far as re-exports lead there.
fn resolve(mut path: Vec<String>, modules: &Modules, imports: &Imports) -> Vec<String> {
    // Imports may lead in a circle only in code that does not compile.
    for _ in 0..8 {
        let module = (0..path.len()).rev().find(|at| modules.contains_key(&path[..*at]));
        let Some(module) = module else { return path };
        let key = (path[..module].to_vec(), path[module].clone());
        match imports.get(&key) {
            Some(from) if *from != path && !modules.contains_key(&path[..=module]) => {
                path = from.iter().cloned().chain(path.drain(..).skip(module + 1)).collect();
            }
            _ => return path,
        }
    }
    path
}

/// Returns what the children of each module use of each other, themselves and all below them.
fn siblings(modules: &Modules) -> BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> {
    let imports = imports(modules);
    let mut arrows: BTreeMap<_, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
    for (module, code) in modules {
        for path in paths(code, module) {
            let path = resolve(path, modules, &imports);
            let common = module.iter().zip(&path).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (module.get(common), path.get(common)) else { continue };
            let parent = module[..common].to_vec();
            let is_module =
                modules.keys().any(|it| it.starts_with(&parent) && it.get(common) == Some(to));
            if is_module {
                let of_parent = arrows.entry(parent).or_default();
                of_parent.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    arrows
}

/// Returns a circle of modules, if there is one.
fn circle(arrows: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut left: BTreeSet<&String> = arrows.keys().collect();
    loop {
        // One that uses none of those left is in no circle.
        let free = |module: &String| !arrows[module].iter().any(|used| left.contains(used));
        let Some(done) = left.iter().copied().find(|module| free(module)) else { break };
        left.remove(done);
    }
    let mut at = *left.first()?;
    let mut way = Vec::new();
    while !way.contains(at) {
        way.push(at.clone());
        at = arrows[at].iter().find(|used| left.contains(used))?;
    }
    let start = way.iter().position(|module| module == at)?;
    Some(way.split_off(start))
}

fn circles(folder: &Path) -> Vec<String> {
    let arrows = siblings(&modules(folder));
    let found = arrows.iter().filter_map(|(parent, arrows)| Some((parent, circle(arrows)?)));
    found.map(|(parent, way)| format!("{}: {}", parent.join("::"), way.join(" → "))).collect()
}

/// The name of a module's own code among its children.
const OWN: &str = "its own code";

/// Returns what each module and its children use of each other: the children of their siblings and of
/// what the module's file defines, and that file's code, without imports, of the children.
fn families(modules: &Modules) -> BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> {
    let imports = imports(modules);
    let mut arrows = siblings(modules);
    for (module, code) in modules {
        for path in paths(code, module) {
            let path = resolve(path, modules, &imports);
            // The nearest module above that the path leads into.
            let above = (0..module.len()).rev().find(|at| path.starts_with(&module[..*at]));
            let Some((above, item)) = above.and_then(|at| Some((at, path.get(at)?))) else {
                continue;
            };
            let parent = module[..above].to_vec();
            if modules.get(&parent).is_some_and(|code| defines(code, item)) {
                let of_parent = arrows.entry(parent).or_default();
                of_parent.entry(module[above].clone()).or_default().insert(OWN.to_owned());
            }
        }
        let own = without_imports(code);
        let children =
            modules.keys().filter(|it| it.len() > module.len() && it.starts_with(module));
        let children: BTreeSet<&String> = children.map(|it| &it[module.len()]).collect();
        let brought = |child: &String| {
            let of_module = imports.iter().filter(|((to, _), _)| to == module);
            let from = |path: &Vec<String>| resolve(path.clone(), modules, &imports);
            let mut names = of_module.filter(|(_, path)| {
                let path = from(path);
                path.starts_with(module) && path.get(module.len()) == Some(child)
            });
            has_word(&own, child, "::") || names.any(|((_, item), _)| has_word(&own, item, ""))
        };
        let used: BTreeSet<String> =
            children.into_iter().filter(|child| brought(child)).cloned().collect();
        if !used.is_empty() {
            arrows.entry(module.clone()).or_default().insert(OWN.to_owned(), used);
        }
    }
    arrows
}

/// Returns whether a source defines an item of that name.
fn defines(code: &str, item: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
    !item.is_empty() && kinds.iter().any(|kind| has_word(code, &format!("{kind} {item}"), ""))
}

/// Returns whether a source has a word, with these characters behind it.
fn has_word(code: &str, word: &str, behind: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word).any(|(at, _)| {
        let rest = &code[at + word.len()..];
        !is_part(code[..at].chars().next_back())
            && !is_part(rest.chars().next())
            && rest.starts_with(behind)
    })
}

fn without_imports(code: &str) -> String {
    let mut own = String::new();
    let mut is_import = false;
    for line in code.lines() {
        let text = line.trim_start();
        let visible = text.strip_prefix("pub").map_or(text, |rest| {
            let rest =
                rest.strip_prefix('(').and_then(|it| it.split_once(')')).map_or(rest, |it| it.1);
            rest.trim_start()
        });
        is_import |= visible.starts_with("use ");
        if !is_import {
            own.push_str(line);
            own.push('\n');
        }
        is_import &= !line.contains(';');
    }
    own
}

/// Returns the modules that are in a circle with their children.
fn family_circles(folder: &Path) -> Vec<String> {
    let arrows = families(&modules(folder));
    let found = arrows.iter().filter(|(_, arrows)| circle(arrows).is_some());
    found.map(|(parent, _)| parent.join("::")).collect()
}

/// Returns the types with an inherent impl in another module than their own.
fn spread_impls(folder: &Path) -> Vec<String> {
    let mut spread = Vec::new();
    for (module, code) in modules(folder) {
        for (at, _) in code.match_indices("impl") {
            let starts_line = code[..at].rsplit('\n').next().is_some_and(|it| it.trim().is_empty());
            let Some(head) = code[at + 4..].split('{').next().filter(|_| starts_line) else {
                continue;
            };
            let Some(name) = impl_of(head) else { continue };
            let kinds = ["struct", "enum", "union"];
            let is_own = kinds.iter().any(|kind| {
                let word = format!("{kind} {name}");
                code.match_indices(&word).any(|(at, _)| {
                    let next = code[at + word.len()..].chars().next().unwrap_or(' ');
                    !next.is_alphanumeric() && next != '_'
                })
            });
            if !is_own && !code.contains("macro_rules!") {
                spread.push(format!("{} in {}", name, module.join("::")));
            }
        }
    }
    spread
}

/// Returns the type that the head of an impl is for, unless it is of a trait.
fn impl_of(head: &str) -> Option<String> {
    let head = head.split(" where").next().unwrap_or_default();
    if head.split_whitespace().any(|word| word == "for") {
        return None;
    }
    let mut rest = head.trim_start();
    if rest.starts_with('<') {
        let mut depth = 0_i32;
        let end = rest.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        rest = rest[end + 1..].trim_start();
    } else if !head.starts_with([' ', '\n']) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let path = &rest[..end.unwrap_or(rest.len())];
    // `impl A + B` is an argument or a result.
    if rest.contains(" + ") && !rest.contains('<') {
        return None;
    }
    path.rsplit("::").next().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Asserts that no crate has a fault.
fn assert_none(fault: impl Fn(&Path) -> Vec<String>) {
    let mut found: BTreeMap<String, Vec<String>> =
        crates().into_iter().map(|(name, folder)| (name, fault(&folder))).collect();
    assert!(!found.is_empty());
    found.retain(|_, faults| !faults.is_empty());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn modules_of_a_crate_have_no_circle() {
    assert_none(circles);
}

/// The modules left whose file uses its children, which use what that file defines. The list must not
/// grow.
const LEFT: [(&str, &[&str]); 12] = [
    (
        "deputize",
        &["command::cron", "command::mcp", "command::run", "command::sessions", "command::tools"],
    ),
    ("deputize-agent", &["agent"]),
    ("deputize-core", &["event", "model", "rate_limit", "schema", "tool", "tool::context"]),
    ("deputize-delegate", &["report"]),
    ("deputize-macros", &[""]),
    ("deputize-mcp", &["serve"]),
    (
        "deputize-offline",
        &["", "entries", "lookup", "manifest", "modules", "report", "syntax", "task"],
    ),
    // The grammar of a shell is recursive: a word holds commands, which hold words.
    ("deputize-policy", &["parse"]),
    ("deputize-providers", &["anthropic_messages", "openai_chat"]),
    ("deputize-runtime", &["snapshot"]),
    ("deputize-testkit", &["server"]),
    ("deputize-web", &["convert", "search"]),
];

#[test]
fn a_module_that_uses_its_children_defines_nothing_that_they_use() {
    let found = crates().into_iter().map(|(name, folder)| (name, family_circles(&folder)));
    let found: BTreeMap<_, _> = found.filter(|(_, modules)| !modules.is_empty()).collect();
    let left = LEFT.map(|(name, modules)| {
        (name.to_owned(), modules.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
    });
    assert_eq!(found, BTreeMap::from(left));
}

#[test]
fn an_inherent_impl_stands_in_the_module_of_its_type() {
    assert_none(spread_impls);
}

/// A crate of three modules, two of which use each other, and an impl outside of its module.
#[test]
fn a_circle_and_a_spread_impl_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
    write("a.rs", "use crate::{\n    B,\n    c::C,\n};\npub struct A(B, C);\n// impl B {}\n");
    write("b.rs", "pub struct B;\nfn f() { \"crate::a::A\"; }\n");
    write("c.rs", "pub struct C;\nimpl C {}\nimpl<T> From<T> for C {}\n");
    let tests = "#[cfg(test)]\nmod c_tests;\n";
    write("c_tests.rs", "use crate::a::A;\nimpl super::c::C {}\n");
    write("lib.rs", &format!("mod a;\nmod b;\nmod c;\n{tests}pub use b::B;\n"));
    assert_eq!((circles(folder.path()), spread_impls(folder.path())), (vec![], vec![]));
    write("b.rs", "pub struct B;\nfn f(_: super::a::A) {}\n");
    write("c.rs", "pub struct C;\nimpl crate::a::A {}\n");
    assert_eq!(circles(folder.path()), [": a → b"]);
    assert_eq!(spread_impls(folder.path()), ["A in c"]);
}

/// A module whose file uses its child, which uses what that file defines.
#[test]
fn a_circle_of_a_module_and_its_child_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    write("lib.rs", "mod a;\n");
    write("a.rs", "mod b;\nmod c;\npub use b::f;\nuse c::C;\nfn g() { f(); }\n");
    write("a/b.rs", "use super::C;\npub fn f(_: C) {}\n");
    write("a/c.rs", "pub struct C;\n");
    assert_eq!(family_circles(folder.path()), [""; 0]);
    write("a.rs", "mod b;\nmod c;\npub use b::f;\npub struct C;\nfn g() { f(); }\n");
    assert_eq!(family_circles(folder.path()), ["a"]);
    write("a.rs", "mod b;\nmod c;\npub use b::f;\npub struct C;\n");
    assert_eq!(family_circles(folder.path()), [""; 0]);
}

/// Two modules that use each other by what the module above them re-exports.
#[test]
fn a_circle_by_re_exports_of_an_inner_module_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    write("lib.rs", "mod a;\npub use a::B;\n");
    write("a.rs", "mod b;\nmod c;\npub use b::B;\npub use c::C;\n");
    write("a/b.rs", "use std::C;\npub struct B;\n");
    write("a/c.rs", "use crate::B;\npub struct C(B);\n");
    assert_eq!(circles(folder.path()), [""; 0]);
    write("a/b.rs", "use super::{C};\npub struct B(C);\n");
    assert_eq!(circles(folder.path()), ["a: b → c"]);
}
