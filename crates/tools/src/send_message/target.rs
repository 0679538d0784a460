//! Where messages go, as the person configured it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::notification::NotificationTerminal;

/// Where the messages of a target go.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum MessageTarget {
    /// To an address, as a JSON document. Needs the feature `web`.
    Webhook(WebhookTarget),
    /// To the end of a file with an absolute path, which is created with mode 0600.
    File(PathBuf),
    /// To the standard input of a program with arguments. Its name is looked up in `PATH`.
    Command(Vec<String>),
    /// To the person's screen: by an escape sequence to the terminal if there is one, otherwise by
    /// `notify-send`.
    Notification(Option<Arc<NotificationTerminal>>),
    /// Nowhere, for this reason: something that it needs is missing.
    Unusable(String),
}

impl MessageTarget {
    /// Returns where messages go, for a person who is asked. Of an address only the host is named,
    /// because the rest may be a secret.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Webhook(webhook) => format!("out of this machine, to {}", webhook.host()),
            Self::File(path) => format!("to the end of {}", path.display()),
            Self::Command(argv) => {
                format!("to the input of {}", argv.first().map_or("a command", String::as_str))
            }
            Self::Notification(_) => "to your screen".to_owned(),
            Self::Unusable(why) => format!("nowhere: {why}"),
        }
    }
}

/// An address that takes messages as JSON documents.
#[derive(Clone)]
pub struct WebhookTarget {
    /// The address. Its host may be private and its port any, because the person chose it.
    pub url: String,
    /// The member of the document that has the text.
    pub text_key: String,
    /// Further headers by name.
    pub headers: Vec<(String, String)>,
}

impl WebhookTarget {
    /// Creates a target that takes `{"text": …}`.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), text_key: "text".to_owned(), headers: Vec::new() }
    }

    /// Returns the host of the address, with its port.
    fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        authority.rsplit_once('@').map_or(authority, |(_, host)| host)
    }
}

impl fmt::Debug for WebhookTarget {
    // Address and headers may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookTarget({})", self.text_key)
    }
}
