//! Recordings: what came from outside while a session ran, so that it can be played again
//! without model, tools, network and files.
//!
//! A recording is JSON lines. The first is the header: the format's version, the program, the
//! session, the time, the secret that frame boundaries are derived from, and what the program
//! keeps there for itself. Every other line is `{"len":L,"crc":"xxxxxxxx","line":{…}}`, where
//! the line is one of
//!
//! - `before`: a record of the session from before it was taken up again,
//! - `record`: a record, as the session file has it: replies, results, answers of the person,
//!   interrupts, times,
//! - `request`: what an attempt sent, before the record `model.request` of its agent. System
//!   text and tools are named by hash; the records `agent.start` hold the texts.
//!
//! A replay lets every agent do again what follows from its inputs alone (the loop, prompts, the
//! planning of delegation) and gives it the recorded inputs in the recorded order. Each request
//! that it would send is compared with the recorded one.

mod compare;
mod error;
mod excerpt;
mod line;
mod order;
mod play;
mod read;
mod tools;
mod write;

pub(crate) use compare::compare;
pub use error::{RecorderError, RecordingError, ReplayError, ReplayPosition};
pub(crate) use excerpt::said;
use line::{FORMAT, RecordingLine, hash};
pub(crate) use line::{RecordingHeader, SentRequest};
pub(crate) use play::{Playback, ReplayEnd};
pub use read::Recording;
pub(crate) use write::RecordingStart;
pub use write::SessionRecorder;
