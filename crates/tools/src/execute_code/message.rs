//! The lines that a script and this program send each other.

use deputize_core::message::CallStatus;
use deputize_core::nested_call::NestedResult;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{ToolEffect, describe_error};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Bytes of the longest line that a script may send.
pub(crate) const LINE_BYTES: usize = 1024 * 1024;
/// Characters that are shown of a line that is no call.
const SHOWN_CHARS: usize = 80;

/// A call that a script asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptCall {
    /// Names the call in its reply.
    pub(crate) id: u64,
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
}

/// A line that is no call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptCallError {
    #[error("a line of more than {LINE_BYTES} bytes")]
    TooLong,
    #[error("a line that is no call (`{start}`)")]
    Malformed {
        start: String,
        #[source]
        source: serde_json::Error,
    },
}

/// Reads calls from bytes that arrive in any pieces. It holds one line at most, beside the last
/// piece.
#[derive(Debug, Default)]
pub(crate) struct ScriptCallReader {
    bytes: Vec<u8>,
    /// Bytes at the beginning that were returned as calls.
    taken: usize,
    /// Bytes behind those in which there is no end of a line.
    searched: usize,
}

impl ScriptCallReader {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(piece);
    }

    /// Returns the next call; `None` if its line is not complete.
    pub(crate) fn next_call(&mut self) -> Result<Option<ScriptCall>, ScriptCallError> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let fresh = rest.get(self.searched..).unwrap_or_default();
        let Some(end) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.searched = rest.len();
            let is_too_long = rest.len() > LINE_BYTES;
            return if is_too_long { Err(ScriptCallError::TooLong) } else { Ok(None) };
        };
        let end = self.searched + end;
        let line = rest.get(..end).unwrap_or_default();
        if line.len() > LINE_BYTES {
            return Err(ScriptCallError::TooLong);
        }
        let call = serde_json::from_slice(line).map_err(|source| {
            let start = line.get(..SHOWN_CHARS * 4).unwrap_or(line);
            let start = for_terminal_line(&String::from_utf8_lossy(start), SHOWN_CHARS);
            ScriptCallError::Malformed { start, source }
        })?;
        self.taken += end + 1;
        self.searched = 0;
        Ok(Some(call))
    }
}

impl ScriptCallError {
    /// Returns the remark on it for the model.
    pub(crate) fn note(&self) -> String {
        let error = describe_error(self);
        format!("the script wrote {error} to the connection of its calls, which ended with that")
    }
}

/// The first line for a script.
#[derive(Debug, Serialize)]
pub(crate) struct ScriptStart<'a> {
    /// The source of the module with the functions.
    pub(crate) module: &'a str,
    pub(crate) script: &'a str,
    /// Bytes of the longest line that it may send.
    pub(crate) limit: usize,
}

/// The reply to a call.
#[derive(Debug, Serialize)]
struct ScriptReply<'a> {
    id: u64,
    status: CallStatus,
    content: &'a str,
    notes: &'a [String],
    /// Of a call that ran a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// Returns the line with a reply.
pub(crate) fn reply_line(id: u64, result: &NestedResult) -> Vec<u8> {
    let exit_code = result.facts.iter().find_map(|fact| match fact {
        ToolEffect::Command { exit_code, .. } => *exit_code,
        _ => None,
    });
    let NestedResult { status, content, notes, .. } = result;
    line(&ScriptReply { id, status: *status, content, notes, exit_code })
}

/// Returns a line with a value.
pub(crate) fn line(value: &impl Serialize) -> Vec<u8> {
    // Texts and numbers can always be written.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn call_line(id: u64, text: &str) -> Vec<u8> {
        line(&json!({"id": id, "tool": "read_file", "arguments": {"path": text}}))
    }

    #[test]
    fn what_is_no_call_is_named() {
        let error = |bytes: &[u8]| {
            let mut reader = ScriptCallReader::default();
            reader.push(bytes);
            reader.next_call().unwrap_err().note()
        };
        for (bytes, words) in [
            (&b"hello\x1b[2J\n"[..], "a line that is no call (`hello"),
            (b"\n", "a line that is no call (``): EOF"),
            (b"{\"id\":1}\n", "missing field `tool`"),
            (b"{\"id\":-1,\"tool\":\"x\",\"arguments\":{}}\n", "invalid value: integer `-1`"),
            (b"{\"id\":1,\"tool\":\"x\",\"arguments\":[]}\n", "invalid type: sequence"),
            (b"{\"id\":1,\"tool\":\"x\",\"arguments\":{},\"more\":1}\n", "unknown field `more`"),
            (b"\xff\xfe\n", "expected value"),
            (&vec![b'{'; LINE_BYTES + 1], "a line of more than 1048576 bytes"),
        ] {
            let note = error(bytes);
            assert!(note.contains(words) && !note.contains('\u{1b}'), "{note}");
            assert!(note.len() < 600, "{note}");
        }
        let deep = format!("{{\"id\":1,\"tool\":\"x\",\"arguments\":{}\n", "{\"a\":".repeat(200));
        assert!(error(deep.as_bytes()).contains("recursion limit"));
    }

    proptest! {
        #[test]
        fn calls_come_in_order_however_their_bytes_arrive(
            texts in prop::collection::vec("[a\\n\"é]{0,20}", 1..6),
            piece in 1..50_usize,
        ) {
            let lines = (0..).zip(&texts).map(|(id, text)| call_line(id, text));
            let all: Vec<u8> = lines.flatten().collect();
            let mut reader = ScriptCallReader::default();
            let mut seen = Vec::new();
            for piece in all.chunks(piece) {
                reader.push(piece);
                while let Some(call) = reader.next_call().unwrap() {
                    prop_assert_eq!(call.id, seen.len() as u64);
                    seen.push(call.arguments["path"].as_str().unwrap().to_owned());
                }
            }
            prop_assert_eq!(seen, texts);
        }
    }
}
