//! A profile: a kind of agent, as a Markdown file describes it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use deputize_core::agent::Role;
use deputize_core::profile::{Profile, ProfileTools};
use deputize_core::sanitize::for_terminal_line;
use deputize_core::schema::bounded_schema;
use deputize_core::{ToolName, ToolsetName};

use crate::document_error::DocumentError;
use crate::document_name::check_name;
use crate::document_origin::DocumentOrigin;
use crate::fields::Fields;
use crate::front_matter::Document;
use crate::tool_aliases::{Denial, ToolAliases};

/// Characters of a description at most.
const DESCRIPTION_CHARS: usize = 1024;
/// Characters of the reason why a schema is none.
const REASON_CHARS: usize = 300;
/// Words of the file in one note at most; the rest are counted.
const NOTED: usize = 20;
/// Characters of one of them at most.
const WORD_CHARS: usize = 60;
/// The fields that are read.
const FIELDS: [&str; 12] = [
    "name",
    "description",
    "toolsets",
    "model",
    "reasoning_effort",
    "max_iterations",
    "role",
    "output_schema",
    // As Claude Code names some of them.
    "tools",
    "disallowedTools",
    "maxTurns",
    "effort",
];
/// How hard a model may think.
const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];
/// The model that means no choice.
const INHERIT: &str = "inherit";
/// The one model without a provider.
const OFFLINE: &str = "offline";

/// A profile, and where it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileDocument {
    /// The profile.
    pub profile: Profile,
    /// Who wrote it.
    pub origin: DocumentOrigin,
    /// Its file; `None` if it is part of the program.
    pub path: Option<PathBuf>,
    /// The parts of the file that are not used, and why.
    pub notes: Vec<String>,
}

impl ProfileDocument {
    /// Parses the text of a profile's file, whose name without its ending is `stem`.
    ///
    /// # Errors
    /// If the text is no profile.
    pub fn parse(
        stem: &str,
        text: &str,
        origin: DocumentOrigin,
        aliases: ToolAliases,
    ) -> Result<Self, DocumentError> {
        let document = Document::parse(text)?;
        let fields = document.fields();
        ProfileReader { fields, aliases, notes: Vec::new(), is_foreign: false }.document(
            stem,
            document.body(),
            origin,
        )
    }

    /// Parses a file that was written for another program. What that program takes and a profile
    /// does not is cut or read line by line, with a note.
    ///
    /// # Errors
    /// If the text is no profile.
    pub fn parse_foreign(
        stem: &str,
        text: &str,
        origin: DocumentOrigin,
        aliases: ToolAliases,
    ) -> Result<Self, DocumentError> {
        let (document, error) = Document::parse_foreign(text, &FIELDS)?;
        let note = error.map(|error| format!("{error}: its fields are read line by line"));
        let (fields, notes) = (document.fields(), note.into_iter().collect());
        ProfileReader { fields, aliases, notes, is_foreign: true }.document(
            stem,
            document.body(),
            origin,
        )
    }
}

/// Reads the fields of a profile.
struct ProfileReader<'d> {
    fields: Fields<'d>,
    aliases: ToolAliases,
    notes: Vec<String>,
    /// Whether the file was written for another program.
    is_foreign: bool,
}

