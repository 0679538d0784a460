//! A session on the screen: its agents, and the conversation of one of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_core::{AgentId, Catalog, Event, Message, Outcome, ToolKind, ToolResult};
use deputize_runtime::{SpokenText, StoredSession, describe_call};

use super::durable_commands::{kill_command, listed, running_commands};
use super::result_words::{delivery_words, result_words};
use super::{RUNNING, UNFINISHED, delivery, has_ended, local, mark, result_of, status_of};
use crate::agent_name::{AgentName, short};
use crate::control::agent_table::stored_snapshot;
use crate::control::lock_holders::SessionHolder;
use crate::exit::CliError;
use crate::invocation::format_resume;
use crate::screen::agent_text::FORK;
use crate::screen::changes::unseen_words;
use crate::screen::summary::{compaction_words, dollars, seconds, tokens};
use crate::stdio::{output_columns, print, wrap_lines};

/// Limit on a goal in the tree, in characters.
const GOAL_CHARS: usize = 100;
/// Prefix of each line of a result.
const RESULT: &str = "  | ";
/// Lines of one tool result that are shown; what more there is is counted.
const RESULT_LINES: usize = 40;

#[derive(Debug, thiserror::Error)]
#[error("there is no agent `{agent}` in this session")]
struct NoAgent {
    agent: String,
}

/// An agent of a session.
struct ShownAgent<'s> {
    id: &'s AgentId,
    depth: u32,
    spec: &'s AgentSpec,
    outcome: Option<&'s Outcome>,
}

/// Prints the tree and one agent's conversation.
pub(super) fn show(
    stored: &StoredSession,
    tools: &Catalog,
    holder: Option<&SessionHolder>,
    wanted: Option<&str>,
) -> Result<(), CliError> {
    print(&fold_text(&shown(stored, tools, holder, wanted)?, output_columns()))
}

/// Lines in rows of at most so many columns, wrapped at words; each row of a result is marked.
fn fold_text(text: &str, columns: usize) -> String {
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
    tools: &Catalog,
    holder: Option<&SessionHolder>,
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
    out.push_str(&conversation(stored, tools, chosen, open));
    if wanted.is_none() {
        if !has_ended(stored) {
            out.push_str(&outlook(stored, holder));
        }
        let commands = running_commands(stored);
        if !commands.is_empty() {
            let (what, end) = (listed(&commands), kill_command(&commands));
            out.push_str(&format!("\nstill running: {what}; end with `{end}`\n"));
        }
    }
    Ok(out)
}

/// Returns what a person can do with a session that has not ended.
fn outlook(stored: &StoredSession, holder: Option<&SessionHolder>) -> String {
    let session = &stored.header.session;
    match holder {
        None if stored.damage.is_some() => {
            "\nunfinished, and damaged: it can be shown and exported, not resumed\n".to_owned()
        }
        None => {
            let config = stored.last_start().and_then(|start| start.config_file.as_deref());
            format!("\nunfinished: continue with `{}`\n", format_resume(session, config))
        }
        Some(holder) => {
            let process = holder.pid.map(|pid| format!(" in process {pid}")).unwrap_or_default();
            format!("\nrunning{process}: `deputize agents {session}` shows what its agents do\n")
        }
    }
}

/// Returns the head of a session: model, directory, when, tokens, and dollars where prices are
/// known.
fn head(stored: &StoredSession) -> String {
    let Some(start) = stored.last_start() else { return String::new() };
    let snapshot = stored_snapshot(stored);
    let cost = snapshot.totals().cost;
    let top = snapshot.top();
    let model = top.map_or(start.model.as_str(), |top| &top.model);
    let served = if model == start.model {
        for_terminal_line(model, GOAL_CHARS)
    } else {
        let asked_for = for_terminal_line(&start.model, GOAL_CHARS);
        format!("{} ({asked_for} was asked for)", for_terminal_line(model, GOAL_CHARS))
    };
    let cwd = start.cwd.to_string_lossy();
    // A model that works by rule uses no tokens.
    let spent = Some(cost.tokens).filter(|count| *count > 0);
    let spent = spent.map(|count| format!("{} tok", tokens(count)));
    let figures = [Some(local(stored.header.created)), spent, dollars(cost.known_usd())];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    let spec = stored.root_spec();
    let profile = spec.and_then(|spec| profile_line(&spec)).unwrap_or_default();
    format!("{served} in {}\n{}\n{profile}\n", for_terminal(&cwd), figures.join(" · "))
}

