//! The sessions that an editor has of this program: each in its own directory, with the
//! configuration that holds there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_acp::serve::{Conversation, Facts, Listed, Place, Refused, Sessions, Turn, words_of};
use deputize_agent::new_session_id;
use deputize_core::{
    ApproverMode, BoxFuture, Clock as _, Endpoint, Event, Observer, Outcome, Record, Resource as _,
    SessionId,
};
use deputize_runtime::{Continue, Parts, ResumeError, Session, StoredSession, SystemClock};
use tokio::task::spawn_blocking;

use super::serve::{Begun, House, while_active};
use crate::config::ModelOverrides;
use crate::control::server::Server as Control;
use crate::exit::{CliError, Exit};
use crate::idle::Idle;
use crate::output::events::time;
use crate::screen::call::of_call;
use crate::surroundings::tell;

mod servers;

/// The sessions of this program, for an editor.
#[derive(Clone)]
pub(crate) struct Desk(pub(crate) Arc<House>);

impl Sessions for Desk {
    fn open(&self, place: Place) -> BoxFuture<'_, Result<Arc<dyn Conversation>, Refused>> {
        let house = Arc::clone(&self.0);
        Box::pin(async move {
            let opened = blocking(move || Work::open(house, &place)).await?;
            Ok(Arc::new(opened) as Arc<dyn Conversation>)
        })
    }

    fn list(&self, cwd: Option<PathBuf>) -> BoxFuture<'_, Result<Vec<Listed>, Refused>> {
        let house = Arc::clone(&self.0);
        Box::pin(blocking(move || house.list(cwd.as_deref())))
    }

    fn delete(&self, id: SessionId) -> BoxFuture<'_, Result<(), Refused>> {
        let house = Arc::clone(&self.0);
        Box::pin(blocking(move || {
            if !house.dir.file(&id).is_file() {
                return Ok(());
            }
            house.dir.remove(&id).map_err(failed)
        }))
    }
}

/// Work on files, apart from those who talk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Refused::Failed("it ended by a fault of the program".to_owned())))
}

impl House {
    fn list(&self, cwd: Option<&Path>) -> Result<Vec<Listed>, Refused> {
        let mut ids = self.dir.list().map_err(CliError::failed)?;
        ids.sort();
        // Sessions have the directory that a link leads to. One that is gone is looked for as told.
        let cwd = cwd.map(|cwd| cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned()));
        let stored = ids.iter().rev().filter_map(|id| match self.dir.read(id) {
            Ok(stored) => Some(stored),
            Err(error) => {
                tell(&format!("warning: {}", CliError::failed(error).chain()));
                None
            }
        });
        let listed = stored.filter_map(|stored| listed(&stored));
        Ok(listed.filter(|one| cwd.as_ref().is_none_or(|cwd| one.cwd == *cwd)).collect())
    }

    fn stored(&self, id: &SessionId) -> Result<StoredSession, Refused> {
        if !self.dir.file(id).is_file() {
            return Err(Refused::NoSession(id.to_string()));
        }
        self.dir.read(id).map_err(failed)
    }
}

/// A session that has something to show.
fn listed(stored: &StoredSession) -> Option<Listed> {
    let goal = stored.records.iter().find_map(|record| match &record.event {
        Event::AgentStart(start) if record.depth == 0 => Some(&start.spec.goal),
        _ => None,
    })?;
    let last = stored.records.last()?;
    Some(Listed {
        id: stored.header.session.clone(),
        cwd: stored.last_start()?.cwd.clone(),
        title: deputize_core::door::to_line(words_of(goal), 60),
        updated: time(last.at),
    })
}

/// One session that an editor has open.
struct Work {
    house: Arc<House>,
    facts: Facts,
    begun: Begun,
    endpoint: Option<Endpoint>,
    /// Whether there were files of it: without them it is not begun anew.
    is_stored: AtomicBool,
}

impl Work {
    fn open(house: Arc<House>, place: &Place) -> Result<Self, Refused> {
        let stored = place.stored.as_ref().map(|id| house.stored(id)).transpose()?;
        let cwd = house.around.cwd(Some(&place.cwd))?;
        if let Some(stored) = &stored {
            same_place(stored, &cwd)?;
        }
        let mut loaded = house.load(&cwd)?;
        let mut notes = servers::add(&place.servers, &mut loaded.1.config);
        let before = stored.as_ref().and_then(StoredSession::last_start);
        let mut begun = house.begin(&loaded, before)?;
        notes.append(&mut begun.notes.0);
        notes.append(&mut begun.notes.1);
        let facts = Facts {
            id: place.stored.clone().unwrap_or_else(|| new_session_id(SystemClock.now_ms())),
            cwd,
            catalog: Arc::clone(&begun.composition.assembly.tools.catalog),
            // Somebody is at the editor, so questions are asked unless something else is said.
            mode: loaded.1.config.approvals.mode,
            in_words: of_call,
            notes,
        };
        let endpoint = endpoint(begun.overrides.clone());
        let is_stored = AtomicBool::new(stored.is_some());
        Ok(Self { house, facts, begun, endpoint, is_stored })
    }

