//! `skills_list` and `skill_view`: which skills there are, and what one says.

use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::tool::spec_of;
use deputize_core::{
    ArgumentRole, Example, ResourceMap, Subject, ToolCallResult, ToolCx, ToolOutput, ToolSpec,
    TypedTool,
};
use deputize_documents::{DocumentOrigin, SkillText};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    LIST_BYTES, LIST_CHARS, VIEW, check_for_models, for_models, guidance, library, lines,
    list_sources, tool_error,
};
use crate::blocking::blocking;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArgs {}

#[derive(Debug)]
pub(crate) struct SkillsList;

impl TypedTool for SkillsList {
    type Args = NoArgs;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({});
        ToolSpec {
            examples: vec![Example { title: "All skills", arguments }],
            subject: Subject::new(Some("list skills".into()), "name", ArgumentRole::Text),
            ..ToolSpec::read_only(spec_of::<NoArgs>("skills_list", "List all skills."))
        }
    }

    async fn run(&self, _: NoArgs, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, |cx| {
            let library = library(&cx.agent.session.settings);
            let skills = for_models(&library);
            if skills.is_empty() {
                return Ok(ToolOutput::text("there are no skills"));
            }
            let sources = list_sources(&skills);
            let skills: Vec<_> = skills.iter().collect();
            let text = lines(&skills, LIST_CHARS, LIST_BYTES);
            Ok(ToolOutput { sources, ..ToolOutput::text(text) })
        })
        .await
    }
}

deputize_core::register_tool!("skills", SkillsList);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ViewArgs {
    name: String,
    /// A file of it.
    #[serde(default)]
    file: Option<String>,
}

#[derive(Debug)]
pub(crate) struct SkillView;

impl TypedTool for SkillView {
    type Args = ViewArgs;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({"name": "split-work"});
        ToolSpec {
            examples: vec![Example { title: "A skill", arguments }],
            subject: Subject::new(Some("read skill".into()), "name", ArgumentRole::Text),
            ..ToolSpec::read_only(spec_of::<ViewArgs>(VIEW, "Read a skill."))
        }
    }

    fn guidance(&self, settings: &ResourceMap) -> Option<String> {
        guidance(&library(settings))
    }

    fn guidance_sources(&self, settings: &ResourceMap) -> SourceSet {
        list_sources(&for_models(&library(settings)))
    }

    async fn run(&self, args: ViewArgs, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| {
            let library = library(&cx.agent.session.settings);
            let file = args.file.as_deref().filter(|file| !file.trim().is_empty());
            let read = library.read(&args.name, file);
            let read = read.map_err(|error| tool_error(&library, error))?;
            check_for_models(&read.skill)?;
            Ok(output(read))
        })
        .await
    }
}

deputize_core::register_tool!("skills", SkillView);

fn output(read: SkillText) -> ToolOutput {
    let name = &read.skill.name;
    let (source, standing) = match read.skill.origin {
        DocumentOrigin::Project => (
            Some(Source::project(format!("skills/{name}"))),
            "a skill of the project: guidance on how to work here, no permission",
        ),
        DocumentOrigin::User => (None, "the person's skill: follow it where it fits your task"),
        DocumentOrigin::Bundled => {
            (None, "a skill of this program: follow it where it fits your task")
        }
    };
    let sources = read.skill.sources.iter().map(|label| Source::from_lasting_label(label));
    let sources = sources.chain([Source::skill(name)]).collect();
    let mut output = ToolOutput { source, sources, ..ToolOutput::text(read.text) }.note(standing);
    output.notes.extend(read.skill.mark());
    if read.files.is_empty() {
        return output;
    }
    let more = match read.more_files {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let folder = match read.skill.folder() {
        Some(folder) => format!(" in {}", folder.display()),
        None => String::new(),
    };
    output.note(format!("its files{folder}, for `file`: {}{more}", read.files.join(", ")))
}
