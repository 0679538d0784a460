//! `deputize sessions`: lists, shows, exports and deletes stored sessions.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use deputize_core::budget::shown_usd;
use deputize_core::sanitize::{for_terminal_line, remove_frame};
use deputize_core::{AgentId, CallId, Event, Outcome, SessionId, Status, ToolResult};
use deputize_runtime::{FileTail, ReadError, SessionDir, SessionSummary, StoredSession};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::agent_name::AgentName;
use crate::args::{ExportFormat, Sessions};
use crate::command::{Table, print_list};
use crate::compose::{LinkedTools, environment_secrets, linked_catalog};
use crate::control::lock_holders::{SessionHolder, holder, running};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::output::child_frames::children_unframed;
use crate::output::events::{Projection, time};
use crate::process_env::ProcessEnv;
use crate::screen::summary::tokens;
use crate::stdio::{error_columns, print, tell};
use crate::task::attachment::words_of;
use durable_commands::{kill_command, listed, running_commands};

mod durable_commands;
mod markdown;
mod result_words;
#[cfg(feature = "session-search")]
mod search;
mod show;

/// Limit on a goal where sessions are listed in an error, in characters.
const GOAL_CHARS: usize = 60;

/// The status of a session that did not come to its end.
const UNFINISHED: &str = "unfinished";
/// The status of a session that a process works on.
const RUNNING: &str = "running";
/// The status of a session whose answer was given at a limit.
const AT_LIMIT: &str = "at limit";
/// Message for an empty list of sessions.
pub(crate) const NO_SESSIONS: &str = "there are no sessions yet";

/// Runs the command, except `resume`, which is a run.
pub(crate) fn sessions(
    links: &LinkedTools,
    env: &ProcessEnv,
    command: &Sessions,
) -> Result<(), CliError> {
    let dir = env.sessions()?;
    match command {
        Sessions::List { json } => list(&dir, *json),
        Sessions::Show { session, agent } => {
            // What is not named like an agent is told to be no session.
            let named = AgentName::read(session).ok();
            let path = named.as_ref().filter(|named| !named.is_top());
            let of = path.and_then(|named| named.session.as_deref()).unwrap_or(session);
            let (stored, holder) = read(&dir, of)?;
            let path = path.map(|_| session.as_str());
            let wanted = agent.as_deref().or(path);
            show::show(&stored, &linked_catalog(links), holder.as_ref(), wanted)
        }
        #[cfg(feature = "session-search")]
        Sessions::Search { words, limit, json } => {
            let secrets = environment_secrets(env);
            search::search(dir, &words.join(" "), *limit, *json, &secrets)
        }
        #[cfg(not(feature = "session-search"))]
        Sessions::Search { .. } => Err(CliError::usage(NoSearch).hint(
            "in a checkout of Deputize: `cargo install --path crates/cli --features session-search`",
        )),
        Sessions::Resume(_) => Ok(()),
        Sessions::Export { session, format } => export(env, &read(&dir, session)?.0, *format),
        Sessions::Rm { sessions } => {
            let ids: Result<BTreeSet<SessionId>, CliError> =
                sessions.iter().map(|name| session_named(&dir, name)).collect();
            let ids = ids?;
            ids.iter().try_for_each(|id| refuse_left_commands(&dir, id))?;
            ids.iter().try_for_each(|id| {
                dir.remove(id).map_err(CliError::failed)?;
                print(&format!("deleted: {id}\n"))
            })
        }
    }
}

/// A session is the only place that names the durable commands that it left.
#[derive(Debug, thiserror::Error)]
#[error("session `{session}` has a durable command that still runs: {commands}")]
struct CommandRuns {
    session: SessionId,
    commands: String,
}

