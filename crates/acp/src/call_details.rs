//! Details of an external agent's tool call, merged over its updates, and the text of a permission
//! request.

use agent_client_protocol::v1::schema::{
    ContentBlock, ToolCallContent, ToolCallUpdateFields, ToolKind,
};
use deputize_core::CallId;
use deputize_core::external_agent::ExternalToolCall;
use deputize_core::sanitize::for_exact_line;
use deputize_core::truncate::truncate_with_note;
use serde_json::{Map, Value, json};

/// Limit on each side of a stored file change, in bytes.
const SIDE_BYTES: usize = 64 * 1024;
/// Limit on the changes shown to a person, and separately on the other text, in bytes.
const SHOWN_BYTES: usize = 16 * 1024;
/// Limit on the number of changes, and separately of paths, shown to a person.
const SHOWN: usize = 100;
/// Limit on the length of a shown path, in characters.
const PATH_CHARS: usize = 1000;

/// Details of a call, as far as they are known.
#[derive(Clone, Default)]
pub(crate) struct CallDetails {
    name: Option<String>,
    title: Option<String>,
    kind: Option<ToolKind>,
    input: Option<Value>,
    paths: Vec<String>,
    changes: Vec<FileChange>,
    /// Text content other than changes.
    text: String,
}

/// A file's old and new content.
#[derive(Clone)]
struct FileChange {
    path: String,
    old: Option<String>,
    new: String,
}

/// A program's request for permission, as the approver sees it.
pub(crate) struct PermissionRequest {
    pub(crate) call: ExternalToolCall,
    /// The action to approve.
    pub(crate) command: String,
    /// Further information on the action.
    pub(crate) details: String,
}

/// Returns the text of a block, or the kind of a block that is not text.
pub(crate) fn block_words(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(_) => "[an image]".to_owned(),
        ContentBlock::Audio(_) => "[a sound]".to_owned(),
        ContentBlock::ResourceLink(link) => format!("[{}]", link.uri),
        _ => "[a resource]".to_owned(),
    }
}

