//! `deputize pause` and `deputize unpause`: no new children in a run, and again some.

use deputize_core::SessionId;

use crate::command::sessions::session_named;
use crate::control::ControlRequest;
use crate::control::client::ask;
use crate::control::lock_holders::running;
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::tell;

#[derive(Debug, thiserror::Error)]
#[error("no session is running")]
struct NoRunningSession;

/// Allows or forbids runs to start children: the named runs, or all.
pub(crate) fn pause(env: &ProcessEnv, named: &[String], paused: bool) -> Result<(), CliError> {
    let dir = env.sessions()?;
    let sessions: Vec<SessionId> = if named.is_empty() {
        let running = running(&dir).map_err(CliError::failed)?;
        running.into_iter().map(|holder| holder.session).collect()
    } else {
        named.iter().map(|name| session_named(&dir, name)).collect::<Result<_, _>>()?
    };
    if sessions.is_empty() {
        return Err(CliError::failed(NoRunningSession));
    }
    let request = if paused { ControlRequest::Pause } else { ControlRequest::Unpause };
    let mut failed = None;
    for session in sessions {
        match ask(&dir, &session, &request) {
            Ok(done) => {
                let was = done.get("changed").and_then(serde_json::Value::as_bool) == Some(false);
                let already = if was { "already " } else { "" };
                let what = if paused { "paused" } else { "allowed" };
                tell(&format!("{session}: new children are {already}{what}"));
            }
            Err(error) => _ = failed.get_or_insert(error),
        }
    }
    failed.map_or(Ok(()), |error| Err(CliError::failed(error)))
}
