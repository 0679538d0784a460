//! A recording as a session that is played.

use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::event::{EncodedRecord, Journal, JournalError};
use deputize_core::{AgentId, Authority, BoxFuture, Cancel, Event, Outcome};
use serde_json::value::RawValue;

use crate::launch::{register, run_agent};
use crate::recording::{Playback, Recording, ReplayError};
use crate::session::Session;
use crate::session_config::SessionConfig;
use crate::store::SessionDir;
use crate::stored_agent::{RestoredSession, StoredAgent, restore_session};

/// A session that is replayed from a recording. It asks no model, runs no tool, keeps no session
/// file, and waits for nothing; observers see the recorded records.
///
/// The replay repeats the loop of each agent, its prompt and tools as they are sent, and the calls
/// that start agents. So it shows whether a program still sends the same requests.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use deputize_core::{BoxFuture, Cancel, Catalog, Model};
/// # use deputize_core::model::{Delta, ModelError, Reply, Request};
/// # struct Parrot;
/// # impl Model for Parrot {
/// #     fn reply<'a>(
/// #         &'a self,
/// #         _request: &'a Request<'a>,
/// #         _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
/// #         _cancel: &'a Cancel,
/// #     ) -> BoxFuture<'a, Result<Reply, ModelError>> {
/// #         Box::pin(async { Ok(Reply::text("parrot", "Good day.")) })
/// #     }
/// # }
/// use std::sync::Arc;
/// use deputize_core::{Authority, SessionId};
/// use deputize_core::authority::Grant;
/// use deputize_runtime::{SessionConfig, Recording, Replay, Session, SessionDir, SessionRecorder};
///
/// // The agent of your program; its models and tools are in the config.
/// let agent = |session: &Session| {
///     let mut spec = session.top_agent("zoo/parrot", "Say good day.", "/".as_ref());
///     spec.system = vec!["You are polite.".into()];
///     (spec, Authority::root(session.catalog(), &Grant::default()))
/// };
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// // Once, to make the recording:
/// let file = folder.join("polite.jsonl");
/// let mut config = SessionConfig::new(Catalog::default());
/// config.models.insert("zoo/parrot", "parrot", Arc::new(Parrot));
/// config.record.recorder = Some(Arc::new(SessionRecorder::create(&file)?));
/// let session = Session::create(&SessionDir::new(folder), SessionId::literal("s1"), config)?;
/// let (spec, authority) = agent(&session);
/// runtime.block_on(session.run(spec, authority, &Cancel::new()));
///
/// // In the test, without the model:
/// let replay = Replay::new(Recording::read(&file)?, SessionConfig::new(Catalog::default()));
/// let (spec, authority) = agent(replay.session());
/// let outcome = runtime.block_on(replay.run(spec, authority, &Cancel::new()))?;
/// assert_eq!(outcome.text.as_deref(), Some("Good day."));
///
/// // Another prompt is another request:
/// let replay = Replay::new(Recording::read(&file)?, SessionConfig::new(Catalog::default()));
/// let (mut spec, authority) = agent(replay.session());
/// spec.system = vec!["You are rude.".into()];
/// let error = runtime.block_on(replay.run(spec, authority, &Cancel::new())).unwrap_err();
/// let text = error.to_string();
/// assert!(text.starts_with("request 1 of agent s1 differs from the recording in the system text"));
/// assert!(text.contains("- You are polite.") && text.contains("+ You are rude."));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Replay {
    session: Session,
    play: Arc<Playback>,
}

impl Replay {
    /// Creates a replay with the configuration of a program. Its models need not exist. Its tools are
    /// sent to models and, except for those that start agents, not called.
    #[must_use]
    pub fn new(recording: Recording, mut config: SessionConfig) -> Self {
        let header = recording.header();
        let id = header.session.clone();
        config.record.secret = header.secret.clone();
        config.record.recorder = None;
        config.observers.iter().for_each(|observer| observer.on_restore(&recording.before));
        let restored = restore_session(&recording.before, &config);
        let play = Arc::new(Playback::new(recording, std::mem::take(&mut config.observers)));
        let restored = RestoredSession { play: Some(Arc::clone(&play)), ..restored };
        // A place where nothing can be written.
        let nowhere = SessionDir::new("/dev/null");
        let session = Session::with_journal(&nowhere, id, config, Arc::new(NoJournal), restored);
        Self { session, play }
    }

    /// Returns the session, to make its top agent with.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Plays the recording. A recording of a session that was taken up again goes on with the
    /// agent that it holds; otherwise the top agent is the given one.
    ///
    /// # Errors
    /// At the first place where the program does something else than the recorded one, and where
    /// the recording ends too early.
    pub async fn run(
        self,
        spec: AgentSpec,
        authority: Authority,
        cancel: &Cancel,
    ) -> Result<Outcome, ReplayError> {
        let Self { session, play } = self;
        let mut stored = session.take_stored(&AgentId::root(session.id()));
        if let (Some(stored), Some(now)) = (&mut stored, play.recording.model()) {
            let was = std::mem::replace(&mut stored.spec.model, now.to_owned());
            let follows = |child: &StoredAgent| {
                child.spec.model == was && play.recording.asks(&child.spec.id) == Some(now)
            };
            let mut tree = session.shared().tree();
            for child in tree.stored.values_mut().filter(|child| follows(child)) {
                now.clone_into(&mut child.spec.model);
            }
        }
        let nothing_new = play.recording.records.is_empty() && play.recording.torn == 0;
        if let Some(outcome) = stored
            .as_ref()
            .and_then(|stored| stored.state.read().outcome().cloned())
            .filter(|_| nothing_new)
        {
            return Ok(outcome);
        }
        match session.replayed_agent(stored, spec, authority) {
            Ok(agent) => {
                // Background children report to it.
                register(&agent.cx);
                play.run(Box::pin(run_agent(agent)), cancel).await
            }
            Err(error) => Err(play.refused(&error)),
        }
    }
}

/// A replay keeps nothing.
struct NoJournal;

impl Journal for NoJournal {
    fn encode(&self, event: &Event) -> Result<Box<RawValue>, JournalError> {
        let json = serde_json::value::to_raw_value(event);
        json.map_err(|error| JournalError { path: PathBuf::new(), source: error.into() })
    }

    fn append(&self, _: &[EncodedRecord]) -> Result<(), JournalError> {
        let source = std::io::Error::other("a replay makes no records of its own");
        Err(JournalError { path: PathBuf::new(), source })
    }

    fn durable(&self, _: u64) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }
}
