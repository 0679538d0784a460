//! Makes a recording.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::model::Request;
use deputize_core::sanitize::FrameSecret;
use deputize_core::{AgentId, Event, Message, Observer, Record, SessionId};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::{FORMAT, RecorderError, RecordingHeader, RecordingLine, SentRequest, hash};

/// Records one session into a file, as [`RecordConfig::recorder`](crate::RecordConfig::recorder).
///
/// A failed recording does not end the run; [`SessionRecorder::fault`] returns the failure. Known
/// secrets are replaced, as in the session file; everything else is there in full.
pub struct SessionRecorder {
    path: PathBuf,
    state: Mutex<RecorderState>,
}

struct RecorderState {
    file: File,
    setup: Value,
    begun: bool,
    /// Whether all that stands before the first record of its own was written.
    has_beginning: bool,
    /// Hashes of the texts that the file holds.
    texts: BTreeSet<String>,
    /// The messages of each agent's last request.
    sent: BTreeMap<AgentId, Vec<Arc<Message>>>,
    /// Why nothing more is written.
    broken: Option<String>,
}

impl fmt::Debug for SessionRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionRecorder").field(&self.path).finish()
    }
}

/// Data at the beginning of a recording.
pub(crate) struct RecordingStart<'a> {
    pub(crate) program: &'a str,
    pub(crate) session: &'a SessionId,
    pub(crate) created: u64,
    pub(crate) secret: &'a FrameSecret,
    /// The records of a session that is taken up again.
    pub(crate) before: Option<&'a [Record]>,
}

impl SessionRecorder {
    /// Makes the file, for this user alone.
    ///
    /// # Errors
    /// When there is a file of that name, or it cannot be made.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self, RecorderError> {
        let path = path.into();
        let mut options = OpenOptions::new();
        options.create_new(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecorderError::Exists(path.clone()),
            _ => RecorderError::Create { path: path.clone(), source },
        })?;
        let state = RecorderState {
            file,
            setup: Value::Null,
            begun: false,
            has_beginning: false,
            texts: BTreeSet::new(),
            sent: BTreeMap::new(),
            broken: None,
        };
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Keeps what the program needs of its own to set the session up again;
    /// [`Recording::setup`](super::Recording::setup) gives it back.
    #[must_use]
    pub fn with_setup(self, setup: Value) -> Self {
        self.lock().setup = setup;
        self
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns why the recording is not whole, if it is not. That its file was removed is seen,
    /// too.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let state = self.lock();
        let gone = || "its file was removed or replaced while it was written".to_owned();
        state.broken.clone().or_else(|| (!stands_at(&state.file, &self.path)).then(gone))
    }

    /// Returns whether its beginning was written, so that something can have been recorded.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.lock().has_beginning
    }

    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock()
    }

    /// Writes the header, and what was there before.
    pub(crate) fn begin(&self, from: &RecordingStart<'_>) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.begun, true) {
            state.broken.get_or_insert("a recording holds one session".to_owned());
            return;
        }
        let header = RecordingHeader {
            recording: FORMAT,
            program: from.program.to_owned(),
            session: from.session.clone(),
            created: from.created,
            secret: from.secret.clone(),
            taken_up: from.before.is_some(),
            setup: std::mem::take(&mut state.setup),
        };
        state.append(serde_json::to_vec(&header).map_err(io::Error::other));
        for record in from.before.unwrap_or_default() {
            state.know(&record.event);
            state.put(&RecordingLine::Before(record.clone()));
        }
        state.has_beginning = state.broken.is_none();
    }

    /// Keeps what an attempt sends. It stands before the record of it.
    pub(crate) fn sends(&self, agent: &AgentId, model: &str, request: &Request<'_>) {
        let tools: Arc<str> = serde_json::to_string(request.tools).unwrap_or_default().into();
        let mut state = self.lock();
        let mut texts = BTreeMap::new();
        let mut name = |text: &Arc<str>| {
            let hash = hash(text);
            if state.texts.insert(hash.clone()) {
                texts.insert(hash.clone(), Arc::clone(text));
            }
            hash
        };
        let system = request.system.iter().map(&mut name).collect();
        let tools = name(&tools);
        let last = state.sent.get(agent).map_or(&[][..], Vec::as_slice);
        let same = |(a, b): &(&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(a, b) || a == b;
        let kept = last.iter().zip(request.messages).take_while(same).count();
        let sent = SentRequest {
            agent: agent.clone(),
            model: model.to_owned(),
            at_provider: request.model.to_owned(),
            system,
            tools,
            texts,
            kept,
            added: request.messages.get(kept..).unwrap_or_default().to_vec(),
            tool_choice: request.tool_choice,
            options: request.options.clone(),
        };
        state.sent.insert(agent.clone(), request.messages.to_vec());
        state.put(&RecordingLine::Request(sent));
    }
}

/// Whether a file is the one of this name still.
fn stands_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let place = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let named = std::fs::metadata(path).map(place).ok();
        named.is_some() && named == file.metadata().map(place).ok()
    }
    #[cfg(not(unix))]
    {
        let _unused = file;
        path.exists()
    }
}

impl Observer for SessionRecorder {
    fn on_record(&self, record: &Record) {
        let mut state = self.lock();
        state.know(&record.event);
        if let Event::AgentEnd(_) = record.event {
            state.sent.remove(&record.agent);
        }
        state.put(&RecordingLine::Record(record.clone()));
    }
}

impl RecorderState {
    /// Notes the texts that a record holds.
    fn know(&mut self, event: &Event) {
        if let Event::AgentStart(start) = event {
            self.texts.extend(start.texts.keys().cloned());
        }
    }

    fn put(&mut self, line: &RecordingLine) {
        let body = serde_json::to_vec(line).map_err(io::Error::other);
        self.append(body.map(|body| {
            let len = body.len();
            let crc = crc32fast::hash(&body);
            let mut framed = format!(r#"{{"len":{len},"crc":"{crc:08x}","line":"#).into_bytes();
            framed.extend_from_slice(&body);
            framed.push(b'}');
            framed
        }));
    }

    fn append(&mut self, line: io::Result<Vec<u8>>) {
        if self.broken.is_some() {
            return;
        }
        let written = line.and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        if let Err(error) = written {
            self.broken = Some(error.to_string());
        }
    }
}
