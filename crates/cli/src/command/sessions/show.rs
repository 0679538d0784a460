//! A session on the screen: its agents, and the conversation of one of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::door::{to_line, to_screen};
use deputize_core::{AgentId, AgentSpec, Event, Message, Outcome, ToolResult};
use deputize_runtime::{Said, StoredSession};
use serde_json::Value;

use super::{RUNNING, UNFINISHED, has_ended, local, mark, result_of, status_of, told_of};
use crate::agent_name::{AgentName, short};
use crate::control::running::Holder;
use crate::control::view::Family;
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::output::child_frames::without_child_frames;
use crate::screen::call::of_call;
use crate::screen::summary::{dollars, seconds, tokens, unseen};
use crate::surroundings::{output_columns, print, wrap_lines};

/// The most characters of a goal in the tree.
const GOAL_CHARS: usize = 100;
/// What stands before each line of a result.
const RESULT: &str = "  | ";
/// Lines of one tool result that are shown; what more there is is counted.
const RESULT_LINES: usize = 40;
/// The most characters of what came of a child.
const SAID_CHARS: usize = 200;

#[derive(Debug, thiserror::Error)]
#[error("there is no agent `{agent}` in this session")]
struct NoAgent {
    agent: String,
}

/// An agent of a session.
struct Agent<'s> {
    id: &'s AgentId,
    depth: u32,
    spec: &'s AgentSpec,
    outcome: Option<&'s Outcome>,
}

/// Prints the tree and one agent's conversation.
pub(super) fn show(
    stored: &StoredSession,
    holder: Option<&Holder>,
    wanted: Option<&str>,
) -> Result<(), CliError> {
    print(&folded(&shown(stored, holder, wanted)?, output_columns()))
}

/// Lines in rows of at most so many columns, wrapped at words; each row of a result is marked.
fn folded(text: &str, columns: usize) -> String {
    let line = |line: &str| match line.strip_prefix(RESULT) {
        Some(line) => {
            let rows = wrap_lines(line, columns.saturating_sub(RESULT.len()));
            let rows = if rows.is_empty() { "\n".to_owned() } else { rows };
            rows.lines().map(|row| format!("{RESULT}{row}\n")).collect()
        }
        None if line.is_empty() => "\n".to_owned(),
        None => wrap_lines(line, columns),
    };
    text.lines().map(line).collect::<String>()
}

/// The tree and the top agent's conversation, or the conversation of the agent that is wanted.
pub(super) fn shown(
    stored: &StoredSession,
    holder: Option<&Holder>,
    wanted: Option<&str>,
) -> Result<String, CliError> {
    let agents = agents(stored);
    let chosen = match wanted {
        // It ended, or broke, before anything of an agent was kept.
        None if agents.is_empty() => return Ok("no agent is on record\n".to_owned()),
        None => agents.first(),
        Some(name) => {
            let named = AgentName::read(name).ok();
            let id = named.and_then(|named| named.within(&stored.header.session));
            agents.iter().find(|agent| id.as_deref() == Some(agent.id.as_str()))
        }
    };
    let Some(chosen) = chosen else {
        let agent = wanted.unwrap_or_default().to_owned();
        return Err(
            CliError::usage(NoAgent { agent }).hint("`deputize sessions show SESSION` lists them")
        );
    };
    let mut out = String::new();
    if wanted.is_none() {
        out.push_str(&head(stored));
        agents.iter().for_each(|agent| out.push_str(&row(agent)));
        out.push('\n');
    }
    let open = if holder.is_some() { RUNNING } else { UNFINISHED };
    out.push_str(&conversation(stored, chosen, open));
    if wanted.is_none() && !has_ended(stored) {
        out.push_str(&outlook(stored, holder));
    }
    Ok(out)
}

/// What a person can do with a session that has not ended.
fn outlook(stored: &StoredSession, holder: Option<&Holder>) -> String {
    let session = &stored.header.session;
    match holder {
        None => {
            format!("\nunfinished: go on with `{} --resume {session}`\n", format_command("run"))
        }
        Some(holder) => {
            let process = holder.pid.map(|pid| format!(" in process {pid}")).unwrap_or_default();
            format!("\nrunning{process}: `deputize agents {session}` shows what its agents do\n")
        }
    }
}

