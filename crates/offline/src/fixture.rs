//! Conversations with the model, its tools played by a function.

use std::sync::Arc;

use deputize_core::agent::AgentLimits;
use deputize_core::message::{CallStatus, ModelText, UserMessage};
use deputize_core::model::{ModelOptions, Request};
use deputize_core::run::{Input, Run, Step};
use deputize_core::sanitize::{FrameSecret, frame_for_model};
use deputize_core::schema::Schema;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::{AgentId, SessionId, Status, ToolDecl, ToolName, ToolResult};
use serde_json::{Value, json};

use super::answer;

/// Result of a tool: its status, its content, and a remark of the host.
pub(super) type ScriptedResult = (CallStatus, String, &'static str);

/// A call that did its work.
pub(super) fn ok(content: &str, note: &'static str) -> ScriptedResult {
    (CallStatus::Ok, content.to_owned(), note)
}

/// A finished conversation.
pub(super) struct TestConversation {
    pub(super) answer: String,
    pub(super) calls: Vec<(String, Value)>,
    pub(super) steps: u32,
    /// Whether the turn ended as failed.
    pub(super) failed: bool,
}

/// Talks until the answer, or until the steps are used up and the closing answer is asked for.
pub(super) fn talk(
    task: &str,
    tools: &[&'static str],
    most_steps: u32,
    play: impl FnMut(&str, &Value) -> ScriptedResult,
) -> TestConversation {
    talk_in(&[], task, tools, most_steps, play)
}

/// The same with a system prompt.
pub(super) fn talk_in(
    system: &[Arc<str>],
    task: &str,
    tools: &[&'static str],
    most_steps: u32,
    mut play: impl FnMut(&str, &Value) -> ScriptedResult,
) -> TestConversation {
    let tools: Vec<Arc<ToolDecl>> = tools.iter().map(|name| Arc::new(declaration(name))).collect();
    let limits = AgentLimits { max_iterations: most_steps, time_ms: 0, wrap_up_ms: 0 };
    let mut run = Run::new(limits, []);
    run.apply(Input::Message(&UserMessage::new(task.to_owned())));
    let mut made = Vec::new();
    let agent = AgentId::root(&SessionId::literal("s"));
    loop {
        match run.step() {
            Step::Ask { tools: tool_choice, .. } => {
                let messages = run.messages().to_vec();
                let options = ModelOptions::default();
                let request = Request {
                    model: "offline",
                    system,
                    tools: &tools,
                    messages: &messages,
                    tool_choice,
                    options: &options,
                };
                let reply = answer(&request, "");
                assert_eq!(reply, answer(&request, ""), "equal requests give equal replies");
                run.apply(Input::Reply(&reply));
            }
            Step::Call(calls) => {
                let calls: Vec<_> = calls.into_iter().cloned().collect();
                for call in calls {
                    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                    let (status, content, note) = play(&call.name, &arguments);
                    let source = Source::tool(&call.name);
                    let secret = FrameSecret::new(&[7; 16]);
                    let framed = frame_for_model(&secret, &agent, call.id, &source, &content);
                    let note = if note.is_empty() { String::new() } else { format!("\n[{note}]") };
                    let text = ModelText::own(format!("{framed}{note}"));
                    let fingerprint = String::new();
                    let result = ToolResult {
                        call: call.id,
                        status,
                        text,
                        fingerprint,
                        images: Vec::new(),
                        sources: SourceSet::new(),
                    };
                    let (tool, args_bytes) = (&*call.name, call.arguments.len() as u64);
                    run.apply(Input::Result { tool, args_bytes, result: &result });
                    made.push((call.name, arguments));
                }
            }
            Step::Done(end) => {
                let answer = end.text.clone().unwrap_or_default();
                let failed = end.status == Status::Failed;
                return TestConversation { answer, calls: made, steps: run.iterations(), failed };
            }
            Step::Rest => panic!("it rests"),
        }
    }
}

fn declaration(name: &'static str) -> ToolDecl {
    let tasks = json!({"tasks": {"type": "array", "maxItems": 2}});
    let schema = json!({"type": "object", "properties": tasks});
    ToolDecl {
        name: ToolName::literal(name),
        description: String::new(),
        parameters: Schema::new(&schema).unwrap(),
    }
}

/// Files of a repository that is only played.
pub(super) struct Repository {
    files: Vec<(String, String)>,
    /// Paths that an ignore file names.
    ignored: Vec<String>,
}

impl Repository {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { files: files.iter().map(own).collect(), ignored: Vec::new() }
    }

    /// Ignores files and folders.
    pub(super) fn ignoring(self, paths: &[&str]) -> Self {
        Self { ignored: paths.iter().map(|path| (*path).to_owned()).collect(), ..self }
    }

    fn ignores(&self, path: &str) -> bool {
        self.ignored.iter().any(|it| path == it || path.starts_with(&format!("{it}/")))
    }

    /// Reads a small repository of the fixtures, without what it ignores.
    pub(super) fn of_fixture(name: &str) -> Self {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/fixtures/offline")
            .join(name);
        let mut folders = vec![root.clone()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                if !name.contains("ignored") && !name.starts_with('.') {
                    files.push((name, std::fs::read_to_string(path).unwrap()));
                }
            }
        }
        files.sort();
        Self { files, ignored: Vec::new() }
    }

    /// Plays a tool as the real one answers.
    pub(super) fn play(&self, tool: &str, arguments: &Value) -> ScriptedResult {
        let word = |name: &str| arguments.get(name).and_then(Value::as_str);
        let path = word("path").unwrap_or(".");
        match tool {
            "read_file" => match self.files.iter().find(|(name, _)| name == path) {
                Some((_, text)) => {
                    let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
                    let first = usize::try_from(number("offset").unwrap_or(1)).unwrap();
                    let most = usize::try_from(number("limit").unwrap_or(2_000)).unwrap();
                    let all = text.lines().count();
                    let lines = text.lines().enumerate().skip(first - 1).take(most);
                    let lines: Vec<String> =
                        lines.map(|(at, line)| format!("{}\t{line}", at + 1)).collect();
                    let last = first - 1 + lines.len();
                    let note = if last < all {
                        format!("lines {first}-{last} of {all}; to go on: offset {}", last + 1)
                    } else {
                        String::new()
                    };
                    ok(&lines.join("\n"), note.leak())
                }
                None => (CallStatus::Error, format!("not found: {path}"), ""),
            },
            "list_dir" => self.list(path, arguments),
            "search_files" => {
                let any_case = arguments.get("ignore_case").is_some();
                let pattern = word("pattern").map(|pattern| {
                    if any_case { format!("(?i){pattern}") } else { pattern.to_owned() }
                });
                self.search(path, pattern.as_deref(), word("mode") == Some("count"))
            }
            tool => panic!("{tool}"),
        }
    }

    fn list(&self, path: &str, arguments: &Value) -> ScriptedResult {
        let prefix = if path == "." { String::new() } else { format!("{path}/") };
        let depth = arguments.get("depth").and_then(Value::as_u64).unwrap_or(1);
        let depth = usize::try_from(depth).unwrap();
        let hidden = arguments.get("hidden").and_then(Value::as_bool).unwrap_or(false);
        let mut lines: Vec<String> = Vec::new();
        for (name, text) in self.files.iter().filter(|(name, _)| hidden || !self.ignores(name)) {
            let Some(rest) = name.strip_prefix(&prefix) else { continue };
            let parts: Vec<&str> = rest.split('/').collect();
            let folders = (1..parts.len()).map(|end| format!("{}/", parts[..end].join("/")));
            let mut entries: Vec<String> = folders.take(depth).collect();
            if parts.len() <= depth {
                entries.push(format!("{rest}\t{}", text.len()));
            }
            for entry in entries {
                if !lines.contains(&entry) {
                    lines.push(entry);
                }
            }
        }
        if lines.is_empty() {
            return (CallStatus::Error, format!("not found: {path}"), "");
        }
        ok(&lines.join("\n"), "")
    }

    fn search(&self, path: &str, pattern: Option<&str>, counts: bool) -> ScriptedResult {
        let prefix = if path == "." { String::new() } else { format!("{path}/") };
        let files = self
            .files
            .iter()
            .filter(|(name, _)| (name.starts_with(&prefix) || name == path) && !self.ignores(name));
        let mut lines = Vec::new();
        let rule = pattern.map(|pattern| regex::Regex::new(pattern).unwrap());
        for (name, text) in files {
            let Some(rule) = &rule else {
                lines.push(format!("{name}\t{}", text.len()));
                continue;
            };
            let found: Vec<_> =
                text.lines().enumerate().filter(|(_, line)| rule.is_match(line)).collect();
            if counts && !found.is_empty() {
                lines.push(format!("{name}:{}", found.len()));
            } else if !counts {
                lines.extend(found.iter().map(|(at, line)| format!("{name}:{}:{line}", at + 1)));
            }
        }
        let note = if lines.is_empty() { "no match in 2 files" } else { "2 matches in 2 files" };
        ok(&lines.join("\n"), note)
    }
}
