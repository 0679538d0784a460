//! Dynamic plugins as a person uses them: checked, pinned, and called by a model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Blocking;

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

mod begun;
mod changes;
mod doctor;
mod embedded;
mod faults;
mod rude;

/// The library that cargo made of a plugin crate, which these tests depend on.
pub(crate) fn library(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let start = std::env::consts::DLL_PREFIX;
    let end = std::env::consts::DLL_SUFFIX;
    let file = here.with_file_name(format!("{start}deputize_plugin_{name}{end}"));
    assert!(file.is_file(), "{} is missing: it is built with this test", file.display());
    file
}

/// A plugin made of a C file.
fn compiled(lab: &Lab, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let library = lab.path(format!("{name}.so"));
    let mut cc = Blocking::new("cc");
    cc.args([
        "-shared",
        "-fPIC",
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-stringop-overflow",
    ]);
    cc.args(flags).arg("-I").arg(root.join("plugins/sdk/include"));
    cc.arg(root.join(source)).arg("-o").arg(&library);
    let made = cc.output().expect("these tests need a C compiler, `cc`");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    library
}

fn sha256(lab: &Lab, library: &Path) -> String {
    let summed = Blocking::new("sha256sum").arg(library).current_dir(lab.path("")).output();
    let summed = String::from_utf8(summed.unwrap().stdout).unwrap();
    summed.split(' ').next().unwrap().to_owned()
}

/// Writes the person's configuration, with these plugins.
pub(crate) fn configure(lab: &Lab, plugins: &[(&Path, bool)]) {
    let mut text = "plugins:\n".to_owned();
    for (library, isolated) in plugins {
        let sha256 = sha256(lab, library);
        text += &format!(
            "  - path: {}\n    sha256: {sha256}\n    isolated: {isolated}\n",
            library.display()
        );
    }
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), text).unwrap();
}

async fn ended(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

/// A model that makes these calls, one a step, and then repeats what it got.
async fn caller(calls: &[(&str, Value)]) -> MockServer {
    let calls: Vec<(String, Value)> =
        calls.iter().map(|(tool, arguments)| ((*tool).to_owned(), arguments.clone())).collect();
    model(move |asked: &ChatRequest| {
        MockAnswer::reply(&match calls.get(asked.replies()) {
            Some((tool, arguments)) => Reply::calls("mock", [(tool.as_str(), arguments.clone())]),
            None => Reply::text("mock", asked.results().join("\n====\n")),
        })
    })
    .await
}

/// What the model got of these calls.
async fn results(lab: &Lab, calls: &[(&str, Value)], more: &[&str]) -> (Vec<String>, ProgramEnd) {
    let server = caller(calls).await;
    let args: Vec<&str> = [more, &["--output", "events", "go"]].concat();
    let ended = lab.run(&server, &args).end().await;
    // Plugins may panic, and say so; the program may not.
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(!ended.err.contains("thread 'main'"), "{ended:#?}");
    let responses = ended.events("model.response");
    let text = responses.last().unwrap()["text"].as_str().unwrap().to_owned();
    (text.split("\n====\n").map(str::to_owned).collect(), ended)
}

/// A tar file with two files in it, made by the system's own program.
fn tar(lab: &Lab) {
    fs::write(lab.work("one.txt"), "12345").unwrap();
    fs::write(lab.work("two.txt"), "").unwrap();
    let packed = Blocking::new("tar")
        .args(["-czf", "files.tar.gz", "one.txt", "two.txt"])
        .current_dir(lab.work(""))
        .status();
    assert!(packed.unwrap().success());
}

#[tokio::test]
async fn a_plugin_is_checked_pinned_and_called_like_any_tool() {
    let lab = Lab::new();
    let library = library("archive");
    tar(&lab);
    fs::copy(lab.work("files.tar.gz"), lab.work("sample.zip")).unwrap();
    let path = library.to_str().unwrap();
    let checked = ended(&lab, &["plugin", "check", path, "--within", "."]).await.with_code(0);
    let entry = checked.out.split_once("plugins:\n").unwrap().1;
    assert!(checked.out.contains("archive_list: says that it only looks"), "{}", checked.out);
    assert!(checked.out.contains("fine in "), "{}", checked.out);

    // What it prints is what the configuration takes.
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), format!("plugins:\n{entry}")).unwrap();
    ended(&lab, &["config", "check"]).await.with_code(0);
    let listed = ended(&lab, &["plugin", "list", "--json"]).await.with_code(0);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed[0]["name"], "deputize-plugin-archive");
    assert_eq!((&listed[0]["usable"], &listed[0]["isolated"]), (&json!(true), &json!(true)));
    assert_eq!(listed[0]["tools"], json!(["archive_list"]));
    let tools = ended(&lab, &["tools", "list", "--json"]).await.with_code(0);
    let tools: Value = serde_json::from_str(&tools.out).unwrap();
    let tool = tools.as_array().unwrap().iter().find(|it| it["name"] == "archive_list").unwrap();
    assert_eq!(tool["origin"], json!({"kind": "plugin", "path": path}));
    assert_eq!((&tool["toolset"], &tool["usable"]), (&json!("archive"), &json!(true)));
    let child =
        ended(&lab, &["toolsets", "resolve", "--child", "-t", "archive"]).await.with_code(0);
    assert!(child.out.contains("archive_list"), "{}", child.out);

    for isolated in [true, false] {
        configure(&lab, &[(&library, isolated)]);
        let call = ("archive_list", json!({"path": "files.tar.gz"}));
        let (results, ended) = results(&lab, &[call], &["-t", "archive"]).await;
        assert!(results[0].contains("tar.gz: 2 entries, 5 bytes unpacked"), "{results:?}");
        assert!(results[0].contains("           5  one.txt"), "{results:?}");
        assert_eq!(ended.events("tool.end")[0]["status"], "ok");
        assert_eq!(ended.events("agent.start")[0]["tools"], json!(["archive_list"]));
        assert!(ended.err.contains("list files.tar.gz"), "as the tool describes it: {}", ended.err);
        assert_eq!(lab.processes(), [], "isolated: {isolated}");
    }
}

