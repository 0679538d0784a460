//! Toolsets that are made of others.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{blocks, calls_in_order};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

async fn deputize(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

/// Writes a configuration with these toolsets.
fn configure(lab: &Lab, sets: &Value) {
    fs::create_dir_all(lab.path("home")).unwrap();
    let config = json!({ "composite_toolsets": sets });
    fs::write(lab.path("home/config.yaml"), config.to_string()).unwrap();
}

/// The tools that an agent with these toolsets sends.
async fn sent(lab: &Lab, sets: &str) -> Vec<String> {
    let server = model(calls_in_order(Vec::new())).await;
    lab.run(&server, &["-t", sets, "Go"]).end().await.with_code(0);
    let requests = server.requests();
    ChatRequest::of(&requests[0]).tools().into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn coding_and_research_are_what_they_include() {
    let lab = Lab::new();
    let mut apart = sent(&lab, "file,terminal,todo,delegation,skills").await;
    let mut coding = sent(&lab, "coding").await;
    apart.sort();
    coding.sort();
    assert_eq!(coding, apart);
    assert!(coding.contains(&"delegate_task".to_owned()) && coding.contains(&"todo".to_owned()));
    let research = sent(&lab, "research").await;
    assert_eq!(research, ["list_dir", "read_file", "search_files", "web_fetch", "delegate_task"]);
}

#[tokio::test]
async fn a_person_makes_toolsets_of_tools_and_toolsets() {
    let lab = Lab::new();
    configure(
        &lab,
        &json!({
            "notes": {"tools": ["write_file"], "includes": ["look"]},
            "look": {"includes": ["file_read"]},
        }),
    );
    assert_eq!(sent(&lab, "notes").await, ["list_dir", "read_file", "search_files", "write_file"]);
    let listed = deputize(&lab, &["toolsets", "list", "--json", "--set", "toolsets=[notes]"]).await;
    let listed: Value = serde_json::from_str(&listed.with_code(0).out).unwrap();
    let notes = listed.as_array().unwrap().iter().find(|it| it["toolset"] == "notes").unwrap();
    assert_eq!(notes["enabled"], true);
    let child = ["toolsets", "resolve", "--child", "--toolsets", "notes", "--json"];
    let child: Value =
        serde_json::from_str(&deputize(&lab, &child).await.with_code(0).out).unwrap();
    let kept: Vec<&Value> = child["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["kept"] == true)
        .map(|it| &it["tool"])
        .collect();
    assert_eq!(kept, ["list_dir", "read_file", "search_files", "write_file"]);
}

#[tokio::test]
async fn the_toolsets_of_the_page_are_made() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/toolsets.md");
    let page = fs::read_to_string(page).unwrap();
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), blocks(&page, "yaml")[0].1).unwrap();
    // A server that it names is not configured here.
    let listed = deputize(&lab, &["toolsets", "list"]).await.with_code(0);
    let row = listed.out.lines().find(|line| line.starts_with("notes ")).unwrap_or_default();
    let tools = ["notes", "yes", "list_dir,", "read_file,", "search_files,", "write_file"];
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), tools, "{}", listed.out);
}

#[tokio::test]
async fn mistakes_in_toolsets_are_named_with_the_nearest_name() {
    for (sets, actual) in [
        (
            json!({"a": {"includes": ["b"]}, "b": {"includes": ["a"]}}),
            "`composite_toolsets.a` includes itself: a → b → a",
        ),
        (
            json!({"a": {"includes": ["fiel"]}}),
            "`composite_toolsets.a.includes`: there is no toolset `fiel`; did you mean `file`?",
        ),
        (
            json!({"a": {"tools": ["read_fil"]}}),
            "`composite_toolsets.a.tools`: there is no tool `read_fil`; did you mean `read_file`?",
        ),
        (
            json!({"file": {"tools": ["read_file"]}}),
            "`composite_toolsets.file`: the program has a toolset of this name",
        ),
        (json!({"A b": {"includes": ["file"]}}), "`composite_toolsets.A b`: "),
        (
            json!({"a": {"includes": []}}),
            "`composite_toolsets.a` has no tools: name tools in `tools`, or toolsets in `includes`",
        ),
        (json!({"a": {"include": []}}), "unknown key `include` in `composite_toolsets.a`"),
    ] {
        let lab = Lab::new();
        configure(&lab, &sets);
        let ended = deputize(&lab, &["tools", "list"]).await.with_code(2);
        assert!(ended.err.contains(actual), "{actual}: {}", ended.err);
    }
}

#[tokio::test]
async fn processes_that_change_toolsets_at_the_same_time_lose_nothing() {
    let lab = Lab::new();
    let sets =
        ["clarify", "code_execution", "cronjob", "memory", "messaging", "skills", "todo", "web"];
    let start = |set| RunningProgram::start(lab.deputize(&["tools", "disable", set]));
    let started: Vec<RunningProgram> = sets.into_iter().map(start).collect();
    let mut actual = String::new();
    for program in started {
        actual += &program.end().await.with_code(0).err;
    }
    // The first one alone changes what was every toolset, and no file is stronger than itself.
    assert_eq!(actual.matches("note: agents had every toolset").count(), 1, "{actual}");
    assert!(!actual.contains("stronger"), "{actual}");
    let file = fs::read_to_string(lab.path("home/config.yaml")).unwrap();
    assert!(file.contains("file, ") && file.contains("terminal"), "{file}");
    for set in sets {
        assert!(!file.contains(set), "{set}: {file}");
    }
    let start = |set| RunningProgram::start(lab.deputize(&["tools", "enable", set]));
    let started: Vec<RunningProgram> = sets.into_iter().map(start).collect();
    for program in started {
        program.end().await.with_code(0);
    }
    assert!(!fs::read_to_string(lab.path("home/config.yaml")).unwrap().contains("toolsets"));
}

#[tokio::test]
async fn a_run_without_any_tool_says_so_and_why() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home/agents")).unwrap();
    let typo = "---\ndescription: d\ntoolsets: [fiel]\n---\n";
    fs::write(lab.path("home/agents/typo.md"), typo).unwrap();
    let server = model(calls_in_order(Vec::new())).await;
    let warning = async |args: &[&str]| {
        let ended = lab.run(&server, &[args, &["Go"]].concat()).end().await.with_code(0);
        let lines = ended.err.lines().filter(|line| line.contains("has no tool"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let hint = "; `deputize tools list` shows what there is";
    let unusable = warning(&["-t", "messaging"]).await;
    assert_eq!(unusable.len(), 1, "{unusable:?}");
    let why = "warning: the agent has no tool (`send_message`: ";
    assert!(unusable[0].starts_with(why) && unusable[0].ends_with(hint), "{unusable:?}");
    let bounded = warning(&["--profile", "typo"]).await;
    let why = "its profile `typo` leaves it none";
    assert_eq!(bounded, [format!("warning: the agent has no tool ({why}){hint}")]);
    assert_eq!(warning(&["-t", "todo"]).await, [""; 0]);
    for request in &server.requests()[..2] {
        assert!(request.json().get("tools").is_none(), "{}", request.json());
    }
}
