//! The sessions that an editor has of this program: each in its own directory, with the
//! configuration that holds there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deputize_acp::Program;
use deputize_acp::serve::{Conversation, Facts, Listed, Place, Refused, Sessions, Turn, words_of};
use deputize_core::{
    ApproverMode, BoxFuture, CancelReason, Endpoint, Event, Observer, Outcome, Record,
    Resource as _, SessionId, ToolCrate,
};
use deputize_runtime::{Continue, Gates, Parts, ResumeError, Session, SessionDir, StoredSession};
use deputize_tools::Processes;
use tokio::task::spawn_blocking;

use super::{Chosen, Composition, Ingredients, approver_mode, external, given_secrets, mcp};
use crate::args::{RunOptions, Settings};
use crate::command::run::{flags, go_on_with, new_session, overrides, staff};
use crate::config::{Loaded, ModelOverrides};
use crate::control::server::Server as Control;
use crate::exit::{CliError, Exit};
use crate::idle::Idle;
use crate::output::events::time;
use crate::screen::summary::of_call;
use crate::surroundings::{Surroundings, tell};

mod servers;

/// The sessions of this program, for an editor.
#[derive(Clone)]
pub(crate) struct Desk(pub(crate) Arc<Office>);

/// What all sessions of an editor share.
pub(crate) struct Office {
    pub(crate) links: Vec<ToolCrate>,
    pub(crate) around: Surroundings,
    /// What the command line says of every session.
    pub(crate) options: RunOptions,
    pub(crate) dir: SessionDir,
    pub(crate) processes: Arc<Processes>,
    pub(crate) gate: Arc<Gates>,
}

