//! The snippets of docs/guide/testing.md. Each is one of these files, as it stands there, and runs; this
//! file is the crate `my_tools` that they are about, and has what a reader's project has.

#![cfg(test)]

extern crate self as my_tools;

mod agent;
mod contract;
mod plugin;
mod prompts;
mod requests;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

deputize_core::tool_crate!();

/// Count the words of a text.
#[deputize_core::tool(
    toolset = "words",
    effects = read_only,
    example("Three words", {"text": "one two three"}),
)]
async fn count_words(
    /// The text.
    text: String,
) -> String {
    text.split_whitespace().count().to_string()
}

/// What stands in the page for something of the reader's, and what it is here.
const HERE: [(&str, &str); 3] = [
    (r#""target/release/libmy_words.so""#, "crate::library()"),
    (r#""/home/me/my-server""#, r#"env!("CARGO_BIN_EXE_deputize-mcp-faulty")"#),
    (r#"vec!["--stdio".into()]"#, r#"vec!["none".into()]"#),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A plugin with a tool that needs no files.
fn library() -> PathBuf {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libpage_machine.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-I"]).arg(root().join("plugins/sdk/include"));
    cc.arg(root().join("plugins/sdk/c/machine.c")).arg("-o").arg(&library);
    assert!(cc.status().expect("these tests need a C compiler, `cc`").success());
    library
}

#[test]
fn each_snippet_of_the_page_is_one_of_these_files() {
    let page = std::fs::read_to_string(root().join("docs/guide/testing.md")).unwrap();
    let snippets = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let here = |snippet: &str| {
        HERE.iter().fold(snippet.to_owned(), |text, (there, here)| text.replace(there, here))
    };
    let mut snippets: Vec<String> = snippets.map(here).collect();
    for entry in std::fs::read_dir(root().join("tests/page")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("main.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let found = snippets.iter().position(|snippet| *snippet == text);
            assert!(
                found.is_some(),
                "{} is not in the page as it is:\n{snippets:#?}",
                path.display()
            );
            found.map(|found| snippets.remove(found));
        }
    }
    assert_eq!(snippets, [""; 0], "in the page, and no file here");
}