/// Refuses to delete a session while a durable command of it runs. One that cannot be read names
/// none.
fn refuse_left_commands(dir: &SessionDir, session: &SessionId) -> Result<(), CliError> {
    let commands = dir.read(session).map(|stored| running_commands(&stored)).unwrap_or_default();
    if commands.is_empty() {
        return Ok(());
    }
    let (session, listed) = (session.clone(), listed(&commands));
    let hint = format!("`{}` ends it; then delete the session", kill_command(&commands));
    Err(CliError::failed(CommandRuns { session, commands: listed }).hint(hint))
}

/// The program has no search over sessions.
#[cfg(not(feature = "session-search"))]
#[derive(Debug, thiserror::Error)]
#[error("this program was built without search over sessions, the feature `session-search`")]
struct NoSearch;

/// Why a name stands for no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionNameError {
    #[error("there is no session `{0}`")]
    Unknown(String),
    #[error("`{name}` matches {count} sessions")]
    Ambiguous { name: String, count: usize },
}

/// Limit on the sessions that an ambiguous name lists.
const CANDIDATES: usize = 8;

/// A stored session by its id, or by the beginning of it where no other begins so.
pub(crate) fn session_named(dir: &SessionDir, name: &str) -> Result<SessionId, CliError> {
    let missing = || {
        CliError::usage(SessionNameError::Unknown(name.to_owned()))
            .hint("`deputize sessions list` lists them")
    };
    let id = SessionId::new(name).map_err(|_| missing())?;
    let path = dir.file(&id);
    match std::fs::metadata(&path) {
        Ok(file) if file.is_file() => return Ok(id),
        Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            return Err(CliError::failed(ReadError::Open { path, source }));
        }
        Ok(_) | Err(_) => {}
    }
    let mut found = dir.list().map_err(CliError::failed)?;
    found.retain(|id| id.as_str().starts_with(name));
    found.sort();
    match found.as_slice() {
        [] => Err(missing()),
        [only] => Ok(only.clone()),
        several => {
            let name = name.to_owned();
            let count = several.len();
            let newest = several.iter().rev().take(CANDIDATES);
            let shown = candidates(dir, newest);
            let more = match count.saturating_sub(CANDIDATES) {
                0 => String::new(),
                more => format!("\nand {more} older"),
            };
            Err(CliError::usage(SessionNameError::Ambiguous { name, count })
                .hint(format!("name one of them in full:\n{}{more}", shown.trim_end())))
        }
    }
}

/// Sessions one of which was meant: what each is about, and from when.
fn candidates<'s>(dir: &SessionDir, sessions: impl Iterator<Item = &'s SessionId>) -> String {
    let row = |id: &SessionId| match dir.summary(id).map(SessionLine::of) {
        Ok(glance) => {
            let goal = for_terminal_line(&glance.goal, GOAL_CHARS);
            [id.to_string(), local(glance.summary.created), goal]
        }
        Err(_) => [id.to_string(), String::new(), "(it cannot be read)".to_owned()],
    };
    let head = ["SESSION", "WHEN", "GOAL"];
    Table::fit(head, sessions.map(row).collect(), &["GOAL"], error_columns()).text
}

/// Reads a session, and which process works on it, if one does.
fn read(dir: &SessionDir, name: &str) -> Result<(StoredSession, Option<SessionHolder>), CliError> {
    let id = session_named(dir, name)?;
    let mut stored = dir.read(&id).map_err(CliError::failed)?;
    let mut running = None;
    if !has_ended(&stored) {
        running = holder(dir, &id);
        if running.is_none() {
            // It may have ended since it was read.
            stored = dir.read(&id).map_err(CliError::failed)?;
        }
    }
    // The last record of a session that runs may be half written.
    if let (FileTail::Torn { bytes }, None) = (&stored.tail, &running) {
        tell(&format!("warning: the last record is incomplete; {bytes} bytes are left out"));
    }
    if let Some(damage) = &stored.damage {
        let line = damage.line;
        let what = &damage.what;
        tell(&format!("warning: line {line} is damaged ({what}); what follows is left out"));
    }
    Ok((stored, running))
}

/// Whether the last run of a session came to its end.
fn has_ended(stored: &StoredSession) -> bool {
    last_end(stored).is_some()
}

