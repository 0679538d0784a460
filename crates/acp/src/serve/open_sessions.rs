//! The sessions that an editor has open, and the turns in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::{
    PromptRequest, PromptResponse, SessionInfoUpdate, SessionMode, SessionModeState,
    SessionNotification, SessionUpdate, StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Client, Error, ErrorCode};
use deputize_core::authority::ApproverMode;
use deputize_core::model::Delta;
use deputize_core::outcome::ExitReason;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{
    AgentId, CallId, Cancel, CancelReason, Observer, Outcome, Record, SessionId, Status,
};
use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;

use super::editor_approver::EditorApprover;
use super::pending_messages::PendingMessages;
use super::prompt::{PromptContent, read_prompt, words_of};
use super::session_host::{Conversation, HostError, SessionHost, SessionRequest, TurnRequest};
use super::session_updates::{SessionUpdates, chunk};

/// Interval at which progress notes of children are checked.
const TICK: Duration = Duration::from_secs(2);
/// Limit on messages queued for an editor; one that reads none of them is disconnected.
const WAITING: usize = 100_000;
/// Limit on a session's title, in characters.
const TITLE_CHARS: usize = 60;

/// The open sessions of one editor.
pub(crate) struct OpenSessions {
    pub(crate) sessions: Arc<dyn SessionHost>,
    /// Turns and other running work.
    pub(crate) work: TaskTracker,
    /// Cancels all of it.
    pub(crate) end: Cancel,
    pub(crate) waiting: PendingMessages,
    open: Mutex<BTreeMap<String, Arc<OpenSession>>>,
}

/// A session that is open.
struct OpenSession {
    conversation: Arc<dyn Conversation>,
    mode: Arc<Mutex<ApproverMode>>,
    session_updates: Arc<Mutex<SessionUpdates>>,
    /// Whether it was stored before, with the title of its first goal.
    stored: bool,
    /// The cancel signal of the running turn.
    turn: Mutex<Option<Cancel>>,
}

/// A session's running turn, which ends when this is dropped.
struct TurnGuard(Arc<OpenSession>, Cancel);

impl Drop for TurnGuard {
    fn drop(&mut self) {
        *lock(&self.0.turn) = None;
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock()
}

impl OpenSessions {
    pub(crate) fn new(
        sessions: Arc<dyn SessionHost>,
        end: Cancel,
        waiting: PendingMessages,
    ) -> Self {
        Self { sessions, work: TaskTracker::new(), end, waiting, open: Mutex::default() }
    }

    /// Waits until no work is running. Work that starts later is not included.
    pub(crate) async fn settled(&self) {
        self.work.close();
        self.work.wait().await;
    }

    /// Opens a session, and returns its id and modes.
    pub(crate) async fn open(
        &self,
        place: SessionRequest,
    ) -> Result<(String, SessionModeState), Error> {
        let stored = place.stored.is_some();
        let conversation = self.sessions.open(place).await?;
        let facts = conversation.facts();
        let id = facts.id.to_string();
        let mode = facts.mode;
        let session_updates = Arc::new(Mutex::new(SessionUpdates::new(facts)));
        let mode = Arc::new(Mutex::new(mode));
        let modes = modes(*lock(&mode));
        let turn = Mutex::default();
        let open = Arc::new(OpenSession { conversation, mode, session_updates, stored, turn });
        let before = lock(&self.open).insert(id.clone(), open);
        if let Some(before) = before {
            before.close().await;
        }
        Ok((id, modes))
    }

    /// Opens a stored session, and sends its history if `with_history` is set.
    pub(crate) async fn resume(
        &self,
        place: SessionRequest,
        connection: &ConnectionTo<Client>,
        with_history: bool,
    ) -> Result<SessionModeState, Error> {
        let name = place.stored.as_ref().map(ToString::to_string).unwrap_or_default();
        if lock(&self.open).get(&name).is_some_and(|open| lock(&open.turn).is_some()) {
            return Err(busy(&name));
        }
        let (id, modes) = self.open(place).await?;
        let open = self.session(&id)?;
        let records = open.conversation.records().await?;
        let updates = SessionUpdates::of_past(open.conversation.facts(), &records);
        if with_history {
            updates.into_iter().for_each(|update| self.send_update(connection, &id, update));
        }
        Ok(modes)
    }

