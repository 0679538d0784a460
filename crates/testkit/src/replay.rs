//! Plays recordings in tests.

use std::path::Path;

use deputize_core::{AgentSpec, Authority, Cancel, Outcome, Record};
use deputize_runtime::{Recording, RecordingError, Replay, ReplayError, Session, SessionConfig};

use crate::recorder::Recorder;

/// What a replay gave.
#[derive(Debug)]
pub struct ReplayResult {
    /// How the top agent ended.
    pub outcome: Outcome,
    /// The records, in order.
    pub records: Vec<Record>,
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayFailure {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The program does something else than what was recorded.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Plays a recording with the tools of these parts, and an agent as the program makes it. It
/// fails at the first request that is not the recorded one, and its error shows the place.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use deputize_core::{AgentSpec, Authority, Cancel, Catalog, Grant, Reply, SessionId};
/// use deputize_runtime::{SessionConfig, Session, SessionDir, SessionRecorder};
/// use deputize_testkit::{ScriptedModel, replay};
///
/// fn gardener(session: &Session) -> (AgentSpec, Authority) {
///     let mut spec = session.top_agent("test/m", "Which tool?", "/".as_ref());
///     spec.system = vec!["You are a gardener.".into()];
///     (spec, Authority::root(session.catalog(), &Grant::default()))
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// // Once. Keep the file beside the test.
/// let file = folder.join("gardener.jsonl");
/// let mut parts = SessionConfig::new(Catalog::default());
/// let model = ScriptedModel::turns([Reply::text("m", "A rake.")]);
/// parts.models.insert("test/m", "m", Arc::new(model));
/// parts.recorder = Some(Arc::new(SessionRecorder::create(&file)?));
/// let session = Session::create(&SessionDir::new(folder), SessionId::literal("s"), parts)?;
/// let (spec, authority) = gardener(&session);
/// session.run(spec, authority, &Cancel::new()).await;
///
/// // The test.
/// let replayed = replay(&file, SessionConfig::new(Catalog::default()), gardener).await?;
/// assert_eq!(replayed.outcome.text.as_deref(), Some("A rake."));
/// # Ok(()) }
/// ```
///
/// # Errors
/// When the recording cannot be read, ends too early, or differs.
pub async fn replay(
    file: impl AsRef<Path>,
    parts: SessionConfig,
    agent: impl FnOnce(&Session) -> (AgentSpec, Authority),
) -> Result<ReplayResult, ReplayFailure> {
    let recorder = Recorder::default();
    let mut parts = parts;
    parts.observers.push(std::sync::Arc::new(recorder.clone()));
    let replay = Replay::new(Recording::read(file)?, parts);
    let (spec, authority) = agent(replay.session());
    let outcome = replay.run(spec, authority, &Cancel::new()).await?;
    Ok(ReplayResult { outcome, records: recorder.records() })
}
