//! `go.mod`.

use super::{Dependency, Package, Tool};

pub(super) fn read(path: &str, text: &str) -> Option<Package> {
    let mut out = Package::new(path, Tool::Go);
    let mut block = String::new();
    for line in text.lines() {
        let (code, remark) = line.split_once("//").unwrap_or((line, ""));
        let code = code.trim();
        let mut words = code.split_whitespace();
        let Some(first) = words.next() else { continue };
        if code == ")" {
            block.clear();
        } else if code.ends_with('(') {
            first.clone_into(&mut block);
        } else if first == "module" {
            out.name = words.next().unwrap_or_default().trim_matches('"').to_owned();
        } else if first == "go" {
            out.requires = format!("Go {}", words.next().unwrap_or_default());
        } else if first == "require" || block == "require" {
            let name = if block == "require" { Some(first) } else { words.next() };
            let (Some(name), Some(version)) = (name, words.next()) else { continue };
            if remark.trim().starts_with("indirect") {
                continue;
            }
            out.dependencies.push(Dependency::new(name.trim_matches('"'), version));
        }
    }
    (!out.name.is_empty()).then_some(out)
}
