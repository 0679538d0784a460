//! What the doctor says of plugins: each is loaded where its calls would run.

use std::fs;

use serde_json::Value;

use super::{compiled, configure, ended, library};
use crate::program::{Lab, ProgramEnd};

/// What is said of plugins: how each is, and the words.
fn describe(ended: &ProgramEnd) -> Vec<(String, String)> {
    let rows: Value = serde_json::from_str(&ended.out).unwrap();
    let rows = rows.as_array().unwrap().iter().filter(|row| row["what"] == "plugin");
    let word = |word: &Value| word.as_str().unwrap().to_owned();
    rows.map(|row| (word(&row["health"]), word(&row["found"]))).collect()
}

#[tokio::test]
async fn the_doctor_loads_each_plugin_and_says_which_one_cannot_be() {
    let lab = Lab::new();
    let good = library("archive");
    let other = library("image");
    // It describes itself when it is asked for the first time, and dies at the next.
    let dies = format!("-DDIES_IF=\"{}\"", lab.path("die").display());
    let rude = compiled(&lab, "tests/fixtures/plugins/rude.c", "librude", &[&dies]);
    configure(&lab, &[(&good, true), (&other, false), (&rude, true)]);
    let doctor = ["doctor", "-m", "offline", "--json"];
    let fine = ended(&lab, &doctor).await.with_code(0);
    let rows = describe(&fine);
    let words = [
        ("deputize-plugin-archive ", "loads isolated, 1 tool"),
        ("deputize-plugin-image ", "loads inside, "),
        ("rude ", "loads isolated, "),
    ];
    assert_eq!(rows.len(), words.len(), "{rows:?}");
    for ((health, found), (begins, holds)) in rows.iter().zip(words) {
        assert!(health == "ok" && found.starts_with(begins) && found.contains(holds), "{rows:?}");
    }

    // What it said before is kept; that it does not load any more is seen all the same.
    ended(&lab, &["plugin", "list"]).await.with_code(0);
    fs::write(lab.path("die"), "").unwrap();
    let copy = lab.path("copy.so");
    fs::copy(&good, &copy).unwrap();
    configure(&lab, &[(&copy, true), (&rude, true)]);
    let mut bytes = fs::read(&copy).unwrap();
    bytes.push(0);
    fs::write(&copy, bytes).unwrap();
    let rows = describe(&ended(&lab, &doctor).await.with_code(1));
    let words = ["is not the file that was pinned", "librude"];
    assert_eq!(rows.len(), words.len(), "{rows:?}");
    for ((health, found), words) in rows.iter().zip(words) {
        assert!(health == "fail" && found.contains(words), "{rows:?}");
    }
}

#[tokio::test]
async fn variables_of_a_plugin_that_are_none_or_not_set_are_reported() {
    let lab = Lab::new();
    configure(&lab, &[(&library("archive"), true)]);
    let file = lab.path("home/config.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}    env: [NOT_SET, HOME]\n")).unwrap();
    let expected = "its `env` names the variable `NOT_SET`, which is not set";
    let list = ended(&lab, &["tools", "list"]).await.with_code(0);
    assert_eq!(list.err.matches("is not set").count(), 1, "{}", list.err);
    assert!(list.err.contains(expected), "{}", list.err);
    let doctor = ended(&lab, &["doctor", "-m", "offline"]).await.with_code(0);
    assert!(doctor.out.contains(expected), "{}", doctor.out);
    for (env, named) in [("A=hush", "A"), ("2B", "2B"), ("''", ""), ("a b", "a b")] {
        fs::write(&file, format!("{text}    env: [{env}]\n")).unwrap();
        let check = ended(&lab, &["config", "check"]).await.with_code(2);
        assert!(
            check.err.contains(&format!("names `{named}`, which cannot be a")),
            "{}",
            check.err
        );
        assert!(!check.err.contains("hush"), "{}", check.err);
    }
}

#[tokio::test]
async fn the_check_of_the_configuration_finds_a_plugin_that_is_not_the_pinned_one() {
    let lab = Lab::new();
    configure(&lab, &[(&library("archive"), true)]);
    ended(&lab, &["config", "check"]).await.with_code(0);
    let file = lab.path("home/config.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, pinned) = text.split_once("sha256: ").unwrap();
    let pinned = pinned.trim_start_matches(['"', '\'']);
    let other = text.replace(&pinned[..64], &"a".repeat(64));
    assert!(before.contains("plugins"), "{text}");
    fs::write(&file, other).unwrap();
    let check = ended(&lab, &["config", "check"]).await.with_code(2);
    assert!(
        check.err.contains("`plugins`: ") && check.err.contains(&pinned[..64]),
        "{}",
        check.err
    );
}
