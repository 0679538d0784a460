//! Which models see images, and conversations for those that see none.

use std::borrow::Cow;
use std::sync::Arc;

use deputize_core::message::{ModelText, UserMessage};
use deputize_core::model::Request;
use deputize_core::{Message, ToolResult};

use crate::endpoint::Endpoint;
use crate::prices::{plain, vendor_and_model};

/// The models of a maker that see images.
struct SeeingModels {
    provider: &'static str,
    /// Their names, or the beginnings of them up to a hyphen.
    names: &'static [&'static str],
    /// Those among them that see none.
    except: &'static [&'static str],
}

/// As the makers say on 2026-11-27.
const SEEING: [SeeingModels; 2] = [
    SeeingModels {
        provider: "anthropic",
        names: &["claude"],
        except: &["claude-2", "claude-instant"],
    },
    SeeingModels {
        provider: "openai",
        names: &[
            "chatgpt-4o",
            "gpt-4-1",
            "gpt-4-turbo",
            "gpt-4o",
            "gpt-5",
            "gpt-6",
            "o1",
            "o3",
            "o4-mini",
        ],
        except: &[
            "gpt-4-turbo-preview",
            "gpt-4o-audio",
            "gpt-4o-mini-search",
            "gpt-4o-realtime",
            "gpt-4o-search",
            "o1-mini",
            "o1-preview",
            "o3-mini",
        ],
    },
];

/// Returns whether a provider's model sees images, as its maker says. A model that is named as
/// `VENDOR/MODEL` is its vendor's; an unknown one sees none.
///
/// ```
/// use deputize_providers::publishes_vision;
///
/// assert!(publishes_vision("anthropic", "claude-sonnet-4-5-20250929"));
/// assert!(publishes_vision("openrouter", "openai/gpt-4.1-mini"));
/// assert!(!publishes_vision("openai", "o3-mini"));
/// ```
#[must_use]
pub fn publishes_vision(provider: &str, model: &str) -> bool {
    let (provider, model) = vendor_and_model(provider, model);
    let model = plain(model);
    let begins = |name: &&'static str| {
        model.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    SEEING.iter().any(|makers| {
        makers.provider == provider
            && makers.names.iter().any(begins)
            && !makers.except.iter().any(begins)
    })
}

/// Which models behind an endpoint see images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vision {
    /// The provider's name in the configuration.
    provider: String,
    /// Whether all models there do; `None`: as is published.
    all: Option<bool>,
}

impl Vision {
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        Self { provider: endpoint.name.clone(), all: endpoint.body.vision }
    }

    /// Returns a value by which all models see images, or none.
    #[must_use]
    pub fn all(all: bool) -> Self {
        Self { all: Some(all), ..Self::default() }
    }

    pub(crate) fn sees_images(&self, model: &str) -> bool {
        self.all.unwrap_or_else(|| publishes_vision(&self.provider, model))
    }

    /// Returns the conversation of a request as its model can take it: a model without vision gets
    /// words in place of images.
    pub(crate) fn messages<'r>(&self, request: &Request<'r>) -> Cow<'r, [Arc<Message>]> {
        let has_images = request.messages.iter().any(|message| !message.images().is_empty());
        if !has_images || self.sees_images(request.model) {
            return Cow::Borrowed(request.messages);
        }
        request.messages.iter().map(without_images).collect()
    }
}

fn without_images(message: &Arc<Message>) -> Arc<Message> {
    let with_note = |text: &str, images: usize| {
        let note = match images {
            1 => "[an image stands here, which you cannot see]".to_owned(),
            more => format!("[{more} images stand here, which you cannot see]"),
        };
        if text.is_empty() { note } else { format!("{text}\n{note}") }
    };
    match &**message {
        Message::User(user) if !user.images.is_empty() => {
            let text = with_note(&user.text, user.images.len());
            Arc::new(Message::User(UserMessage { text, images: Vec::new(), ..user.clone() }))
        }
        Message::Tool(result) if !result.images.is_empty() => {
            let text = ModelText::own(with_note(result.text.as_str(), result.images.len()));
            Arc::new(Message::Tool(ToolResult { text, images: Vec::new(), ..result.clone() }))
        }
        _ => Arc::clone(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makers_say_which_models_see() {
        let sees = publishes_vision;
        for model in ["gpt-4o", "gpt-4.1", "gpt-5.1-codex", "o1", "o3-2025-04-16", "gpt-4-turbo"] {
            assert!(sees("openai", model), "{model}");
        }
        for model in ["gpt-4", "gpt-4-1106-preview", "gpt-3.5-turbo", "gpt-oss-120b", "o1-mini"] {
            assert!(!sees("openai", model), "{model}");
        }
        assert!(sees("anthropic", "claude-3-haiku") && !sees("anthropic", "claude-2.1"));
        assert!(!sees("deepseek", "deepseek-chat") && !sees("local", "gpt-4o"));
        assert!(sees("openrouter", "anthropic/claude-opus-4.6"));
    }
}