    /// Closes a session, and ends a running turn with everything it started.
    pub(crate) async fn close(&self, id: &str) -> Result<(), Error> {
        let open = lock(&self.open).remove(id);
        open.ok_or_else(|| none(id))?.close().await;
        Ok(())
    }

    /// Closes all sessions.
    pub(crate) async fn close_all(&self) {
        let all = std::mem::take(&mut *lock(&self.open));
        join_all(all.values().map(|open| open.close())).await;
    }

    pub(crate) async fn delete(&self, id: &str) -> Result<(), Error> {
        if lock(&self.open).get(id).is_some_and(|open| lock(&open.turn).is_some()) {
            return Err(busy(id));
        }
        let open = lock(&self.open).remove(id);
        if let Some(open) = open {
            open.close().await;
        }
        let id = SessionId::new(id).map_err(|_| none(id))?;
        Ok(self.sessions.delete(id).await?)
    }

    pub(crate) fn choose(&self, id: &str, mode: &str) -> Result<(), Error> {
        let open = self.session(id)?;
        let chosen = MODES.iter().find(|(_, name, ..)| *name == mode);
        let (chosen, ..) = chosen.ok_or_else(|| {
            let names: Vec<&str> = MODES.iter().map(|(_, name, ..)| *name).collect();
            question_error(format!("there is no mode `{mode}`; known: {}", names.join(", ")))
        })?;
        *lock(&open.mode) = *chosen;
        Ok(())
    }

    /// Cancels the running turn of a session, if there is one.
    pub(crate) fn cancel(&self, id: &str) {
        if let Some(open) = lock(&self.open).get(id) {
            open.interrupt();
        }
    }

    /// Starts a turn. The request is answered when the turn ends.
    pub(crate) fn prompt(
        self: &Arc<Self>,
        request: &PromptRequest,
        responder: Responder<PromptResponse>,
        connection: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let id = request.session_id.to_string();
        let begun = self.session(&id).and_then(|open| {
            let takes_images = open.conversation.facts().takes_images;
            let prompt = read_prompt(&request.prompt, takes_images)?;
            Ok((open.begin(&self.end, &id)?, prompt))
        });
        let (turn, prompt) = match begun {
            Ok(begun) => begun,
            Err(error) => return responder.respond_with_error(error),
        };
        let open = Arc::clone(self);
        self.work.spawn(async move {
            let dropped = responder.cancellation();
            let cancel = turn.1.clone();
            let ended = {
                let mut work = Box::pin(open.turn(&turn, prompt, &id, &connection));
                tokio::select! {
                    ended = &mut work => ended,
                    () = dropped.cancelled() => {
                        cancel.cancel(CancelReason::Interrupted);
                        work.await
                    }
                }
            };
            // Whoever has the answer may ask the next question.
            drop(turn);
            responder.respond_with_result(ended)
        });
        Ok(())
    }

