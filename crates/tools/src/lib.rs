//! The built-in tools of Deputize: files and a terminal, one tool a file.
//!
//! A program names [`LINK`] and has them; it may put [`Settings`] into its session. Every path
//! is resolved beneath the directories that the calling agent was granted, every read and
//! write is entered in the session's ledger, and nothing is cut without a remark that says how
//! to get the rest. What these tools do not do: ask anyone for permission (the runtime has done
//! so before a call), frame their results (it does so after), or look at the environment.
//!
//! ```
//! let catalog = deputize_core::Catalog::linked(&[deputize_tools::LINK])?;
//! assert!(catalog.get("read_file").is_some());
//! # Ok::<(), deputize_core::CatalogError>(())
//! ```
//!
//! # Features and stability
//!
//! | feature | by default | what it adds |
//! | --- | --- | --- |
//! | `cron` | no | the tool `cronjob` |
//! | `images` | no | `read_file` shows images to models that see them |
//! | `web` | no | the toolset `web`, which is a crate of its own |
//! | `fuzz` | no | opens what the fuzz targets need; nothing else may use it |
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.
//! Descriptions of the tools change as models use them differently.

mod apply_patch;
mod atomic_write;
mod background;
mod blocking;
mod canonical_path;
mod clarify;
#[cfg(feature = "cron")]
mod cronjob;
mod diff;
mod display_name;
mod edit_file;
mod execute_code;
mod existing_file;
mod file_updates;
#[cfg(test)]
mod fixture;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod granted_path;
mod granted_roots;
mod indent;
mod leftovers;
mod list_dir;
mod matching;
mod memory;
mod nearest_name;
mod nearest_text;
mod output_text;
mod page;
mod parent_directory;
mod path_error;
mod process;
mod processes;
mod profiles;
mod read_file;
mod search;
mod search_files;
mod search_threads;
mod secret_text;
mod send_message;
mod settings;
mod shell_state;
mod skills;
mod spill;
mod terminal;
mod text;
mod todo;
mod walk;
mod write_file;

pub use execute_code::find_python;
pub use granted_roots::GrantedRoots;
pub use memory::{
    ENTRY_CHARS, MEMORY_BYTES, MEMORY_TOOL, MemoryFileError, MemoryFiles, MemoryPrompt,
    MemorySettings, MemoryTopic,
};
pub use processes::Processes;
pub use profiles::bundled_profiles;
pub use secret_text::secret_in;
pub use send_message::{
    MESSAGE_BYTES, MESSAGE_SECONDS, MessageError, MessageSettings, MessageTarget, Messenger,
    NotificationTerminal, WebhookTarget,
};
pub use settings::{
    BACKGROUND_COMMANDS, BackgroundLimits, CODE_CALLS, CODE_OUTPUT_BYTES, CODE_SECONDS,
    COMMAND_MAX_SECONDS, COMMAND_SECONDS, CodeLimits, CommandSettings, EDIT_BYTES, FILE_BYTES,
    FileLimits, INPUT_BYTES, LINE_BYTES, LIST_ENTRIES, READ_BYTES, READ_LINES, SEARCH_MATCHES,
    SPILL_BYTES, Settings, WAIT_SECONDS,
};

pub use skills::bundled_skills;

/// Scheduled jobs, and what runs them.
#[cfg(feature = "cron")]
pub use deputize_cron as cron;
/// The tools that read and search the web.
#[cfg(feature = "web")]
pub use deputize_web as web;

deputize_core::tool_crate!();
deputize_core::register_toolset!("file_read", ["list_dir", "read_file", "search_files"]);
deputize_core::register_toolset!(
    "coding",
    includes ["delegation", "file", "skills", "terminal", "todo"]
);
deputize_core::register_toolset!("research", includes ["delegation", "file_read", "web"]);

// With all tools, as programs have them.
#[cfg(all(feature = "cron", feature = "web"))]
#[cfg(test)]
mod tests {
    use super::*;
    use deputize_core::{Catalog, ToolDecl};

    /// The most bytes of all declarations together: they are sent with every request.
    const DECLARED_BYTES: usize = 9_000;

    fn declared() -> Vec<ToolDecl> {
        let catalog = Catalog::linked(&[LINK]).unwrap();
        catalog.iter().map(|entry| entry.tool.spec().decl.clone()).collect()
    }

    #[test]
    fn what_a_model_reads_stays_short() {
        let declared = declared();
        let text = serde_json::to_string(&declared).unwrap();
        println!("declarations: {} bytes", text.len());
        assert!(text.len() <= DECLARED_BYTES, "{} bytes", text.len());
        let plain = |decl: &ToolDecl| {
            let name = &decl.name;
            // Only a build with the feature `images` says so; that of the whole workspace is one.
            let description = decl.description.replace(", or see an image.", ".");
            let parameters = decl.parameters.to_value();
            serde_json::json!({"name": name, "description": description, "parameters": parameters})
        };
        insta::assert_json_snapshot!(
            "declarations",
            declared.iter().map(plain).collect::<Vec<_>>()
        );
    }

    #[test]
    fn every_tool_is_in_its_set() {
        let catalog = Catalog::linked(&[LINK]).unwrap();
        let sets: Vec<_> =
            catalog.iter().map(|entry| format!("{}/{}", entry.toolset, entry.name())).collect();
        assert_eq!(
            sets,
            [
                "file/apply_patch",
                "clarify/clarify",
                "cronjob/cronjob",
                "file/edit_file",
                "code_execution/execute_code",
                "file/list_dir",
                "memory/memory",
                "terminal/process",
                "file/read_file",
                "file/search_files",
                "messaging/send_message",
                "skills/skill_manage",
                "skills/skill_view",
                "skills/skills_list",
                "terminal/terminal",
                "todo/todo",
                "web/web_fetch",
                "web/web_search",
                "file/write_file"
            ]
        );
    }

    /// In a workspace with a `README.md` that was read.
    #[tokio::test]
    async fn examples_run() {
        let path = std::env::var_os("PATH").unwrap();
        let env = [("PATH".into(), path)].into();
        let commands = CommandSettings { env, ..CommandSettings::default() };
        let bench = fixture::ToolFixture::with(Settings { commands, ..Settings::default() });
        let catalog = Catalog::linked(&[LINK]).unwrap();
        fixture::CatalogCaller::give(&bench.cx);
        for name in [
            "read_file",
            "apply_patch",
            "edit_file",
            "write_file",
            "list_dir",
            "search_files",
            "terminal",
            "process",
            "todo",
            "skills_list",
            "skill_view",
        ] {
            bench.put("README.md", "# Title\n\nTODO: a\n");
            let read = serde_json::json!({"path": "README.md"});
            bench.call(read_file::ReadFile, read).await;
            let tool = &catalog.get(name).unwrap().tool;
            for example in &tool.spec().examples {
                let result = tool.call(example.arguments.clone(), &bench.cx).await;
                assert!(result.is_ok(), "{name}: {}", fixture::show(&result));
            }
        }
        bench.cx.agent.store.close().await;
    }
}
