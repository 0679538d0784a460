//! A server of the Model Context Protocol with one tool: one message of JSON-RPC a line, which any
//! language can say (there are libraries for most). Any agent can use it. Deputize does by
//! `deputize mcp add words -- $PWD/target/debug/mcp_server`, or by an entry of its configuration:
//!
//! ```yaml
//! mcp_servers:
//!   words: { command: /where/it/is/mcp_server, tools: { read_only: [count_words] } }
//! ```
#![expect(clippy::indexing_slicing, reason = "a part of JSON that is not there is null")]

use std::io::{self, Write as _};

use serde_json::{Value, json};

/// Returns the answer to a request, or an error's code and text.
fn answer(method: &str, params: &Value) -> Result<Value, (i32, String)> {
    match method {
        "initialize" => Ok(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "words", "version": "1.0.0"},
        })),
        "ping" => Ok(json!({})),
        "tools/list" => {
            let text = json!({"type": "string", "description": "The text."});
            let schema =
                json!({"type": "object", "properties": {"text": text}, "required": ["text"]});
            let description = "Count the words of a text.";
            let tool =
                json!({"name": "count_words", "description": description, "inputSchema": schema});
            Ok(json!({"tools": [tool]}))
        }
        "tools/call" if params["name"] == "count_words" => {
            let Some(text) = params["arguments"]["text"].as_str() else {
                return Err((-32602, "`text` is missing".to_owned()));
            };
            let words = text.split_whitespace().count();
            Ok(json!({"content": [{"type": "text", "text": format!("{words} words")}]}))
        }
        "tools/call" => Err((-32602, format!("there is no tool {}", params["name"]))),
        _ => Err((-32601, format!("there is no method {method}"))),
    }
}

fn main() -> io::Result<()> {
    // Standard output is the protocol's alone; what a person should read goes to standard error.
    let mut out = io::stdout().lock();
    for line in io::stdin().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let id = &message["id"];
        let method = message["method"].as_str().unwrap_or_default();
        if id.is_null() {
            // A notification: nobody waits for an answer.
            continue;
        }
        let answer = match answer(method, &message["params"]) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, words)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": words}})
            }
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
