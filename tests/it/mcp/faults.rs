//! A server that does one thing wrong. What can be offered of it is offered, each call has a
//! result that says what to do, the next call works, and nothing is left of any process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::authority::Grant;
use deputize_core::model::Reply;
use deputize_core::{
    Authority, Cancel, Catalog, Event, Observer, Resource as _, SessionId, ToolCx, ToolError,
};
use deputize_mcp::{
    McpError, ServerConfig, ServerDirectory, ServerLimits, ServerListing, ServerRecord,
    ServerTarget, Servers, ToolFilter, look, offer,
};
use deputize_process::Supervisor;
use deputize_runtime::{Session, SessionConfig, SessionDir};
use deputize_testkit::{Recorder, ScriptedModel, ToolHarness};
use futures_util::stream::{self, StreamExt as _};
use serde_json::json;

use super::contract::tools;
use crate::program::{hint_commands, soon};

const SERVER: &str = env!("CARGO_BIN_EXE_deputize-mcp-faulty");
/// Long enough for any answer that comes, on any machine.
const LONG: Duration = Duration::from_secs(30);
/// For answers that never come.
const SHORT: Duration = Duration::from_millis(400);

fn server(fault: &str, file: &Path, limits: ServerLimits) -> ServerConfig {
    let args: Vec<OsString> = vec![fault.into(), file.into()];
    let server =
        ServerConfig::program("s", SERVER, args, BTreeMap::new(), ServerDirectory::At("/".into()))
            .unwrap();
    ServerConfig { limits, ..server }
}

fn patient() -> ServerLimits {
    let backoff = Duration::from_millis(10);
    ServerLimits { start: LONG, idle: LONG, total: LONG, backoff }
}

fn supervisor() -> Arc<Supervisor> {
    Arc::new(Supervisor::start().unwrap())
}

async fn listed(fault: &str, limits: ServerLimits) -> Result<ServerListing, McpError> {
    let supervisor = supervisor();
    let look = look(server(fault, Path::new(""), limits), "/", move || Ok(Arc::clone(&supervisor)));
    soon(fault, look).await
}

/// Returns the offered tools and the problems with the rest, or the error.
fn describe(found: &Result<ServerListing, McpError>) -> (Vec<String>, String) {
    match found {
        Err(error) => (Vec::new(), error.to_string()),
        Ok(listed) => {
            let mut record = ServerRecord::default();
            let start = ServerTarget::default();
            record.record_and_approve(&start, listed.clone());
            let offer = offer("s", &record, &start, &ToolFilter::default(), &hint_commands());
            let names = offer.entries.iter().map(|entry| entry.name().to_string());
            (names.collect(), offer.notes.join("\n"))
        }
    }
}

const ECHO: &str = "mcp__s__echo";

