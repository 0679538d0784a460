//! `memory`: facts that later sessions begin with.

use deputize_core::outside_sources::OutsideSources;
use deputize_core::sanitize::Secrets;
use deputize_core::source::Source;
use deputize_core::tool::{CallCheck, CallRisk, spec_of};
use deputize_core::{
    AgentView, ArgumentRole, Availability, Effects, Example, ParentOnly, Resource, ResourceMap,
    Subject, ToolCallResult, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::blocking::{blocking, still_wanted};

mod entry;
mod files;
mod source_mark;
mod topic;

pub use files::{MemoryFiles, MemoryPrompt};
use source_mark::SourceMark;
pub use topic::{ENTRY_CHARS, MEMORY_BYTES, MemoryFileError, MemoryTopic};

/// The name of the tool.
pub const MEMORY_TOOL: &str = "memory";

const NO_MEMORY: &str = "this program has no memory files";

const DESCRIPTION: &str = "Keep what stays true for later sessions.";

/// The memory of a session. A program puts it into the session's settings.
#[derive(Debug, Clone, Default)]
pub struct MemorySettings {
    /// The files; `None` if agents keep nothing.
    pub files: Option<MemoryFiles>,
}

impl Resource for MemorySettings {}

impl MemorySettings {
    /// Returns the same, with more values that no entry may have in it.
    #[must_use]
    pub fn with_secrets(self, secrets: &Secrets) -> Self {
        Self { files: self.files.map(|files| files.with_secrets(secrets)) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum MemoryAction {
    Add,
    Replace,
    Remove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Topic {
    User,
    Work,
}

impl From<Topic> for MemoryTopic {
    fn from(topic: Topic) -> Self {
        match topic {
            Topic::User => Self::User,
            Topic::Work => Self::Work,
        }
    }
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    action: MemoryAction,
    topic: Topic,
    #[serde(default)]
    text: Option<String>,
    /// Part of the old entry.
    #[serde(default)]
    old: Option<String>,
}

#[derive(Debug)]
pub(crate) struct MemoryTool;

impl TypedTool for MemoryTool {
    type Args = Args;

    fn spec() -> ToolSpec {
        let text = "Tests run with `just test`.";
        let arguments = serde_json::json!({"action": "add", "topic": "work", "text": text});
        let decl = spec_of::<Args>(MEMORY_TOOL, DESCRIPTION);
        ToolSpec {
            examples: vec![Example { title: "A fact about the work", arguments }],
            parent_only: Some(ParentOnly::Other("what is remembered is the top agent's")),
            kind: ToolKind::Edit,
            subject: Subject::new(Some("fact".into()), "action", ArgumentRole::Action)
                .with("text", ArgumentRole::Text),
            // Later sessions take it as true, so each call needs a yes.
            risk: Some(CallRisk::new(
                CallRisk::LASTING,
                "it changes what each later session reads in its prompt",
            )),
            ..ToolSpec::effectful(decl, Effects::Unknown)
        }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        match settings.get_or_insert_with(MemorySettings::default).files {
            Some(_) => Availability::Yes,
            None => Availability::No(NO_MEMORY.to_owned()),
        }
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        blocking(cx, move |cx| change(&args, cx, MemoryFiles::dry_run)).await?;
        Ok(CallCheck::Accepted)
    }

    async fn question_details(&self, args: Args, agent: &AgentView) -> Map<String, Value> {
        let settings = agent.session.settings.get_or_insert_with(MemorySettings::default);
        let (Some(files), Some(old)) = (settings.files.clone(), args.old) else {
            return Map::new();
        };
        let is_old = matches!(args.action, MemoryAction::Replace | MemoryAction::Remove);
        let find = move || files.find(args.topic.into(), &old);
        let entry = if is_old { spawn_blocking(find).await.ok() } else { None };
        // Of an entry that is not there the call will tell.
        let detail = |entry| ("present entry".to_owned(), Value::String(entry));
        entry.and_then(Result::ok).map(detail).into_iter().collect()
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| {
            still_wanted(cx)?;
            change(&args, cx, MemoryFiles::clone)
        })
        .await
    }
}

deputize_core::register_tool!("memory", MemoryTool);

/// Makes a change in the files that `choose` returns of those of the session.
fn change(args: &Args, cx: &ToolCx, choose: fn(&MemoryFiles) -> MemoryFiles) -> ToolCallResult {
    let settings = cx.agent.session.settings.get_or_insert_with(MemorySettings::default);
    let files = settings.files.as_ref().map(choose);
    let files = files.ok_or_else(|| ToolError::refused(NO_MEMORY))?;
    let outside = cx.agent.store.get_or_insert_with(OutsideSources::default).sources();
    let outside = outside.lasting_labels();
    let given = |text: &Option<String>, name: &str| match text {
        Some(text) if !text.trim().is_empty() => Ok(text.clone()),
        _ => Err(ToolError::refused(format!("give `{name}`"))),
    };
    let topic = MemoryTopic::from(args.topic);
    let text = || given(&args.text, "text");
    let old = || given(&args.old, "old");
    let done = match args.action {
        MemoryAction::Add => files.add(topic, &text()?, &outside).map(|entry| ("kept", entry)),
        MemoryAction::Replace => {
            files.replace(topic, &old()?, &text()?, &outside).map(|entry| ("replaced; now", entry))
        }
        MemoryAction::Remove => files.remove(topic, &old()?).map(|entry| ("removed", entry)),
    };
    match done {
        Ok((what, entry)) => {
            // A text that was removed or replaced may be written again.
            let (_, mark) = SourceMark::split(&entry);
            let sources = mark.into_sources().chain([Source::memory(topic.as_str())]).collect();
            Ok(ToolOutput { sources, ..ToolOutput::text(format!("{what}: {entry}")) })
        }
        Err(error @ MemoryFileError::Io { .. }) => Err(ToolError::failed(error)),
        Err(error) => Err(ToolError::refused(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{ToolFixture, result};

    #[tokio::test]
    async fn facts_are_kept_with_what_was_read_from_outside_before() {
        let bench = ToolFixture::new();
        let settings = &bench.cx.agent.session.settings;
        let files = Some(MemoryFiles::new(bench.path("memory"), Secrets::default()));
        settings.get_or_insert_with(|| MemorySettings { files });
        let call = |arguments| bench.call(MemoryTool, arguments);
        let add = json!({"action": "add", "topic": "user", "text": "Likes tea."});
        assert_eq!(call(add.clone()).await, "kept: Likes tea.");
        assert_eq!(call(add).await, "refused: that is kept already");
        let outside = bench.cx.agent.store.get_or_insert_with(OutsideSources::default);
        outside.set([Source::web("a.example"), Source::mcp("docs")].into());
        let replace =
            json!({"action": "replace", "topic": "user", "old": "tea", "text": "Likes mate."});
        assert_eq!(
            call(replace).await,
            "replaced; now: Likes mate. [written after reading mcp:docs, web:a.example]"
        );
        assert_eq!(call(json!({"action": "add", "topic": "work"})).await, "refused: give `text`");
        let remove = json!({"action": "remove", "topic": "user", "old": "mate"});
        assert!(call(remove).await.starts_with("removed: Likes mate."));
        assert_eq!(bench.get("memory/user.md"), b"# About the person\n");
    }

    #[tokio::test]
    async fn what_an_entry_was_written_after_comes_with_it() {
        let bench = ToolFixture::new();
        let settings = &bench.cx.agent.session.settings;
        let files = MemoryFiles::new(bench.path("memory"), Secrets::default());
        files.add(MemoryTopic::User, "Likes tea.", &["web:a.example".to_owned()]).unwrap();
        settings.get_or_insert_with(|| MemorySettings { files: Some(files) });
        let from = [Source::memory("user"), Source::web("a.example")];
        for arguments in [
            json!({"action": "replace", "topic": "user", "old": "tea", "text": "Likes mate."}),
            json!({"action": "remove", "topic": "user", "old": "mate"}),
        ] {
            let output = result(&bench.cx, MemoryTool, arguments).await.unwrap();
            assert_eq!(output.sources, from.clone().into(), "{}", output.content);
        }
    }

    #[tokio::test]
    async fn a_question_has_the_entry_that_goes() {
        let bench = ToolFixture::new();
        let settings = &bench.cx.agent.session.settings;
        let files = MemoryFiles::new(bench.path("memory"), Secrets::default());
        files.add(MemoryTopic::Work, "Deploy only on Fridays.", &["web:a.example".into()]).unwrap();
        settings.get_or_insert_with(|| MemorySettings { files: Some(files) });
        let entry = json!({"present entry": "Deploy only on Fridays. [written after reading web:a.example]"});
        for (call, details) in [
            (json!({"action": "remove", "topic": "work", "old": "Deploy"}), entry.clone()),
            (json!({"action": "replace", "topic": "work", "old": "Deploy", "text": "x"}), entry),
            (json!({"action": "remove", "topic": "user", "old": "Deploy"}), json!({})),
            (json!({"action": "add", "topic": "work", "text": "x"}), json!({})),
        ] {
            let args = serde_json::from_value(call).unwrap();
            let shown = MemoryTool.question_details(args, &bench.cx.agent).await;
            assert_eq!(Value::Object(shown), details);
        }
    }

    #[tokio::test]
    async fn a_check_refuses_what_the_call_would_and_writes_nothing() {
        let bench = ToolFixture::new();
        let settings = &bench.cx.agent.session.settings;
        let files = Some(MemoryFiles::new(bench.path("memory"), Secrets::default()));
        settings.get_or_insert_with(|| MemorySettings { files });
        let add = |text: &str| json!({"action": "add", "topic": "user", "text": text});
        assert_eq!(bench.check(MemoryTool, &add("Likes tea.")).await, "accepted");
        assert!(!bench.path("memory").exists());
        bench.call(MemoryTool, add("Likes tea.")).await;
        let before = bench.get("memory/user.md");
        let remove = json!({"action": "remove", "topic": "user", "old": "tea"});
        assert_eq!(bench.check(MemoryTool, &remove).await, "accepted");
        for call in [
            add(&"x".repeat(401)),
            add("  "),
            add("Likes tea."),
            json!({"action": "add", "topic": "user"}),
            json!({"action": "replace", "topic": "user", "old": "mate", "text": "x"}),
            json!({"action": "remove", "topic": "work", "old": "tea"}),
        ] {
            let checked = bench.check(MemoryTool, &call).await;
            assert!(checked.starts_with("refused: "), "{checked}");
            assert_eq!(checked, bench.call(MemoryTool, call).await);
        }
        assert_eq!(bench.get("memory/user.md"), before);
    }

    #[tokio::test]
    async fn without_files_it_is_not_usable() {
        let bench = ToolFixture::new();
        let settings = &bench.cx.agent.session.settings;
        assert_eq!(MemoryTool.availability(settings), Availability::No(NO_MEMORY.to_owned()));
        let add = json!({"action": "add", "topic": "user", "text": "Likes tea."});
        assert_eq!(bench.call(MemoryTool, add).await, format!("refused: {NO_MEMORY}"));
    }
}
