//! `--output events`, while it happens.

use std::sync::Arc;

use deputize_core::model::Delta;
use deputize_core::{AgentId, CallId, Clock, Observer, Record};
use parking_lot::Mutex;

use super::events::{Projection, delta_line, progress_line};
use super::stdout_queue::StdoutQueue;

/// Prints a line for each record.
pub(crate) struct EventStream {
    projection: Mutex<Projection>,
    out: Arc<StdoutQueue>,
    clock: Arc<dyn Clock>,
    /// Whether to print streamed pieces of replies.
    deltas: bool,
}

impl EventStream {
    /// Lines onto `out`, for a session with the earlier records that the projection knows.
    pub(crate) fn new(
        out: Arc<StdoutQueue>,
        projection: Projection,
        clock: Arc<dyn Clock>,
        deltas: bool,
    ) -> Self {
        Self { projection: Mutex::new(projection), out, clock, deltas }
    }

    fn print(&self, line: Result<String, serde_json::Error>) {
        if let Ok(line) = line {
            self.out.push((line + "\n").into_bytes());
        }
    }
}

impl Observer for EventStream {
    fn on_record(&self, record: &Record) {
        // The lock is held while the line is queued: lines stay in the order of records.
        let mut projection = self.projection.lock();
        self.print(projection.line(record));
    }

    fn on_delta(&self, agent: &AgentId, delta: Delta<'_>) {
        if self.deltas
            && let Some(line) = delta_line(agent, self.clock.now_ms(), delta)
        {
            self.print(line);
        }
    }

    fn on_progress(&self, agent: &AgentId, call: CallId, text: &str) {
        if self.deltas {
            self.print(progress_line(agent, self.clock.now_ms(), call, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::atomic::{AtomicU32, Ordering};

    use deputize_core::clock::FixedClock;
    use deputize_core::run::WrapUpReason;
    use deputize_core::{Cancel, CancelReason, Event};

    use super::*;
    use crate::fixture::{TestWriter, root};
    use crate::output::stdout_queue::tests::{stalled, wait};

    /// Takes one line, then is closed.
    struct Head(Arc<AtomicU32>);

    impl Write for Head {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.fetch_add(1, Ordering::AcqRel) > 1 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn wrap_ups() -> TestWriter {
        let mut writer = TestWriter::default();
        for _ in 0..5 {
            writer.add(&root(), Event::AgentWrapUp { limit: WrapUpReason::Time, budget: None });
        }
        writer
    }

    fn stream(out: Box<dyn Write + Send>, most: usize, cancel: &Cancel) -> EventStream {
        let out = Arc::new(StdoutQueue::new(out, most, cancel.clone()));
        EventStream::new(out, Projection::default(), Arc::new(FixedClock(0)), true)
    }

    #[test]
    fn a_reader_that_goes_ends_the_run_and_is_not_written_to_again() {
        let writes = Arc::new(AtomicU32::new(0));
        let cancel = Cancel::new();
        let stream = stream(Box::new(Head(Arc::clone(&writes))), 1 << 20, &cancel);
        wrap_ups().records.iter().for_each(|record| stream.on_record(record));
        wait(stream.out.written());
        stream.on_delta(&root(), Delta::Text("x"));
        assert_eq!(cancel.reason(), Some(CancelReason::Interrupted));
        assert_eq!(writes.load(Ordering::Acquire), 3);
        assert!(stream.out.is_gone());
        assert!(stream.out.failure().is_none(), "a reader that goes is no failure");
    }

    #[test]
    fn a_reader_that_stalls_ends_the_run_when_too_much_waits() {
        let cancel = Cancel::new();
        let (_reader, writer) = stalled();
        let stream = stream(writer, 500, &cancel);
        wrap_ups().records.iter().for_each(|record| stream.on_record(record));
        assert_eq!(cancel.reason(), Some(CancelReason::Interrupted));
        assert!((1..=500).contains(&stream.out.left()));
        assert!(stream.out.failure().unwrap().to_string().contains("the limit is 500"));
    }

    #[test]
    fn what_a_call_tells_of_itself_is_a_line_without_a_number() {
        let line = progress_line(&root(), 0, crate::fixture::CALL, "3 of 12").unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&line["type"], &line["call"], &line["text"], line.get("seq")),
            (&"tool.progress".into(), &"call_1_0".into(), &"3 of 12".into(), None)
        );
    }
}