    async fn turn(
        &self,
        turn: &TurnGuard,
        prompt: PromptContent,
        id: &str,
        connection: &ConnectionTo<Client>,
    ) -> Result<PromptResponse, Error> {
        let TurnGuard(open, cancel) = turn;
        let PromptContent { text, sources, images } = prompt;
        let facts = open.conversation.facts();
        let title = SessionInfoUpdate::new().title(for_terminal_line(words_of(&text), TITLE_CHARS));
        let session_updates = Arc::clone(&open.session_updates);
        let mode = Arc::clone(&open.mode);
        let observer = UpdateObserver {
            connection: connection.clone(),
            session: id.to_owned(),
            session_updates: Arc::clone(&session_updates),
            waiting: self.waiting.clone(),
            end: self.end.clone(),
        };
        if open.is_first() {
            if !open.stored {
                observer.send(SessionUpdate::SessionInfoUpdate(title));
            }
            facts.notes.iter().for_each(|note| observer.remark(note));
        }
        let observer = Arc::new(observer);
        let approver = Arc::new(EditorApprover {
            connection: connection.clone(),
            session: id.to_owned(),
            root: AgentId::root(&facts.id),
            mode,
            session_updates,
        });
        let watch = Arc::clone(&observer) as Arc<dyn Observer>;
        let cancel_turn = cancel.clone();
        let turn =
            TurnRequest { text, sources, images, observer: watch, approver, cancel: cancel_turn };
        let mut work = std::pin::pin!(open.conversation.turn(turn));
        let mut tick = tokio::time::interval(TICK);
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut work => break ended,
                _ = tick.tick() => observer.tick(),
            }
        };
        observer.ended();
        answer(ended, cancel, &observer)
    }

    fn session(&self, id: &str) -> Result<Arc<OpenSession>, Error> {
        lock(&self.open).get(id).cloned().ok_or_else(|| none(id))
    }

    fn send_update(&self, connection: &ConnectionTo<Client>, id: &str, update: SessionUpdate) {
        self.waiting.one_more();
        // A connection that is closed ends the whole.
        let _closed = connection.send_notification(SessionNotification::new(id.to_owned(), update));
    }
}

impl OpenSession {
    fn interrupt(&self) {
        if let Some(cancel) = &*lock(&self.turn) {
            cancel.cancel(CancelReason::Interrupted);
        }
    }

    async fn close(&self) {
        self.interrupt();
        self.conversation.close().await;
    }

    fn begin(self: Arc<Self>, end: &Cancel, id: &str) -> Result<TurnGuard, Error> {
        let mut turn = lock(&self.turn);
        if turn.is_some() {
            return Err(busy(id));
        }
        let cancel = end.child();
        *turn = Some(cancel.clone());
        drop(turn);
        Ok(TurnGuard(self, cancel))
    }

    /// Returns whether this turn is the first since the session was opened.
    fn is_first(&self) -> bool {
        lock(&self.session_updates).begin()
    }
}

/// Returns the answer to a prompt, by how its turn ended.
fn answer(
    ended: Result<Outcome, HostError>,
    cancel: &Cancel,
    observer: &UpdateObserver,
) -> Result<PromptResponse, Error> {
    // Whoever said that it must end is told that it did, whatever came of that.
    if cancel.reason() == Some(CancelReason::Interrupted) {
        return Ok(PromptResponse::new(StopReason::Cancelled));
    }
    let outcome = ended?;
    let partial = |limit: &str, reason| {
        observer.remark(&format!("{limit} was reached: the answer is partial"));
        Ok(PromptResponse::new(reason))
    };
    match (outcome.status, outcome.exit_reason) {
        (Status::Interrupted, _) => Ok(PromptResponse::new(StopReason::Cancelled)),
        (Status::Completed, ExitReason::MaxIterations) => {
            partial("the limit of model requests (max_iterations)", StopReason::MaxTurnRequests)
        }
        (Status::Completed, ExitReason::MaxOutputTokens) => {
            partial("the model's output limit", StopReason::MaxTokens)
        }
        (Status::Completed, ExitReason::Budget) => {
            partial("the budget", StopReason::MaxTurnRequests)
        }
        (Status::Completed, _) => Ok(PromptResponse::new(StopReason::EndTurn)),
        (Status::Failed | Status::Error | Status::Timeout, _) => {
            let why = outcome.error.unwrap_or_else(|| "it failed without a word".to_owned());
            Err(HostError::Failed(why).into())
        }
    }
}

