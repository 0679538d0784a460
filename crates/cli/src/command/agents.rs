//! `deputize agents`: shows the agents of sessions, and stops one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use deputize_core::sanitize::for_question;
use deputize_core::{AgentId, Clock as _, Event, SessionId, Status};
use deputize_runtime::{SessionDir, SessionSnapshot, SystemClock};
use serde_json::{Value, json};

use crate::agent_name::AgentName;
use crate::args::{Agents, AgentsCommand};
use crate::command::Table;
use crate::command::sessions::{NO_SESSIONS, SessionNameError, session_named};
use crate::control::agent_table::{
    AgentTable, COLUMNS, GIVE_WAY, Names, stored_snapshot, total_words,
};
use crate::control::client::ask;
use crate::control::lock_holders::{SessionHolder, running};
use crate::control::{ControlError, ControlRequest};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::{output_columns, print, tell, wrap_lines};

#[derive(Debug, thiserror::Error)]
enum AgentsError {
    #[error("no session is running")]
    NothingRuns,
    #[error("`{}` names no agent and no session", for_question(agent))]
    Unknown { agent: String },
    #[error("agent `{agent}` has already ended ({status})")]
    Ended { agent: String, status: &'static str },
    #[error("`{agent}` names no session, and several run: {}", sessions.join(", "))]
    Several { agent: String, sessions: Vec<String> },
}

/// Note for a person who expects a live view.
const ONCE: &str = "note: this is a snapshot; a live view comes with a later version (--once leaves \
                    this note out)";

/// Runs the command.
pub(crate) fn agents(env: &ProcessEnv, args: &Agents) -> Result<(), CliError> {
    let dir = env.sessions()?;
    match &args.command {
        Some(AgentsCommand::Stop { agent, tree }) => stop(&dir, agent, *tree),
        None => {
            once(&dir, &args.sessions, args.json)?;
            if !args.once && !args.json {
                tell(ONCE);
            }
            Ok(())
        }
    }
}

/// Prints the agents of sessions: those named, or all that run, or else the latest.
fn once(dir: &SessionDir, named: &[String], as_json: bool) -> Result<(), CliError> {
    let running = running(dir).map_err(CliError::failed)?;
    let mut wanted: Vec<SessionId> =
        named.iter().map(|name| session_named(dir, name)).collect::<Result<_, _>>()?;
    if named.is_empty() {
        wanted = running.iter().map(|holder| holder.session.clone()).collect();
        if wanted.is_empty() {
            wanted.extend(latest(dir, dir.list().map_err(CliError::failed)?));
        }
    }
    let mut seen = Vec::new();
    for session in wanted {
        let holder = running.iter().find(|holder| holder.session == session);
        match dir.read(&session) {
            Ok(stored) => seen.push(SessionRow::new(session, holder, stored_snapshot(&stored))),
            Err(error) => tell(&format!("warning: {}", CliError::failed(error).chain())),
        }
    }
    let now = SystemClock.now_ms();
    if as_json {
        let all: Vec<Value> = seen.iter().map(|seen| seen.json(now)).collect();
        return print(&format!("{:#}\n", json!({ "sessions": all })));
    }
    if seen.is_empty() {
        tell(NO_SESSIONS);
    }
    let columns = output_columns();
    let mut notes = BTreeSet::new();
    for seen in &seen {
        let (text, note) = seen.text(now, columns);
        print(&text)?;
        notes.extend(note);
    }
    notes.iter().for_each(|note| tell(note));
    Ok(())
}

/// The session that began last. Ids tell the second, so only those of the same one are looked into.
fn latest(dir: &SessionDir, all: Vec<SessionId>) -> Option<SessionId> {
    let second = |id: &SessionId| {
        let id = id.as_str();
        id.rsplit_once('-').map_or(id, |(second, _)| second).to_owned()
    };
    let last = second(all.last()?);
    let created = |id: &SessionId| dir.summary(id).ok().map(|summary| summary.created);
    let of_it = all.into_iter().filter(|id| second(id) == last);
    of_it.max_by_key(|id| (created(id), id.clone()))
}

struct SessionRow {
    session: SessionId,
    runs: bool,
    pid: Option<u32>,
    snapshot: SessionSnapshot,
}

impl SessionRow {
    fn new(session: SessionId, holder: Option<&SessionHolder>, snapshot: SessionSnapshot) -> Self {
        // Another file may have had the number that the lock is told by.
        let runs = holder.is_some() && snapshot.end().is_none();
        Self { session, runs, pid: holder.and_then(|holder| holder.pid), snapshot }
    }

    fn status(&self) -> &'static str {
        match self.snapshot.end() {
            Some(status) => status.as_str(),
            None if self.runs => "running",
            None => "unfinished",
        }
    }

    fn paused(&self) -> Option<&str> {
        self.snapshot.paused_by().filter(|_| self.runs)
    }

