//! The output of a call, or why it failed.

use std::error::Error;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::denial::Denial;
use crate::image::Image;
use crate::message::ModelText;
use crate::source::Source;
use crate::source_set::SourceSet;
use crate::tool_effect::ToolEffect;

/// How a screen or an editor may show a result. Models do not see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "display", rename_all = "snake_case")]
pub enum Display {
    /// A change of one file, as a unified diff.
    Diff {
        /// Path of the file.
        path: PathBuf,
        /// Unified diff of the change.
        diff: String,
    },
    /// Changes of several files.
    Diffs {
        /// Each file with its change.
        files: Vec<DisplayedDiff>,
    },
}

/// The change of one file among several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayedDiff {
    /// The path of the file.
    pub path: PathBuf,
    /// The change, as a unified diff.
    pub diff: String,
    /// The path that the file had before; `None` if it was not renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<PathBuf>,
}

impl Display {
    /// Returns the path that a changed file had before, and its path now, for each renamed one.
    pub fn renames(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let files = if let Self::Diffs { files } = self { files.as_slice() } else { &[] };
        files.iter().filter_map(|file| Some((file.renamed_from.as_deref()?, file.path.as_path())))
    }

    /// Returns the path and the unified diff of each changed file.
    pub fn diffs(&self) -> impl Iterator<Item = (&Path, &str)> {
        let (one, several) = match self {
            Self::Diff { path, diff } => (Some((path.as_path(), diff.as_str())), &[][..]),
            Self::Diffs { files } => (None, files.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|file| (file.path.as_path(), &*file.diff)))
    }
}

/// The output of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput {
    /// The content for the model; it is framed later, so it may be anything.
    pub content: String,
    /// Source of the content, if other than the tool itself.
    pub source: Option<Source>,
    /// Further sources of the content, such as those of the conversations that it quotes.
    pub sources: SourceSet,
    /// Remarks of the tool itself (what was cut, where the rest is), shown to the model after the
    /// frame, where content cannot imitate them.
    pub notes: Vec<String>,
    /// Effects that the host observed.
    pub facts: Vec<ToolEffect>,
    /// Images that the model sees after the content. A model without vision sees none.
    pub images: Vec<Image>,
    /// How the result may be shown.
    pub display: Option<Display>,
    /// Whether the call only waited. The same result again is then no repetition.
    pub waited: bool,
}

impl ToolOutput {
    /// Creates an output with only content.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Adds a remark of the tool.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds an observed effect.
    #[must_use]
    pub fn fact(mut self, fact: ToolEffect) -> Self {
        self.facts.push(fact);
        self
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// A refusal that the model can act on: what, which one, what to do.
    #[error("refused: {0}")]
    Refused(ModelText),
    /// The same, when the work had begun and has partial output.
    #[error("refused: {text}")]
    Partly {
        /// The text that the model can act on.
        text: ModelText,
        /// The output until then.
        output: Box<ToolOutput>,
    },
    /// A rule forbids the call, whatever anybody approves.
    #[error("denied: {}", .0.for_model)]
    Denied(Denial),
    /// A failure for the operator; the model gets one neutral sentence.
    #[error("the tool failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The same, if the model can act on a part of it.
    #[error("the tool failed")]
    Unavailable {
        /// The text that the model can act on, written only by the tool's author.
        text: ModelText,
        /// The failure, for the operator.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The call was cancelled; this is the output until then.
    #[error("cancelled")]
    Cancelled(Box<ToolOutput>),
}

impl ToolError {
    /// Creates a refusal that the model can act on.
    #[must_use]
    pub fn refused(text: impl Into<String>) -> Self {
        Self::Refused(ModelText::own(text))
    }

    /// Creates a failure for the operator.
    #[must_use]
    pub fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(source.into())
    }
}

/// The result of a call: output, or why it failed.
pub type ToolCallResult = Result<ToolOutput, ToolError>;
