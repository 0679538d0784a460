//! The wires by name, for a program whose configuration chooses among them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::Model;
use deputize_core::model::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, EndpointError};
use crate::http::{HttpClient, ModelListing, look};
use crate::{
    AnthropicMessages, OpenAiChat, OpenAiResponses, anthropic_messages, openai_chat,
    openai_responses,
};

/// A wire format.
///
/// ```
/// use deputize_core::model::{ModelOptions, Request, ToolChoice};
/// use deputize_providers::{Endpoint, Wire};
///
/// let endpoint = Endpoint::new("local", "http://127.0.0.1:8080/v1");
/// let options = ModelOptions::default();
/// let (system, tools, messages) = (&[], &[], &[]);
/// let tool_choice = ToolChoice::Auto;
/// let request = Request { model: "m", system, tools, messages, tool_choice, options: &options };
/// let body = Wire::OpenAiResponses.dialect(&endpoint)?.body(&request);
/// assert!(body.starts_with(br#"{"model":"m","stream":true"#));
/// # Ok::<(), deputize_providers::EndpointError>(())
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Wire {
    /// OpenAI's Chat Completions, which most servers speak.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Anthropic's Messages.
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
}

impl Wire {
    /// Returns the name that stands in configurations, such as `openai-chat`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic-messages",
        }
    }

    /// Returns a model behind an endpoint that speaks this wire. Nothing is sent yet.
    ///
    /// # Errors
    /// When the endpoint cannot be used, or there is no TLS on this machine.
    pub fn model(
        self,
        endpoint: Endpoint,
        http: &HttpClient,
    ) -> Result<Arc<dyn Model>, EndpointError> {
        Ok(match self {
            Self::OpenAiChat => Arc::new(OpenAiChat::new(endpoint, http)?),
            Self::OpenAiResponses => Arc::new(OpenAiResponses::new(endpoint, http)?),
            Self::AnthropicMessages => Arc::new(AnthropicMessages::new(endpoint, http)?),
        })
    }

    /// Returns how requests to an endpoint are written.
    ///
    /// # Errors
    /// When the endpoint's address or extra fields cannot be used.
    pub fn dialect(self, endpoint: &Endpoint) -> Result<WireDialect, EndpointError> {
        Ok(WireDialect(match self {
            Self::OpenAiChat => DialectKind::Chat(openai_chat::Dialect::of(endpoint)?),
            Self::OpenAiResponses => {
                DialectKind::Responses(openai_responses::endpoint_dialect(endpoint)?)
            }
            Self::AnthropicMessages => {
                DialectKind::Messages(anthropic_messages::endpoint_dialect(endpoint)?)
            }
        }))
    }

    /// Asks an endpoint for the list of its models, once with each key, side by side: a
    /// request that costs nothing. One that is not answered within `limit` has failed.
    ///
    /// # Errors
    /// When the endpoint cannot be used, or there is no TLS on this machine.
    pub async fn look(
        self,
        endpoint: Endpoint,
        http: &HttpClient,
        limit: Duration,
    ) -> Result<Vec<ModelListing>, EndpointError> {
        Ok(match self {
            Self::OpenAiChat => look(&OpenAiChat::new(endpoint, http)?.remote, limit).await,
            Self::OpenAiResponses => {
                look(&OpenAiResponses::new(endpoint, http)?.remote, limit).await
            }
            Self::AnthropicMessages => {
                look(&AnthropicMessages::new(endpoint, http)?.remote, limit).await
            }
        })
    }
}

/// How requests are written in some wire. See [`Wire::dialect`].
#[derive(Clone, PartialEq)]
pub struct WireDialect(DialectKind);

#[derive(Debug, Clone, PartialEq)]
enum DialectKind {
    Chat(openai_chat::Dialect),
    Responses(openai_responses::Dialect),
    Messages(anthropic_messages::Dialect),
}

impl Default for WireDialect {
    /// Chat Completions, as most servers speak it.
    fn default() -> Self {
        Self(DialectKind::Chat(openai_chat::Dialect::default()))
    }
}

impl fmt::Debug for WireDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl WireDialect {
    /// Returns the bytes of a request: one JSON object.
    #[must_use]
    pub fn body(&self, request: &Request<'_>) -> Vec<u8> {
        match &self.0 {
            DialectKind::Chat(dialect) => openai_chat::request_body(request, dialect),
            DialectKind::Responses(dialect) => openai_responses::request_body(request, dialect),
            DialectKind::Messages(dialect) => anthropic_messages::request_body(request, dialect),
        }
    }
}
