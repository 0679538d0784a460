//! What a program may set for its built-in tools.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::file_state::OnStaleWrite;
use deputize_core::setting_names::SettingNames;
use deputize_core::{AgentView, Resource, ToolCx};

/// Lines of one page of `read_file`, unless set otherwise.
pub const READ_LINES: usize = 2_000;
/// Bytes of one result of `read_file` and `search_files`, unless set otherwise.
pub const READ_BYTES: usize = 256 * 1024;
/// Bytes that `read_file` shows of one line, unless set otherwise.
pub const LINE_BYTES: usize = 16 * 1024;
/// Bytes of the largest file that `read_file` opens, unless set otherwise.
pub const FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// Bytes of the largest file that is held in memory whole, unless set otherwise.
pub const EDIT_BYTES: u64 = 16 * 1024 * 1024;
/// Entries of one result of `list_dir`, unless set otherwise.
pub const LIST_ENTRIES: usize = 1_000;
/// Matches of one result of `search_files`, unless set or asked otherwise.
pub const SEARCH_MATCHES: usize = 200;
/// Seconds that a command may run, unless set or asked otherwise.
pub const COMMAND_SECONDS: u32 = 120;
/// Seconds that a command may ask for, unless set otherwise.
pub const COMMAND_MAX_SECONDS: u32 = 600;

/// Background commands of one agent that run at once, unless set otherwise.
pub const BACKGROUND_COMMANDS: usize = 8;
/// Bytes that one call writes to a background command, unless set otherwise.
pub const INPUT_BYTES: usize = 64 * 1024;
/// Seconds that a call waits for a background command, unless set or asked otherwise.
pub const WAIT_SECONDS: u32 = 60;

/// Seconds that a script of `execute_code` may run, unless set otherwise.
pub const CODE_SECONDS: u32 = 300;
/// Calls that a script may make, unless set otherwise.
pub const CODE_CALLS: u32 = 50;
/// Bytes of a script's output that a result has, unless set otherwise.
pub const CODE_OUTPUT_BYTES: usize = 50_000;

/// Bytes of all long outputs of a session that are kept on disk, unless set otherwise.
pub const SPILL_BYTES: u64 = 512 * 1024 * 1024;

/// The settings of the built-in tools. A program puts them into its session's settings; what
/// it does not put there are the defaults.
///
/// ```
/// use deputize_core::ResourceMap;
/// use deputize_tools::Settings;
/// let settings = ResourceMap::default();
/// settings.get_or_insert_with(|| Settings { list_entries: 500, ..Settings::default() });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How much of a file the tools read.
    pub files: FileLimits,
    /// Entries of one result of `list_dir`.
    pub list_entries: usize,
    /// Matches of one result of `search_files` that asks for no number.
    pub search_matches: usize,
    /// How to treat a write to a file that changed since the agent read it.
    pub on_stale_write: OnStaleWrite,
    /// What holds for commands of `terminal`.
    pub commands: CommandSettings,
    /// Limits of scripts of `execute_code`.
    pub code: CodeLimits,
    /// Bytes of all long outputs of a session that are kept on disk; what is more is only counted.
    pub spill_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            files: FileLimits::default(),
            list_entries: LIST_ENTRIES,
            search_matches: SEARCH_MATCHES,
            on_stale_write: OnStaleWrite::default(),
            commands: CommandSettings::default(),
            code: CodeLimits::default(),
            spill_bytes: SPILL_BYTES,
        }
    }
}

/// How much of a file the tools read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Lines of one page of `read_file`.
    pub read_lines: usize,
    /// Bytes of one result of `read_file` and `search_files`.
    pub read_bytes: usize,
    /// Bytes that `read_file` shows of one line.
    pub line_bytes: usize,
    /// Bytes of the largest file that `read_file` opens.
    pub file_bytes: u64,
    /// Bytes of the largest file that is held in memory whole: to edit it, or to decode UTF-16.
    pub edit_bytes: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            read_lines: READ_LINES,
            read_bytes: READ_BYTES,
            line_bytes: LINE_BYTES,
            file_bytes: FILE_BYTES,
            edit_bytes: EDIT_BYTES,
        }
    }
}

/// What holds for commands of `terminal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    /// Seconds that a command may run that asks for no time.
    pub seconds: u32,
    /// Seconds that a command may ask for.
    pub max_seconds: u32,
    /// What holds for background commands.
    pub background: BackgroundLimits,
    /// The environment of this program, of which commands get the harmless part.
    pub env: BTreeMap<OsString, OsString>,
    /// Where a shell starts; `None` for its agent's directory.
    pub cwd: Option<PathBuf>,
    /// Commands that are durable if the top agent starts them in the background: they go on when the
    /// program ends.
    /// Only a call with exactly one of these texts starts one.
    pub durable: Vec<String>,
}

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            seconds: COMMAND_SECONDS,
            max_seconds: COMMAND_MAX_SECONDS,
            background: BackgroundLimits::default(),
            env: BTreeMap::new(),
            cwd: None,
            durable: Vec::new(),
        }
    }
}

/// What holds for background commands of `terminal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundLimits {
    /// Commands of one agent that run at once.
    pub commands: usize,
    /// Bytes that one call writes.
    pub input_bytes: usize,
    /// Seconds that a call waits that asks for no time; it may ask for as many as a command may.
    pub wait_seconds: u32,
    /// The host's name of the setting `background_commands`, if it has one.
    pub setting_names: SettingNames,
}

impl Default for BackgroundLimits {
    fn default() -> Self {
        Self {
            commands: BACKGROUND_COMMANDS,
            input_bytes: INPUT_BYTES,
            wait_seconds: WAIT_SECONDS,
            setting_names: SettingNames::default(),
        }
    }
}

/// Limits of scripts of `execute_code`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLimits {
    /// Seconds that a script may run, with its calls. Time in which a call waits for an approval does
    /// not count.
    pub seconds: u32,
    /// Calls that a script may make.
    pub calls: u32,
    /// Bytes of a script's output that a result has.
    pub output_bytes: usize,
    /// The host's names of the settings `code_seconds`, `code_calls` and `code_output_bytes`, if it
    /// has them.
    pub setting_names: SettingNames,
}

impl Default for CodeLimits {
    fn default() -> Self {
        Self {
            seconds: CODE_SECONDS,
            calls: CODE_CALLS,
            output_bytes: CODE_OUTPUT_BYTES,
            setting_names: SettingNames::default(),
        }
    }
}

impl Resource for Settings {}

impl Settings {
    /// Those of the session that a call belongs to.
    pub(crate) fn of(cx: &ToolCx) -> Arc<Self> {
        Self::of_agent(&cx.agent)
    }

    /// Those of an agent's session.
    pub(crate) fn of_agent(agent: &AgentView) -> Arc<Self> {
        agent.session.settings.get_or_insert_with(Self::default)
    }
}
