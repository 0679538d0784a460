//! The base prompt of an agent: which part is system text, and which stands before its first
//! message.

use std::sync::Arc;

use deputize_core::profile::Profile;
use deputize_core::prompt::{FillError, PromptParts};
use deputize_core::sanitize::frame_quote;
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_delegate::{ToolSchemas, profile_section};
use deputize_runtime::prompt::{BaseParts, base_prompt};

/// Separates what comes before the user's words from those words.
const REQUEST: &str = "THE REQUEST:";

/// The prompt of an agent before its task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BasePrompt {
    /// The blocks of the system text.
    pub system: Vec<Arc<str>>,
    /// The blocks before the first message. Empty unless parent and children share their system
    /// text.
    pub opening: Vec<Arc<str>>,
    /// Sources of what differs between agents, beside this program.
    sources: SourceSet,
}

impl BasePrompt {
    /// Builds a base prompt. Where parent and children share one system text, for a provider's
    /// cache, what differs between them goes before the first message.
    ///
    /// # Errors
    /// When a template and its values do not fit.
    pub fn build(parts: &BaseParts<'_>, schemas: ToolSchemas) -> Result<Self, FillError> {
        let PromptParts { stable, volatile } = base_prompt(parts)?;
        let blocks = |stable, volatile| PromptParts { stable, volatile }.render().into_blocks();
        let (system, opening) = match schemas {
            ToolSchemas::Narrowed => (blocks(stable, volatile), Vec::new()),
            ToolSchemas::CachePreserving => {
                (blocks(stable, Vec::new()), blocks(Vec::new(), volatile))
            }
        };
        let sources = parts.project.iter().map(|file| Source::project(file.path)).collect();
        Ok(Self { system, opening, sources })
    }

    /// Returns the sources of the system text, beside this program.
    #[must_use]
    pub fn system_sources(&self) -> SourceSet {
        if self.opening.is_empty() { self.sources.clone() } else { SourceSet::new() }
    }

    /// Returns the sources of what stands before the first message.
    #[must_use]
    pub fn opening_sources(&self) -> SourceSet {
        if self.opening.is_empty() {
            return SourceSet::new();
        }
        self.sources.iter().cloned().chain([Source::host()]).collect()
    }

    /// Returns the blocks for children: all of them where children have a system text of
    /// their own, and the opening where they share that of their parent.
    #[must_use]
    pub fn for_children(self, schemas: ToolSchemas) -> Vec<Arc<str>> {
        match schemas {
            ToolSchemas::Narrowed => self.system,
            ToolSchemas::CachePreserving => self.opening,
        }
    }

    /// Adds sources of texts that are in it already.
    pub(crate) fn add_sources<'s>(&mut self, sources: impl IntoIterator<Item = &'s Source>) {
        self.sources.extend(sources.into_iter().cloned());
    }

    /// Adds what the memory of this agent says, where its children do not read it.
    pub fn add_memory(&mut self, text: &str, sources: &SourceSet, schemas: ToolSchemas) {
        self.sources.extend(sources.iter().cloned());
        let memory = frame_quote(&Source::tool("memory"), text).into_string().into();
        match schemas {
            ToolSchemas::Narrowed => self.system.push(memory),
            ToolSchemas::CachePreserving => self.opening.push(memory),
        }
    }

    /// Adds the instructions of this agent's profile, which its children do not read.
    ///
    /// # Errors
    /// When a template and its values do not fit.
    pub fn add_profile(
        &mut self,
        profile: &Profile,
        schemas: ToolSchemas,
    ) -> Result<(), FillError> {
        if profile.from_project {
            self.sources.insert(Source::project(format!("agents/{}", profile.name)));
        }
        let section = profile_section(profile)?.map(|section| section.to_string().into());
        match schemas {
            ToolSchemas::Narrowed => self.system.extend(section),
            ToolSchemas::CachePreserving => self.opening.extend(section),
        }
        Ok(())
    }

    /// Returns a first message with the opening before it.
    #[must_use]
    pub fn open(&self, message: &str) -> String {
        if self.opening.is_empty() {
            return message.to_owned();
        }
        format!("{}\n\n{REQUEST}\n{message}", self.opening.join("\n\n"))
    }
}
