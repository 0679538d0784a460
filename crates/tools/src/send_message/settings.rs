//! The targets of a program's messages.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::clock::FixedClock;
use deputize_core::sanitize::Secrets;
use deputize_core::setting_names::SettingNames;
use deputize_core::{Clock, Resource};

use super::message_error::MessageError;
use super::target::MessageTarget;
use crate::display_name::display_name;

/// Seconds in which a message must be delivered, unless set otherwise.
pub const MESSAGE_SECONDS: u32 = 30;
/// Bytes of a message at most.
pub const MESSAGE_BYTES: usize = 16 * 1024;

/// The targets of messages. A program puts them into its session's settings; without any, the tool
/// is not offered.
#[derive(Clone)]
pub struct MessageSettings {
    /// The targets by the names that models read.
    pub targets: BTreeMap<String, MessageTarget>,
    /// Time limit of a delivery.
    pub time_limit: Duration,
    /// The time that stands before messages in files.
    pub clock: Arc<dyn Clock>,
    /// The environment of the program, of which commands get the harmless part.
    pub env: BTreeMap<OsString, OsString>,
    /// Values that no message may have in it.
    pub secrets: Secrets,
    /// The host's name of the setting `targets`, if it has one.
    pub setting_names: SettingNames,
}

impl Default for MessageSettings {
    fn default() -> Self {
        Self {
            targets: BTreeMap::new(),
            time_limit: Duration::from_secs(MESSAGE_SECONDS.into()),
            clock: Arc::new(FixedClock(0)),
            env: BTreeMap::new(),
            secrets: Secrets::default(),
            setting_names: SettingNames::default(),
        }
    }
}

impl Resource for MessageSettings {}

impl fmt::Debug for MessageSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.targets).finish()
    }
}

impl MessageSettings {
    /// Returns the target of a message that may be sent.
    pub(super) fn check(&self, target: &str, text: &str) -> Result<&MessageTarget, MessageError> {
        let Some(to) = self.targets.get(target) else {
            let known = self.targets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(MessageError::Unknown { name: display_name(target), known });
        };
        self.check_text(text)?;
        match to {
            MessageTarget::Unusable(why) => {
                Err(MessageError::not_sent(target, "it is not set up").because(why.clone()))
            }
            to => Ok(to),
        }
    }

    fn check_text(&self, text: &str) -> Result<(), MessageError> {
        if text.trim().is_empty() {
            return Err(MessageError::Text("the message is empty".to_owned()));
        }
        let bytes = text.len();
        if bytes > MESSAGE_BYTES {
            return Err(MessageError::Text(format!(
                "the message has {bytes} bytes, and {MESSAGE_BYTES} is the most: shorten it"
            )));
        }
        // What a model writes comes with masks in place of the values.
        let scrubbed = self.secrets.scrub(text);
        if let Some((_, rest)) = scrubbed.split_once(Secrets::MASK) {
            let name = rest.split(']').next().unwrap_or_default();
            return Err(MessageError::Text(format!(
                "the message has {name} in it, a secret that is not sent anywhere"
            )));
        }
        Ok(())
    }
}
