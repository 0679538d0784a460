//! Images: files and results of servers, as models see them.

use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::mcp::set_server;
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

/// A PNG file of one pixel, in base64.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SEEING: &str = "openai/gpt-4o";

/// A lab with the pixel as a file.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::write(lab.work("dot.png"), decode(PIXEL)).unwrap();
    lab
}

/// The bytes of base64.
fn decode(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |c: &u8| digits.iter().position(|digit| digit == c).unwrap();
    let digits: Vec<usize> = text.trim_end_matches('=').as_bytes().iter().map(value).collect();
    let group = |four: &[usize]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        let [_, bytes @ ..] = u32::try_from(bits).unwrap().to_be_bytes();
        bytes[..four.len() - 1].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

/// A model that makes this call and repeats the result.
async fn caller(tool: &'static str, arguments: Value) -> MockServer {
    model(move |asked: &ChatRequest| {
        MockAnswer::reply(&match asked.replies() {
            0 => Reply::calls("mock", [(tool, arguments.clone())]),
            _ => Reply::text("mock", asked.results().join("\n")),
        })
    })
    .await
}

async fn run(lab: &Lab, server: &MockServer, name: &str, args: &[&str]) -> ProgramEnd {
    let url = server.base_url();
    let all = [&["run", "-m", name, "--base-url", &url, "--approve", "auto"], args].concat();
    RunningProgram::start(lab.deputize(&all)).end().await
}

/// The images of a request, as addresses.
fn images(request: &HttpRequest) -> Vec<String> {
    let messages = request.json()["messages"].clone();
    let parts = messages.as_array().unwrap().iter().filter_map(|it| it["content"].as_array());
    let url = |part: &Value| part["image_url"]["url"].as_str().map(str::to_owned);
    parts.flatten().filter_map(url).collect()
}

#[tokio::test]
async fn a_model_sees_a_file_that_it_reads() {
    let lab = lab();
    let server = caller("read_file", json!({"path": "dot.png"})).await;
    let ended = run(&lab, &server, SEEING, &["--record", "tape", "Look"]).await.with_code(0);
    let note = format!("[dot.png: PNG image, 1 × 1 pixels, {} bytes]", decode(PIXEL).len());
    assert_eq!(ended.out.trim_end(), note);
    let requests = server.requests();
    assert_eq!(images(&requests[0]), Vec::<String>::new());
    let url = format!("data:image/png;base64,{PIXEL}");
    assert_eq!(images(&requests[1]), std::slice::from_ref(&url));

    // The session and its recording have it.
    let again = caller("read_file", json!({"path": "none"})).await;
    let resume = ["--resume", &lab.session(), "And now?"];
    fs::remove_file(lab.work("dot.png")).unwrap();
    run(&lab, &again, SEEING, &resume).await.with_code(0);
    assert_eq!(images(&again.requests()[0]), [url]);
    let replay = lab.deputize(&["run", "--replay", "tape"]);
    let played = RunningProgram::start(replay).end().await.with_code(0);
    assert_eq!(played.out, ended.out);
    let shown = RunningProgram::start(lab.deputize(&["sessions", "show", &lab.session()]));
    let shown = shown.end().await.with_code(0).out;
    assert!(shown.contains("PNG image, 1 × 1 pixels") && !shown.contains("iVBOR"), "{shown}");

    // A model that sees none goes on with words.
    let blind = caller("read_file", json!({"path": "none"})).await;
    let resume = ["--resume", &lab.session(), "And now?"];
    run(&lab, &blind, "openai/gpt-3.5-turbo", &resume).await.with_code(0);
    let sent = blind.requests()[0].text();
    assert!(!sent.contains("iVBOR") && sent.contains("an image stands here"), "{sent}");
}

#[tokio::test]
async fn a_model_without_vision_is_told_so_unless_the_configuration_says_otherwise() {
    let lab = lab();
    let server = caller("read_file", json!({"path": "dot.png"})).await;
    let ended = run(&lab, &server, "openai/mock", &["Look"]).await.with_code(0);
    let length = decode(PIXEL).len();
    let refused = format!(
        "error: binary file (PNG image, {length} bytes): dot.png; your model sees no images\n"
    );
    assert_eq!(ended.out, refused);
    let sees = ["--set", "providers.openai.vision=true", "Look"];
    run(&lab, &server, "openai/mock", &sees).await.with_code(0);
    assert_eq!(images(&server.requests()[3]).len(), 1);
}

#[tokio::test]
async fn a_damaged_image_is_refused_and_sent_nowhere() {
    let lab = lab();
    let half = &decode(PIXEL)[..40];
    fs::write(lab.work("half.png"), half).unwrap();
    let server = caller("read_file", json!({"path": "half.png"})).await;
    let ended = run(&lab, &server, SEEING, &["Look"]).await.with_code(0);
    assert!(ended.out.starts_with("error: half.png: it is no whole PNG file: "), "{}", ended.out);
    assert_eq!(images(&server.requests()[1]), Vec::<String>::new());
}

#[tokio::test]
async fn a_model_sees_images_of_servers() {
    for (fault, shown) in [
        ("a real image", "; PNG image, 1 × 1 pixels]"),
        ("an image", "; not shown: it is no whole PNG file: "),
    ] {
        let lab = lab();
        let own = set_server(fault);
        let server = caller("mcp__w__echo", json!({"text": "hello"})).await;
        let ended = run(&lab, &server, SEEING, &["--set", &own, "go"]).await.with_code(0);
        assert!(ended.out.contains(shown), "{}", ended.out);
        let seen = images(&server.requests()[1]);
        assert_eq!(seen.len(), usize::from(fault == "a real image"), "{fault}");
        // One that sees none has the file.
        let server = caller("mcp__w__echo", json!({"text": "hello"})).await;
        let ended = run(&lab, &server, "openai/mock", &["--set", &own, "go"]).await.with_code(0);
        assert!(ended.out.contains("image/png, ") && !ended.out.contains("shown"), "{}", ended.out);
        assert_eq!(images(&server.requests()[1]), Vec::<String>::new());
    }
}
