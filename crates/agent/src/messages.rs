//! Targets of messages, for embedded agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::ResourceMap;
use deputize_core::authority::ApproverMode;
use deputize_runtime::SessionConfig;
use deputize_tools::{MessageSettings, MessageTarget};

use crate::extension::{Extension, ExtensionContext};

/// The targets of an agent's messages by name.
pub(crate) struct MessageTargets(pub(crate) BTreeMap<String, MessageTarget>);

impl Extension for MessageTargets {
    fn change_session(&self, cx: &ExtensionContext<'_>, config: &mut SessionConfig) {
        config.tools.settings.get_or_insert_with(|| MessageSettings {
            targets: self.0.clone(),
            clock: Arc::clone(&config.clock),
            env: cx.env.clone(),
            secrets: config.secrets.clone(),
            ..MessageSettings::default()
        });
    }

    fn add_replay_settings(&self, settings: &ResourceMap, _: ApproverMode) {
        let targets = self.0.clone();
        settings.get_or_insert_with(|| MessageSettings { targets, ..MessageSettings::default() });
    }
}