/// The agents in the order of the tree: each before its children, children as they started.
fn agents(stored: &StoredSession) -> Vec<ShownAgent<'_>> {
    let mut started: Vec<ShownAgent<'_>> = Vec::new();
    let mut outcomes: BTreeMap<&AgentId, &Outcome> = BTreeMap::new();
    for record in &stored.records {
        match &record.event {
            Event::AgentStart(start) => {
                let id = &record.agent;
                let depth = record.depth;
                let spec = &start.spec;
                started.push(ShownAgent { id, depth, spec, outcome: None });
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

fn row(agent: &ShownAgent<'_>) -> String {
    let indent = "  ".repeat(agent.depth as usize);
    let time = agent.outcome.map(|outcome| format!(" ({})", seconds(outcome.duration_ms)));
    let error = agent.outcome.and_then(|outcome| outcome.error.as_deref());
    let error = error.map(|error| format!("{indent}  {}\n", for_terminal_line(error, error.len())));
    format!(
        "{indent}{} {}  {}{}{}\n{}",
        mark(agent.outcome),
        short(agent.id),
        if agent.spec.is_fork { FORK } else { "" },
        for_terminal_line(&agent.spec.goal, GOAL_CHARS),
        time.unwrap_or_default(),
        error.unwrap_or_default()
    )
}

fn conversation(
    stored: &StoredSession,
    tools: &Catalog,
    agent: &ShownAgent<'_>,
    open: &'static str,
) -> String {
    let mut out = format!("=== {} ({})\n", agent.id, status_of(agent.outcome, open));
    if agent.spec.parent.is_some() {
        out.push_str(&describe_child(agent.spec));
    }
    let mut said = stored.spoken_texts(agent.id).unwrap_or_default().into_iter().peekable();
    while let Some(one) = said.next() {
        let message = match one {
            SpokenText::Message(message) => message,
            other => {
                out.push_str(&describe_other(&other));
                continue;
            }
        };
        match &*message {
            Message::User(user) => {
                let text = match &user.from {
                    Some(_) => delivery_words(&delivery(stored, agent.id, &user.text)).into(),
                    None => Cow::Borrowed(super::agent_text(stored, agent.id, &user.text)),
                };
                out.push_str(&format!("\n> {}\n", for_terminal(&text)));
            }
            Message::Assistant(reply) => {
                if !reply.text.trim().is_empty() {
                    out.push_str(&format!("\n{}\n", for_terminal(&reply.text)));
                }
                let mut results = Vec::new();
                while let Some(SpokenText::Message(next)) = said.next_if(is_result) {
                    results.push(next);
                }
                for call in &reply.calls {
                    out.push_str(&format!(
                        "\n* {}\n",
                        describe_call(tools, &call.name, &call.arguments)
                    ));
                    let is_of_call = |message: &&Arc<Message>| matches!(&***message, Message::Tool(result) if result.call == call.id);
                    if let Some(Message::Tool(result)) =
                        results.iter().find(is_of_call).map(|it| &**it)
                    {
                        let is_about_agents = is_about_agents(tools, &call.name);
                        out.push_str(&result_text(stored, agent.id, is_about_agents, result));
                    }
                }
            }
            Message::Tool(result) => {
                out.push_str(&result_text(stored, agent.id, true, result));
            }
        }
    }
    if let Some(error) = agent.outcome.and_then(|outcome| outcome.error.as_deref()) {
        out.push_str(&format!("\nerror: {}\n", for_terminal(error)));
    }
    if let Some(claim) = agent.outcome.and_then(unseen_claim) {
        out.push_str(&format!("\nwarning: it {claim}\n"));
    }
    out
}

/// Returns what stands for a text that is no message.
fn describe_other(text: &SpokenText) -> String {
    match text {
        SpokenText::Message(_) => String::new(),
        SpokenText::Compaction(compaction) => format!("\n({})\n", compaction_words(compaction)),
        SpokenText::External(text) => format!("\n{}\n", for_terminal(text)),
        SpokenText::Cut(text) => format!("\n{}\n(cut off here)\n", for_terminal(text)),
    }
}

/// Returns what is said of files that an agent names and that do not exist, if there are any.
fn unseen_claim(outcome: &Outcome) -> Option<String> {
    unseen_words(&outcome.inspection.as_ref()?.unseen_writes)
}

fn is_result(said: &SpokenText) -> bool {
    matches!(said, SpokenText::Message(message) if matches!(&**message, Message::Tool(_)))
}

/// Whether the results of a tool are about agents.
fn is_about_agents(tools: &Catalog, tool: &str) -> bool {
    tools.spec(tool).is_some_and(|spec| spec.kind == ToolKind::Delegate)
}

/// The lines of a result, as far as they are shown.
fn result_text(
    stored: &StoredSession,
    agent: &AgentId,
    is_about_agents: bool,
    result: &ToolResult,
) -> String {
    let text = for_terminal(&result_words(is_about_agents, &result_of(stored, agent, result)));
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.iter().take(RESULT_LINES).map(|line| format!("{RESULT}{line}\n"));
    let mut out: String = shown.collect();
    let rest = lines.len().saturating_sub(RESULT_LINES);
    if rest > 0 {
        out.push_str(&format!("{RESULT}({rest} more lines)\n"));
    }
    out
}

/// Returns the line about an agent's profile, if it has one.
fn profile_line(spec: &AgentSpec) -> Option<String> {
    let profile = spec.profile.as_ref()?;
    Some(format!("profile: {}\n", for_terminal_line(profile, GOAL_CHARS)))
}

/// Returns the child's settings besides its task.
fn describe_child(spec: &AgentSpec) -> String {
    let sets: Vec<&str> = spec.toolsets.iter().map(|set| set.as_str()).collect();
    let sets = if sets.is_empty() { "none".to_owned() } else { sets.join(", ") };
    let mut out = format!(
        "role: {}\nmodel: {}\ntoolsets: {sets}\ndirectory: {}\n",
        spec.role.as_str(),
        for_terminal_line(&spec.model, GOAL_CHARS),
        for_terminal(&spec.cwd.to_string_lossy()),
    );
    out.extend(profile_line(spec));
    if spec.is_fork {
        out.push_str("history: fork (its conversation begins with that of its parent)\n");
    }
    let indented = |text: &str| {
        let lines =
            for_terminal(text).lines().map(|line| format!("  {line}\n")).collect::<String>();
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
