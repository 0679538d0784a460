//! `--output events`, while it happens.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use deputize_core::{AgentId, Cancel, CancelReason, Clock, Delta, Observer, Record};

use super::events::{Projection, delta_line};

/// Writes a line for each record. When nobody reads them any more, the run is told to end.
pub(crate) struct EventStream {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    /// Whether pieces of replies are told too.
    deltas: bool,
    cancel: Cancel,
}

struct State {
    projection: Projection,
    out: Box<dyn Write + Send>,
    closed: bool,
    /// Why, unless the reader just went.
    failure: Option<io::Error>,
}

impl EventStream {
    /// Lines onto `out`, for a session with these earlier records.
    pub(crate) fn new(
        out: Box<dyn Write + Send>,
        projection: Projection,
        (clock, cancel): (Arc<dyn Clock>, Cancel),
        deltas: bool,
    ) -> Self {
        let state = Mutex::new(State { projection, out, closed: false, failure: None });
        Self { state, clock, deltas, cancel }
    }

    /// Why lines could not be written, once. A reader that has gone is no failure.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failure.take()
    }

    /// Whether the reader has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    fn write(&self, state: &mut State, line: &str) {
        let written = writeln!(state.out, "{line}").and_then(|()| state.out.flush());
        if let Err(error) = written {
            state.closed = true;
            state.failure = Some(error).filter(|it| it.kind() != io::ErrorKind::BrokenPipe);
            self.cancel.cancel(CancelReason::Interrupted);
        }
    }
}

impl Observer for EventStream {
    fn see(&self, record: &Record) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The texts of a record serve later ones, whether or not anyone reads its line.
        let line = state.projection.line(record);
        if let (Ok(line), false) = (line, state.closed) {
            self.write(&mut state, &line);
        }
    }

    fn live(&self, agent: &AgentId, delta: Delta<'_>) {
        if !self.deltas {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Ok(line), false) = (delta_line(agent, self.clock.now_ms(), delta), state.closed) {
            self.write(&mut state, &line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use deputize_core::{Event, FixedClock};

    use super::*;
    use crate::fixture::{Tape, root};

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

    #[test]
    fn a_reader_that_goes_ends_the_run_and_is_not_written_to_again() {
        let (writes, cancel) = (Arc::new(AtomicU32::new(0)), Cancel::new());
        let out = Box::new(Head(Arc::clone(&writes)));
        let clock = Arc::new(FixedClock(0));
        let stream = EventStream::new(out, Projection::default(), (clock, cancel.clone()), true);
        let mut tape = Tape::default();
        for _ in 0..5 {
            tape.add(&root(), Event::AgentWrapUp);
        }
        tape.records.iter().for_each(|record| stream.see(record));
        stream.live(&root(), Delta::Text("x"));
        assert_eq!(cancel.reason(), Some(CancelReason::Interrupted));
        assert!(writes.load(Ordering::Acquire) <= 3);
        assert!(stream.failure().is_none(), "a reader that goes is no failure");
    }
}