impl CallDetails {
    /// Extracts the details in one update. An empty input or title counts as absent.
    pub(crate) fn of(fields: &ToolCallUpdateFields) -> Self {
        let content = fields.content.as_deref().unwrap_or_default();
        let texts = content.iter().filter_map(|content| match content {
            ToolCallContent::Content(content) => Some(block_words(&content.content)),
            _ => None,
        });
        let changes = content.iter().filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(FileChange {
                path: diff.path.to_string_lossy().into_owned(),
                old: diff.old_text.as_deref().map(|old| truncate_with_note(old, SIDE_BYTES)),
                new: truncate_with_note(&diff.new_text, SIDE_BYTES),
            }),
            _ => None,
        });
        let paths = fields.locations.iter().flatten();
        Self {
            name: fields.name.clone(),
            title: fields.title.clone().filter(|title| !title.trim().is_empty()),
            kind: fields.kind.filter(|kind| *kind != ToolKind::Other),
            input: fields.raw_input.clone().filter(|input| !is_empty(input)),
            paths: paths.map(|place| place.path.to_string_lossy().into_owned()).collect(),
            changes: changes.collect(),
            text: texts.collect::<Vec<_>>().join("\n"),
        }
    }

    /// Returns whether the details name what is called. An update of an ended call does not.
    pub(crate) fn begins(&self) -> bool {
        self.title.is_some() || self.name.is_some()
    }

    /// Overwrites the details with those of a later update; what it leaves out stays.
    pub(crate) fn merge(&mut self, later: Self) {
        let Self { name, title, kind, input, paths, changes, text } = later;
        self.name = name.or_else(|| self.name.take());
        self.title = title.or_else(|| self.title.take());
        self.kind = kind.or(self.kind);
        self.input = input.or_else(|| self.input.take());
        if !paths.is_empty() {
            self.paths = paths;
        }
        if !changes.is_empty() {
            self.changes = changes;
        }
        if !text.is_empty() {
            self.text = text;
        }
    }

    /// Returns the call as the host records it.
    pub(crate) fn to_call(&self, call: CallId) -> ExternalToolCall {
        ExternalToolCall { call, tool: self.tool(), arguments: Value::Object(self.arguments()) }
    }

    /// Returns the permission request for this call.
    pub(crate) fn permission_request(&self, call: CallId) -> PermissionRequest {
        let mut arguments = self.arguments();
        if !self.text.is_empty() {
            arguments.insert("text".to_owned(), self.text.clone().into());
        }
        let call =
            ExternalToolCall { call, tool: self.tool(), arguments: Value::Object(arguments) };
        let command = self.title.clone().unwrap_or_else(|| call.tool.clone());
        PermissionRequest { call, command, details: self.details() }
    }

    fn kind(&self) -> Option<String> {
        let kind = serde_json::to_value(self.kind?).ok()?;
        kind.as_str().map(str::to_owned)
    }

    fn tool(&self) -> String {
        self.name.clone().or_else(|| self.kind()).unwrap_or_else(|| "other".to_owned())
    }

    /// Returns the call's title and input, and those of kind, paths and changes that are known.
    fn arguments(&self) -> Map<String, Value> {
        let changes = self
            .changes
            .iter()
            .map(|FileChange { path, old, new }| json!({ "path": path, "old": old, "new": new }));
        let more = [
            ("kind", self.kind().map(Value::from)),
            ("paths", (!self.paths.is_empty()).then(|| json!(self.paths))),
            ("changes", (!self.changes.is_empty()).then(|| changes.collect())),
        ];
        let more = more.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let known = [("title", json!(self.title)), ("input", json!(self.input))];
        known.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Returns the input, then the paths, the text and the changes on lines of their own.
    fn details(&self) -> String {
        let mut shown_text = self.input.as_ref().map(Value::to_string).unwrap_or_default();
        let shown = shown_text.clone();
        let known = |path: &&String| {
            shown.contains(path.as_str()) || self.changes.iter().any(|it| it.path == **path)
        };
        let paths: Vec<&String> = self.paths.iter().filter(|path| !known(path)).collect();
        for path in paths.iter().take(SHOWN) {
            shown_text.push_str(&format!("\nin {}", for_exact_line(path, PATH_CHARS)));
        }
        left_out(&mut shown_text, paths.len(), "paths");
        if !self.text.is_empty() {
            shown_text.push_str(&format!("\n{}", truncate_with_note(&self.text, SHOWN_BYTES)));
        }
        // Of what the input has too, what there is room for beside it.
        let room = SHOWN_BYTES.saturating_sub(shown_text.len()).max(1024);
        let share = room / self.changes.len().clamp(1, SHOWN);
        for change in self.changes.iter().take(SHOWN) {
            let what = if change.old.is_none() { "new file" } else { "change of" };
            let path = for_exact_line(&change.path, PATH_CHARS);
            shown_text.push_str(&format!(
                "\n{what} {path}:{}",
                truncate_with_note(&change.lines(), share)
            ));
        }
        left_out(&mut shown_text, self.changes.len(), "changes");
        shown_text
    }
}

