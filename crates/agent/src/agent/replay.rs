//! Plays recordings of an agent's tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::authority::Grant;
use deputize_core::sanitize::Secrets;
use deputize_core::{Cancel, Outcome};
use deputize_runtime::{Recording, RecordingError, Replay, ReplayError, SessionConfig};

use super::assembly_settings::AgentSetup;
use super::build_error::BuildError;
use super::builder::AgentBuilder;

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Another program made it.
    #[error("the recording `{}` is of another program", .0.display())]
    Foreign(PathBuf),
    /// It holds no agent.
    #[error("the recording `{}` holds no agent: the task failed before it began", .0.display())]
    NoAgent(PathBuf),
    /// An agent of these settings cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The agent does something else than the recorded one.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Plays a recording with an agent of some settings.
pub(super) async fn replay(
    mut builder: AgentBuilder,
    file: &Path,
) -> Result<Outcome, AgentReplayError> {
    let recording = Recording::read(file)?;
    let setup: AgentSetup = serde_json::from_value(recording.setup().clone())
        .map_err(|_| AgentReplayError::Foreign(file.to_owned()))?;
    let recorded =
        recording.top_agent().ok_or_else(|| AgentReplayError::NoAgent(file.to_owned()))?;
    let assembly = builder.assemble_again(&setup, Arc::new(recording.clock()))?;
    let mut config = SessionConfig {
        observers: std::mem::take(&mut builder.handlers.observers),
        ..assembly.session_config(builder.models.recorded_models(), Secrets::default())
    };
    builder.add_replay_settings(&config.tools.settings, recorded.approver);
    // What children could do is on record; the memory heard of it then.
    config.children.grant = Grant::default();
    config.memory = None;
    let mode = recorded.approver;
    let replay = Replay::new(recording, config);
    let id = replay.session().id().clone();
    let spec = AgentSpec {
        output_schema: recorded.output_schema.clone(),
        ..assembly.top_agent(&id, &recorded.model, &recorded.goal, mode)
    };
    let authority = assembly.authority(mode, setup.prompt.cwd);
    Ok(replay.run(spec, authority, &Cancel::new()).await?)
}
