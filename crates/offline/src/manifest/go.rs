//! `go.mod`.

use super::{Dependency, Package, Tool};
use crate::imports::longest_module;

pub(super) fn read(path: &str, text: &str) -> Option<Package> {
    let mut out = Package::new(path, Tool::Go);
    let mut block = String::new();
    let mut indirect = Vec::new();
    let mut tools = Vec::new();
    for line in text.lines() {
        let (code, remark) = line.split_once("//").unwrap_or((line, ""));
        let code = code.trim();
        let mut words = code.split_whitespace();
        let Some(first) = words.next() else { continue };
        if code == ")" {
            block.clear();
            continue;
        }
        if code.ends_with('(') {
            first.clone_into(&mut block);
            continue;
        }
        let (directive, value) =
            if block.is_empty() { (first, words.next()) } else { (block.as_str(), Some(first)) };
        let value = value.unwrap_or_default().trim_matches('"');
        match directive {
            "module" => value.clone_into(&mut out.name),
            "go" => out.needs.requires = format!("Go {value}"),
            "tool" => tools.push(value),
            "require" if remark.trim().starts_with("indirect") => indirect.push(value.to_owned()),
            "require" => {
                let Some(version) = words.next() else { continue };
                out.needs.dependencies.push(Dependency::new(value, version));
            }
            _ => {}
        }
    }
    let direct: Vec<String> = out.needs.dependencies.iter().map(|it| it.name.clone()).collect();
    for tool in tools {
        let module = [&direct, &indirect].into_iter().flat_map(|it| longest_module(it, tool));
        let Some(module) = module.max_by_key(|module| module.len()) else { continue };
        if direct.contains(module) {
            out.needs.tools.insert(module.clone());
        } else {
            out.needs.development.insert(module.clone());
        }
    }
    (!out.name.is_empty()).then_some(out)
}
