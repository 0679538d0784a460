//! An editor that says over ACP just what a test wants, and hears everything.

use std::process::Stdio;

use deputize_testkit::MockServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::program::{Lab, soon};

pub(super) struct Editor {
    pub(super) child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    errors: JoinSet<String>,
    next: u64,
    /// The option that each question is answered with; `None` leaves it unanswered.
    pub(super) permits: Option<&'static str>,
    /// What was asked.
    pub(super) questions: Vec<Value>,
    /// Of each of them, whether its call was announced before.
    pub(super) known_at_question: Vec<bool>,
    /// The updates, each with its session.
    pub(super) updates: Vec<(String, Value)>,
    /// Answers that came while another one was waited for.
    early: Vec<Value>,
}

/// `deputize acp` against a model server.
pub(super) fn command(lab: &Lab, server: &MockServer, more: &[&str]) -> Command {
    let mut args = vec!["acp", "-m", "openai/mock", "--base-url"];
    let url = server.base_url();
    args.push(&url);
    args.extend(more);
    lab.deputize(&args)
}

impl Editor {
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut err = child.stderr.take().unwrap();
        let mut errors = JoinSet::new();
        errors.spawn(async move {
            let mut text = String::new();
            let _to_the_end = err.read_to_string(&mut text).await;
            text
        });
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            errors,
            child,
            next: 0,
            permits: Some("allow"),
            questions: Vec::new(),
            known_at_question: Vec::new(),
            updates: Vec::new(),
            early: Vec::new(),
        }
    }

    /// One that has said hello, and its only session.
    pub(super) async fn with_session(
        lab: &Lab,
        server: &MockServer,
        more: &[&str],
    ) -> (Self, String) {
        let mut editor = Self::start(command(lab, server, more));
        editor.hello().await;
        let session = editor.open(lab).await;
        (editor, session)
    }

    pub(super) async fn hello(&mut self) -> Value {
        self.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).await
    }

    pub(super) async fn open(&mut self, lab: &Lab) -> String {
        let new = json!({"cwd": lab.work(""), "mcpServers": []});
        let opened = self.ask("session/new", new).await;
        opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
    }

    pub(super) async fn line(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).await.unwrap();
        input.write_all(b"\n").await.unwrap();
    }

    /// Asks for something, without waiting for the answer.
    pub(super) async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(&call.to_string()).await;
        id
    }

    pub(super) async fn tell(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Asks for something; the whole answer.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(json!(id)).await
    }

    pub(super) async fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.ask("session/prompt", said(session, text)).await
    }

    pub(super) async fn begin_prompt(&mut self, session: &str, text: &str) -> u64 {
        self.begin("session/prompt", said(session, text)).await
    }

    /// Waits for an answer, and hears what comes before it.
    pub(super) async fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        if let Some(at) = self.early.iter().position(|answer| answer["id"] == id) {
            return self.early.remove(at);
        }
        loop {
            let message = self.hear().await;
            if message.get("method").is_some() {
                continue;
            }
            if message["id"] == id {
                return message;
            }
            self.early.push(message);
        }
    }

    /// Waits for an update that matches.
    pub(super) async fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some((_, update)) = self.updates.iter().find(|(_, update)| is(update)) {
                return update.clone();
            }
            let message = self.hear().await;
            if message.get("method").is_none() {
                self.early.push(message);
            }
        }
    }

    /// Waits until so many questions were asked.
    pub(super) async fn until_asked(&mut self, count: usize) {
        while self.questions.len() < count {
            let message = self.hear().await;
            if message.get("method").is_none() {
                self.early.push(message);
            }
        }
    }

    /// The next message. Everything on standard output must be one.
    async fn hear(&mut self) -> Value {
        let line = soon("a message", self.output.next_line()).await.unwrap();
        let line = line.expect("the agent closed its output");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        match message["method"].as_str() {
            Some("session/update") => {
                let actual = &message["params"];
                let session = actual["sessionId"].as_str().unwrap().to_owned();
                self.updates.push((session, actual["update"].clone()));
            }
            Some("session/request_permission") => {
                self.questions.push(message["params"].clone());
                let id = &message["params"]["toolCall"]["toolCallId"];
                let known = self.updates("tool_call").iter().any(|call| call["toolCallId"] == *id);
                self.known_at_question.push(known);
                if let Some(option) = self.permits {
                    let outcome = match option {
                        "cancelled" => json!({"outcome": "cancelled"}),
                        option => json!({"outcome": "selected", "optionId": option}),
                    };
                    let answer = json!({"jsonrpc": "2.0", "id": message["id"],
                                        "result": {"outcome": outcome}});
                    self.line(&answer.to_string()).await;
                }
            }
            _ => {}
        }
        message
    }

    /// The updates of a kind.
    pub(super) fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.updates.iter().map(|(_, update)| update);
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The text of all chunks of a kind.
    pub(super) fn text(&self, kind: &str) -> String {
        self.updates(kind).iter().map(|chunk| chunk["content"]["text"].as_str().unwrap()).collect()
    }

    /// Returns a tool call at the end: all its updates, merged in order.
    pub(super) fn call(&self, id: &str) -> Value {
        let mut known = json!({});
        for (_, update) in &self.updates {
            if update["toolCallId"] == id {
                for (key, value) in update.as_object().unwrap() {
                    known[key] = value.clone();
                }
            }
        }
        known
    }

    /// Closes its end; the exit code and what was said on standard error.
    pub(super) async fn leave(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let status = soon("the agent's end", self.child.wait()).await.unwrap();
        let errors = soon("the end of its errors", self.errors.join_next()).await;
        let errors = errors.unwrap().unwrap();
        assert!(!errors.contains("panicked"), "{errors}");
        (status.code(), errors)
    }
}

fn said(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