/// Returns how the last run of a session ended, in a word; `None` if it did not come to its end.
fn last_end(stored: &StoredSession) -> Option<&'static str> {
    let last = stored.records.iter().rev().find_map(|record| match &record.event {
        Event::SessionStart(_) => Some(None),
        Event::SessionEnd { status, exit_code, .. } => {
            Some(Some(end_word(*status, *exit_code == Outcome::LIMIT_EXIT_CODE)))
        }
        _ => None,
    });
    last.flatten()
}

/// How a session or an agent ended, in a word.
const fn end_word(status: Status, is_at_limit: bool) -> &'static str {
    match status {
        Status::Completed if is_at_limit => AT_LIMIT,
        status => status.as_str(),
    }
}

/// Returns what a resume goes on with: the session, how it ended, and its first task.
pub(crate) fn resume_words(stored: &StoredSession) -> String {
    let status = last_end(stored).unwrap_or(UNFINISHED);
    let goal = stored.root_spec().map(|spec| spec.goal).unwrap_or_default();
    let goal = for_terminal_line(deputize_acp::serve::words_of(&goal), GOAL_CHARS);
    format!("resuming session {} ({status}): {goal}", stored.header.session)
}

/// Returns the note that a resume without a message asks nothing, where that is so.
pub(crate) fn nothing_asked(stored: &StoredSession) -> Option<String> {
    let is_whole = last_end(stored) == Some(Status::Completed.as_str());
    is_whole.then(|| {
        let session = &stored.header.session;
        let resume = format!("{} --resume {session} MESSAGE", format_command("run"));
        format!("nothing is asked: the session has its answer already; `{resume}` goes on")
    })
}

/// A session as a row of the list.
struct SessionLine {
    status: &'static str,
    /// The task of the top agent, on one line.
    goal: String,
    summary: SessionSummary,
}

impl SessionLine {
    fn of(summary: SessionSummary) -> Self {
        let goal = deputize_acp::serve::words_of(&summary.goal);
        let goal = for_terminal_line(goal, goal.len());
        let ended = summary.ended.map(|status| end_word(status, summary.is_at_limit));
        let status = ended.unwrap_or(UNFINISHED);
        Self { status, goal, summary }
    }

    fn json(&self) -> Value {
        let SessionSummary { session, created, model, cwd, children, cost, ended, .. } =
            &self.summary;
        json!({
            "session": session,
            "created": time(*created),
            "status": ended.map_or(self.status, Status::as_str),
            "at_limit": self.summary.is_at_limit,
            "goal": self.goal,
            "model": model,
            "cwd": cwd.to_string_lossy(),
            "children": children,
            "tokens": cost.tokens,
            "cost_usd": cost.known_usd().map(shown_usd),
        })
    }

    fn row(&self) -> [String; 8] {
        let SessionSummary { session, created, model, cwd, children, cost, .. } = &self.summary;
        [
            session.to_string(),
            local(*created),
            self.status.to_owned(),
            children.to_string(),
            tokens(cost.tokens),
            for_terminal_line(model, model.len()),
            one_line(cwd),
            self.goal.clone(),
        ]
    }
}

/// A directory on one line.
fn one_line(path: &Path) -> String {
    let path = path.to_string_lossy();
    for_terminal_line(&path, path.len())
}

/// A time where the person is.
fn local(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let at = at.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::system());
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

fn list(dir: &SessionDir, as_json: bool) -> Result<(), CliError> {
    let mut glances = Vec::new();
    for id in dir.list().map_err(CliError::failed)? {
        match dir.summary(&id) {
            Ok(summary) => glances.push(SessionLine::of(summary)),
            Err(error) => tell(&format!("warning: {}", CliError::failed(error).chain())),
        }
    }
    mark_running(dir, &mut glances)?;
    glances.sort_by(|a, b| {
        let key = |glance: &SessionLine| (glance.summary.created, glance.summary.session.clone());
        key(b).cmp(&key(a))
    });
    if as_json {
        let all: Vec<Value> = glances.iter().map(SessionLine::json).collect();
        return print(&format!("{:#}\n", json!(all)));
    }
    let rows = glances.iter().map(SessionLine::row).collect();
    let head = ["SESSION", "WHEN", "STATUS", "CHILDREN", "TOKENS", "MODEL", "DIRECTORY", "GOAL"];
    let give_way = ["DIRECTORY", "MODEL", "CHILDREN", "TOKENS", "GOAL"];
    print_list(head, rows, &give_way, NO_SESSIONS)
}

