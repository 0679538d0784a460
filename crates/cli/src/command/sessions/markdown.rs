//! A session as Markdown, for people to read: whole conversations, of which a snapshot keeps nothing.

use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_core::{AgentId, Event, Message};
use deputize_runtime::{SpokenText, StoredSession};

use super::{agent_text, delivery, local, result_of};
use crate::output::child_frames::children_unframed;
use crate::screen::summary::compaction_words;

/// Limit on a heading, in characters.
const HEADING_CHARS: usize = 100;

/// All agents of a session, each with its conversation.
pub(super) fn markdown(stored: &StoredSession) -> String {
    let session = &stored.header.session;
    let created = local(stored.header.created);
    let mut out = format!("# Session {session}\n\n{created}\n");
    for record in &stored.records {
        let Event::AgentStart(start) = &record.event else { continue };
        let goal = for_terminal_line(&start.spec.goal, HEADING_CHARS);
        out.push_str(&format!("\n## {} `{}`\n\n{goal}\n", record.agent, start.spec.model));
        for one in stored.spoken_texts(&record.agent).unwrap_or_default() {
            out.push_str(&match one {
                SpokenText::Message(message) => section(stored, &record.agent, &message),
                SpokenText::Compaction(compaction) => format!(
                    "\n### Summary\n\n{}\n\n{}\n",
                    compaction_words(&compaction),
                    for_terminal(&compaction.text)
                ),
                SpokenText::External(text) => format!("\n### Agent\n\n{}\n", for_terminal(&text)),
                SpokenText::Cut(text) => {
                    format!("\n### Agent (cut off)\n\n{}\n", for_terminal(&text))
                }
            });
        }
    }
    out
}

fn section(stored: &StoredSession, agent: &AgentId, message: &Message) -> String {
    match message {
        Message::User(user) => match &user.from {
            Some(from) => {
                let text = delivery(stored, agent, &user.text);
                format!("\n### Agent `{from}`\n\n{}\n", for_terminal(&text))
            }
            None => {
                format!("\n### User\n\n{}\n", for_terminal(agent_text(stored, agent, &user.text)))
            }
        },
        Message::Assistant(said) => {
            let mut out = format!("\n### Agent\n\n{}\n", for_terminal(&said.text));
            for call in &said.calls {
                let text = format!("{} {}", call.name, call.arguments);
                out.push_str(&format!("\nCall `{}`:\n\n{}", call.id, fence(&text)));
            }
            out
        }
        Message::Tool(result) => {
            let status = result.status.as_str();
            let content = result_of(stored, agent, result);
            let text = children_unframed(&content).unwrap_or_else(|| content.into_owned());
            format!("\nResult of `{}` ({status}):\n\n{}", result.call, fence(&text))
        }
    }
}

/// A block that its content cannot end: its fence is longer than any in the content.
fn fence(text: &str) -> String {
    let text = for_terminal(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_cannot_end_its_block() {
        assert_eq!(fence("a\n````\n# x\n"), "`````text\na\n````\n# x\n`````\n");
        assert_eq!(fence(""), "```text\n\n```\n");
    }
}