/// What the whole session was: model, directory, when, tokens, and dollars where prices are known.
fn head(stored: &StoredSession) -> String {
    let Some(start) = stored.last_start() else { return String::new() };
    let family = Family::of(&stored.records);
    let (cost, model) = (family.cost(), family.model().unwrap_or(&start.model));
    let served = if model == start.model {
        to_line(model, GOAL_CHARS)
    } else {
        let asked_for = to_line(&start.model, GOAL_CHARS);
        format!("{} ({asked_for} was asked for)", to_line(model, GOAL_CHARS))
    };
    let cwd = start.cwd.to_string_lossy();
    let spent = format!("{} tok", tokens(cost.tokens));
    let spent = match dollars(cost.known_usd()) {
        Some(usd) => format!("{spent} · {usd}"),
        None => spent,
    };
    let when = local(stored.header.created);
    format!("{served} in {}\n{when} · {spent}\n\n", to_screen(&cwd))
}

/// The agents in the order of the tree: each before its children, children as they started.
fn agents(stored: &StoredSession) -> Vec<Agent<'_>> {
    let mut started: Vec<Agent<'_>> = Vec::new();
    let mut outcomes: BTreeMap<&AgentId, &Outcome> = BTreeMap::new();
    for record in &stored.records {
        match &record.event {
            Event::AgentStart(start) => {
                let (id, depth, spec) = (&record.agent, record.depth, &start.spec);
                started.push(Agent { id, depth, spec, outcome: None });
            }
            Event::AgentEnd(outcome) => {
                outcomes.insert(&record.agent, outcome);
            }
            Event::AgentResume { .. } => {
                outcomes.remove(&record.agent);
            }
            _ => {}
        }
    }
    for agent in &mut started {
        agent.outcome = outcomes.get(agent.id).copied();
    }
    started.sort_by_cached_key(|agent| place(agent.id));
    started
}

/// Where an agent stands in the tree: the numbers of its id.
fn place(id: &AgentId) -> Vec<u32> {
    id.as_str().split(['/', '.']).skip(1).map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}

fn row(agent: &Agent<'_>) -> String {
    let indent = "  ".repeat(agent.depth as usize);
    let time = agent.outcome.map(|outcome| format!(" ({})", seconds(outcome.duration_ms)));
    let error = agent.outcome.and_then(|outcome| outcome.error.as_deref());
    let error = error.map(|error| format!("{indent}  {}\n", to_line(error, error.len())));
    format!(
        "{indent}{} {}  {}{}\n{}",
        mark(agent.outcome),
        short(agent.id),
        to_line(&agent.spec.goal, GOAL_CHARS),
        time.unwrap_or_default(),
        error.unwrap_or_default()
    )
}

fn conversation(stored: &StoredSession, agent: &Agent<'_>, open: &'static str) -> String {
    let mut out = format!("=== {} ({})\n", agent.id, status_of(agent.outcome, open));
    if agent.spec.parent.is_some() {
        out.push_str(&told(agent.spec));
    }
    let mut said = stored.said(agent.id).unwrap_or_default().into_iter().peekable();
    while let Some(one) = said.next() {
        let message = match one {
            Said::Message(message) => message,
            Said::Cut(text) => {
                out.push_str(&format!("\n{}\n(cut off here)\n", to_screen(&text)));
                continue;
            }
        };
        match &*message {
            Message::User(user) => {
                let text = match &user.from {
                    Some(_) => told_of(stored, agent.id, &user.text).into(),
                    None => Cow::Borrowed(super::said(stored, agent.id, &user.text)),
                };
                out.push_str(&format!("\n> {}\n", to_screen(&text)));
            }
            Message::Assistant(reply) => {
                if !reply.text.trim().is_empty() {
                    out.push_str(&format!("\n{}\n", to_screen(&reply.text)));
                }
                let mut results = Vec::new();
                while let Some(Said::Message(next)) = said.next_if(is_result) {
                    results.push(next);
                }
                for call in &reply.calls {
                    out.push_str(&format!("\n* {}\n", of_call(&call.name, &call.arguments)));
                    let of_call = |message: &&Arc<Message>| matches!(&***message, Message::Tool(result) if result.call == call.id);
                    if let Some(Message::Tool(result)) =
                        results.iter().find(of_call).map(|it| &**it)
                    {
                        out.push_str(&returned(stored, agent.id, result));
                    }
                }
            }
            Message::Tool(result) => out.push_str(&returned(stored, agent.id, result)),
        }
    }
    if let Some(error) = agent.outcome.and_then(|outcome| outcome.error.as_deref()) {
        out.push_str(&format!("\nerror: {}\n", to_screen(error)));
    }
    if let Some(claim) = agent.outcome.and_then(unseen) {
        out.push_str(&format!("\nwarning: it {claim}\n"));
    }
    out
}

