//! Delegation through the program as a person starts it: forms, models, results, shared files.

use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::Value;

use crate::program::{ChatRequest, Lab, ProgramEnd};

mod claims;
mod ends;
mod files;
mod limits;
mod mcp;
mod models;
mod offer;
mod prefix;
mod profiles;
mod refusals;
mod results;
mod same_call;
mod sharing;
mod task_tool;
mod thoughts;

/// What a model says, and what it calls.
fn say(text: &str) -> MockAnswer {
    MockAnswer::reply(&Reply::text("served-1", text))
}

fn call(tool: &str, arguments: Value) -> MockAnswer {
    MockAnswer::reply(&Reply::calls("served-1", [(tool, arguments)]))
}

/// Whether it is a child that asks: it has its task in the system text or in its first message.
fn is_child(asked: &ChatRequest) -> bool {
    asked.system().contains("YOUR TASK:") || asked.first_user().contains("YOUR TASK:")
}

/// The requests whose first message of a user holds a word, in order.
fn of<'r>(requests: &'r [HttpRequest], word: &str) -> Vec<&'r HttpRequest> {
    requests.iter().filter(|request| ChatRequest::of(request).first_user().contains(word)).collect()
}

fn messages(request: &HttpRequest, role: &str) -> Vec<String> {
    let request = request.json();
    let messages = request["messages"].as_array().unwrap().iter();
    let mine = messages.filter(|message| message["role"] == role);
    mine.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn tools(request: &HttpRequest) -> Vec<String> {
    let request = request.json();
    let names = request["tools"].as_array().into_iter().flatten();
    names.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The result of a call of `delegate_task`, and what stands behind its frame.
fn result(text: &str) -> (Value, String) {
    let begin = text.find("{\"results\"").unwrap_or_else(|| panic!("{text}"));
    let mut values = serde_json::Deserializer::from_str(&text[begin..]).into_iter();
    let value: Value = values.next().unwrap().unwrap();
    (value, text[begin + values.byte_offset()..].to_owned())
}

/// Runs a family that ends well.
async fn run(lab: &Lab, server: &MockServer, set: &[&str], prompt: &str) -> ProgramEnd {
    let mut args = vec!["--project-files"];
    for set in set {
        args.extend(["--set", set]);
    }
    args.push(prompt);
    lab.run(server, &args).end().await.with_code(0)
}
