//! Tool crates that are plugins as well: two of them in one program, each loaded, both in one
//! library.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::linking::{WORKSPACE, built};
use crate::nested::{cargo, target};

/// All of them, and the programs, built in one go.
static BUILT: LazyLock<()> = LazyLock::new(|| {
    let packages = [
        "app-good",
        "app-plugins",
        "all-tools",
        "loud-words",
        "number-tools",
        "test-support",
        "two-plugins",
    ];
    let named = packages.into_iter().flat_map(|name| ["--package", name]);
    let args: Vec<&str> = std::iter::once("build").chain(named).collect();
    cargo(&WORKSPACE, &args).passes();
});

fn library(name: &str) -> PathBuf {
    LazyLock::force(&BUILT);
    let start = std::env::consts::DLL_PREFIX;
    let end = std::env::consts::DLL_SUFFIX;
    target().join("debug").join(format!("{start}{name}{end}"))
}

/// The tools of a program, each with where it comes from.
fn tools(program: &str, home: &Path) -> Vec<(String, Value)> {
    let ran = built(program, &["tools", "list", "--json"], home).passes();
    let tools: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let ours = ["double", "shout"];
    let ours = tools.into_iter().filter(|tool| ours.iter().any(|name| tool["name"] == *name));
    ours.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["origin"].clone())).collect()
}

/// What a model gets that calls both tools.
async fn calls(program: &str, home: &Path) -> String {
    let both = [("shout", json!({"text": "stop"})), ("double", json!({"number": 21}))];
    let script = [Reply::calls("m", both), Reply::text("m", "Done.")];
    let server = MockServer::start(script.iter().map(MockAnswer::reply)).await.unwrap();
    let base = server.base_url();
    let args = ["run", "-q", "-m", "openai/mock", "--base-url", &base, "Both"];
    tokio::task::block_in_place(|| built(program, &args, home)).passes();
    server.requests().pop().unwrap().text()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_links_two_crates_that_are_plugins_and_another_one_loads_them() {
    let home = tempfile::tempdir().unwrap();
    let libraries = tokio::task::block_in_place(|| ["loud_words", "number_tools"].map(library));
    let linked = |krate: &str| json!({"kind": "linked", "krate": krate});
    let found = tokio::task::block_in_place(|| tools("app-plugins", home.path()));
    let expected = [("double", linked("number-tools")), ("shout", linked("loud-words"))];
    assert_eq!(found, expected.map(|(name, origin)| (name.to_owned(), origin)));
    let actual = calls("app-plugins", home.path()).await;
    assert!(actual.contains(r"\nSTOP\n") && actual.contains(r"\n42\n"), "{actual}");

    let mut config = "plugins:\n".to_owned();
    for (path, tool) in libraries.iter().zip(["shout", "double"]) {
        let args = ["plugin", "check", path.to_str().unwrap()];
        let ran = tokio::task::block_in_place(|| built("app-good", &args, home.path())).passes();
        assert_eq!(ran.out.matches("\ntool ").count(), 1, "{}", ran.out);
        assert!(
            ran.out.contains(&format!(
                "{tool}: says that it only looks, so its calls are not asked for; fine"
            )),
            "{}",
            ran.out
        );
        config += ran.out.split_once("plugins:\n").unwrap().1;
    }
    fs::create_dir_all(home.path().join("home")).unwrap();
    fs::write(home.path().join("home/config.yaml"), config).unwrap();
    let found = tokio::task::block_in_place(|| tools("app-good", home.path()));
    let kinds: Vec<&Value> = found.iter().map(|(_, origin)| &origin["kind"]).collect();
    assert_eq!(kinds, ["plugin", "plugin"], "{found:?}");
    let actual = calls("app-good", home.path()).await;
    assert!(actual.contains(r"\nSTOP\n") && actual.contains(r"\n42\n"), "{actual}");
}

#[test]
fn a_plugin_of_several_crates_stands_for_those_that_are_plugins_themselves() {
    let home = tempfile::tempdir().unwrap();
    let library = library("all_tools");
    let args = ["plugin", "check", library.to_str().unwrap()];
    let ran = built("app-good", &args, home.path()).passes();
    assert!(ran.out.contains("plugin   all-tools 0.1.0"), "{}", ran.out);
    for tool in ["double", "shout"] {
        assert!(
            ran.out.contains(&format!(
                "{tool}: says that it only looks, so its calls are not asked for; fine"
            )),
            "{}",
            ran.out
        );
    }
}

#[test]
fn a_plugin_with_another_one_in_it_is_refused_with_the_way_out() {
    let home = tempfile::tempdir().unwrap();
    let library = library("two_plugins");
    let args = ["plugin", "check", library.to_str().unwrap()];
    built("app-good", &args, home.path()).fails_with(&[
        "holds 2 plugins (deputize_plugin_v1_loud_words_0_1_0, deputize_plugin_v1_two_plugins_0_1_0)",
        "export_plugin!(links: …)",
    ]);
}
