//! The keys of `config.yaml`, as plain data with the documented defaults.
//!
//! The comments of the fields become the descriptions of the published schema.

use std::collections::BTreeMap;

use deputize_core::agent::AgentLimits;
use deputize_core::authority::ApproverMode;
use deputize_core::file_state::OnStaleWrite;
use deputize_providers::limits::CONTENT_BYTES;
use deputize_runtime::{CompactionConfig, SyncMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::delegation::Delegation;
use super::hooks::Hooks;
use super::mcp::McpServer;
use super::messaging::MessagingConfig;
use super::plugin::PluginEntry;
use super::provider::ProviderEntry;
use super::reasoning_effort::ReasoningEffort;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model, as PROVIDER/MODEL. `offline` is a model that needs no key and no network.
    pub model: String,
    /// Models to try, in this order, when the first cannot be used.
    pub fallback_models: Vec<String>,
    /// How hard a reasoning model thinks. Empty: the model's own default.
    pub reasoning_effort: ReasoningEffort,
    /// Text added to the system prompt.
    pub system_prompt: String,
    /// Messages sent after the system text and before the conversation.
    pub prefill_messages: Vec<PrefillMessage>,
    /// Model providers by name. Known ones need no entry.
    pub providers: BTreeMap<String, ProviderEntry>,
    /// Toolsets of the top agent. Empty: all.
    pub toolsets: Vec<String>,
    /// Toolsets of your own by name, made of tools and of other toolsets.
    pub composite_toolsets: BTreeMap<String, ToolsetEntry>,
    /// Model requests in one turn.
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
    /// For servers and workers: seconds without activity after which a turn ends as a timeout.
    /// Never if 0.
    pub inactivity_timeout_seconds: u32,
    /// What a session may spend in all its runs.
    pub budget: Budget,
    /// What happens when a tool needs a permission.
    pub approvals: Approvals,
    /// The terminal tool.
    pub terminal: TerminalConfig,
    /// Scripts of the tool execute_code.
    pub code_execution: CodeExecutionConfig,
    /// How changes of files under the agent are treated.
    pub file_state: FileState,
    /// Fetching pages of the web.
    pub fetch: FetchConfig,
    /// The browser that agents use, in a program built with it.
    pub browser: BrowserConfig,
    /// The search engine.
    pub search: SearchConfig,
    /// Where agents send messages.
    pub messaging: MessagingConfig,
    /// Scheduled jobs.
    pub cron: CronConfig,
    /// The record of a session.
    pub journal: Journal,
    /// Tokens of one answer of the model. If 0: 32,000 with `anthropic-messages`, else the model's
    /// own limit.
    pub max_output_tokens: u32,
    /// When older messages of a conversation give way to a summary.
    pub compaction: CompactionConfig,
    /// What a tool result, a reply of a model and the list of its tools may hold.
    pub limits: Limits,
    /// Whether `agents` and `pause` in another terminal reach this process.
    pub control: bool,
    /// Agents that delegate tasks to children.
    pub delegation: Delegation,
    /// MCP servers by name.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Dynamic plugins.
    pub plugins: Vec<PluginEntry>,
    /// Shell commands to run at events.
    pub hooks: Hooks,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: String::new(),
            fallback_models: Vec::new(),
            reasoning_effort: ReasoningEffort::default(),
            system_prompt: String::new(),
            prefill_messages: Vec::new(),
            providers: BTreeMap::new(),
            toolsets: Vec::new(),
            composite_toolsets: BTreeMap::new(),
            max_iterations: AgentLimits::MAX_ITERATIONS,
            inactivity_timeout_seconds: 0,
            budget: Budget::default(),
            approvals: Approvals::default(),
            terminal: TerminalConfig::default(),
            code_execution: CodeExecutionConfig::default(),
            file_state: FileState::default(),
            fetch: FetchConfig::default(),
            browser: BrowserConfig::default(),
            search: SearchConfig::default(),
            messaging: MessagingConfig::default(),
            cron: CronConfig::default(),
            journal: Journal::default(),
            max_output_tokens: 0,
            compaction: CompactionConfig::default(),
            limits: Limits::default(),
            control: true,
            delegation: Delegation::default(),
            mcp_servers: BTreeMap::new(),
            plugins: Vec::new(),
            hooks: Hooks::default(),
        }
    }
}

/// A toolset made of others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsetEntry {
    /// Names of tools.
    pub tools: Vec<String>,
    /// Names of toolsets whose tools it has too.
    pub includes: Vec<String>,
}

/// A message put before the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefillMessage {
    /// Role of the message.
    pub role: PrefillRole,
    /// Text of the message.
    pub content: String,
}

/// Who says a prefilled message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PrefillRole {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// What happens when a tool needs a permission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// How the top agent's requests are answered.
    pub mode: ApproverMode,
}

/// The terminal tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TerminalConfig {
    /// Directory in which terminals start, an absolute path. Empty: the agent's.
    pub cwd: String,
    /// Commands that go on after the session if an agent starts them in the background, with
    /// exactly this text.
    pub durable: Vec<String>,
}

