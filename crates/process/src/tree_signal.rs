//! The signals that a process tree is sent.

/// A signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeSignal {
    /// Ask to end.
    Term,
    /// Keep from starting more.
    Stop,
    /// End at once.
    Kill,
    /// Go on after a stop.
    Continue,
}
