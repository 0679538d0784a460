//! An agent that is another program: it speaks the Agent Client Protocol, one message of JSON-RPC a
//! line, and is a child of Deputize's agents by a line of the configuration. This one has no
//! model; it says which is the longest word of its task.
//!
//! ```yaml
//! delegation:
//!   acp_command: /where/it/is/acp_agent
//!   approvals: auto   # it begins unasked; `ask` asks at each start
//! ```
#![expect(clippy::indexing_slicing, reason = "a part of JSON that is not there is null")]

use std::io::{self, Write};

use serde_json::{Value, json};

/// Returns the answer to a request; `None` for an unknown method.
fn answer(method: &str, params: &Value, out: &mut impl Write) -> io::Result<Option<Value>> {
    Ok(Some(match method {
        "initialize" => json!({"protocolVersion": 1, "agentCapabilities": {}}),
        "session/new" => json!({"sessionId": "the-only-one"}),
        "session/prompt" => {
            let text = format!("The longest word is `{}`.", longest_word(&params["prompt"]));
            let content = json!({"type": "text", "text": text});
            let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
            let actual = json!({"sessionId": params["sessionId"], "update": update});
            say(out, &json!({"jsonrpc": "2.0", "method": "session/update", "params": actual}))?;
            json!({"stopReason": "end_turn"})
        }
        _ => return Ok(None),
    }))
}

fn longest_word(prompt: &Value) -> &str {
    let blocks = prompt.as_array().into_iter().flatten();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts.flat_map(str::split_whitespace).max_by_key(|word| word.len()).unwrap_or_default()
}

fn say(out: &mut impl Write, message: &Value) -> io::Result<()> {
    writeln!(out, "{message}")?;
    out.flush()
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let id = &message["id"];
        let method = message["method"].as_str().unwrap_or_default();
        if id.is_null() {
            // `session/cancel` among others: this agent is done before it could come.
            continue;
        }
        let answer = match answer(method, &message["params"], &mut out)? {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => {
                let error = json!({"code": -32601, "message": format!("no method {method}")});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        say(&mut out, &answer)?;
    }
    Ok(())
}
