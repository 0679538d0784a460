//! The sessions that an editor has of this program: each in its own directory, with the
//! configuration that holds there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use data_encoding::BASE64;
use deputize_acp::serve::{
    Conversation, EditorImage, HostError, SessionFacts, SessionHost, SessionListing,
    SessionRequest, TurnRequest, words_of,
};
use deputize_agent::image::ImageReader;
use deputize_agent::new_session_id;
use deputize_core::authority::ApproverMode;
use deputize_core::event::ModelEndpoint;
use deputize_core::image::Image;
use deputize_core::{
    BoxFuture, Clock as _, Event, Observer, Outcome, Record, Resource as _, SessionId,
};
use deputize_runtime::{Continue, ResumeError, Session, SessionConfig, StoredSession, SystemClock};
use tokio::task::spawn_blocking;

use super::servers;
use crate::command::run::keep_limit;
use crate::command::serve::{SessionStartup, SharedAssembly, while_active};
use crate::config::ModelOverrides;
use crate::control::server::ControlServer as Control;
use crate::exit::{CliError, Exit};
use crate::inactivity::Inactivity;
use crate::output::events::time;
use crate::stdio::tell;

/// The sessions of this program, for an editor.
#[derive(Clone)]
pub(crate) struct AcpSessions(pub(crate) Arc<SharedAssembly>);

impl SessionHost for AcpSessions {
    fn open(
        &self,
        place: SessionRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn Conversation>, HostError>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let opened = blocking(move || AcpConversation::open(shared, &place)).await?;
            Ok(Arc::new(opened) as Arc<dyn Conversation>)
        })
    }

    fn list(&self, cwd: Option<PathBuf>) -> BoxFuture<'_, Result<Vec<SessionListing>, HostError>> {
        let shared = Arc::clone(&self.0);
        Box::pin(blocking(move || list_sessions(&shared, cwd.as_deref())))
    }

    fn takes_images(&self) -> BoxFuture<'_, bool> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            // What is wrong with the configuration a new session says.
            let sees = spawn_blocking(move || shared.sees_images().unwrap_or_default());
            sees.await.unwrap_or_default()
        })
    }

    fn delete(&self, id: SessionId) -> BoxFuture<'_, Result<(), HostError>> {
        let shared = Arc::clone(&self.0);
        Box::pin(blocking(move || {
            if !shared.dir.file(&id).is_file() {
                return Ok(());
            }
            shared.dir.remove(&id).map_err(host_error)
        }))
    }
}

/// Work on files, apart from those who talk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(HostError::Failed("it ended by a fault of the program".to_owned())))
}

/// Lists the stored sessions of a directory, the newest first.
fn list_sessions(
    shared: &SharedAssembly,
    cwd: Option<&Path>,
) -> Result<Vec<SessionListing>, HostError> {
    let mut ids = shared.dir.list().map_err(CliError::failed)?;
    ids.sort();
    // Sessions have the directory that a link leads to. One that is gone is looked for as told.
    let cwd = cwd.map(|cwd| cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned()));
    let stored = ids.iter().rev().filter_map(|id| match shared.dir.read(id) {
        Ok(stored) => Some(stored),
        Err(error) => {
            tell(&format!("warning: {}", CliError::failed(error).chain()));
            None
        }
    });
    let listed = stored.filter_map(|stored| list_session(&stored));
    Ok(listed.filter(|one| cwd.as_ref().is_none_or(|cwd| one.cwd == *cwd)).collect())
}

/// Reads a stored session.
fn read_session(shared: &SharedAssembly, id: &SessionId) -> Result<StoredSession, HostError> {
    if !shared.dir.file(id).is_file() {
        return Err(HostError::NoSession(id.to_string()));
    }
    shared.dir.read(id).map_err(host_error)
}

/// A session that has something to show.
fn list_session(stored: &StoredSession) -> Option<SessionListing> {
    let goal = stored.records.iter().find_map(|record| match &record.event {
        Event::AgentStart(start) if record.depth == 0 => Some(&start.spec.goal),
        _ => None,
    })?;
    let last = stored.records.last()?;
    Some(SessionListing {
        id: stored.header.session.clone(),
        cwd: stored.last_start()?.cwd.clone(),
        title: deputize_core::sanitize::for_terminal_line(words_of(goal), 60),
        updated: time(last.at),
    })
}