impl Sessions for Desk {
    fn open(&self, place: Place) -> BoxFuture<'_, Result<Arc<dyn Conversation>, Refused>> {
        let office = Arc::clone(&self.0);
        Box::pin(async move {
            let opened = blocking(move || Work::open(office, &place)).await?;
            Ok(Arc::new(opened) as Arc<dyn Conversation>)
        })
    }

    fn list(&self, cwd: Option<PathBuf>) -> BoxFuture<'_, Result<Vec<Listed>, Refused>> {
        let office = Arc::clone(&self.0);
        Box::pin(blocking(move || office.list(cwd.as_deref())))
    }

    fn delete(&self, id: SessionId) -> BoxFuture<'_, Result<(), Refused>> {
        let office = Arc::clone(&self.0);
        Box::pin(blocking(move || {
            if !office.dir.file(&id).is_file() {
                return Ok(());
            }
            office.dir.remove(&id).map_err(failed)
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

impl Office {
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
    office: Arc<Office>,
    facts: Facts,
    composition: Composition,
    chosen: Chosen,
    program: Option<Program>,
    endpoint: Option<Endpoint>,
    _looked: mcp::FirstLook,
}

impl Work {
    fn open(office: Arc<Office>, place: &Place) -> Result<Self, Refused> {
        let stored = place.stored.as_ref().map(|id| office.stored(id)).transpose()?;
        let around = &office.around;
        let cwd = around.cwd(Some(&place.cwd))?;
        if let Some(stored) = &stored {
            same_place(stored, &cwd)?;
        }
        let settings = Settings { cwd: Some(cwd.clone()), ..office.options.settings.clone() };
        let sources = around.sources(&settings, flags(&office.options))?;
        let mut loaded = around.load(&sources)?;
        let mut notes = servers::add(&place.servers, &mut loaded.config);
        // The terminal of the editor, if it has one, is not ours to ask at.
        let unasked = match mode(&loaded) {
            ApproverMode::Auto => ApproverMode::Auto,
            ApproverMode::Ask | ApproverMode::Deny => ApproverMode::Deny,
        };
        let mut looked = mcp::first_look(&loaded.config, around, &cwd, unasked);
        notes.append(&mut looked.notes);
        let ingredients = Ingredients::here(&office.links, &loaded.config, around, &sources);
        let composition = Composition::new(&ingredients)?;
        let mut overrides = overrides(&office.options.model);
        if let Some(start) = stored.as_ref().and_then(StoredSession::last_start) {
            go_on_with(&mut overrides, start);
        }
        let program = external::program(&loaded.config, around)?;
        let mut chosen = composition.models(&overrides, around)?;
        given_secrets(&loaded.config, around, &mut chosen.secrets);
        let id = place.stored.clone().unwrap_or_else(|| new_session(ingredients.clock.now_ms()));
        notes.extend(composition.warnings.iter().chain(&chosen.warnings).cloned());
        let facts = Facts {
            id,
            cwd,
            catalog: Arc::clone(&composition.catalog),
            mode: mode(&loaded),
            in_words: of_call,
            notes,
        };
        let endpoint = endpoint(overrides);
        Ok(Self { office, facts, composition, chosen, program, endpoint, _looked: looked })
    }

    fn parts(&self, turn: &Turn, idle: &Arc<Idle>) -> Parts {
        let mut parts = self.composition.parts(self.chosen.clone());
        // One process starts and ends the commands of all sessions.
        if let Ok(supervisor) = self.office.processes.shared() {
            parts.settings.get_or_insert_with(|| Processes::of(supervisor));
        }
        parts.observers = vec![Arc::clone(&turn.observer), Arc::clone(idle) as Arc<dyn Observer>];
        parts.approver = Arc::clone(&turn.approver);
        parts.gate = Some(Arc::clone(&self.office.gate) as _);
        parts.endpoint.clone_from(&self.endpoint);
        let (config, program) = (&self.composition.config, self.program.clone());
        let _kept_in_the_settings = staff(&mut parts, config, program, &self.office.around);
        parts
    }

    /// Takes the message: as the first of a new session, or as the next of one that is stored.
    async fn run(&self, turn: Turn, idle: &Arc<Idle>) -> Result<Outcome, Refused> {
        let (composition, id, dir) = (&self.composition, &self.facts.id, &self.office.dir);
        let mut parts = self.parts(&turn, idle);
        // Whoever is asked knows the mode that the editor chose.
        let mode = ApproverMode::Ask;
        let authority = composition.authority(mode, self.facts.cwd.clone());
        if !dir.file(id).is_file() {
            let session = Session::create(dir, id.clone(), parts).map_err(failed)?;
            let mut spec = composition.top_agent(id, &self.chosen.name, &turn.text, mode);
            spec.options = self.chosen.options.clone();
            let run = session.run(spec, authority, &turn.cancel);
            return Ok(self.watched(&session, run).await);
        }
        let opening = dir.opening(id).map_err(failed)?;
        parts.observers.push(Arc::clone(&opening) as Arc<dyn Observer>);
        let (session, _) = Session::open(dir, id.clone(), parts).map_err(failed)?;
        let how = Continue {
            message: Some(turn.text),
            model: Some(self.chosen.name.clone()),
            approver: Some(mode),
            max_iterations: Some(composition.config.max_iterations),
        };
        let ended = self.watched(&session, session.resume(how, authority, &turn.cancel)).await;
        opening.succeeded();
        ended.map_err(|error: ResumeError| failed(error))
    }

    /// The same while it can be reached from a terminal.
    async fn watched<T>(&self, session: &Session, run: impl Future<Output = T>) -> T {
        let answers = async {
            if self.composition.config.control {
                match Control::bind(&self.office.dir, session.id(), session.overseer()) {
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
        let (office, id) = (Arc::clone(&self.office), self.facts.id.clone());
        Box::pin(blocking(move || {
            if !office.dir.file(&id).is_file() {
                return Ok(Vec::new());
            }
            Ok(office.stored(&id)?.records)
        }))
    }

    fn turn(&self, turn: Turn) -> BoxFuture<'_, Result<Outcome, Refused>> {
        Box::pin(async move {
            let seconds = self.composition.config.inactivity_timeout_seconds;
            let limit = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
            let (idle, cancel) = (Arc::new(Idle::new()), turn.cancel.clone());
            let mut run = Box::pin(self.run(turn, &idle));
            tokio::select! {
                biased;
                ended = &mut run => return ended,
                () = idle.over(limit) => {}
            }
            cancel.cancel(CancelReason::TimeLimit);
            let outcome = run.await?;
            let error = format!(
                "stopped: nothing came of the turn for {seconds} s (inactivity_timeout_seconds)"
            );
            Ok(Outcome { error: Some(error), ..outcome })
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.composition.servers.close()
    }
}

/// Where the top agent's model is reached, when that is not its provider's own address.
fn endpoint(overrides: ModelOverrides) -> Option<Endpoint> {
    let api_key_env = overrides.api_key_env;
    overrides.base_url.map(|base_url| Endpoint { base_url, api_key_env })
}

/// Somebody is at the editor, so questions are asked unless something else is said.
fn mode(loaded: &Loaded) -> ApproverMode {
    approver_mode(loaded.config.approvals.mode)
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
