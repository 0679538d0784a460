//! The keys under `providers`.

use std::collections::BTreeMap;

use deputize_providers::{ToolCalling, Wire};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::ModelPrice;
use super::secret::Secret;

/// One model provider. Every key is optional for a known provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderEntry {
    /// The protocol the endpoint speaks. Absent: the known provider's at its own address, and
    /// `openai-chat` elsewhere.
    pub api: Option<Wire>,
    /// The endpoint, up to and including its version, such as http://127.0.0.1:8080/v1.
    pub base_url: Option<String>,
    /// Environment variable that holds the key.
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub api_key_env: Option<String>,
    /// Environment variables that hold keys; they rotate on rate limits.
    #[schemars(inner(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$")))]
    pub api_key_envs: Vec<String>,
    /// The header that carries the key, such as `api-key`. Absent: `authorization`, as a bearer,
    /// or `x-api-key` for `anthropic-messages`.
    #[schemars(regex(pattern = "^[A-Za-z0-9-]+$"))]
    pub key_header: Option<String>,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, Secret>,
    /// More fields of the body of every request.
    pub extra_body: BTreeMap<String, Value>,
    /// Fields of the body to leave out, such as `stream_options`.
    pub omit_body: Vec<String>,
    /// Whether answers come as a stream. Absent: yes.
    pub streaming: Option<bool>,
    /// Whether the model's reasoning goes back with a message that made calls
    /// (`reasoning_content`, `openai-chat` only): some servers refuse a tool loop without it, some
    /// refuse the field. Absent: at deepseek.com only.
    pub echo_reasoning: Option<bool>,
    /// How the models call tools.
    pub tools: ToolCalling,
    /// Whether the models see images. Absent: as their makers say, of known providers.
    pub vision: Option<bool>,
    /// File with certificate authorities (PEM) to trust beside the system's: an absolute path, or
    /// one that begins with `~/`.
    pub ca_file: Option<String>,
    /// The proxy to this provider, such as `http://proxy.example:3128`, or `none`. Absent: the one
    /// that the environment names, but none for this machine's own addresses.
    pub proxy: Option<String>,
    /// Seconds to wait for a connection. Absent: 10.
    #[schemars(range(min = 1))]
    pub connect_timeout_seconds: Option<u32>,
    /// Seconds to wait for the first byte of an answer. Absent: 60, or 600 on this machine and
    /// for answers that do not come as a stream.
    #[schemars(range(min = 1))]
    pub first_byte_timeout_seconds: Option<u32>,
    /// Seconds an answer may pause. Absent: 90.
    #[schemars(range(min = 1))]
    pub stream_idle_timeout_seconds: Option<u32>,
    /// Tokens of one answer. If 0, `max_output_tokens` of the whole configuration applies.
    pub max_output_tokens: u32,
    /// Tokens that fit in the model's context. If 0, as published for the model, where that is known.
    pub context_window: u32,
    /// What models cost, by their names. Absent: as published, and nothing on this machine.
    pub prices: BTreeMap<String, ModelPrice>,
}
