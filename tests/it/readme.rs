//! Every command of the README and of the guide to running is run, as it stands there.

use std::fs;
use std::path::Path;

use deputize_core::model::Reply;
use deputize_requirements::{program, require};
use deputize_testkit::{MockAnswer, MockServer};

use crate::program::{Lab, PROGRAM, ProgramEnd, RunningProgram, model};

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    fs::read_to_string(path).unwrap()
}

/// Returns the lines of a page's shell blocks, without their remarks.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Runs a line of the README in a shell where `deputize` is the program under test.
async fn run(lab: &Lab, line: &str, server: Option<&MockServer>) -> ProgramEnd {
    // The rules of the model refuse what they do not know, so the task is one that they know.
    let task = "\"list src\"";
    let mut line = line.replace("\"And now…\"", task).replace("\"…\"", task).replace('…', "task");
    if let Some(server) = server {
        line = line.replace("http://127.0.0.1:8080/v1", &server.base_url());
    }
    let mut command = lab.command("bash");
    command.arg("-euo").arg("pipefail").arg("-c");
    command.arg(format!("deputize() {{ {PROGRAM} \"$@\"; }}\n{line}"));
    command.env("DEPUTIZE__MODEL", "offline");
    RunningProgram::start(command).end().await
}

/// A repository with parts that are worth a child each, and the session of a survey that a limit
/// stopped, so that there is something to go on with.
async fn repository_with_session(lab: &Lab) -> String {
    repository(lab);
    let first = "deputize run -q --max-iterations 1 \"Survey this repository\"";
    run(lab, first, None).await.with_code(4);
    lab.session()
}

/// A repository with parts that are worth a child each.
fn repository(lab: &Lab) {
    for (path, text) in [
        ("README.md", "# Kite\n\nKite flies kites.\n"),
        ("Cargo.toml", "[package]\nname = \"kite\"\nversion = \"0.1.0\"\n"),
        ("src/main.rs", "fn main() {\n    // TODO: wind\n    println!(\"up\");\n}\n"),
        ("src/lib.rs", "pub fn lift() -> u32 {\n    9\n}\n\n#[test]\nfn lifts() {}\n"),
        ("web/app.js", "export function draw() {\n  return eval('1');\n}\n"),
        ("docs/wind.md", "Wind.\n"),
    ] {
        let path = lab.work(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for number in 0..12 {
        for (folder, ending, line) in
            [("src/wing", "rs", "// lift\n"), ("web/ui", "js", "// draw\n")]
        {
            let path = lab.work(format!("{folder}/part{number}.{ending}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, line.repeat(50)).unwrap();
        }
    }
    let git = std::process::Command::new("git").arg("init").arg("-q").arg(lab.work("")).status();
    assert!(git.unwrap().success());
    let mut add = std::process::Command::new("git");
    assert!(add.arg("-C").arg(lab.work("")).args(["add", "."]).status().unwrap().success());
    fs::write(lab.work("docs/wind.md"), "Strong wind.\n").unwrap();
}

#[tokio::test]
async fn the_first_command_surveys_a_repository_with_children() {
    require!(program("git"));
    let lab = Lab::new();
    repository(&lab);
    let commands = commands(&readme());
    let program = "cargo run -p deputize -- ";
    let words = commands.iter().find_map(|line| line.strip_prefix(program)).expect("the command");
    let ended = run(&lab, &format!("deputize {words}"), None).await.with_code(0);
    for part in
        ["# kite 0.1.0", "Rust", "JavaScript", "`src/main.rs:1`", "src/wing/", "1 test function"]
    {
        assert!(ended.out.contains(part), "no `{part}` in:\n{}", ended.out);
    }
    assert!(ended.err.contains("delegate "), "{}", ended.err);
    // What is searched for is told in words, not as the expression that finds it.
    assert!(ended.err.contains("search (lines)"), "{}", ended.err);
    assert!(!ended.err.contains("(?"), "{}", ended.err);
    assert!(readme().contains("<!-- second command -->\n```sh\ncargo test\n```"));
}

#[tokio::test]
async fn every_other_command_works_too() {
    require!(program("git"));
    let lab = Lab::new();
    let session = repository_with_session(&lab).await;
    let server = model(|_| MockAnswer::reply(&Reply::text("mock", "An answer."))).await;
    let mut ran = 0;
    for line in commands(&readme()) {
        let line = line.replace("SESSION", &session);
        match line.as_str() {
            // These are this test itself, and the building of what it tests.
            line if line.starts_with("cargo ") => continue,
            line if line.contains("OPENAI_API_KEY=") => {
                let line = line.replace("gpt-5", "mock --base-url http://127.0.0.1:8080/v1");
                let ended = run(&lab, &line, Some(&server)).await.with_code(0);
                assert_eq!(ended.out.trim_end(), "An answer.");
                let sent = server.requests().pop().unwrap();
                // The key is for another place, so it stays here.
                assert_eq!(sent.header("authorization"), None);
            }
            line if line.contains("git diff") => {
                let line = format!("{line} -m openai/mock --base-url {}", server.base_url());
                run(&lab, &line, None).await.with_code(0);
                let sent = server.requests().pop().unwrap().text();
                assert!(sent.contains("Review this change:") && sent.contains("+Strong wind."));
            }
            line => {
                let ended = run(&lab, line, Some(&server)).await.with_code(0);
                if line.ends_with(&format!("--resume {session}")) {
                    assert!(ended.out.contains("Kite"), "{}", ended.out);
                }
            }
        }
        ran += 1;
    }
    assert!(ran >= 8, "{ran}");
}

#[tokio::test]
async fn every_command_of_the_guide_to_running_works() {
    require!(program("git"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/running.md");
    let commands = commands(&fs::read_to_string(page).unwrap());
    assert!(commands.len() >= 8, "{commands:?}");
    let lab = Lab::new();
    let session = repository_with_session(&lab).await;
    let server = model(|_| MockAnswer::reply(&Reply::text("mock", "An answer."))).await;
    for line in commands {
        let resumes = line.contains("--resume");
        let line = line.replace("SESSION", &session);
        if resumes || !line.contains("deputize run") {
            run(&lab, &line, None).await.with_code(0);
            continue;
        }
        let model = format!("deputize run -m openai/mock --base-url {}", server.base_url());
        let ended = run(&lab, &line.replace("deputize run", &model), None).await.with_code(0);
        assert!(ended.out.contains("An answer."), "{line}: {}", ended.out);
    }
}
