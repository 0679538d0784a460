//! The end of the socket that a run has. It works beside the run, and only when it is asked.

use std::fmt;
use std::os::unix::net::UnixListener as StdListener;
use std::time::Duration;

use deputize_core::SessionId;
use deputize_runtime::{SessionControl, SessionDir};
use rustix::fs::{AtFlags, Mode, chmodat, renameat, unlinkat};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy, sink,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::socket_folder::{SocketFolder, explain_path_length};
use super::{ControlAnswer, ControlError, ControlRequest, REQUEST_BYTES};

/// Limit on simultaneous connections; further ones wait.
const CONNECTIONS: usize = 16;
/// Time limit for a request to arrive, and for an answer to be read.
const IO_TIMEOUT: Duration = Duration::from_secs(30);
/// So much of what follows a request that is too long is read and thrown away.
const DRAINED_BYTES: u64 = 1024 * 1024;
/// After a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(200);
/// Who is said to have asked: only this user can.
const BY: &str = "user";

/// A socket of one session; dropped, it is gone.
pub(crate) struct ControlServer {
    place: SocketFolder,
    name: String,
    listener: UnixListener,
    session: SessionId,
    control: SessionControl,
}

impl fmt::Debug for ControlServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControlServer({})", self.name)
    }
}

impl ControlServer {
    /// Makes the socket of a session that this process alone has. One that an earlier process
    /// left is replaced.
    pub(crate) fn bind(
        sessions: &SessionDir,
        session: &SessionId,
        control: SessionControl,
    ) -> Result<Self, ControlError> {
        let place = SocketFolder::make(sessions)?;
        let name = SocketFolder::name(session);
        let new = format!(".{session}.{}", std::process::id());
        let shown = place.shown(&name);
        let failed = |source| ControlError::Bind { path: shown.clone(), source };
        // Whoever finds it under its name finds it listening.
        let _left_by_another = unlinkat(&place.folder, &new, AtFlags::empty());
        let path = place.reach(&new);
        let listener =
            StdListener::bind(&path).map_err(|error| failed(explain_path_length(error, &path)))?;
        let ready = || {
            chmodat(&place.folder, &new, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
            renameat(&place.folder, &new, &place.folder, &name)?;
            listener.set_nonblocking(true)
        };
        if let Err(error) = ready() {
            let _best_effort = unlinkat(&place.folder, &new, AtFlags::empty());
            return Err(failed(error));
        }
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        Ok(Self { place, name, listener, session: session.clone(), control })
    }

    /// Answers whoever asks, for as long as it is polled.
    pub(crate) async fn serve(&self) {
        let mut connections = JoinSet::new();
        loop {
            if connections.len() >= CONNECTIONS {
                connections.join_next().await;
            }
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) if is_own(&stream) => {
                    let control = self.control.clone();
                    let session = self.session.clone();
                    connections.spawn(async move { converse(stream, &control, &session).await });
                }
                Ok(_) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // If it stays, whoever meets it finds nobody there.
        let _best_effort = unlinkat(&self.place.folder, &self.name, AtFlags::empty());
    }
}

/// Whether the other end is of this user, or of root.
fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn converse(stream: UnixStream, control: &SessionControl, session: &SessionId) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reader).take(REQUEST_BYTES + 1);
        let read = timeout(IO_TIMEOUT, bounded.read_until(b'\n', &mut line)).await;
        let Ok(Ok(1..)) = read else { return };
        let too_long = line.len() as u64 > REQUEST_BYTES;
        let answer = if too_long {
            ControlAnswer::Error(format!("a request has at most {REQUEST_BYTES} bytes"))
        } else {
            answer(&line, control, session)
        };
        let mut line = serde_json::to_vec(&answer).unwrap_or_default();
        line.push(b'\n');
        let written = timeout(IO_TIMEOUT, writer.write_all(&line)).await;
        if too_long {
            // What is unread when it is closed would take the answer away with it.
            let mut rest = reader.take(DRAINED_BYTES);
            let _left = timeout(IO_TIMEOUT, copy(&mut rest, &mut sink())).await;
            return;
        }
        if !matches!(written, Ok(Ok(()))) {
            return;
        }
    }
}

fn answer(line: &[u8], control: &SessionControl, session: &SessionId) -> ControlAnswer {
    let request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => return ControlAnswer::Error(format!("that is no request: {error}")),
    };
    let done = match request {
        ControlRequest::Status => Ok(status(control, session)),
        ControlRequest::Pause => {
            control.pause(true, BY).map(|changed| json!({ "changed": changed }))
        }
        ControlRequest::Unpause => {
            control.pause(false, BY).map(|changed| json!({ "changed": changed }))
        }
        ControlRequest::Stop { agent, tree } => {
            control.stop(&agent, tree).map(|agents| json!({ "stopped": agents }))
        }
    };
    done.map_or_else(|error| ControlAnswer::Error(error.to_string()), ControlAnswer::Ok)
}

fn status(control: &SessionControl, session: &SessionId) -> Value {
    let agents = control.agents();
    let running = agents.iter().filter(|agent| !agent.activity.has_ended()).count();
    json!({
        "session": session,
        "pid": std::process::id(),
        "paused": control.paused(),
        "running": running,
    })
}
