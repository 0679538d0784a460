//! The other end of the socket: asks a run for something.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use deputize_core::SessionId;
use deputize_runtime::SessionDir;
use rustix::fs::{AtFlags, unlinkat};
use serde_json::Value;

use super::socket_folder::SocketFolder;
use super::{ANSWER_BYTES, ControlAnswer, ControlError, ControlRequest};

/// Time limit of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the run of a session. A socket that a dead process left is removed.
pub(crate) fn ask(
    sessions: &SessionDir,
    session: &SessionId,
    request: &ControlRequest,
) -> Result<Value, ControlError> {
    let silent = |source| ControlError::Silent { session: session.to_string(), source };
    let mut stream = connect(sessions, session)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(silent)?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(silent)?;
    let mut line = serde_json::to_vec(request).map_err(io::Error::other).map_err(silent)?;
    line.push(b'\n');
    stream.write_all(&line).map_err(silent)?;
    let mut answer = Vec::new();
    let read = BufReader::new(stream.take(ANSWER_BYTES)).read_until(b'\n', &mut answer);
    if read.map_err(silent)? == 0 {
        return Err(silent(io::ErrorKind::UnexpectedEof.into()));
    }
    match serde_json::from_slice(&answer).map_err(io::Error::other).map_err(silent)? {
        ControlAnswer::Ok(value) => Ok(value),
        ControlAnswer::Error(what) => {
            Err(ControlError::Refused { session: session.to_string(), what })
        }
    }
}

fn connect(sessions: &SessionDir, session: &SessionId) -> Result<UnixStream, ControlError> {
    let not_running = || ControlError::NotRunning(session.to_string());
    let place = match SocketFolder::open(sessions) {
        Err(ControlError::Folder { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(not_running());
        }
        place => place?,
    };
    let name = SocketFolder::name(session);
    match UnixStream::connect(place.reach(&name)) {
        Ok(stream) => Ok(stream),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_running()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _best_effort = unlinkat(&place.folder, &name, AtFlags::empty());
            Err(not_running())
        }
        Err(source) => Err(ControlError::Silent { session: session.to_string(), source }),
    }
}