/// One session that an editor has open.
struct AcpConversation {
    shared: Arc<SharedAssembly>,
    facts: SessionFacts,
    begun: SessionStartup,
    endpoint: Option<ModelEndpoint>,
    /// Whether files of it existed; without them it is not recreated.
    is_stored: AtomicBool,
}

impl AcpConversation {
    fn open(shared: Arc<SharedAssembly>, place: &SessionRequest) -> Result<Self, HostError> {
        let stored = place.stored.as_ref().map(|id| read_session(&shared, id)).transpose()?;
        let cwd = shared.env.cwd(Some(&place.cwd))?;
        if let Some(stored) = &stored {
            same_place(stored, &cwd)?;
        }
        let (sources, mut loaded) = shared.load(&cwd)?;
        let mut notes = servers::add(&place.servers, &mut loaded.config);
        let spec = stored.as_ref().and_then(StoredSession::root_spec);
        keep_limit(&mut loaded.config, spec.as_ref());
        let before = stored.as_ref().and_then(StoredSession::last_start);
        let mut begun = shared.begin(&sources, &loaded, before)?;
        notes.append(&mut begun.notes.of_servers);
        notes.append(&mut begun.notes.warnings);
        let facts = SessionFacts {
            id: place.stored.clone().unwrap_or_else(|| new_session_id(SystemClock.now_ms())),
            cwd,
            catalog: Arc::clone(&begun.composition.assembly.tools.catalog),
            // Somebody is at the editor, so questions are asked unless something else is said.
            mode: loaded.config.approvals.mode,
            takes_images: begun.chosen.models.sees_images(&begun.chosen.name),
            notes,
        };
        let endpoint = endpoint(begun.overrides.clone());
        let is_stored = AtomicBool::new(stored.is_some());
        Ok(Self { shared, facts, begun, endpoint, is_stored })
    }

    fn session_config(&self, turn: &TurnRequest, idle: &Arc<Inactivity>) -> SessionConfig {
        let idle = Arc::clone(idle) as Arc<dyn Observer>;
        let mut session_config =
            self.shared.session_config(&self.begun, vec![Arc::clone(&turn.observer), idle]);
        session_config.approver = Arc::clone(&turn.approver);
        session_config.record.endpoint.clone_from(&self.endpoint);
        session_config
    }

    /// Takes the message: as the first of a new session, or as the next of one that is stored.
    async fn run(
        &self,
        mut turn: TurnRequest,
        idle: &Arc<Inactivity>,
    ) -> Result<Outcome, HostError> {
        let sent = std::mem::take(&mut turn.images);
        let images = if sent.is_empty() { Vec::new() } else { read_images(sent).await? };
        let id = &self.facts.id;
        let dir = &self.shared.dir;
        let SessionStartup { composition, chosen, .. } = &self.begun;
        let mut session_config = self.session_config(&turn, idle);
        // Whoever is asked knows the mode that the editor chose.
        let mode = ApproverMode::Ask;
        let authority = composition.assembly.authority(mode, self.facts.cwd.clone());
        if !dir.file(id).is_file() {
            if self.is_stored.load(Ordering::Acquire) {
                return Err(HostError::Deleted(id.to_string()));
            }
            let session = Session::create(dir, id.clone(), session_config).map_err(host_error)?;
            self.is_stored.store(true, Ordering::Release);
            let mut spec = composition.assembly.top_agent(id, &chosen.name, &turn.text, mode);
            spec.options = chosen.options.clone();
            spec.images = images;
            spec.task_sources.extend(turn.sources);
            let run = session.run(spec, authority, &turn.cancel);
            return Ok(self.watch(&session, run).await);
        }
        let opening = dir.opening(id).map_err(host_error)?;
        session_config.observers.push(Arc::clone(&opening) as Arc<dyn Observer>);
        let (session, _) = Session::open(dir, id.clone(), session_config).map_err(host_error)?;
        let how = Continue {
            message: Some(turn.text),
            sources: turn.sources,
            images,
            model: Some(chosen.name.clone()),
            approver: Some(mode),
            max_iterations: Some(composition.config.max_iterations),
        };
        let work = self.watch(&session, session.resume(how, authority, &turn.cancel));
        let ended = Box::pin(work).await;
        opening.mark_success();
        ended.map_err(|error: ResumeError| host_error(error))
    }

