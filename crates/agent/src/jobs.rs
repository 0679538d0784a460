//! The jobs that embedded agents make.

use std::sync::Arc;

use deputize_core::ResourceMap;
use deputize_core::authority::ApproverMode;
use deputize_cron::{JobSettings, JobStore};
use deputize_runtime::SessionConfig;

use crate::extension::{Extension, ExtensionContext};

/// The jobs that an agent may make.
pub(crate) struct AgentJobs(pub(crate) JobStore);

impl Extension for AgentJobs {
    fn change_session(&self, cx: &ExtensionContext<'_>, config: &mut SessionConfig) {
        config.tools.settings.get_or_insert_with(|| JobSettings {
            store: Some(self.0.clone()),
            person_available: cx.mode == ApproverMode::Ask,
            clock: Arc::clone(&config.clock),
            secrets: config.secrets.clone(),
            ..JobSettings::default()
        });
    }

    fn add_replay_settings(&self, settings: &ResourceMap, mode: ApproverMode) {
        settings.get_or_insert_with(|| JobSettings {
            store: Some(self.0.clone()),
            person_available: mode == ApproverMode::Ask,
            ..JobSettings::default()
        });
    }
}
