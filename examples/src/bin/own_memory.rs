//! `deputize` with a memory and a hook of one's own. Every command has them: `own_memory run "…"`,
//! and `own_memory acp` and `own_memory mcp-serve` for editors and other agents.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::process::ExitCode;

use deputize_core::hook::{Hook, HookAnswer, HookEvent, HookInput, HookPoint};
use deputize_core::memory::{Memory, MemoryError, MemorySnapshot};
use deputize_core::{AgentId, BoxFuture, Cancel, Outcome};

/// File with its notes, in the directory that it was started in.
const FILE: &str = "memory.txt";

struct Notes;

impl Memory for Notes {
    /// A line for each child that ended.
    fn on_delegation<'a>(
        &'a self,
        task: &'a str,
        result: &'a Outcome,
        _child: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        Box::pin(async move {
            let mut file = OpenOptions::new().create(true).append(true).open(FILE)?;
            writeln!(file, "{task}: {}", result.status.as_str())?;
            Ok(())
        })
    }

    /// Returns the part of it for the next top agent.
    fn snapshot(&self) -> Option<MemorySnapshot> {
        Some(fs::read_to_string(FILE).ok()?.into())
    }
}

struct KeepDiary;

impl Hook for KeepDiary {
    fn name(&self) -> &str {
        "keep-diary"
    }

    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::PreToolUse
    }

    fn run<'a>(&'a self, input: &'a HookInput<'a>, _: &'a Cancel) -> BoxFuture<'a, HookAnswer> {
        Box::pin(async move {
            match input.event {
                HookEvent::PreToolUse { tool: "read_file", arguments, .. }
                    if arguments["path"] == "diary.txt" =>
                {
                    HookAnswer::block("the diary is read by nobody: do without it")
                }
                _ => HookAnswer::pass(),
            }
        })
    }
}

fn main() -> ExitCode {
    deputize::Cli::new().tools(deputize_tools::LINK).hook(KeepDiary).memory(Notes).run()
}