/// Sends the editor the updates of a turn.
struct UpdateObserver {
    connection: ConnectionTo<Client>,
    session: String,
    session_updates: Arc<Mutex<SessionUpdates>>,
    waiting: PendingMessages,
    end: Cancel,
}

impl UpdateObserver {
    fn send(&self, update: SessionUpdate) {
        let update = SessionNotification::new(self.session.clone(), update);
        if self.waiting.one_more() > WAITING || self.connection.send_notification(update).is_err() {
            self.end.cancel(CancelReason::Interrupted);
        }
    }

    fn remark(&self, text: &str) {
        self.send(SessionUpdate::AgentThoughtChunk(chunk(&format!("\n[{text}]\n"))));
    }

    fn tick(&self) {
        let mut session_updates = lock(&self.session_updates);
        session_updates.tick().into_iter().for_each(|update| self.send(update));
    }

    fn ended(&self) {
        let mut session_updates = lock(&self.session_updates);
        session_updates.end().into_iter().for_each(|update| self.send(update));
    }
}

impl Observer for UpdateObserver {
    fn on_record(&self, record: &Record) {
        // Held until it is told: a piece and a record may not pass each other.
        let mut session_updates = lock(&self.session_updates);
        session_updates.add_record(record).into_iter().for_each(|update| self.send(update));
    }

    fn on_delta(&self, agent: &AgentId, delta: Delta<'_>) {
        let mut session_updates = lock(&self.session_updates);
        session_updates.piece(agent, delta).into_iter().for_each(|update| self.send(update));
    }

    fn on_progress(&self, agent: &AgentId, call: CallId, text: &str) {
        lock(&self.session_updates).progress(agent, call, text);
    }
}

/// The modes: how the top agent's questions are answered.
const MODES: [(ApproverMode, &str, &str, &str); 3] = [
    (ApproverMode::Ask, "ask", "Ask", "Ask for each command."),
    (ApproverMode::Deny, "deny", "Deny commands", "Commands are denied; files may be written."),
    (ApproverMode::Auto, "auto", "Allow all", "Commands run unasked, with all your rights."),
];

fn modes(current: ApproverMode) -> SessionModeState {
    let mode = |(_, id, name, about): &(_, &'static str, &str, &str)| {
        SessionMode::new(*id, *name).description((*about).to_owned())
    };
    let id = MODES.iter().find(|(mode, ..)| *mode == current).map_or("ask", |(_, id, ..)| *id);
    SessionModeState::new(id, MODES.iter().map(mode).collect())
}

/// Checks that a session may have this directory.
pub(crate) fn directory(cwd: &Path, more: &[PathBuf]) -> Result<PathBuf, Error> {
    if !cwd.is_absolute() {
        return Err(question_error(format!("the directory `{}` is not absolute", cwd.display())));
    }
    if !more.is_empty() {
        return Err(question_error(
            "this agent works in one directory: name no additional ones".to_owned(),
        ));
    }
    Ok(cwd.to_owned())
}

fn question_error(why: String) -> Error {
    HostError::Asked(why).into()
}

pub(crate) fn none(id: &str) -> Error {
    HostError::NoSession(for_terminal_line(id, TITLE_CHARS)).into()
}

fn busy(id: &str) -> Error {
    let why = "is in a turn: wait for its end, or cancel it";
    Error::new(ErrorCode::INVALID_REQUEST, format!("session `{id}` {why}"))
}

impl From<HostError> for Error {
    fn from(refused: HostError) -> Self {
        let code = match refused {
            HostError::NoSession(_) | HostError::Deleted(_) => ErrorCode::RESOURCE_NOT_FOUND,
            HostError::Asked(_) => ErrorCode::INVALID_PARAMS,
            HostError::Login(_) => ErrorCode::AUTH_REQUIRED,
            HostError::Failed(_) => ErrorCode::INTERNAL_ERROR,
        };
        Self::new(code, refused.to_string())
    }
}