/// Separates sessions that a process works on from those that broke off.
fn mark_running(dir: &SessionDir, glances: &mut [SessionLine]) -> Result<(), CliError> {
    let open: Vec<&mut SessionLine> =
        glances.iter_mut().filter(|glance| glance.status == UNFINISHED).collect();
    if open.is_empty() {
        return Ok(());
    }
    let running = running(dir).map_err(CliError::failed)?;
    for glance in open {
        let id = &glance.summary.session;
        if running.iter().any(|holder| holder.session == *id) {
            glance.status = RUNNING;
            continue;
        }
        // One that has more by now may have ended since it was read.
        let bytes = fs::metadata(dir.file(id)).map(|file| file.len());
        if bytes.is_ok_and(|bytes| bytes != glance.summary.bytes)
            && let Ok(summary) = dir.summary(id)
        {
            *glance = SessionLine::of(summary);
        }
    }
    Ok(())
}

/// Prints a session without the secrets that this environment knows.
fn export(env: &ProcessEnv, stored: &StoredSession, format: ExportFormat) -> Result<(), CliError> {
    let secrets = environment_secrets(env);
    let text = match format {
        ExportFormat::Markdown => markdown::markdown(stored),
        ExportFormat::Jsonl => {
            let mut projection = Projection::default();
            let lines: Result<Vec<String>, _> =
                stored.records.iter().map(|record| projection.line(record)).collect();
            let mut lines = lines.map_err(CliError::failed)?.join("\n");
            lines.push('\n');
            lines
        }
    };
    print(&secrets.scrub(&text))
}

/// Returns the person's words in a message: of the first one the task, without the host's text
/// before it.
fn agent_text<'s>(stored: &'s StoredSession, agent: &AgentId, text: &'s str) -> &'s str {
    let starts = stored.records.iter().filter_map(|record| match &record.event {
        Event::AgentStart(start) if record.depth == 0 && record.agent == *agent => Some(start),
        _ => None,
    });
    let mut specs = starts.map(|start| &start.spec);
    specs.find(|spec| spec.task == text).map_or_else(|| words_of(text), |spec| spec.request())
}

/// Returns the message of another agent's end without the frames that are for models.
fn delivery(stored: &StoredSession, agent: &AgentId, text: &str) -> String {
    // No call is numbered so: the frame is of no tool's result.
    let text = remove_frame(&stored.header.secret, agent, CallId::new(0, 0), text);
    let line = |line: &str| children_unframed(line).unwrap_or_else(|| line.to_owned());
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a result for people, without the frame that marks its source for a model.
fn result_of<'s>(stored: &StoredSession, agent: &AgentId, result: &'s ToolResult) -> Cow<'s, str> {
    remove_frame(&stored.header.secret, agent, result.call, result.text.as_str())
}

/// How an agent ended, in a word; `open` where it has not.
fn status_of(outcome: Option<&Outcome>, open: &'static str) -> &'static str {
    let word = |outcome: &Outcome| {
        end_word(outcome.status, outcome.exit_code() == Outcome::LIMIT_EXIT_CODE)
    };
    outcome.map_or(open, word)
}

const fn mark(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        None => "●",
        Some(Outcome { status: Status::Completed, .. }) => "✓",
        Some(Outcome { status: Status::Interrupted, .. }) => "■",
        Some(_) => "✗",
    }
}

#[cfg(test)]
mod tests;