/// A fault, the offered tools, and the problems.
const STARTS: &[(&str, &[&str], &str)] = &[
    ("none", &[ECHO], ""),
    (
        "exits at once",
        &[],
        "ended with exit code 3; its last words on standard error: no key: set WEATHER_KEY",
    ),
    ("closes its output at once", &[], "its start failed"),
    ("greets", &[ECHO], ""),
    (
        "prints and prints",
        &[],
        "it printed 101 lines that are not messages on its standard output; the first is: debug: tick",
    ),
    ("a long line at once", &[], "it sent a message of more than 8388608 bytes"),
    ("bytes at once", &[], "it printed 101 lines that are not messages"),
    ("floods standard error", &[ECHO], ""),
    ("starts slowly", &[ECHO], ""),
    ("refuses to agree", &[], "go away"),
    ("answers others before it agrees", &[ECHO], ""),
    ("answers others for ever", &[], "it sent more than 10000 unrequested messages"),
    ("agrees with a number", &[], "its start failed"),
    ("agrees without a version", &[], "its start failed"),
    ("dies after it agreed", &[], "ended with exit code 9"),
    ("has no tools", &[], ""),
    ("bytes in its name", &[ECHO], ""),
    ("instructions", &[ECHO], ""),
    (
        "refuses to list",
        &[],
        "cannot get its list of tools: it refuses (code -32603: the database is gone)",
    ),
    ("lists nothing at all", &[], "the answer has no `tools`"),
    ("lists a text", &[], "the answer has no `tools`"),
    ("lists in a circle", &[], "its pages go in a circle"),
    ("lists for ever", &[], "it has more than 100 pages"),
    (
        "lists in pages",
        &["mcp__s__page_0", "mcp__s__page_1", "mcp__s__page_2", "mcp__s__page_3"],
        "",
    ),
    ("a schema that is a list", &[ECHO], "tool \"bad\": its schema is no object but an array"),
    ("a schema of a text", &[ECHO], "tool \"bad\": a schema of arguments must have type `object`"),
    ("a schema that is none", &[ECHO], "tool \"bad\": its schema is none"),
    (
        "a schema that unfolds for ever",
        &[ECHO],
        "tool \"bad\": a schema must not unfold to more than 100000 parts",
    ),
    ("no schema", &["mcp__s__bare", ECHO], ""),
    (
        "a name with escapes",
        &[ECHO],
        "tool \"\\u{1b}[2Jwipe\": its name has characters that cannot be seen",
    ),
    (
        "a name that cannot be seen",
        &[ECHO],
        "tool \"ec\\u{200b}ho\": its name has characters that cannot be seen",
    ),
    ("an empty name", &[ECHO], "tool \"\": its name is empty"),
    ("two of one name", &[], "tool \"echo\" is listed twice, differently"),
    ("twice the same", &[ECHO], ""),
    ("a long description", &[ECHO], "its description has 20000 bytes, more than 16384"),
    (
        "resources and prompts",
        &[
            ECHO,
            "mcp__s__list_resources",
            "mcp__s__read_resource",
            "mcp__s__list_prompts",
            "mcp__s__get_prompt",
        ],
        "",
    ),
];