/// Scripts of the tool execute_code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CodeExecutionConfig {
    /// Seconds that a script may run, without the time in which its calls wait for an approval.
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: u32,
    /// Calls that a script may make.
    #[schemars(range(max = 1000))]
    pub max_calls: u32,
    /// Bytes of a script's output that the model gets.
    #[schemars(range(min = 1024, max = 500_000))]
    pub output_bytes: u32,
}

impl Default for CodeExecutionConfig {
    fn default() -> Self {
        Self {
            timeout_seconds: deputize_tools::CODE_SECONDS,
            max_calls: deputize_tools::CODE_CALLS,
            output_bytes: number(deputize_tools::CODE_OUTPUT_BYTES),
        }
    }
}

/// How changes of files under the agent are treated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileState {
    /// What happens when a file changed since the agent read it.
    pub on_stale_write: OnStaleWrite,
}

/// Fetching pages of the web.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FetchConfig {
    /// Hosts that may have private addresses, as HOST or HOST:PORT. With a port, any port may be named.
    pub allow_hosts: Vec<String>,
    /// Seconds of one fetch with all its redirects.
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,
    /// Bytes of the largest document that is read.
    #[schemars(range(min = 1024, max = 67_108_864))]
    pub max_bytes: u32,
}

impl Default for FetchConfig {
    fn default() -> Self {
        let max_bytes = u32::try_from(deputize_web::MAX_BYTES).unwrap_or(u32::MAX);
        let timeout_seconds = deputize_web::TIMEOUT_SECONDS;
        Self { allow_hosts: Vec::new(), timeout_seconds, max_bytes }
    }
}

/// The browser that agents use. Which hosts may have private addresses is in `fetch.allow_hosts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BrowserConfig {
    /// Whether agents may use a browser.
    pub enabled: bool,
    /// Path of a Chromium. Empty: one is looked for in PATH.
    pub program: String,
    /// Seconds that a page may take to load.
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: u32,
    /// Browsers of a session that run at once. Each agent has one at most.
    #[schemars(range(min = 1, max = 100))]
    pub max_browsers: u32,
}

impl Default for BrowserConfig {
    fn default() -> Self {
        Self { enabled: false, program: String::new(), timeout_seconds: 30, max_browsers: 4 }
    }
}

/// The search engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// The kind of search engine. Without one, agents cannot search the web.
    pub backend: SearchBackend,
    /// Address of the search engine. Empty: that of the public service. SearXNG needs one.
    pub base_url: String,
    /// Environment variable that holds the key. Empty: BRAVE_API_KEY or TAVILY_API_KEY; no key
    /// with a `base_url`.
    pub api_key_env: String,
}

/// A kind of search engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchBackend {
    /// No search engine.
    #[default]
    None,
    /// A SearXNG server.
    Searxng,
    /// Brave's search API.
    Brave,
    /// Tavily's search API.
    Tavily,
}

/// Scheduled jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CronConfig {
    /// Whether calls of jobs that need an approval are approved. Nobody can be asked.
    pub approvals: CronApprovals,
    /// Time limit of a run in seconds, unless the job has its own.
    #[schemars(range(min = 1))]
    pub timeout_seconds: u32,
    /// Jobs that run at once. Others that are due wait.
    #[schemars(range(min = 1, max = 100))]
    pub max_concurrent_runs: u32,
}

impl Default for CronConfig {
    fn default() -> Self {
        Self {
            approvals: CronApprovals::Deny,
            timeout_seconds: deputize_cron::RUN_SECONDS,
            max_concurrent_runs: number(deputize_cron::CONCURRENT_RUNS),
        }
    }
}

/// How requests of jobs for permission are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CronApprovals {
    /// Deny each.
    Deny,
    /// Approve each, and log it.
    Auto,
}

/// The record of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Journal {
    /// When the record is forced to disk.
    pub sync: SyncMode,
}

/// What a tool result, a reply of a model and the list of its tools may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Lines of one read.
    #[schemars(range(min = 1))]
    pub read_lines: u32,
    /// Bytes of one read.
    #[schemars(range(min = 1))]
    pub read_bytes: u32,
    /// Bytes of text, reasoning and calls of one reply of a model.
    #[schemars(range(min = 65_536, max = 33_554_432))]
    pub reply_bytes: u32,
    /// Background commands of one agent that run at once.
    #[schemars(range(max = 1_000))]
    pub background_commands: u32,
    /// Bytes of the MCP tools that a model is sent. A model with more of them gets `mcp_search` and
    /// `mcp_call` instead.
    pub mcp_schema_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            read_lines: number(deputize_tools::READ_LINES),
            read_bytes: number(deputize_tools::READ_BYTES),
            reply_bytes: number(CONTENT_BYTES),
            background_commands: number(deputize_tools::BACKGROUND_COMMANDS),
            mcp_schema_bytes: u32::try_from(deputize_mcp::LISTED_BYTES).unwrap_or(u32::MAX),
        }
    }
}

/// A limit of a library as a key has it.
fn number(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}
