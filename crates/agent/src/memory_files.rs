//! The memory files of embedded agents.

use std::path::PathBuf;

use deputize_core::authority::ApproverMode;
use deputize_core::sanitize::Secrets;
use deputize_core::{ResourceMap, describe_error};
use deputize_runtime::SessionConfig;
use deputize_tools::{MemoryFiles, MemorySettings};

use crate::extension::{Extension, ExtensionContext};
use crate::prompt_sources::PromptSources;

/// The folder of an agent's memory files.
pub(crate) struct AgentMemory(pub(crate) PathBuf);

impl AgentMemory {
    fn settings(&self, secrets: &Secrets) -> MemorySettings {
        MemorySettings { files: Some(MemoryFiles::new(self.0.clone(), secrets.clone())) }
    }
}

impl Extension for AgentMemory {
    fn change_prompt(&self, sources: &mut PromptSources, warnings: &mut Vec<String>) {
        let memory = MemoryFiles::new(self.0.clone(), Secrets::default()).prompt_text();
        warnings.extend(memory.faults.iter().map(|fault| describe_error(fault)));
        (sources.memory, sources.memory_sources) = (memory.text, memory.sources);
    }

    fn change_session(&self, _: &ExtensionContext<'_>, config: &mut SessionConfig) {
        config.tools.settings.get_or_insert_with(|| self.settings(&config.secrets));
    }

    fn add_replay_settings(&self, settings: &ResourceMap, _: ApproverMode) {
        settings.get_or_insert_with(|| self.settings(&Secrets::default()));
    }
}
