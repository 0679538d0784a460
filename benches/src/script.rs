//! What the model server is to do, said in the task itself, so that one server serves all.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Before the words of a [`Script`], in a task or a goal.
const MARK: &str = "bench: ";
/// The folder that is searched, in the working directory.
pub(crate) const TREE: &str = "tree";
/// What is searched for.
pub(crate) const NEEDLE: &str = "needle in a haystack";
/// The path of a page that is fetched, without its number of bytes.
pub(crate) const PAGE: &str = "/page/";
/// What it begins with.
pub(crate) const PAGE_TEXT: &str = "This is where the page begins.";

/// The part of an agent, such as `bench: children 0 reads 20 searches 0 page 0 bytes 0 latency 0 held 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Script {
    /// Which child it is, counted from 1; 0 is the top agent.
    pub(crate) child: u64,
    /// How many children the top agent has.
    pub(crate) children: u64,
    /// How many files an agent reads, one a step; of the children when there are any.
    pub(crate) reads: u64,
    /// How often the top agent searches the tree, before it reads.
    pub(crate) searches: u64,
    /// The port of this machine from which the top agent fetches a page, before it reads; 0: none.
    pub(crate) page: u64,
    /// Bytes of that page.
    pub(crate) bytes: u64,
    /// Milliseconds before each answer.
    pub(crate) latency: u64,
    /// The request whose answer is held back until the server is asked, counted from 1; of the
    /// children when there are any. 0: none.
    pub(crate) held: u64,
}

impl Script {
    /// The task of the top agent.
    pub(crate) fn task(&self) -> String {
        let Self { children, reads, searches, page, bytes, latency, held, .. } = self;
        format!(
            "{MARK}children {children} reads {reads} searches {searches} page {page} bytes {bytes} \
             latency {latency} held {held}"
        )
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
                "searches" => script.searches = number,
                "page" => script.page = number,
                "bytes" => script.bytes = number,
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
        if self.children > 0 || step >= self.calls() {
            return answer();
        }
        let Some(step) = step.checked_sub(self.searches) else {
            return call("search_files", &json!({"pattern": NEEDLE, "path": TREE}).to_string());
        };
        let Some(step) = step.checked_sub(u64::from(self.page > 0)) else {
            let url = format!("http://127.0.0.1:{}{PAGE}{}", self.page, self.bytes);
            return call("web_fetch", &json!({ "url": url }).to_string());
        };
        let name = match self.child {
            0 => "root".to_owned(),
            number => (number - 1).to_string(),
        };
        call("read_file", &format!(r#"{{"path":"{name}-{step}.txt"}}"#))
    }

    /// Calls of an agent without children, one a step.
    pub(crate) fn calls(&self) -> u64 {
        self.reads + self.searches + u64::from(self.page > 0)
    }

    /// Whether the answer of a step, counted from 0, is held back.
    pub(crate) const fn holds(&self, step: u64) -> bool {
        self.children == 0 && self.held == step + 1
    }
}

/// Bytes of one piece of arguments. Real servers send smaller ones; what a reply's pieces cost
/// is measured by itself.
const PIECE: usize = 64;

fn call(tool: &str, arguments: &str) -> String {
    let mut reply = StreamText::new();
    reply.delta(&format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"index":0,"id":"call_0","type":"function","function":{{"name":"{tool}","arguments":""}}}}]}}"#
    ));
    // All of it is ASCII.
    for piece in arguments.as_bytes().chunks(PIECE) {
        let piece = Value::from(String::from_utf8_lossy(piece));
        let function = format!(r#"{{"index":0,"function":{{"arguments":{piece}}}}}"#);
        reply.delta(&format!(r#"{{"tool_calls":[{function}]}}"#));
    }
    reply.end("tool_calls")
}

fn answer() -> String {
    let mut reply = StreamText::new();
    reply.delta(r#"{"content":"All is "}"#);
    reply.delta(r#"{"content":"done."}"#);
    reply.end("stop")
}

/// The events of a reply, written as text: a tree of values for each would be most of the server's
/// work.
struct StreamText(String);

impl StreamText {
    const fn new() -> Self {
        Self(String::new())
    }

    fn delta(&mut self, delta: &str) {
        self.event(&format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#), "");
    }

    fn event(&mut self, choices: &str, more: &str) {
        // Writing into a string does not fail.
        let _never = write!(
            self.0,
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":0,\
             \"model\":\"bench\",\"choices\":[{choices}]{more}}}\n\n"
        );
    }

    fn end(mut self, reason: &str) -> String {
        self.event(&format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}"#), "");
        let usage = r#"{"prompt_tokens":1000,"completion_tokens":20,"total_tokens":1020}"#;
        self.event("", &format!(r#","usage":{usage}"#));
        self.0.push_str("data: [DONE]\n\n");
        self.0
    }
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
        assert!(script.reply(0).contains("bench: reads 2 latency 50 held 1"));
        assert!(!script.holds(0));

        let child = Script::find(&script.goal("3")).unwrap();
        assert_eq!((child.child, child.children, child.reads), (4, 0, 2));
        assert!(child.reply(1).contains("3-1.txt") && child.reply(2).contains("done"));
        assert!(child.holds(0) && !child.holds(1));
        assert_eq!(Script::find("no mark"), None);

        let tools = Script { searches: 1, page: 80, bytes: 9, reads: 1, ..Script::default() };
        assert_eq!(Script::find(&tools.task()), Some(tools));
        let words = ["search_files", "127.0.0.1:80/page/9", "root-0.txt", "done."];
        for (step, word) in (0..).zip(words) {
            assert!(tools.reply(step).contains(word), "{step}: {}", tools.reply(step));
        }
    }
}
