//! What a real model said, in each of the three formats, passes through the whole program. The
//! fixtures were made with a small model by a real server; CONTRIBUTING.md says how.

use std::fs;
use std::path::PathBuf;

use deputize_testkit::{MockAnswer, MockServer};
use serde_json::Value;

use crate::program::{Lab, ProgramEnd, RunningProgram};

const FORMATS: [&str; 3] = ["openai-chat", "openai-responses", "anthropic-messages"];

/// What the model was asked to do.
const TASK: &str = "Read the file README.md with the tool read_file: answer with a <tool_call>.";

/// Set, it makes the recordings anew from the bodies.
const AGAIN: &str = "DEPUTIZE_RECORD_AGAIN";

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

fn recording(format: &str) -> PathBuf {
    fixture(&format!("real-model/{format}.jsonl"))
}

fn body(format: &str, name: &str) -> String {
    fs::read_to_string(fixture(&format!("streams/{format}/real-llama-cpp-{name}.txt"))).unwrap()
}

/// The text of the last reply in a recording.
fn answer(format: &str) -> String {
    let text = fs::read_to_string(recording(format)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut replies = lines.filter_map(|line| {
        let event = &line["line"]["record"]["event"];
        (event["type"] == "model.response").then(|| event["reply"]["text"].clone())
    });
    replies.next_back().unwrap().as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_recording_of_a_real_model_is_played() {
    for format in FORMATS {
        let lab = Lab::new();
        let file = recording(format);
        let play = async |output| {
            let args = ["run", "--replay", file.to_str().unwrap(), "--output", output];
            RunningProgram::start(lab.deputize(&args)).end().await
        };
        let played = play("events").await;
        assert!(
            played.code == Some(0),
            "{format}: {}\nIf the prompt or a tool is another now, make the recordings anew: \
             {AGAIN}=1 cargo nextest run real_model",
            played.err
        );
        check(&played, format);
        // A real model spoke, and not a script: its server has a name and counts.
        let response = &played.events("model.response")[0];
        assert!(response["input_tokens"].as_u64() > Some(400), "{response}");
        let text = play("text").await.with_code(0).out;
        assert_eq!(text.trim_end(), answer(format).trim());
        assert!(text.contains("Kite finds files that were copied twice."), "{text}");
    }
}

/// The model called the tool, and answered from its result.
fn check(ended: &ProgramEnd, format: &str) {
    let results = ended.events("tool.end");
    assert!(!results.is_empty(), "{format}");
    for result in results {
        assert_eq!((&result["tool"], &result["status"]), (&"read_file".into(), &"ok".into()));
    }
    let responses = ended.events("model.response");
    assert_eq!(responses.len(), 2, "{format}");
    assert!(responses.iter().all(|it| it["model"] == "smollm2"), "{responses:?}");
    assert_eq!(responses[1]["outcome"], "final", "{format}");
}

/// Answers with the bodies of a real server, and runs the program against them.
async fn run(lab: &Lab, format: &str, answers: [MockAnswer; 2], more: &[&str]) -> ProgramEnd {
    let server = MockServer::start(answers).await.unwrap();
    let base = server.base_url();
    let entry = format!(
        "model: {format}/smollm2\nmax_output_tokens: 120\n\
         providers:\n  {format}: {{ api: {format}, base_url: \"{base}\" }}\n"
    );
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), entry).unwrap();
    let kite = "# Kite\n\nKite finds files that were copied twice. It is written in Rust.\n";
    fs::write(lab.work("README.md"), kite).unwrap();
    let mut args = vec!["run", "-t", "file", "--output", "events"];
    args.extend(more);
    args.push(TASK);
    RunningProgram::start(lab.deputize(&args)).end().await.with_code(0)
}

#[tokio::test]
async fn the_bodies_of_a_real_server_pass_through_the_program() {
    for format in FORMATS {
        let lab = Lab::new();
        let streamed = ["call", "answer"].map(|name| MockAnswer::sse(body(format, name)).pieces(7));
        let again = std::env::var_os(AGAIN).map(|_| lab.path("again.jsonl"));
        let more: Vec<&str> =
            again.iter().flat_map(|file| ["--record", file.to_str().unwrap()]).collect();
        check(&run(&lab, format, streamed, &more).await, format);
        if let Some(file) = again {
            fs::copy(file, recording(format)).unwrap();
        }

        let lab = Lab::new();
        let whole = ["whole-call", "whole-answer"];
        let whole = whole.map(|name| MockAnswer::body("application/json", body(format, name)));
        let set = format!("providers.{format}.streaming=false");
        check(&run(&lab, format, whole, &["--set", &set]).await, format);
    }
}
