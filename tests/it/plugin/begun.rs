//! A plugin project as `deputize plugin new` writes it.

use std::fs;
use std::path::Path;
use std::process::Command as Blocking;

use serde_json::Value;

use super::{configure, ended, results};
use crate::program::Lab;

#[tokio::test]
async fn a_new_project_builds_passes_its_check_and_is_called() {
    let lab = Lab::new();
    // Which Deputize it is built with is not guessed: this one may be published nowhere.
    let unknown = ended(&lab, &["plugin", "new", "my-words"]).await.with_code(2);
    assert!(unknown.err.contains("--path CHECKOUT"), "{}", unknown.err);
    assert!(!lab.work("my-words").exists());
    let published = ["plugin", "new", "for-all", "--published"];
    ended(&lab, &published).await.with_code(0);
    let manifest = fs::read_to_string(lab.work("for-all/Cargo.toml")).unwrap();
    assert!(!manifest.contains("path ="), "{manifest}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let new = ["plugin", "new", "my-words", "--path", root.to_str().unwrap()];
    let begun = ended(&lab, &new).await.with_code(0);
    assert!(begun.out.contains("deputize plugin check"), "{}", begun.out);
    // What is there is left alone.
    let again = ended(&lab, &new).await.with_code(2);
    assert!(again.err.contains("is not empty"), "{}", again.err);

    // What other projects of these tests are built in: the dependencies are built once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("downstream");
    let cargo = |args: &[&str]| {
        let mut cargo = Blocking::new(env!("CARGO"));
        deputize_requirements::remove_package_env(&mut cargo);
        let made = cargo
            .args(args)
            .current_dir(lab.work("my-words"))
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).unwrap()
    };
    cargo(&["build", "--offline"]);
    let tested = cargo(&["test", "--offline", "-q", "--lib"]);
    assert!(tested.contains("test result: ok."), "{tested}");

    let start = std::env::consts::DLL_PREFIX;
    let end = std::env::consts::DLL_SUFFIX;
    let library = target.join("debug").join(format!("{start}my_words{end}"));
    let checked = ended(&lab, &["plugin", "check", library.to_str().unwrap(), "--json"]).await;
    let checked: Value = serde_json::from_str(&checked.with_code(0).out).unwrap();
    assert_eq!(checked["tools"][0]["name"], "count_words");
    assert!(checked["tools"][0]["calls"].as_u64().unwrap() > 0, "{checked}");

    configure(&lab, &[(&library, true)]);
    let call = ("count_words", serde_json::json!({"text": "one two three"}));
    let (results, _) = results(&lab, &[call], &[]).await;
    assert!(results[0].contains("3 words"), "{results:?}");
    // A second project of the kind would stand beside it: each has a toolset of its own.
    let tools = ended(&lab, &["tools", "list", "--json"]).await.with_code(0);
    let tools: Value = serde_json::from_str(&tools.out).unwrap();
    let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "count_words").unwrap();
    assert_eq!(tool["toolset"], "my-words");
}
