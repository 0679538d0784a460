//! Records the background commands of an agent, and leaves their ends in its mailbox.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use deputize_core::agent::AgentSpec;
use deputize_core::event::JournalError;
use deputize_core::process::{ProcessEnd, ProcessExit, ProcessStart};
use deputize_core::process_recorder::{ProcessOutcome, ProcessRecorder, process_id};
use deputize_core::sanitize::{for_terminal_line, frame_for_model};
use deputize_core::source::Source;
use deputize_core::{AgentView, Event};

use crate::agent_handle::AgentHandle;
use crate::agent_states::SharedState;
use crate::recorded_path::recorded_path;
use crate::session_inner::SessionInner;

/// Limit on a command in the message of its end, in characters.
const COMMAND_CHARS: usize = 200;

/// The recorder of one agent's background commands.
pub(crate) struct ProcessJournal {
    shared: Weak<SessionInner>,
    spec: Arc<AgentSpec>,
    handle: Arc<AgentHandle>,
    state: SharedState,
    /// Commands that were started, also by earlier runs of the program.
    started: AtomicU32,
}

impl ProcessJournal {
    pub(crate) fn new(
        shared: &Arc<SessionInner>,
        view: &AgentView,
        handle: &Arc<AgentHandle>,
        state: &SharedState,
    ) -> Self {
        let started = u32::try_from(state.read().process_count()).unwrap_or(u32::MAX);
        Self {
            shared: Arc::downgrade(shared),
            spec: Arc::clone(&view.spec),
            handle: Arc::clone(handle),
            state: state.clone(),
            started: AtomicU32::new(started),
        }
    }

    /// Returns the message about an end. The output is in a frame of its own.
    fn message(&self, shared: &SessionInner, outcome: &ProcessOutcome, lines: &str) -> String {
        let ProcessStart { call, output, .. } = &outcome.start;
        let mut text = opening(&outcome.start, outcome.exit);
        if !lines.trim().is_empty() {
            let lines = shared.config.secrets.scrub(lines);
            let secret = &shared.config.record.secret;
            let framed = frame_for_model(secret, &self.spec.id, *call, &outcome.source, &lines);
            text.push_str(" The end of its output:\n");
            text.push_str(framed.as_str());
        }
        if let Some(output) = output.as_ref().filter(|_| outcome.output_bytes > lines.len() as u64)
        {
            let bytes = outcome.output_bytes;
            text.push_str(&format!("\n[{bytes} bytes of output are in {}]", output.display()));
        }
        text
    }
}

impl ProcessRecorder for ProcessJournal {
    fn next_id(&self) -> String {
        process_id(self.started.fetch_add(1, Ordering::Relaxed))
    }

    fn record_start(&self, start: &ProcessStart) -> Result<(), JournalError> {
        // Without a session nobody would hear of it.
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let command = shared.config.secrets.scrub(&start.command).into_owned();
        let output = start.output.clone().map(recorded_path);
        let event = Event::ProcessStart(ProcessStart { command, output, ..start.clone() });
        shared.bus.record(&self.spec, event)?;
        if start.notify {
            self.handle.await_process(&start.process);
        }
        Ok(())
    }

    fn record_end(&self, outcome: ProcessOutcome) -> Result<(), JournalError> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let mut outcome = outcome;
        let start = &mut outcome.start;
        start.command = shared.config.secrets.scrub(&start.command).into_owned();
        let lines = outcome.message.take();
        let message = lines.map(|lines| self.message(&shared, &outcome, &lines));
        let sources = message.iter().map(|_| outcome.source.clone()).collect();
        let end = ProcessEnd {
            process: outcome.start.process,
            command: outcome.start.command,
            exit: outcome.exit,
            ms: Some(outcome.ms),
            output_bytes: Some(outcome.output_bytes),
            message,
            sources,
        };
        self.handle.record_process_end(end, &shared.bus)
    }

    fn earlier_end(&self, process: &str) -> Option<ProcessExit> {
        self.state.read().process_exit(process)
    }
}

/// Returns the end of a command that ran when the program ended.
pub(crate) fn lost_process(start: &ProcessStart) -> ProcessEnd {
    let left = start.durable_pid.map(|pid| ProcessExit::LeftRunning { pid });
    let exit = left.unwrap_or(ProcessExit::ProgramEnded);
    let output = start.output.as_ref();
    let output = output.map(|path| format!(" Its output until then is in {}.", path.display()));
    ProcessEnd {
        process: start.process.clone(),
        command: start.command.clone(),
        exit,
        ms: None,
        output_bytes: None,
        message: Some(format!("{}{}", opening(start, exit), output.unwrap_or_default())),
        sources: [Source::host()].into(),
    }
}

/// Returns the first line of the message about an end.
fn opening(start: &ProcessStart, exit: ProcessExit) -> String {
    let ProcessStart { process, command, .. } = start;
    let command = for_terminal_line(command, COMMAND_CHARS);
    let verb = if let ProcessExit::LeftRunning { .. } = exit { "was" } else { "has ended:" };
    format!("Your background command {process} {verb} {exit}. The command: {command:?}.")
}
