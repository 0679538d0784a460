//! Replays recordings in tests.

use std::path::Path;

use deputize_core::agent::AgentSpec;
use deputize_core::{Authority, Cancel, Outcome, Record};
use deputize_runtime::{Recording, RecordingError, Replay, ReplayError, Session, SessionConfig};

use crate::recorder::Recorder;

/// The result of a replay.
#[derive(Debug)]
pub struct ReplayResult {
    /// The outcome of the top agent.
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
    /// The program behaves differently from the recording.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Replays a recording with the tools of this session configuration, and an agent created as in the
/// program. Fails at the first request that differs from the recorded one; the error shows the
/// place.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use deputize_core::{Authority, Cancel, Catalog, SessionId};
/// use deputize_core::agent::AgentSpec;
/// use deputize_core::authority::Grant;
/// use deputize_core::model::Reply;
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
/// let mut config = SessionConfig::new(Catalog::default());
/// let model = ScriptedModel::turns([Reply::text("m", "A rake.")]);
/// config.models.insert("test/m", "m", Arc::new(model));
/// config.record.recorder = Some(Arc::new(SessionRecorder::create(&file)?));
/// let session = Session::create(&SessionDir::new(folder), SessionId::literal("s"), config)?;
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
/// If the recording cannot be read, ends too early, or differs.
pub async fn replay(
    file: impl AsRef<Path>,
    config: SessionConfig,
    agent: impl FnOnce(&Session) -> (AgentSpec, Authority),
) -> Result<ReplayResult, ReplayFailure> {
    let recorder = Recorder::default();
    let mut config = config;
    config.observers.push(std::sync::Arc::new(recorder.clone()));
    let replay = Replay::new(Recording::read(file)?, config);
    let (spec, authority) = agent(replay.session());
    let outcome = replay.run(spec, authority, &Cancel::new()).await?;
    Ok(ReplayResult { outcome, records: recorder.records() })
}