    fn json(&self, now: u64) -> Value {
        json!({
            "session": self.session,
            "status": self.status(),
            "running": self.runs,
            "pid": self.pid.filter(|_| self.runs),
            "paused": self.paused(),
            "agents": AgentTable::new(&self.snapshot, self.runs, now).json(),
        })
    }

    /// Its agents at this width, and which columns had no room.
    fn text(&self, now: u64, columns: usize) -> (String, Option<String>) {
        let mut head = format!("{}: {}", self.session, self.status());
        if let Some(pid) = self.pid.filter(|_| self.runs) {
            head.push_str(&format!(" in process {pid}"));
        }
        if let Some(by) = self.paused() {
            head.push_str(&format!(", new children paused by {by}"));
        }
        if let Some(total) = total_words(&self.snapshot) {
            head.push_str(&format!(": {total}"));
        }
        let head = wrap_lines(&head, columns);
        // Its head names the session: on a terminal, agents have the names of its tree.
        let names = if columns == usize::MAX { Names::Whole } else { Names::InSession };
        let rows = AgentTable::new(&self.snapshot, self.runs, now).rows(names);
        if rows.is_empty() {
            return (format!("{head}no agent of it has started\n"), None);
        }
        let list = Table::fit(COLUMNS, rows, &GIVE_WAY, columns);
        (format!("{head}{}", list.text), list.note())
    }
}

fn stop(dir: &SessionDir, named: &str, tree: bool) -> Result<(), CliError> {
    let name = AgentName::read(named).map_err(CliError::usage)?;
    let session = match &name.session {
        Some(session) => session_named(dir, session).map_err(|error| not_found(error, named))?,
        None => only_running(dir, named)?,
    };
    let agent = name.within(&session).unwrap_or_else(|| named.to_owned());
    let request = ControlRequest::Stop { agent, tree };
    match ask(dir, &session, &request) {
        Ok(done) => {
            let stopped = done.get("stopped").and_then(Value::as_array).map_or(1, Vec::len);
            let s = if stopped == 1 { "" } else { "s" };
            tell(&format!("stopping {stopped} agent{s}"));
            Ok(())
        }
        // The run ended before it could answer: that was what was wanted.
        Err(ControlError::Silent { source, .. })
            if name.is_top() && source.kind() == io::ErrorKind::UnexpectedEof =>
        {
            tell("the run has ended");
            Ok(())
        }
        Err(error @ ControlError::Refused { .. }) => {
            Err(refusal_error(dir, &session, &request, error))
        }
        Err(error) => Err(CliError::failed(error)),
    }
}

/// Returns the error for a name that is none of a session, where an agent was meant.
fn not_found(error: CliError, named: &str) -> CliError {
    if !matches!(error.source_as(), Some(SessionNameError::Unknown(_))) {
        return error;
    }
    CliError::usage(AgentsError::Unknown { agent: named.to_owned() }).hint(
        "`deputize agents` lists the agents that run; name one as SESSION/STEP.SLOT.INDEX, or the \
         whole run as SESSION",
    )
}

/// Why an agent was not stopped: it has ended, there is none, or others run below it.
fn refusal_error(
    dir: &SessionDir,
    session: &SessionId,
    request: &ControlRequest,
    error: ControlError,
) -> CliError {
    let ControlRequest::Stop { agent, .. } = request else { return CliError::failed(error) };
    let mut known: BTreeMap<AgentId, Option<Status>> = BTreeMap::new();
    for record in dir.read(session).map(|stored| stored.records).unwrap_or_default() {
        let status = match record.event {
            Event::AgentStart(_) | Event::AgentResume { .. } => None,
            Event::AgentEnd(outcome) => Some(outcome.status),
            _ => continue,
        };
        known.insert(record.agent, status);
    }
    let running = known.iter().filter(|(_, status)| status.is_none());
    let running: Vec<&str> = running.map(|(id, _)| id.as_str()).collect();
    let those = format!("those that run: {}", running.join(", "));
    match known.iter().find(|(id, _)| id.as_str() == agent).map(|(_, status)| *status) {
        Some(Some(status)) => {
            let agent = agent.clone();
            let status = status.as_str();
            CliError::failed(AgentsError::Ended { agent, status }).hint(those)
        }
        Some(None) => {
            CliError::failed(error).hint("`--tree` stops an agent and all agents below it")
        }
        None => CliError::failed(error).hint(those),
    }
}

/// The session that is meant where none is named.
fn only_running(dir: &SessionDir, named: &str) -> Result<SessionId, CliError> {
    let mut running = running(dir).map_err(CliError::failed)?;
    match (running.pop(), running.is_empty()) {
        (None, _) => Err(CliError::failed(AgentsError::NothingRuns)),
        (Some(only), true) => Ok(only.session),
        (Some(last), false) => {
            let mut sessions: Vec<String> =
                running.iter().map(|holder| holder.session.to_string()).collect();
            sessions.push(last.session.to_string());
            let agent = named.to_owned();
            Err(CliError::usage(AgentsError::Several { agent, sessions })
                .hint("name the agent SESSION/STEP.SLOT.INDEX"))
        }
    }
}