/// The commands of the last block of the page about plugins.
#[tokio::test]
async fn the_plugins_of_the_repository_are_checked_by_the_commands_of_their_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("docs/guide/plugins.md")).unwrap();
    let block = page.trim_end().strip_suffix("```").unwrap().rsplit_once("```sh\n").unwrap().1;
    let mut lines = block.lines();
    let build = lines.next().unwrap();
    let lab = Lab::new();
    let mut seen = 0;
    fs::create_dir_all(lab.work("target/release")).unwrap();
    for line in lines {
        let args: Vec<&str> = line.strip_prefix("deputize ").unwrap().split(' ').collect();
        let built = args.iter().find(|arg| arg.ends_with(".so")).unwrap();
        let name = built.rsplit('_').next().unwrap().trim_end_matches(".so");
        assert!(build.contains(&format!("-p deputize-plugin-{name}")), "{build}: {name}");
        fs::copy(library(name), lab.work(built)).unwrap();
        let checked = ended(&lab, &args).await.with_code(0);
        let tools = checked.out.matches("; not tried: needs --within\n").count();
        assert_eq!(tools, checked.out.matches("\ntool  ").count(), "{}", checked.out);
        assert!(checked.out.contains("which is not there"), "{}", checked.out);
        let entry = format!("    sha256: {}\n", sha256(&lab, &lab.work(built)));
        assert!(checked.out.ends_with(&entry), "{}", checked.out);
        let listed = ended(&lab, &[&args[..], &["--json"]].concat()).await.with_code(0);
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        assert_eq!(listed["tools"][0]["untried"].as_array().unwrap().len(), 1, "{listed}");
        // A directory was named, so what is not in it is wrong.
        let within = ended(&lab, &[&args[..], &["--within", "."]].concat()).await.with_code(1);
        assert!(within.out.contains("WRONG"), "{}", within.out);
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[tokio::test]
async fn several_plugins_and_one_in_c_work_side_by_side() {
    require!(program("python3"));
    let lab = Lab::new();
    let machine = compiled(&lab, "plugins/sdk/c/machine.c", "libmachine", &[]);
    let checked = ended(&lab, &["plugin", "check", machine.to_str().unwrap(), "--json"]).await;
    let checked: Value = serde_json::from_str(&checked.with_code(0).out).unwrap();
    assert_eq!(checked["tools"][0]["name"], "machine_load");
    assert!(checked["tools"][0]["calls"].as_u64().unwrap() > 0, "{checked}");

    let made = "CREATE TABLE books (title TEXT); INSERT INTO books VALUES ('Emma');";
    let database = Blocking::new("python3")
        .args([
            "-c",
            "import sqlite3,sys; sqlite3.connect('b.db').executescript(sys.argv[1])",
            made,
        ])
        .current_dir(lab.work(""))
        .status();
    assert!(database.unwrap().success());
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0";
    fs::write(lab.work("a.png"), png).unwrap();
    let sqlite = library("sqlite");
    let image = library("image");
    let calls = [
        ("sqlite_query", json!({"database": "b.db", "sql": "SELECT title FROM books"})),
        ("image_facts", json!({"path": "a.png"})),
        ("image_facts", json!({"path": "/etc/passwd"})),
        ("machine_load", json!({})),
    ];
    for isolated in [true, false] {
        configure(&lab, &[(&sqlite, isolated), (&image, isolated), (&machine, isolated)]);
        let (results, _) = results(&lab, &calls, &[]).await;
        for (result, words) in results.iter().zip([
            "title\nEmma",
            "width: 3\nheight: 2",
            "outside of what this agent may read",
            "\"processors\":",
        ]) {
            assert!(result.contains(words), "{words}: {result}");
        }
        assert_eq!(results.len(), 4);
    }
}

#[tokio::test]
async fn a_replay_tells_of_plugins_without_their_files() {
    let lab = Lab::new();
    tar(&lab);
    let copy = lab.path("libarchive.so");
    fs::copy(library("archive"), &copy).unwrap();
    configure(&lab, &[(&copy, true)]);
    let server = caller(&[("archive_list", json!({"path": "files.tar.gz"}))]).await;
    let tape = lab.path("tape");
    let tape = tape.to_str().unwrap();
    lab.run(&server, &["--record", tape, "go"]).end().await.with_code(0);
    fs::remove_file(&copy).unwrap();
    let played = ended(&lab, &["run", "--replay", tape]).await.with_code(0);
    assert!(played.out.contains("2 entries"), "{}", played.out);
}
