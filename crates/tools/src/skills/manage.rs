//! `skill_manage`: what an agent learned, for later sessions.

use deputize_core::outside_sources::OutsideSources;
use deputize_core::sanitize::{Secrets, for_terminal_line};
use deputize_core::source::Source;
use deputize_core::tool::{CallCheck, CallRisk, spec_of};
use deputize_core::wording::count;
use deputize_core::{
    AgentView, ArgumentRole, Effects, Example, ParentOnly, Subject, ToolCallResult, ToolCx,
    ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use deputize_documents::{SkillError, SkillLibrary, marked_skill};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use super::{LIST_CHARS, check_for_models, library, tool_error};
use crate::blocking::{blocking, still_wanted};
use crate::diff::FileDiff;
use crate::secret_text::secret_in;

/// Lines of a change in a question.
const QUESTION_LINES: usize = 80;

const DESCRIPTION: &str = "Write a skill for later sessions.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SkillAction {
    Create,
    Edit,
    Remove,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    action: SkillAction,
    name: String,
    /// SKILL.md: front matter (name, description), then Markdown.
    #[serde(default)]
    content: Option<String>,
}

impl Args {
    /// Returns the text of the skill.
    fn content(&self) -> Result<&str, ToolError> {
        let content = self.content.as_deref().filter(|text| !text.trim().is_empty());
        let content =
            content.ok_or_else(|| ToolError::refused("give the whole SKILL.md as `content`"))?;
        match secret_in(content, &Secrets::default()) {
            Some(secret) => Err(ToolError::refused(format!(
                "the skill contains a secret ({secret}): secrets are never saved"
            ))),
            None => Ok(content),
        }
    }
}

/// Returns an error if a change of the person's skills would be refused.
fn check_change(args: &Args, library: &SkillLibrary) -> Result<(), ToolError> {
    let name = &args.name;
    let own = library.own_folder(name);
    let failed = |error| tool_error(library, error);
    match args.action {
        SkillAction::Create => {
            library.check_skill(name, args.content()?).map_err(failed)?;
            if own.is_ok() {
                return Err(failed(SkillError::Exists(name.clone())));
            }
        }
        SkillAction::Edit => {
            own.map_err(failed)?;
            check_may_change(library, name)?;
            library.check_skill(name, args.content()?).map_err(failed)?;
        }
        SkillAction::Remove => {
            own.map_err(failed)?;
            check_may_change(library, name)?;
        }
    }
    Ok(())
}

/// Returns an error if a skill of the person is not for models: nobody changes unread what it says.
fn check_may_change(library: &SkillLibrary, name: &str) -> Result<(), ToolError> {
    // A broken one may be mended.
    library.find(name).ok().map_or(Ok(()), |skill| check_for_models(&skill))
}

#[derive(Debug)]
pub(crate) struct SkillManage;

impl TypedTool for SkillManage {
    type Args = Args;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({
            "action": "create",
            "name": "release-notes",
            "content": "---\nname: release-notes\ndescription: How to write release notes.\n---\n\
                        Read the log since the last tag.\n",
        });
        // Later sessions obey it, so each call needs a yes.
        let decl = spec_of::<Args>("skill_manage", DESCRIPTION);
        ToolSpec {
            examples: vec![Example { title: "A new skill", arguments }],
            parent_only: Some(ParentOnly::Other("what is learned is the top agent's")),
            kind: ToolKind::Edit,
            subject: Subject::new(Some("skill".into()), "action", ArgumentRole::Action)
                .with("name", ArgumentRole::Text),
            risk: Some(CallRisk::new(
                CallRisk::LASTING,
                "it changes instructions that agents of later sessions follow",
            )),
            ..ToolSpec::effectful(decl, Effects::Unknown)
        }
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        let check = move |cx: &ToolCx| {
            let library = library(&cx.agent.session.settings);
            check_change(&args, &library)?;
            Ok(ToolOutput::default())
        };
        blocking(cx, check).await?;
        Ok(CallCheck::Accepted)
    }

    async fn question_details(&self, args: Args, agent: &AgentView) -> Map<String, Value> {
        let library = library(&agent.session.settings);
        let details = spawn_blocking(move || lost_text(&args, &library)).await;
        let details = details.ok().into_iter().flatten();
        details.map(|(name, text)| (name.to_owned(), Value::String(text))).collect()
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| {
            still_wanted(cx)?;
            let library = library(&cx.agent.session.settings);
            let name = &args.name;
            let failed = |error| tool_error(&library, error);
            let before = match args.action {
                SkillAction::Create => Vec::new(),
                SkillAction::Edit | SkillAction::Remove => {
                    check_may_change(&library, name)?;
                    library.own_sources(name).map_err(failed)?
                }
            };
            let content = || marked_content(&args, &before, cx);
            let done = match args.action {
                SkillAction::Create => library.create(name, &content()?).map(|_| "created"),
                SkillAction::Edit => library.replace(name, &content()?).map(|_| "replaced"),
                SkillAction::Remove => library.remove(name).map(|_| "removed"),
            };
            let done = done.map_err(failed)?;
            let mark = library.find(name).ok().and_then(|skill| skill.mark());
            let later = match args.action {
                SkillAction::Create | SkillAction::Edit => "see it",
                SkillAction::Remove => "no longer see it",
            };
            let text = format!("the skill `{name}` is {done}; later sessions {later}");
            let mut output = ToolOutput::text(text);
            // The agent may write again what it has read in the skill before.
            output.sources = before.iter().map(|label| Source::from_lasting_label(label)).collect();
            output.notes.extend(mark.filter(|_| args.action != SkillAction::Remove));
            Ok(output)
        })
        .await
    }
}

deputize_core::register_tool!("skills", SkillManage);

/// Returns what a call would remove or change, by its names in a question. Of a skill that is not there
/// the call will tell.
fn lost_text(args: &Args, library: &SkillLibrary) -> Vec<(&'static str, String)> {
    let Ok(old) = library.own_text(&args.name) else { return Vec::new() };
    match args.action {
        SkillAction::Create => Vec::new(),
        SkillAction::Edit => {
            let new = args.content.as_deref().unwrap_or_default();
            let (mut diff, more) = FileDiff::of(&old, new).first(QUESTION_LINES);
            if let Some(more) = more {
                diff.push_str(&format!("\n[{more}]"));
            }
            vec![("what changes", diff)]
        }
        SkillAction::Remove => vec![("present skill", present_skill(&args.name, &old, library))],
    }
}

/// Returns the size of a skill of the person, its description and how many files are beside it.
fn present_skill(name: &str, text: &str, library: &SkillLibrary) -> String {
    let mut present = count(text.len() as u64, "byte");
    if let Ok(skill) = library.read(name, None) {
        let files = skill.files.len() + skill.more_files;
        if files > 0 {
            present.push_str(&format!(" and {} beside it", count(files as u64, "file")));
        }
        let description = for_terminal_line(&skill.skill.description, LIST_CHARS);
        present.push_str(&format!(": {description}"));
    }
    present
}

/// Returns the text to write, with a mark of what this agent has read from outside, and of what
/// stood in the mark before.
fn marked_content(args: &Args, before: &[String], cx: &ToolCx) -> Result<String, ToolError> {
    let content = args.content()?;
    let outside = cx.agent.store.get_or_insert_with(OutsideSources::default);
    let mut sources = outside.sources().lasting_labels();
    sources.extend(before.iter().cloned());
    marked_skill(content, &sources).map_err(|error| ToolError::refused(error.to_string()))
}