    /// The same while it can be reached from a terminal.
    async fn watch<T>(&self, session: &Session, run: impl Future<Output = T>) -> T {
        let answers = async {
            if self.begun.composition.config.control {
                match Control::bind(&self.shared.dir, session.id(), session.control()) {
                    Ok(control) => control.serve().await,
                    Err(error) => tell(&format!(
                        "warning: `deputize agents` cannot reach this session: {}",
                        CliError::failed(error).chain()
                    )),
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            ended = Box::pin(run) => ended,
            never = answers => never,
        }
    }
}

impl Conversation for AcpConversation {
    fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    fn records(&self) -> BoxFuture<'_, Result<Vec<Record>, HostError>> {
        let shared = Arc::clone(&self.shared);
        let id = self.facts.id.clone();
        Box::pin(blocking(move || {
            if !shared.dir.file(&id).is_file() {
                return Ok(Vec::new());
            }
            Ok(read_session(&shared, &id)?.records)
        }))
    }

    fn turn(&self, turn: TurnRequest) -> BoxFuture<'_, Result<Outcome, HostError>> {
        Box::pin(async move {
            let idle = Arc::new(Inactivity::new());
            let cancel = turn.cancel.clone();
            let config = &self.begun.composition.config;
            let run = self.run(turn, &idle);
            let (ended, error) = Box::pin(while_active(config, &idle, &cancel, run)).await;
            // The next session may begin while this one is open.
            self.begun.composition.servers.catch_up().await;
            match error {
                None => ended,
                error => Ok(Outcome { error, ..ended? }),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.begun.composition.servers.close()
    }
}

/// Decodes and checks the images of a message, apart from those who talk.
async fn read_images(sent: Vec<EditorImage>) -> Result<Vec<Image>, HostError> {
    let reader = ImageReader::default();
    blocking(move || {
        let read = |(number, image): (usize, EditorImage)| {
            let refused = |why: String| {
                HostError::Asked(format!("image {} of the message: {why}", number + 1))
            };
            let bytes = BASE64.decode(image.base64.as_bytes());
            let bytes = bytes.map_err(|error| refused(format!("it is no base64: {error}")))?;
            reader.read(&bytes).map(|read| read.image).map_err(|error| refused(error.to_string()))
        };
        sent.into_iter().enumerate().map(read).collect()
    })
    .await
}

/// Where the top agent's model is reached, when that is not its provider's own address.
fn endpoint(overrides: ModelOverrides) -> Option<ModelEndpoint> {
    let api_key_env = overrides.api_key_env;
    overrides.base_url.map(|base_url| ModelEndpoint { base_url, api_key_env })
}

/// A session goes on where it began.
fn same_place(stored: &StoredSession, cwd: &Path) -> Result<(), HostError> {
    let began = stored.root_spec().map(|spec| spec.cwd);
    match began {
        Some(began) if began != cwd => Err(HostError::Asked(format!(
            "session `{}` works in {}, not in {}: open it there",
            stored.header.session,
            began.display(),
            cwd.display()
        ))),
        _ => Ok(()),
    }
}

fn host_error(error: impl std::error::Error + Send + Sync + 'static) -> HostError {
    CliError::failed(error).into()
}

/// Converts an error of this program for an editor.
impl From<CliError> for HostError {
    fn from(error: CliError) -> Self {
        let why = error.in_one_line();
        match error.exit() {
            Exit::Usage => Self::Asked(why),
            Exit::Provider => Self::Login(why),
            Exit::Failed | Exit::Interrupted => Self::Failed(why),
        }
    }
}