impl FileChange {
    /// Returns the removed and added lines, without context lines.
    fn lines(&self) -> String {
        // What has no last line break differs in that alone, which is not shown.
        let lines = |text| {
            Some(text)
                .filter(|text: &&str| !text.is_empty())
                .into_iter()
                .flat_map(|text: &str| text.strip_suffix('\n').unwrap_or(text).split('\n'))
        };
        let old: Vec<&str> = lines(self.old.as_deref().unwrap_or_default()).collect();
        let new: Vec<&str> = lines(&self.new).collect();
        let same = |(a, b): &(&&str, &&str)| a == b;
        let before = old.iter().zip(&new).take_while(same).count();
        let rest = |lines: &[&str]| lines.len() - before;
        let behind = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
        let behind = behind.min(rest(&old)).min(rest(&new));
        let between = |sign: char, lines: &[&str]| -> String {
            let lines = lines.get(before..lines.len() - behind).unwrap_or_default();
            lines.iter().map(|line| format!("\n{sign} {line}")).collect()
        };
        between('-', &old) + &between('+', &new)
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn left_out(text: &mut String, all: usize, what: &str) {
    if let more @ 1.. = all.saturating_sub(SHOWN) {
        text.push_str(&format!("\n[{more} more {what} left out]"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(fields: Value) -> CallDetails {
        CallDetails::of(&serde_json::from_value(fields).unwrap())
    }

    const CALL: CallId = CallId::new(1, 0);

    #[test]
    fn what_the_input_and_a_change_have_both_is_short_enough_to_be_asked() {
        let text = "a line of it\n".repeat(1600);
        let change = json!([{"type": "diff", "path": "/w/a", "newText": text}]);
        let input = json!({"path": "/w/a", "content": text});
        let known = about(json!({"title": "Write", "rawInput": input, "content": change}));
        let details = known.permission_request(CALL).details;
        assert!((text.len()..30 * 1024).contains(&details.len()), "{}", details.len());
    }

    #[test]
    fn what_is_asked_has_what_all_updates_said_and_the_last_of_each() {
        let mut known = about(json!({"title": "Terminal", "kind": "execute", "rawInput": {}}));
        assert_eq!(known.permission_request(CALL).details, "");
        known.merge(about(json!({"title": "Build", "rawInput": {"command": "make"}})));
        known.merge(about(json!({"title": " ", "rawInput": {}, "status": "in_progress"})));
        let asked = known.permission_request(CALL);
        assert_eq!((&*asked.command, &*asked.details), ("Build", "{\"command\":\"make\"}"));
        assert_eq!(asked.call.tool, "execute");
        let arguments = json!({"title": "Build", "input": {"command": "make"}, "kind": "execute"});
        assert_eq!(asked.call.arguments, arguments);
        known.merge(about(json!({"rawInput": {"command": "make install"}})));
        assert_eq!(known.permission_request(CALL).details, "{\"command\":\"make install\"}");
        let nameless = about(json!({"kind": "execute", "rawInput": {"command": "make"}}));
        assert!(!nameless.begins());
        assert_eq!(nameless.permission_request(CALL).command, "execute");
    }

    #[test]
    fn paths_texts_and_changes_are_shown_and_sent() {
        let text =
            |text: &str| json!({"type": "content", "content": {"type": "text", "text": text}});
        let edit = about(json!({
            "title": "Edit", "kind": "edit",
            "locations": [{"path": "/w/a.txt"}, {"path": "/w/b\n.txt", "line": 3}],
            "content": [
                {"type": "diff", "path": "/w/a.txt", "oldText": "1\n2\n3\n", "newText": "1\ntwo\n3\n"},
                text("Why not."),
                {"type": "diff", "path": "/w/c.txt", "newText": "c\n"},
            ],
        }));
        let asked = edit.permission_request(CALL);
        assert_eq!(
            asked.details,
            "\nin /w/b\\n.txt\nWhy not.\nchange of /w/a.txt:\n- 2\n+ two\nnew file /w/c.txt:\n+ c"
        );
        assert_eq!(asked.call.arguments["paths"], json!(["/w/a.txt", "/w/b\n.txt"]));
        assert_eq!(asked.call.arguments["text"], "Why not.");
        let change = json!({"path": "/w/c.txt", "old": null, "new": "c\n"});
        assert_eq!(asked.call.arguments["changes"][1], change);
        assert_eq!(edit.to_call(CALL).arguments.get("text"), None, "later it is what came of it");
    }

    #[test]
    fn of_changes_without_end_each_has_its_share() {
        let change = |n: usize| json!({"type": "diff", "path": format!("/w/{n}"), "newText": "x\n".repeat(100_000)});
        let all: Vec<Value> = (0..SHOWN + 2).map(change).collect();
        let edit = about(json!({"title": "Edit", "content": all}));
        let asked = edit.permission_request(CALL);
        assert!(asked.details.len() < 2 * SHOWN_BYTES, "{}", asked.details.len());
        assert!(asked.details.contains("\nnew file /w/99:\n+ x\n+ x"));
        assert!(asked.details.ends_with("\n[2 more changes left out]"));
        let new = asked.call.arguments["changes"][0]["new"].as_str().unwrap();
        assert!(new.ends_with("x\n\n[134464 bytes left out]"));
    }
}