fn is_result(said: &Said) -> bool {
    matches!(said, Said::Message(message) if matches!(&**message, Message::Tool(_)))
}

/// The lines of a result, as far as they are shown.
fn returned(stored: &StoredSession, agent: &AgentId, result: &ToolResult) -> String {
    let content = result_of(stored, agent, result);
    let entries = handed_on(&content);
    let text = to_screen(entries.as_deref().unwrap_or(&content));
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.iter().take(RESULT_LINES).map(|line| format!("{RESULT}{line}\n"));
    let mut out: String = shown.collect();
    let rest = lines.len().saturating_sub(RESULT_LINES);
    if rest > 0 {
        out.push_str(&format!("{RESULT}({rest} more lines)\n"));
    }
    out
}

/// What a child was told beside its task.
fn told(spec: &AgentSpec) -> String {
    let sets: Vec<&str> = spec.toolsets.iter().map(|set| set.as_str()).collect();
    let sets = if sets.is_empty() { "none".to_owned() } else { sets.join(", ") };
    let mut out = format!(
        "role: {}\nmodel: {}\ntoolsets: {sets}\ndirectory: {}\n",
        spec.role.as_str(),
        to_line(&spec.model, GOAL_CHARS),
        to_screen(&spec.cwd.to_string_lossy()),
    );
    let indented = |text: &str| {
        let lines = to_screen(text).lines().map(|line| format!("  {line}\n")).collect::<String>();
        format!("\n{lines}")
    };
    if let Some(context) = &spec.context {
        out.push_str(&format!("context:{}", indented(context)));
    }
    if let Some(schema) = &spec.output_schema {
        out.push_str(&format!("output_schema:{}", indented(&format!("{schema:#}"))));
    }
    out
}

/// What came of the children of one call, a line or two for each, where a result tells of children:
/// the whole of it is one line of JSON.
fn handed_on(result: &str) -> Option<String> {
    let begin = result.find('{')?;
    // What stands before is at most why the call ended early, and the line that opens its frame.
    let before = result.get(..begin)?;
    let lead = before.lines().next().filter(|line| line.starts_with("error: "));
    if before.lines().count() > 1 + usize::from(lead.is_some()) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(result.get(begin..)?).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let mut lines: Vec<String> = lead.into_iter().map(str::to_owned).collect();
    if let Some(results) = list("results") {
        for (index, entry) in results.iter().enumerate() {
            let status = text(entry, "status")?;
            let agent = text(entry, "agent").map(|id| format!(" {}", below(&id)));
            lines.push(format!("{index}{}: {status}", agent.unwrap_or_default()));
            let said = text(entry, "summary")
                .map(|said| to_line(&without_child_frames(&said), SAID_CHARS));
            let error =
                text(entry, "error").map(|why| format!("error: {}", to_line(&why, SAID_CHARS)));
            lines.extend(said.into_iter().chain(error).map(|line| format!("  {line}")));
        }
    } else {
        lines.push(text(&value, "error")?);
        for error in list("errors")? {
            let (code, remedy) = (text(error, "code")?, text(error, "remedy")?);
            let field = text(error, "field").unwrap_or_default();
            let of = error.get("task_index").and_then(Value::as_u64);
            let place = match (of, field.as_str()) {
                (Some(index), field) => format!(" task {index} {field}"),
                (None, "") => String::new(),
                (None, field) => format!(" {field}"),
            };
            lines.push(format!("{code}{place}: {}", to_line(&remedy, SAID_CHARS)));
        }
    }
    let warnings = list("warnings").into_iter().flatten().filter_map(Value::as_str);
    lines.extend(warnings.map(|warning| format!("warning: {}", to_line(warning, SAID_CHARS))));
    // Notes stand behind the frame, or behind what has none.
    let rest = result.get(begin + values.byte_offset()..)?.lines();
    let notes = rest.filter(|line| !line.is_empty() && !line.starts_with("</"));
    lines.extend(notes.map(str::to_owned));
    Some(lines.join("\n"))
}

/// An agent as the tree calls it.
fn below(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, path)| path)
}
