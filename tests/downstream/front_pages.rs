//! The front page of each library: an example, its features, how stable it is.

use std::fs;

use crate::nested::root;

/// The front pages of all libraries.
fn front_pages() -> Vec<(String, String)> {
    let mut folders: Vec<_> = fs::read_dir(root().join("crates")).unwrap().collect();
    folders.extend(fs::read_dir(root().join("plugins")).unwrap());
    let mut pages = Vec::new();
    for folder in folders {
        let folder = folder.unwrap().path();
        let Ok(code) = fs::read_to_string(folder.join("src/lib.rs")) else { continue };
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        if manifest.contains("publish = false") || manifest.contains("cdylib") {
            continue;
        }
        let page =
            code.lines().take_while(|line| line.starts_with("//!") || line.starts_with("#!["));
        let page: Vec<&str> = page.collect();
        pages.push((manifest, page.join("\n")));
    }
    assert!(pages.len() >= 12, "{}", pages.len());
    pages
}

#[test]
fn every_front_page_has_an_example_its_features_and_how_stable_it_is() {
    for (manifest, page) in front_pages() {
        let name = manifest.lines().find(|line| line.starts_with("name = ")).unwrap();
        // Every second fence closes one.
        let mut examples = page.lines().filter(|line| line.starts_with("//! ```")).step_by(2);
        let compiled = ["", "no_run", "standalone_crate"];
        let kind = |fence: &str| fence.trim_start_matches("//! ```").to_owned();
        let compiled = examples.any(|fence| compiled.contains(&kind(fence).as_str()));
        assert!(compiled, "{name}: no example that is run or compiled");
        assert!(page.contains("\n//! # Features and stability\n"), "{name}: no section on both");
        let tiers = ["to build on.", "settling.", "inner."];
        let actual = page.split("//! Stability: ").nth(1).unwrap_or_default();
        assert!(tiers.iter().any(|tier| actual.starts_with(tier)), "{name}: no tier of {tiers:?}");
        let features = manifest.split("\n[features]\n").nth(1).unwrap_or_default();
        let features = features.split("\n[").next().unwrap_or_default();
        for line in features.lines().filter(|line| !line.starts_with('#')) {
            let Some((feature, _)) = line.split_once(" = ") else { continue };
            let actual = feature == "default" || page.contains(&format!("| `{feature}` |"));
            assert!(actual, "{name}: the table lacks `{feature}`");
        }
    }
}
