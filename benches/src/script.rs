//! What the model server is to do, said in the task itself, so that one server serves all.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

/// Before the words of a [`Script`], in a task or a goal.
const MARK: &str = "bench: ";

/// The part of an agent: `bench: reads 20 latency 0 held 0 children 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Script {
    /// Which child it is, counted from 1; 0 is the top agent.
    pub(crate) child: u64,
    /// How many children the top agent has.
    pub(crate) children: u64,
    /// How many files an agent reads, one a step; of the children when there are any.
    pub(crate) reads: u64,
    /// Milliseconds before each answer.
    pub(crate) latency: u64,
    /// The request whose answer is held back until the server is asked, counted from 1; of the
    /// children when there are any. 0: none.
    pub(crate) held: u64,
}

impl Script {
    /// The task of the top agent.
    pub(crate) fn task(&self) -> String {
        let Self { children, reads, latency, held, .. } = self;
        format!("{MARK}children {children} reads {reads} latency {latency} held {held}")
    }

    /// The goal of a child, by its number from 0 as text.
    pub(crate) fn goal(&self, number: &str) -> String {
        let Self { reads, latency, held, .. } = self;
        format!("{MARK}reads {reads} latency {latency} held {held} child {number}")
    }

    /// Reads the first script in a text.
    pub(crate) fn find(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once(MARK)?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != ' ');
        let (said, _) = rest.split_at(end.unwrap_or(rest.len()));
        let mut words = said.split(' ');
        let mut script = Self::default();
        while let (Some(word), Some(Ok(number))) =
            (words.next(), words.next().map(str::parse::<u64>))
        {
            match word {
                "child" => script.child = number + 1,
                "children" => script.children = number,
                "reads" => script.reads = number,
                "latency" => script.latency = number,
                "held" => script.held = number,
                _ => break,
            }
        }
        Some(script)
    }

    /// What an agent of this script answers in a step, counted from 0.
    pub(crate) fn reply(&self, step: u64) -> String {
        if self.children > 0 && step == 0 {
            let goal = |number: u64| json!({ "goal": self.goal(&number.to_string()) });
            let tasks: Vec<Value> = (0..self.children).map(goal).collect();
            return call("delegate_task", &json!({ "tasks": tasks }).to_string());
        }
        if self.children > 0 || step >= self.reads {
            return stream(&[json!({"content": "All is "}), json!({"content": "done."})], "stop");
        }
        let name = match self.child {
            0 => "root".to_owned(),
            number => (number - 1).to_string(),
        };
        call("read_file", &json!({ "path": format!("{name}-{step}.txt") }).to_string())
    }

    /// Whether the answer of a step, counted from 0, is held back.
    pub(crate) const fn holds(&self, step: u64) -> bool {
        self.children == 0 && self.held == step + 1
    }
}

/// Which step of its agent a request is, counted from 0; nothing when it is none.
pub(crate) fn step(body: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Body<'b> {
        #[serde(borrow)]
        messages: Vec<Message<'b>>,
    }
    #[derive(Deserialize)]
    struct Message<'b> {
        role: &'b str,
    }
    let body: Body<'_> = serde_json::from_str(body).ok()?;
    Some(body.messages.iter().filter(|message| message.role == "assistant").count() as u64)
}

/// Bytes of one piece of arguments. Real servers send smaller ones; what a reply's pieces cost
/// is measured by itself.
const PIECE: usize = 64;

fn call(tool: &str, arguments: &str) -> String {
    let head = json!({"name": tool, "arguments": ""});
    let head = json!({"index": 0, "id": "call_0", "type": "function", "function": head});
    let mut deltas = vec![json!({"role": "assistant", "content": null, "tool_calls": [head]})];
    // All of it is ASCII.
    deltas.extend(arguments.as_bytes().chunks(PIECE).map(|piece| {
        let piece = String::from_utf8_lossy(piece);
        json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    }));
    stream(&deltas, "tool_calls")
}

fn stream(deltas: &[Value], reason: &str) -> String {
    let mut body = String::new();
    let mut event = |choices: &str, more: &str| {
        // Writing into a string does not fail.
        let _never = write!(
            body,
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":0,\
             \"model\":\"bench\",\"choices\":[{choices}]{more}}}\n\n"
        );
    };
    for delta in deltas {
        event(&format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#), "");
    }
    event(&format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}"#), "");
    let usage = r#"{"prompt_tokens":1000,"completion_tokens":20,"total_tokens":1020}"#;
    event("", &format!(r#","usage":{usage}"#));
    body.push_str("data: [DONE]\n\n");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_comes_back_from_a_request() {
        let script = Script { children: 5, reads: 2, latency: 50, held: 1, ..Script::default() };
        let body = json!({"messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": format!("{}\n\nand more", script.task())},
        ]});
        assert_eq!(Script::find(&body.to_string()), Some(script));
        assert_eq!(step(&body.to_string()), Some(0));
        assert!(script.reply(0).contains("bench: reads 2 latency 50 held 1"));
        assert!(!script.holds(0));

        let child = Script::find(&script.goal("3")).unwrap();
        assert_eq!((child.child, child.children, child.reads), (4, 0, 2));
        assert!(child.reply(1).contains("3-1.txt") && child.reply(2).contains("done"));
        assert!(child.holds(0) && !child.holds(1));
        assert_eq!(Script::find("no mark"), None);
    }
}
