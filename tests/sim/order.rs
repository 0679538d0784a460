//! What a seed needs to be the same history each time.

use std::path::Path;

/// `select!` polls its branches in random order unless it is `biased`.
#[test]
fn every_choice_between_futures_has_an_order() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut folders = ["runtime", "delegate"].map(|name| crates.join(name).join("src")).to_vec();
    let mut choices = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for after in text.split("select! {").skip(1) {
                choices += 1;
                let biased = after.trim_start().starts_with("biased;");
                assert!(biased, "{} has a `select!` without `biased;`", path.display());
            }
        }
    }
    assert!(choices > 4, "{choices}");
}
