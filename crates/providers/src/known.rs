//! Providers that need nothing but a key.

use crate::wire::Wire;

/// What is known of a provider.
///
/// ```
/// let known = deputize_providers::known_provider("anthropic").unwrap();
/// assert_eq!(known.key_variable, Some("ANTHROPIC_API_KEY"));
/// assert!(deputize_providers::known_provider("nobody").is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownProvider {
    /// Its name, as in `openai/gpt-5`.
    pub name: &'static str,
    /// What it speaks at its own address.
    pub wire: Wire,
    /// What a server at any other address is taken to speak.
    pub wire_elsewhere: Wire,
    /// Its address up to and with the version.
    pub base_url: &'static str,
    /// The environment variable that holds its key; `None`: it needs no key.
    pub key_variable: Option<&'static str>,
}

/// Every known provider, by name.
pub const KNOWN_PROVIDERS: [KnownProvider; 5] = [
    KnownProvider {
        name: "anthropic",
        wire: Wire::AnthropicMessages,
        wire_elsewhere: Wire::AnthropicMessages,
        base_url: "https://api.anthropic.com/v1",
        key_variable: Some("ANTHROPIC_API_KEY"),
    },
    KnownProvider {
        name: "deepseek",
        wire: Wire::OpenAiChat,
        wire_elsewhere: Wire::OpenAiChat,
        base_url: "https://api.deepseek.com/v1",
        key_variable: Some("DEEPSEEK_API_KEY"),
    },
    KnownProvider {
        name: "ollama",
        wire: Wire::OpenAiChat,
        wire_elsewhere: Wire::OpenAiChat,
        base_url: "http://127.0.0.1:11434/v1",
        key_variable: None,
    },
    KnownProvider {
        name: "openai",
        // Its reasoning models call tools and keep their reasoning over calls only there.
        wire: Wire::OpenAiResponses,
        wire_elsewhere: Wire::OpenAiChat,
        base_url: "https://api.openai.com/v1",
        key_variable: Some("OPENAI_API_KEY"),
    },
    KnownProvider {
        name: "openrouter",
        wire: Wire::OpenAiChat,
        wire_elsewhere: Wire::OpenAiChat,
        base_url: "https://openrouter.ai/api/v1",
        key_variable: Some("OPENROUTER_API_KEY"),
    },
];

/// Returns what is known of the provider with this name.
#[must_use]
pub fn known_provider(name: &str) -> Option<&'static KnownProvider> {
    const KNOWN: &[KnownProvider] = &KNOWN_PROVIDERS;
    KNOWN.iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted() {
        assert!(KNOWN_PROVIDERS.is_sorted_by_key(|known| known.name));
    }
}
