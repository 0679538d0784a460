//! The browsers of embedded agents.

use deputize_browser::BrowserSettings;
use deputize_core::ResourceMap;
use deputize_core::authority::ApproverMode;
use deputize_runtime::SessionConfig;

use crate::extension::{Extension, ExtensionContext};

/// How an agent and its children use browsers.
pub(crate) struct AgentBrowsers(pub(crate) BrowserSettings);

impl Extension for AgentBrowsers {
    fn change_session(&self, _: &ExtensionContext<'_>, config: &mut SessionConfig) {
        config.tools.settings.get_or_insert_with(|| self.0.clone());
    }

    fn add_replay_settings(&self, settings: &ResourceMap, _: ApproverMode) {
        // Nothing is started in a replay, so any program makes the tools usable.
        let program = Some("/bin/sh".into());
        settings.get_or_insert_with(|| BrowserSettings { program, ..self.0.clone() });
    }
}