#[tokio::test]
async fn whatever_is_wrong_at_its_start_or_in_its_list_is_reported_and_the_rest_is_offered() {
    let runs = STARTS.iter().map(|(fault, tools, words)| async move {
        let found = describe(&listed(fault, patient()).await);
        assert_eq!(found.0, *tools, "{fault}: {found:?}");
        assert!(
            if words.is_empty() { found.1.is_empty() } else { found.1.contains(words) },
            "{fault}: {found:?}"
        );
    });
    stream::iter(runs).buffer_unordered(4).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn names_and_numbers_of_tools_have_limits() {
    let (names, _) = describe(&listed("names that become one", patient()).await);
    assert_eq!(names.len(), 3);
    assert!(names.contains(&"mcp__s__a_b".to_owned()), "{names:?}");
    let (names, _) = describe(&listed("a long name", patient()).await);
    assert_eq!((names.len(), names[0].len()), (1, 64));
    let (names, words) = describe(&listed("six hundred tools", patient()).await);
    assert_eq!(names.len(), 512);
    assert!(words.contains("it has 600 tools"), "{words}");
    let listed = listed("a description with escapes", patient()).await.unwrap();
    assert_eq!(listed.tools[0].for_model(), "Say it again.");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for() {
    for fault in ["hangs at once", "never agrees", "agrees to another request", "never lists"] {
        let limits = ServerLimits { start: SHORT, ..patient() };
        let (tools, words) = describe(&listed(fault, limits).await);
        assert_eq!(tools, Vec::<String>::new());
        assert!(
            words.contains("within 0.4 s") || words.contains("no answer within"),
            "{fault}: {words}"
        );
    }
}

#[tokio::test]
async fn a_silent_server_is_waited_for_once_and_then_left_alone_for_a_while() {
    for fault in ["hangs at once", "never lists"] {
        let supervisor = supervisor();
        let limits = ServerLimits { start: SHORT, backoff: Duration::from_secs(60), ..patient() };
        let server = server(fault, Path::new(""), limits);
        let servers = Servers::new(vec![server], "/", move |_| Ok(Arc::clone(&supervisor)));
        let first = soon(fault, servers.list("s")).await.unwrap_err().to_string();
        assert!(first.contains("answer within 0."), "{fault}: {first}");
        for _ in 0..3 {
            let next = soon(fault, servers.list("s")).await.unwrap_err().to_string();
            let words = "mcp s: it did not answer within 0.4 s when it was last started; it is not \
                         started again for 3600 s, so use another way meanwhile";
            assert_eq!(next, words, "{fault}");
        }
        soon(fault, servers.close()).await;
    }
}

/// Results of calls of `echo`, and what the operator reads of each.
struct CallResults {
    results: Vec<String>,
    errors: Vec<Option<String>>,
    spill: Vec<String>,
}

/// A session whose model calls `echo` so often, in steps of their own.
async fn called(fault: &str, times: usize, limits: ServerLimits) -> CallResults {
    let folder = tempfile::tempdir().unwrap();
    Box::pin(called_in(folder.path(), (fault, times), limits, &Cancel::new())).await
}

async fn called_in(
    folder: &Path,
    (fault, times): (&str, usize),
    limits: ServerLimits,
    cancel: &Cancel,
) -> CallResults {
    let file = folder.join("mark");
    let supervisor = supervisor();
    let shared = Arc::clone(&supervisor);
    let server = server(fault, &file, limits);
    let first = ServerConfig { limits: patient(), ..server.clone() };
    let looked = Box::pin(look(first, "/", move || Ok(Arc::clone(&shared))));
    let listed = looked.await.unwrap();
    let mut record = ServerRecord::default();
    record.record_and_approve(&server.start(), listed);
    let mut catalog = Catalog::default();
    for entry in
        offer("s", &record, &server.start(), &ToolFilter::default(), &hint_commands()).entries
    {
        catalog.insert(entry).unwrap();
    }
    let reads_nothing = fault == "stops reading";
    let model = Arc::new(ScriptedModel::rule(move |seen| {
        let done = seen.results().len();
        // More than a pipe holds.
        let much = if reads_nothing { "x".repeat(200_000) } else { String::new() };
        let arguments = json!({"text": format!("{done}"), "more": much});
        let call = || Reply::calls("m", [("mcp__s__echo", arguments)]);
        Some(if done < times { call() } else { Reply::text("m", "Done.") }.into())
    }));
    let mut config = SessionConfig::new(catalog);
    let recorder = Recorder::default();
    config.observers.push(Arc::new(recorder.clone()) as Arc<dyn Observer>);
    config.models.insert("test/m", "m", model.clone());
    let servers = Servers::new(vec![server], folder, move |_| Ok(Arc::clone(&supervisor)));
    let servers = config.tools.settings.get_or_insert_with(|| servers);
    let dir = SessionDir::new(folder.join("sessions"));
    let session = Session::create(&dir, SessionId::literal("mcp"), config).unwrap();
    let spec = session.top_agent("test/m", "Go", folder);
    let authority = Authority::root(session.catalog(), &Grant::default());
    soon(fault, session.run(spec, authority, cancel)).await;
    soon(fault, servers.close()).await;
    let ends = recorder.events().into_iter().filter_map(|event| match event {
        Event::ToolEnd(end) => Some((end.result.text.as_str().to_owned(), end.error)),
        _ => None,
    });
    let (results, errors) = ends.unzip();
    let spill = std::fs::read_dir(dir.spill(&SessionId::literal("mcp")));
    let spill = spill.into_iter().flatten().map(|entry| entry.unwrap().file_name());
    let mut spill: Vec<String> = spill.map(|name| name.into_string().unwrap()).collect();
    spill.sort();
    // Its input is closed and its group ended: nothing of it is left.
    let left = processes_with(&file);
    assert_eq!(left, Vec::<String>::new(), "{fault}");
    CallResults { results, errors, spill }
}

/// The processes whose arguments name this file.
fn processes_with(file: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(file.to_str().unwrap()) {
            found.push(line);
        }
    }
    found
}

const SILENT: &str = "the server gave no answer within 0.4 s";
/// The same of one that is ended for it.
const STUCK: &str = "the server gave no answer within 0.4 s, takes no messages any more and was ended; \
                     what the call did is unknown";

/// A fault, what the first result has, what the second one has, and whether answers are waited for
/// only briefly.
const ANSWERS: &[(&str, &str, &str, bool)] = &[
    ("none", "echo: 0", "echo: 1", false),
    ("stays", "echo: 0", "echo: 1", false),
    ("floods standard error", "echo: 0", "echo: 1", false),
    ("never answers", SILENT, SILENT, true),
    (
        "exits in a call",
        "ended with exit code 7); what the call did is unknown",
        "exit code 7",
        false,
    ),
    ("aborts in a call", "ended by signal 6); what the call did is unknown", "signal 6", false),
    ("closes its output in a call", "the server ended during the call", "ended during", false),
    ("stray lines in a call", "echo: 0", "echo: 1", false),
    (
        "a long line in a call",
        "more than 8388608 bytes); what the call did is unknown",
        "more than 8388608",
        false,
    ),
    ("answers another request", SILENT, SILENT, true),
    ("answers twice", "echo: 0", "echo: 1", false),
    ("answers without a version", "the answer is no message of JSON-RPC 2.0", "no message", false),
    ("answers with nothing", "the answer is no message of JSON-RPC 2.0", "no message", false),
    ("answers null", "no content", "no content", false),
    ("answers a list", "the server's answer has no content", "", false),
    ("answers in a batch", "echo: 0", "echo: 1", false),
    ("answers in pieces", "echo: 0", "echo: 1", false),
    (
        "answers too deep",
        "the server's answer cannot be read; what",
        "the answer is nested more than 127 deep",
        false,
    ),
    (
        "answers no number",
        "the server's answer cannot be read; what",
        "the answer is no JSON",
        false,
    ),
    ("half a character in an answer", "ech\u{fffd}: 0", "ech\u{fffd}: 1", false),
    ("a mark of byte order", "echo: 0", "echo: 1", false),
    ("bytes in an answer", "ech\u{fffd}: 0", "ech\u{fffd}: 1", false),
    ("escapes in an answer", "\nab\n", "\nab\n", false),
    (
        "refuses",
        "error: the server refused the call (code -32602):\n<tool:mcp__s__echo",
        "refused",
        false,
    ),
    (
        "reports an error",
        "error: the tool reports an error:\n<tool:mcp__s__echo",
        "no such city",
        false,
    ),
    ("content of another kind", "[a part of another kind is left out]", "echo: 1", false),
    ("no content", "{\"answer\":42}", "42", false),
    ("structured beside a text", "\nstructured data: {\"n\":42}\n", "echo: 1", false),
    ("structured as it says", "echo: 0", "echo: 1", false),
    (
        "structured otherwise than it says",
        "\nwrong in the structured data: /n \"xxxx",
        "[the structured data does not fit",
        false,
    ),
    (
        "nothing structured",
        "[there is no structured data, which the tool's output schema promises]",
        "echo: 1",
        false,
    ),
    ("an output schema that is none", "echo: 0", "echo: 1", false),
    ("content that is a text", "[the server's answer has no content]", "no content", false),
    ("an image", "[image/png, 8 bytes: /", "image/png", false),
    ("an image that is none", "[a part is left out: it is not base64]", "left out", false),
    (
        "many links and images",
        "[214 links to resources are not followed]\n[50 parts are left out: 100 are kept]",
        "x://1",
        false,
    ),
    ("floods with progress", "echo: 0", "echo: 1", false),
    ("a link", "[a link to a resource is not followed]", "file:///etc/shadow", false),
    ("a great deal of text", "bytes left out; the whole is in /", "left out", false),
    ("floods with messages", "it sent more than 10000 unrequested messages", "10000", false),
    ("stops reading", STUCK, STUCK, true),
    ("floods with requests and reads nothing", SILENT, SILENT, true),
    ("floods with requests", "it sent more than 10000 unrequested messages", "10000", false),
    ("asks for a model", "told: {\"code\":-32601", "told", false),
    ("asks the person", "told: {\"action\":\"decline\"}", "told", false),
    ("asks for roots", "told: {\"roots\":[{\"uri\":\"file:///", "told", false),
    ("asks for what is not", "told: {\"code\":-32601", "told", false),
];

#[tokio::test]
async fn whatever_a_server_answers_the_call_has_a_result_that_says_what_happened() {
    let runs = ANSWERS.iter().map(|&(fault, first, second, brief)| async move {
        let limits = if brief { ServerLimits { idle: SHORT, ..patient() } } else { patient() };
        let called = called(fault, 2, limits).await;
        let one = &called.results[0];
        let two = &called.results[1];
        assert!(one.contains(first), "{fault}: {one}");
        assert!(two.contains(second), "{fault}: {two}");
    });
    stream::iter(runs).buffer_unordered(4).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn a_text_id_is_no_answer_to_a_number() {
    let limits = ServerLimits { idle: SHORT, ..patient() };
    let called = called("answers as a text id", 1, limits).await;
    let result = &called.results[0];
    assert!(result.contains("echo: 0") || result.contains("gave no answer"), "{result}");
}

#[tokio::test]
async fn a_server_that_ends_is_started_again_and_three_times_at_most() {
    // The rest after three starts is long beside a test, however slow the machine is.
    let limits = ServerLimits { backoff: Duration::from_millis(200), ..patient() };
    let called = called("exits in a call", 5, limits).await;
    let ended = called.results.iter().filter(|text| text.contains("exit code 7")).count();
    assert_eq!(ended, 3, "{:?}", called.results);
    assert!(called.results[0].contains("disk on fire"), "its last words: {:?}", called.results);
    let actual = called.errors[4].clone().unwrap();
    let words = "the tool failed: mcp s: it was started 3 times and failed each time; it is not \
                 started again for ";
    assert!(actual.starts_with(words), "{actual}");
}

#[tokio::test]
async fn progress_keeps_a_call_alive_and_not_for_ever() {
    let limits = ServerLimits { idle: Duration::from_millis(600), ..patient() };
    let good = called("progress and then the answer", 1, limits).await;
    assert!(good.results[0].contains("echo: 0"), "{:?}", good.results);
    let limits = ServerLimits { total: Duration::from_millis(600), ..patient() };
    let cut = called("progress for ever", 1, limits).await;
    assert!(cut.results[0].contains("gave no answer within 0.6 s"), "{:?}", cut.results);
    let words = "\nprogress that it told of: 1 of 9: half way\n</";
    assert!(cut.results[0].contains(words), "{:?}", cut.results);
}

#[tokio::test]
async fn a_tool_that_changes_while_the_agent_lives_is_not_called_any_more() {
    for how in ["changes a tool", "newer: changes a tool"] {
        let changed = called(how, 2, patient()).await;
        assert!(changed.results[0].contains("echo: 0"), "{how}: {:?}", changed.results);
        let words = "mcp s: mcp__s__echo changed since you approved it (description, +2 lines -1 \
                     line). Review with: deputize mcp review s";
        assert!(changed.results[1].contains(words), "{how}: {:?}", changed.results);
    }
    let gone = called("takes a tool away", 2, patient()).await;
    let words = "the server does not have mcp__s__echo any more";
    assert!(gone.results[1].contains(words), "{:?}", gone.results);
}

/// What of a result stands outside of its frame, and what within.
pub(super) fn by_frame(result: &str) -> (String, String) {
    let Some((before, rest)) = result.split_once("<tool:") else {
        return (result.to_owned(), String::new());
    };
    let (head, rest) = rest.split_once(">\n").unwrap();
    let (_, boundary) = head.rsplit_once(' ').unwrap();
    let (inside, behind) = rest.split_once(&format!("</{boundary}>")).unwrap();
    (format!("{before}{behind}"), inside.to_owned())
}

#[tokio::test]
async fn no_word_of_a_server_stands_where_only_we_speak() {
    let runs = [
        ("words in a result", false),
        ("words of progress", true),
        ("words between messages", true),
        ("many words between messages", false),
        ("words of what it asks for", false),
        ("words in an error", false),
        ("words at its end", false),
    ]
    .map(|(fault, brief)| async move {
        let limits = if brief { ServerLimits { idle: SHORT, ..patient() } } else { patient() };
        let called = called(fault, 1, limits).await;
        let (ours, theirs) = by_frame(&called.results[0]);
        assert!(!ours.contains("OBEY"), "{fault}: {}", called.results[0]);
        assert!(theirs.contains("OBEY"), "{fault}: {}", called.results[0]);
        assert!(called.spill.iter().all(|name| !name.contains("OBEY")), "{:?}", called.spill);
    });
    Box::pin(stream::iter(runs).buffer_unordered(4).collect::<Vec<()>>()).await;
}

#[tokio::test]
async fn long_texts_and_images_are_kept_whole_beside_the_session() {
    let long = called("a great deal of text", 1, patient()).await;
    assert_eq!(long.spill.len(), 1, "{:?}", long.spill);
    let image = called("an image", 1, patient()).await;
    assert!(image.spill[0].ends_with(".1.png"), "{:?}", image.spill);
}

#[tokio::test]
async fn after_an_interrupted_call_that_the_server_did_not_take_the_next_one_works() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let server = server("stops reading once", &mark, patient());
    let (catalog, servers) = tools(server, &[]).await;
    std::fs::write(&mark, "stop").unwrap();
    let much = json!({"text": "a", "more": "x".repeat(200_000)});
    let call = |cancel: Cancel| {
        let bench = ToolHarness::of(folder.path(), catalog.clone());
        bench.agent().session.settings.get_or_insert_with(|| servers.clone());
        let much = much.clone();
        async move {
            let cx = ToolCx { cancel, ..bench.cx() };
            let tool = bench.agent().catalog.get("mcp__s__echo").unwrap();
            soon("a call", tool.tool.call(much, &cx)).await
        }
    };
    let cancel = Cancel::new();
    let interrupt = async {
        while std::fs::read_to_string(&mark).unwrap() != "stopped" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The call is on its way, or comes to its end before: either is an interrupt of it.
        cancel.cancel(deputize_core::CancelReason::Interrupted);
    };
    let (cut, ()) = tokio::join!(call(cancel.clone()), soon("the stop", interrupt));
    assert!(matches!(cut, Err(ToolError::Cancelled(_))), "{cut:?}");
    let next = call(Cancel::new()).await;
    assert!(next.as_ref().is_ok_and(|output| output.content == "echo: a"), "{next:?}");
    servers.close().await;
}

#[tokio::test]
async fn an_interrupt_is_sent_to_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let cancel = Cancel::new();
    let mark = folder.path().join("mark");
    let says = |words: &str| std::fs::read_to_string(&mark).is_ok_and(|text| text == words);
    let run = called_in(folder.path(), ("never answers", 1), patient(), &cancel);
    let interrupt = async {
        while !says("called") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel(deputize_core::CancelReason::Interrupted);
    };
    let (called, ()) = tokio::join!(run, soon("the call", interrupt));
    assert!(says("cancelled"), "the server was told");
    assert!(called.results.iter().all(|text| text.contains("cancelled")), "{:?}", called.results);
}
