//! What there is to know about a background command at one moment, and as a result.

use std::path::PathBuf;
use std::time::Duration;

use deputize_core::ToolOutput;
use deputize_core::process::ProcessExit;
use deputize_core::wording::count;
use deputize_process::Output;

use crate::output_text::output_text;

/// What there is to know about a command at one moment.
#[derive(Debug)]
pub(crate) struct CommandProgress {
    /// The output since the last time.
    pub(crate) output: Output,
    /// How it ended; `None` while it runs.
    pub(crate) exit: Option<ProcessExit>,
    pub(crate) ran: Duration,
    /// The file with its output, if it is kept, with the bytes in it.
    pub(crate) file: Option<(PathBuf, u64)>,
    /// Why the file does not hold the whole output.
    pub(crate) file_failed: Option<String>,
    /// Processes that could not be ended.
    pub(crate) left: Vec<i32>,
    /// Whether the command is durable: its file has the last part of its output.
    pub(crate) is_durable: bool,
}

impl CommandProgress {
    /// Returns what is known of the command with this ID as a result.
    pub(crate) fn into_output(self, id: &str) -> ToolOutput {
        let Self { output, exit, ran, file, file_failed, left, is_durable } = self;
        let mut result = ToolOutput::text(output_text(&output));
        let seconds = count(ran.as_secs(), "second");
        result.notes.push(match exit {
            None => format!("{id} runs in the background"),
            Some(exit) => format!("{id} has ended after {seconds}: {exit}"),
        });
        if output.omitted() > 0 {
            let omitted = format!("{} of new output left out", count(output.omitted(), "byte"));
            result.notes.push(match (file, file_failed) {
                (Some((path, _)), _) if is_durable => {
                    format!("{omitted}; the last part of all is in {}", path.display())
                }
                (Some((path, _)), None) => {
                    format!("{omitted}; all output is in {}", path.display())
                }
                (Some((path, bytes)), Some(why)) => {
                    format!("{omitted}; the first {bytes} bytes are in {}: {why}", path.display())
                }
                (None, _) => format!("{omitted}; they are not kept"),
            });
        }
        if !left.is_empty() {
            let left: Vec<_> = left.iter().map(ToString::to_string).collect();
            result.notes.push(format!("could not be ended: process {}", left.join(", ")));
        }
        result
    }
}
