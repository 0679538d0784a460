//! A tool crate's registrations through the table that `export_plugin!()` exports.
#![cfg(test)]
#![expect(unsafe_code, reason = "a host reads the table of a plugin through its address")]

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use deputize_core::tool::spec_of;
use deputize_core::{
    Example, ToolCallResult, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use deputize_plugin::{CallContext, Plugin, readable};
use serde_json::{Value, json};

deputize_core::tool_crate!();
deputize_plugin::export_plugin!();

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Args {
    /// What to do.
    how: String,
}

struct ActTool;

impl TypedTool for ActTool {
    type Args = Args;

    fn spec() -> ToolSpec {
        let example = Example { title: "Nothing much", arguments: json!({"how": "text"}) };
        let spec = ToolSpec::read_only(spec_of::<Args>("do_it", "Do as told."));
        let spec = ToolSpec { examples: vec![example], time_limit: None, ..spec };
        spec.about(ToolKind::Search, "how")
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        match args.how.as_str() {
            "text" => Ok(ToolOutput::text("a \"text\"\n")),
            "note" => Ok(ToolOutput::text("x").note("cut here")),
            "tell" => {
                cx.report_progress("first");
                tokio::task::yield_now().await;
                cx.report_progress("last");
                Ok(ToolOutput::text("told"))
            }
            "wait" => {
                cx.cancel.cancelled().await;
                Err(ToolError::Cancelled(Box::new(ToolOutput::text("half"))))
            }
            "panic" => panic!("as it was told"),
            "fail" => {
                let missing = std::fs::read("/no/such/file").unwrap_err();
                Err(ToolError::failed(missing))
            }
            path => readable(cx, path.as_ref())
                .map(|found| ToolOutput::text(found.display().to_string())),
        }
    }
}

deputize_core::register_tool!("doing", ActTool);

/// A host that says yes to the cancel at the third question.
#[derive(Default)]
struct Host {
    asked: AtomicUsize,
    notes: Mutex<Vec<String>>,
    about: String,
}

impl CallContext for Host {
    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) > 1
    }

    fn note(&self, text: &str) {
        self.notes.lock().push(text.to_owned());
    }

    fn about(&self) -> &str {
        &self.about
    }
}

fn plugin() -> Plugin {
    // SAFETY: a static of this program, made by the macro.
    unsafe { Plugin::from_table(&raw const deputize_plugin_v1) }.unwrap()
}

fn call(how: &str, host: &Host) -> Value {
    let answer = plugin().call("do_it", &json!({ "how": how }).to_string(), host).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn a_registration_describes_itself() {
    let described: Value = serde_json::from_str(&plugin().describe().unwrap()).unwrap();
    assert_eq!(described["ok"]["name"], "deputize-plugin");
    let [tool] = described["ok"]["tools"].as_array().unwrap().as_slice() else { panic!() };
    assert_eq!(tool["name"], "do_it");
    assert_eq!((&tool["toolset"], &tool["effects"]), (&json!("doing"), &json!("read_only")));
    assert_eq!((&tool["repeatable"], &tool["parallel"]), (&json!(true), &json!(true)));
    assert_eq!(tool["parameters"]["required"], json!(["how"]));
    assert_eq!(tool["examples"][0]["arguments"], json!({"how": "text"}));
    assert_eq!((&tool["kind"], &tool["subject"]), (&json!("search"), &json!("how")));
    assert_eq!(tool["verb"], "search");
    assert_eq!(tool["time_limit_ms"], u64::MAX, "it watches its time itself");
}

#[test]
fn each_way_to_end_crosses() {
    let host = Host::default();
    assert_eq!(call("text", &host), json!({"ok": "a \"text\"\n"}));
    assert_eq!(call("note", &host), json!({"ok": "x", "notes": ["cut here"]}));
    assert_eq!(call("panic", &host), json!({"panicked": true}));
    let failed = call("fail", &host);
    assert!(
        failed["failed"].as_str().unwrap().contains("the tool failed: No such file"),
        "{failed}"
    );
    assert_eq!(call("wait", &Host::default()), json!({"cancelled": "half"}));
    assert_eq!(call("tell", &host), json!({"ok": "told"}));
    assert_eq!(*host.notes.lock(), ["first", "last"]);
    let answer = |tool: &str, arguments: &str| plugin().call(tool, arguments, &host).unwrap();
    assert_eq!(answer("other", "{}"), r#"{"refused":"there is no tool `other`"}"#);
    assert!(answer("do_it", "{").starts_with(r#"{"refused":"arguments of do_it: EOF"#));
    assert!(answer("do_it", "{}").contains("missing field `how`"));
}

/// What a host does not say is not permitted.
#[test]
fn a_tool_reads_where_its_agent_may() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().canonicalize().unwrap().join("a.txt");
    std::fs::write(&inside, "").unwrap();
    let about = json!({"session": "s", "agent": "s", "call": "call_1_0", "cwd": dir.path(),
        "read": [dir.path()]});
    let host = Host { about: about.to_string(), ..Host::default() };
    assert_eq!(call("a.txt", &host), json!({ "ok": inside }));
    for (path, word) in
        [("/etc/passwd", "outside of what this agent may read"), ("b.txt", "cannot open `b.txt`")]
    {
        let refused = call(path, &host);
        assert!(refused["refused"].as_str().unwrap().contains(word), "{refused}");
    }
    // To open a pipe would wait, and a socket is told apart as one is.
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
    let refused = call("s", &host);
    assert!(refused["refused"].as_str().unwrap().contains("give a regular file"), "{refused}");
    let refused = call("/etc/passwd", &Host::default());
    assert_eq!(refused, json!({"refused": "this agent may read no files"}));
    let broken = call("text", &Host { about: "{".to_owned(), ..Host::default() });
    assert!(broken["failed"].as_str().unwrap().starts_with("what the call is about: EOF"));
}