    fn parts(&self, turn: &Turn, idle: &Arc<Idle>) -> Parts {
        let idle = Arc::clone(idle) as Arc<dyn Observer>;
        let mut parts = self.house.parts(&self.begun, vec![Arc::clone(&turn.observer), idle]);
        parts.approver = Arc::clone(&turn.approver);
        parts.endpoint.clone_from(&self.endpoint);
        parts
    }

    /// Takes the message: as the first of a new session, or as the next of one that is stored.
    async fn run(&self, turn: Turn, idle: &Arc<Idle>) -> Result<Outcome, Refused> {
        let (id, dir) = (&self.facts.id, &self.house.dir);
        let Begun { composition, chosen, .. } = &self.begun;
        let mut parts = self.parts(&turn, idle);
        // Whoever is asked knows the mode that the editor chose.
        let mode = ApproverMode::Ask;
        let authority = composition.assembly.authority(mode, self.facts.cwd.clone());
        if !dir.file(id).is_file() {
            if self.is_stored.load(Ordering::Acquire) {
                return Err(Refused::Deleted(id.to_string()));
            }
            let session = Session::create(dir, id.clone(), parts).map_err(failed)?;
            self.is_stored.store(true, Ordering::Release);
            let mut spec = composition.assembly.top_agent(id, &chosen.name, &turn.text, mode);
            spec.options = chosen.options.clone();
            let run = session.run(spec, authority, &turn.cancel);
            return Ok(self.watched(&session, run).await);
        }
        let opening = dir.opening(id).map_err(failed)?;
        parts.observers.push(Arc::clone(&opening) as Arc<dyn Observer>);
        let (session, _) = Session::open(dir, id.clone(), parts).map_err(failed)?;
        let how = Continue {
            message: Some(turn.text),
            model: Some(chosen.name.clone()),
            approver: Some(mode),
            max_iterations: Some(composition.config.max_iterations),
        };
        let work = self.watched(&session, session.resume(how, authority, &turn.cancel));
        let ended = Box::pin(work).await;
        opening.succeeded();
        ended.map_err(|error: ResumeError| failed(error))
    }

    /// The same while it can be reached from a terminal.
    async fn watched<T>(&self, session: &Session, run: impl Future<Output = T>) -> T {
        let answers = async {
            if self.begun.composition.config.control {
                match Control::bind(&self.house.dir, session.id(), session.overseer()) {
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

impl Conversation for Work {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn records(&self) -> BoxFuture<'_, Result<Vec<Record>, Refused>> {
        let (house, id) = (Arc::clone(&self.house), self.facts.id.clone());
        Box::pin(blocking(move || {
            if !house.dir.file(&id).is_file() {
                return Ok(Vec::new());
            }
            Ok(house.stored(&id)?.records)
        }))
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Outcome, Refused>> {
        Box::pin(async move {
            let (idle, cancel) = (Arc::new(Idle::new()), turn.cancel.clone());
            let config = &self.begun.composition.config;
            let run = self.run(turn, &idle);
            let (ended, error) = Box::pin(while_active(config, (&*idle, &cancel), run)).await;
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

/// Where the top agent's model is reached, when that is not its provider's own address.
fn endpoint(overrides: ModelOverrides) -> Option<Endpoint> {
    let api_key_env = overrides.api_key_env;
    overrides.base_url.map(|base_url| Endpoint { base_url, api_key_env })
}

/// A session goes on where it began.
fn same_place(stored: &StoredSession, cwd: &Path) -> Result<(), Refused> {
    let began = stored.root_spec().map(|spec| spec.cwd);
    match began {
        Some(began) if began != cwd => Err(Refused::Asked(format!(
            "session `{}` works in {}, not in {}: open it there",
            stored.header.session,
            began.display(),
            cwd.display()
        ))),
        _ => Ok(()),
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Refused {
    CliError::failed(error).into()
}

/// An error of this program as an editor is told of it.
impl From<CliError> for Refused {
    fn from(error: CliError) -> Self {
        let why = error.told();
        match error.exit() {
            Exit::Usage => Self::Asked(why),
            Exit::Provider => Self::Login(why),
            Exit::Failed | Exit::Interrupted => Self::Failed(why),
        }
    }
}