impl ProfileReader<'_> {
    fn document(
        mut self,
        stem: &str,
        body: &str,
        origin: DocumentOrigin,
    ) -> Result<ProfileDocument, DocumentError> {
        let mut profile = self.profile(stem)?;
        profile.instructions = body.trim_end().to_owned();
        profile.from_project = origin == DocumentOrigin::Project;
        Ok(ProfileDocument { profile, origin, path: None, notes: self.notes })
    }

    fn profile(&mut self, stem: &str) -> Result<Profile, DocumentError> {
        let name = self.fields.text("name")?.unwrap_or_else(|| stem.to_owned());
        check_name("profile", &name)?;
        let (tools, may_delegate) = self.tools()?;
        let profile = Profile {
            name,
            description: self.description()?,
            instructions: String::new(),
            tools,
            model: self.model()?,
            reasoning_effort: self.reasoning_effort()?,
            max_iterations: match self.fields.count("max_iterations")? {
                None => self.fields.count("maxTurns")?,
                own => own,
            },
            role: self.role()?.or(may_delegate),
            output_schema: self.output_schema()?,
            from_project: false,
        };
        let unknown: Vec<&str> =
            self.fields.names().filter(|name| !FIELDS.contains(name)).collect();
        if !unknown.is_empty() {
            let unknown = quoted(&unknown);
            self.notes.push(format!("fields that are not known are ignored: {unknown}"));
        }
        Ok(profile)
    }

    fn description(&mut self) -> Result<String, DocumentError> {
        let description = self.fields.text("description")?.ok_or_else(|| {
            DocumentError::whole("it has no `description`: say what the agent is for")
        })?;
        let chars = description.chars().count();
        if chars > DESCRIPTION_CHARS && self.is_foreign {
            self.notes.push(format!(
                "its `description` has {chars} characters and is cut to {DESCRIPTION_CHARS}"
            ));
            return Ok(description.chars().take(DESCRIPTION_CHARS).collect());
        }
        if chars > DESCRIPTION_CHARS {
            return Err(DocumentError::whole(format!(
                "its `description` has {chars} characters, and {DESCRIPTION_CHARS} is the most"
            )));
        }
        Ok(description)
    }

    /// Returns the bound on tools, and the role that names of other programs stand for.
    fn tools(&mut self) -> Result<(ProfileTools, Option<Role>), DocumentError> {
        let toolsets = self.fields.words("toolsets")?.map(|names| self.toolsets(&names));
        let mut role = None;
        let only = match self.fields.words("tools")? {
            None => None,
            Some(names) if names.iter().any(|name| name == "*") => None,
            Some(names) => {
                let delegates = names.iter().any(|name| self.aliases.is_delegation(name));
                role = Some(if delegates { Role::Orchestrator } else { Role::Leaf });
                Some(self.allowed(&names))
            }
        };
        let mut tools = ProfileTools { toolsets, only, ..ProfileTools::default() };
        if let Some(names) = self.fields.words("disallowedTools")? {
            // A tool that is refused for some arguments is refused for all.
            let whole = |name: &String| name.split('(').next().unwrap_or(name).to_owned();
            let names: Vec<String> = names.iter().map(whole).collect();
            if names.iter().any(|name| self.aliases.is_delegation(name)) {
                role = Some(Role::Leaf);
            }
            self.deny(&mut tools, &names)?;
        }
        Ok((tools, role))
    }

    fn toolsets(&mut self, names: &[String]) -> BTreeSet<ToolsetName> {
        let mut sets = BTreeSet::new();
        let mut wrong = Vec::new();
        for name in names {
            match ToolsetName::new(name.as_str()) {
                Ok(name) => _ = sets.insert(name),
                Err(_) => wrong.push(name.as_str()),
            }
        }
        if !wrong.is_empty() {
            let wrong = quoted(&wrong);
            self.notes.push(format!("`toolsets`: no toolset can be named {wrong}: left out"));
        }
        sets
    }

    /// Returns the tools that names of other programs allow. One that stands for nothing is
    /// left out, so that a profile never allows more than its author wrote.
    fn allowed(&mut self, names: &[String]) -> BTreeSet<ToolName> {
        let mut tools = BTreeSet::new();
        let mut unknown = Vec::new();
        for name in names {
            match self.aliases.tools(name) {
                Some(found) => tools.extend(found),
                None => unknown.push(name.as_str()),
            }
        }
        self.note_unknown("tools", &unknown);
        tools
    }

    /// Takes away the tools that names of other programs deny.
    fn deny(&mut self, tools: &mut ProfileTools, names: &[String]) -> Result<(), DocumentError> {
        let mut unknown = Vec::new();
        for name in names {
            match self.aliases.denial(name) {
                Some(Denial::Tools(denied)) => tools.without.extend(denied),
                Some(Denial::Toolset(denied)) => _ = tools.without_toolsets.insert(denied),
                None if self.aliases.must_deny(name) => {
                    let name = quoted(&[name]);
                    return Err(DocumentError::whole(format!(
                        "`disallowedTools`: no tool here is meant by {name}: name tools, or \
                         `mcp__SERVER` for all tools of a server"
                    )));
                }
                None => unknown.push(name.as_str()),
            }
        }
        self.note_unknown("disallowedTools", &unknown);
        Ok(())
    }

    fn note_unknown(&mut self, field: &str, names: &[&str]) {
        if !names.is_empty() {
            let names = quoted(names);
            self.notes.push(format!("`{field}`: no tool here is meant by {names}: left out"));
        }
    }

    fn model(&mut self) -> Result<Option<String>, DocumentError> {
        let Some(model) = self.fields.text("model")? else { return Ok(None) };
        if model == INHERIT {
            return Ok(None);
        }
        if model == OFFLINE || model.contains('/') {
            return Ok(Some(model));
        }
        let model = quoted(&[&model]);
        self.notes.push(format!("`model`: {model} is not PROVIDER/MODEL and is ignored"));
        Ok(None)
    }

    fn reasoning_effort(&mut self) -> Result<Option<String>, DocumentError> {
        let effort = match self.fields.text("reasoning_effort")? {
            None => self.fields.text("effort")?,
            own => own,
        };
        let Some(effort) = effort else { return Ok(None) };
        if EFFORTS.contains(&effort.as_str()) {
            return Ok(Some(effort));
        }
        let known = EFFORTS.join(", ");
        let effort = quoted(&[&effort]);
        self.notes.push(format!("`reasoning_effort`: {effort} is none of {known}: ignored"));
        Ok(None)
    }

    fn role(&self) -> Result<Option<Role>, DocumentError> {
        match self.fields.text("role")?.as_deref() {
            None => Ok(None),
            Some("leaf") => Ok(Some(Role::Leaf)),
            Some("orchestrator") => Ok(Some(Role::Orchestrator)),
            Some(_) => Err(DocumentError::whole("`role` must be `leaf` or `orchestrator`")),
        }
    }

    fn output_schema(&self) -> Result<Option<serde_json::Value>, DocumentError> {
        let Some(schema) = self.fields.get("output_schema") else { return Ok(None) };
        if !schema.is_object() {
            return Err(DocumentError::whole("`output_schema` must be a JSON Schema"));
        }
        bounded_schema(schema).map_err(|error| {
            let error = for_terminal_line(&error.to_string(), REASON_CHARS);
            DocumentError::whole(format!("`output_schema`: {error}"))
        })?;
        Ok(Some(schema.clone()))
    }
}

/// Returns words of a file for a note, on one line; the first ones if there are many.
fn quoted(words: &[&str]) -> String {
    let shown = words.iter().take(NOTED).map(|word| {
        let word = for_terminal_line(word, WORD_CHARS);
        format!("`{word}`")
    });
    let shown: Vec<String> = shown.collect();
    match words.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
