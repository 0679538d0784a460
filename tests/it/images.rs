//! Images: files and results of servers, as models see them.

use std::fs;

use deputize_core::model::{Reply, Usage};
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use crate::mcp::set_server;
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

/// A PNG file of one pixel, in base64.
pub(crate) const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
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
pub(crate) fn images(request: &HttpRequest) -> Vec<String> {
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

/// A PNG file with so many pixels a side, all black: each row has no filter, and is not compressed.
fn png(side: u32) -> Vec<u8> {
    let row = vec![0; 1 + side.div_ceil(8) as usize];
    let pixels = row.repeat(side as usize);
    let mut data = vec![0x78, 0x01];
    let mut blocks = pixels.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap();
        data.push(u8::from(blocks.peek().is_none()));
        data.extend(length.to_le_bytes());
        data.extend((!length).to_le_bytes());
        data.extend(block);
    }
    // Of zeros alone the first sum stays 1, and the second counts them.
    let sum = u32::try_from(pixels.len() % 65_521).unwrap() << 16 | 1;
    data.extend(sum.to_be_bytes());
    let head = [&side.to_be_bytes()[..], &side.to_be_bytes(), &[1, 0, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, bytes) in [(b"IHDR", head), (b"IDAT", data), (b"IEND", Vec::new())] {
        let chunk = [kind, &bytes[..]].concat();
        file.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        file.extend(&chunk);
        file.extend(crc(&chunk).to_be_bytes());
    }
    file
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

/// Holds that a provider takes the conversation: each result answers a call of the message before the
/// results, and each call has one.
fn is_valid(request: &HttpRequest) {
    let messages = request.json()["messages"].clone();
    let mut open: Vec<Value> = Vec::new();
    for message in messages.as_array().unwrap() {
        match message["role"].as_str().unwrap() {
            "tool" => {
                let id = &message["tool_call_id"];
                let at = open.iter().position(|call| call == id);
                open.remove(at.unwrap_or_else(|| panic!("no call {id}: {messages:#}")));
            }
            role => {
                assert_eq!(open, Vec::<Value>::new(), "before a message of {role}");
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                open = calls.map(|call| call["id"].clone()).collect();
            }
        }
    }
    assert_eq!(open, Vec::<Value>::new(), "at the end");
}

#[tokio::test]
async fn an_image_leaves_the_conversation_with_a_compaction() {
    const SIDE: u32 = 1500;
    const WINDOW: u64 = 14_000;
    let lab = Lab::new();
    fs::write(lab.work("big.png"), png(SIDE)).unwrap();
    for n in 0..8 {
        fs::write(lab.work(format!("{n}.txt")), format!("file {n} ").repeat(700)).unwrap();
    }
    // Counts what a provider would: a token for four bytes of text, and one for 750 pixels.
    let server = model(move |asked: &ChatRequest| {
        let image = u64::from(SIDE * SIDE) / 750;
        let input = (asked.bytes() - asked.image_bytes()) as u64 / 4;
        let input = input + image * asked.image_count() as u64;
        assert!(input < WINDOW, "{input} tokens were sent");
        let call = |name: String| Reply::calls("mock", [("read_file", json!({"path": name}))]);
        let reply = match (asked.last_user(), asked.replies()) {
            (text, _) if text.contains("will replace all of the above") => {
                Reply::text("mock", "## Found\nThe image is black.")
            }
            (_, 0) => call("big.png".to_owned()),
            (_, _) if asked.results().iter().any(|text| text.contains("file 7 ")) => {
                Reply::text("mock", "All is read.")
            }
            _ => {
                let read =
                    |n: &usize| asked.results().iter().any(|it| it.contains(&format!("file {n} ")));
                let last = (0..8).rev().find(read);
                call(format!("{}.txt", last.map_or(0, |n| n + 1)))
            }
        };
        let usage = Usage { input, output: 10, ..Usage::default() };
        MockAnswer::reply(&Reply { usage, ..reply })
    })
    .await;
    let window = format!("providers.openai.context_window={WINDOW}");
    let args = ["--set", &window, "--output", "events", "Read all"];
    let ended = run(&lab, &server, SEEING, &args).await.with_code(0);
    let compactions = ended.events("compaction");
    let [compaction, ..] = &compactions[..] else { panic!("{}", ended.out) };
    let bytes = |name: &str| compaction[name].as_u64().unwrap();
    // Of the image alone the next request is shorter by three bytes a token.
    assert!(bytes("bytes_before") - bytes("bytes_after") > u64::from(SIDE * SIDE) / 750 * 3);
    let requests = server.requests();
    requests.iter().for_each(is_valid);
    let seen: Vec<usize> = requests.iter().map(|request| images(request).len()).collect();
    assert_eq!((seen[0], seen[1], seen.last()), (0, 1, Some(&0)), "{seen:?}");
    // The request for the summary had it, and it comes never back.
    let gone = seen.iter().rposition(|count| *count == 1).unwrap();
    assert!(requests[gone].text().contains("will replace all of the above"), "{seen:?}");

    let again = caller("read_file", json!({"path": "none"})).await;
    run(&lab, &again, SEEING, &["--resume", &lab.session(), "And now?"]).await.with_code(0);
    is_valid(&again.requests()[0]);
    assert_eq!(images(&again.requests()[0]), Vec::<String>::new());
}

/// A parent that looks at the image, hands on, and ends; its child looks at it too.
fn family(history: &'static str) -> impl Fn(&ChatRequest) -> MockAnswer + Send + Sync {
    let look = || Reply::calls("m", [("read_file", json!({"path": "dot.png"}))]);
    move |asked| {
        let is_child =
            asked.system().contains("YOUR TASK:") || asked.last_user().contains("YOUR TASK:");
        let results = asked.results().len();
        MockAnswer::reply(&match (is_child, history, results) {
            (false, "fork", 0) | (true, "none", 0) => look(),
            (false, "none", 0) | (false, "fork", 1) => {
                Reply::calls("m", [("delegate_task", json!({"goal": "Look", "history": history}))])
            }
            (true, ..) => Reply::text("m", "It is a dot."),
            (false, ..) => Reply::text("m", "A child saw it."),
        })
    }
}

#[tokio::test]
async fn a_fork_has_its_parents_images_byte_for_byte() {
    let lab = lab();
    let server = model(family("fork")).await;
    let set = "delegation.tool_schemas=cache_preserving";
    run(&lab, &server, SEEING, &["--set", set, "Go"]).await.with_code(0);
    let requests = server.requests();
    requests.iter().for_each(is_valid);
    let messages = |at: usize| requests[at].json()["messages"].as_array().unwrap().clone();
    let is_child = |it: &HttpRequest| ChatRequest::of(it).last_user().contains("YOUR TASK:");
    let child = requests.iter().position(is_child).unwrap();
    // The parent's request that made the call.
    let (before, of_child) = (messages(child - 1), messages(child));
    assert_eq!(images(&requests[child]), [format!("data:image/png;base64,{PIXEL}")]);
    assert_eq!(of_child[..before.len()], before[..]);
    let text = |messages: &[Value]| Value::from(messages).to_string();
    assert!(text(&of_child).starts_with(text(&before).trim_end_matches(']')));
}

#[tokio::test]
async fn what_a_child_saw_its_parent_is_told_in_words() {
    let lab = lab();
    let server = model(family("none")).await;
    let ended = run(&lab, &server, SEEING, &["Go"]).await.with_code(0);
    assert_eq!(ended.out, "A child saw it.\n");
    let requests = server.requests();
    requests.iter().for_each(is_valid);
    let (of_child, own): (Vec<&HttpRequest>, Vec<&HttpRequest>) = requests
        .iter()
        .partition(|request| ChatRequest::of(request).system().contains("YOUR TASK:"));
    assert_eq!(of_child.iter().map(|it| images(it).len()).collect::<Vec<_>>(), [0, 1]);
    for request in own {
        assert!(!request.text().contains("iVBOR"), "{}", request.text());
    }
    // A session that goes on knows it the same way.
    let again = caller("read_file", json!({"path": "none"})).await;
    run(&lab, &again, SEEING, &["--resume", &lab.session(), "And now?"]).await.with_code(0);
    let sent = again.requests()[0].text();
    assert!(!sent.contains("iVBOR") && sent.contains("It is a dot."), "{sent}");
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
    assert!(
        ended.out.starts_with(
            "error: half.png: its PNG data are damaged or cut off: get a whole copy of it"
        ),
        "{}",
        ended.out
    );
    assert_eq!(images(&server.requests()[1]), Vec::<String>::new());
}

#[tokio::test]
async fn a_model_sees_images_of_servers() {
    for (fault, shown) in [
        ("a real image", "; PNG image, 1 × 1 pixels]"),
        ("an image", "; not shown: its PNG data are damaged or cut off"),
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

/// A photo with EXIF data that name a photographer and a place.
const PHOTO: &[u8] = include_bytes!("../../crates/image/tests/progressive.jpg");

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_person_shows_images_with_a_task_and_with_a_later_message() {
    let lab = lab();
    fs::write(lab.work("photo.jpg"), PHOTO).unwrap();
    let server = model(|_| MockAnswer::reply(&Reply::text("mock", "Seen."))).await;
    let args = ["--image", "dot.png", "--image", "photo.jpg", "--record", "tape", "What is it?"];
    let ended = run(&lab, &server, SEEING, &args).await.with_code(0);
    let first = images(&server.requests()[0]);
    let pixel = format!("data:image/png;base64,{PIXEL}");
    assert_eq!((first.len(), &first[0]), (2, &pixel));
    // The photo without what its file says beside it.
    let shown = decode(first[1].strip_prefix("data:image/jpeg;base64,").unwrap());
    assert!(has(PHOTO, "A photographer") && has(PHOTO, "A comment"));
    assert!(!has(&shown, "A photographer") && !has(&shown, "A comment"));
    assert!(server.requests()[0].text().contains("What is it?"));

    let replay = lab.deputize(&["run", "--replay", "tape"]);
    let played = RunningProgram::start(replay).end().await.with_code(0);
    assert_eq!(played.out, ended.out);

    let resume = ["--resume", &lab.session(), "--image", "dot.png", "And now?"];
    run(&lab, &server, SEEING, &resume).await.with_code(0);
    let seen = images(server.requests().last().unwrap());
    assert_eq!(seen, [&first[..], &[pixel]].concat());
}

#[tokio::test]
async fn images_that_cannot_be_shown_are_refused_before_any_request() {
    let lab = lab();
    fs::write(lab.work("notes.txt"), "text").unwrap();
    fs::write(lab.work("half.png"), &decode(PIXEL)[..40]).unwrap();
    let server = model(|_| MockAnswer::reply(&Reply::text("mock", "Seen."))).await;
    let many = ["--image", "dot.png"].repeat(21);
    let cases: [(&str, &[&str], &str); 6] = [
        ("openai/gpt-3.5-turbo", &["--image", "dot.png"], "sees no images: leave out --image"),
        (SEEING, &["--image", "none.png"], "cannot read the image `none.png`: "),
        (SEEING, &["--image", "."], "cannot read the image `.`: it is not a regular file"),
        (
            SEEING,
            &["--image", "dot.png", "--image", "notes.txt"],
            "cannot show the image `notes.txt`: it is neither PNG, JPEG, WebP nor GIF",
        ),
        (
            SEEING,
            &["--image", "half.png"],
            "cannot show the image `half.png`: its PNG data are damaged or cut off: get a whole copy",
        ),
        (SEEING, &many, "there are 21 images, and a message has at most 20"),
    ];
    for (name, args, why) in cases {
        let ended = run(&lab, &server, name, &[args, &["Look"]].concat()).await.with_code(2);
        assert!(ended.err.contains(why), "{}", ended.err);
    }
    run(&lab, &server, SEEING, &["Look"]).await.with_code(0);
    let resume = ["--resume", &lab.session(), "--image", "dot.png"];
    let ended = run(&lab, &server, SEEING, &resume).await.with_code(2);
    assert!(ended.err.contains("--image needs a message"), "{}", ended.err);
    assert_eq!(server.requests().len(), 1);
}
