//! The calls of a running script.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use deputize_core::event::JournalError;
use deputize_core::nested_call::{NestedCall, NestedCalls, NestedResult};
use deputize_core::wording::count;
use deputize_core::{BoxFuture, ToolCx};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::clock::ScriptClock;
use super::message::{ScriptCall, ScriptCallError, ScriptCallReader, reply_line};
use crate::CodeLimits;
use crate::display_name::display_name;

/// The tools that a script may call.
pub(super) const TOOLS: [&str; 7] =
    ["read_file", "write_file", "edit_file", "search_files", "terminal", "web_fetch", "web_search"];
/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Bytes of replies that may wait for a script to read them. Nothing is read from it meanwhile.
const WAITING_BYTES: usize = 1024 * 1024;

/// A reply, with the call and the place in a file that comes next.
type Reply = Result<(u64, Option<PagePlace>, NestedResult), JournalError>;
/// The path of a file and the line with which a page of it begins.
type PagePlace = (String, u64);

/// The calls of one script.
pub(super) struct ScriptCalls<'a> {
    /// Context of the script. Its calls are cancelled with it.
    cx: &'a ToolCx,
    caller: Arc<NestedCalls>,
    limits: &'a CodeLimits,
    clock: &'a ScriptClock,
    /// Calls so far, without further pages.
    made: u32,
    /// The same with them.
    numbered: u32,
    /// Pages that come next, each once. The script's `read_file` asks for all pages of a file in one
    /// call of its own.
    next_pages: BTreeSet<PagePlace>,
    running: FuturesUnordered<BoxFuture<'a, Reply>>,
}

/// What the calls of a script came to.
#[derive(Debug)]
pub(super) struct CallsEnd {
    /// Number of calls.
    pub(super) made: u32,
    /// What the script wrote that was no call.
    pub(super) fault: Option<ScriptCallError>,
}

impl<'a> ScriptCalls<'a> {
    pub(super) fn new(cx: &'a ToolCx, limits: &'a CodeLimits, clock: &'a ScriptClock) -> Self {
        let caller = cx.agent.store.get_or_insert_with(NestedCalls::default);
        let (next_pages, running) = (BTreeSet::new(), FuturesUnordered::new());
        Self { cx, caller, limits, clock, made: 0, numbered: 0, next_pages, running }
    }

    /// Sends the first line, and serves calls until the script closes its end and all have ended.
    ///
    /// # Errors
    /// When the journal takes no records.
    pub(super) async fn serve(
        mut self,
        socket: UnixStream,
        start: Vec<u8>,
    ) -> Result<CallsEnd, JournalError> {
        let (mut incoming, mut outgoing) = socket.into_split();
        let mut replies = ReplyQueue::default();
        replies.push(start);
        let mut reader = ScriptCallReader::default();
        let mut fault = None;
        let mut is_open = true;
        let mut buffer = vec![0; CHUNK];
        while is_open || !self.running.is_empty() {
            tokio::select! {
                biased;
                Some(reply) = self.running.next() => {
                    let (id, next_page, result) = reply?;
                    self.next_pages.extend(next_page);
                    replies.push(reply_line(id, &result));
                }
                written = outgoing.write(replies.next()), if is_open && !replies.is_empty() => {
                    is_open = written.is_ok();
                    replies.take(written.unwrap_or_default());
                }
                read = incoming.read(&mut buffer), if is_open && replies.bytes < WAITING_BYTES => {
                    match buffer.get(..read.unwrap_or(0)) {
                        None | Some([]) => is_open = false,
                        Some(piece) => reader.push(piece),
                    }
                    fault = self.begin_calls(&mut reader, &mut replies).err();
                    is_open &= fault.is_none();
                }
            }
            if !is_open {
                // Whoever waits for a reply learns that there will be none.
                let _closed = outgoing.shutdown().await;
            }
        }
        Ok(CallsEnd { made: self.made, fault })
    }

    /// Begins the calls whose lines are complete.
    fn begin_calls(
        &mut self,
        reader: &mut ScriptCallReader,
        replies: &mut ReplyQueue,
    ) -> Result<(), ScriptCallError> {
        while let Some(call) = reader.next_call()? {
            let is_page = first_line(&call).is_some_and(|place| self.next_pages.remove(&place));
            match self.refusal(&call).filter(|_| !is_page) {
                Some(why) => replies.push(reply_line(call.id, &NestedResult::refused(why))),
                None => {
                    self.made += u32::from(!is_page);
                    self.begin(call);
                }
            }
        }
        Ok(())
    }

    /// Returns why a call is not made; `None` if it is.
    fn refusal(&self, call: &ScriptCall) -> Option<String> {
        if !TOOLS.contains(&call.tool.as_str()) {
            let tool = display_name(&call.tool);
            return Some(format!("a script cannot call {tool}, only {}", TOOLS.join(", ")));
        }
        let most = self.limits.calls;
        (self.made >= most).then(|| {
            let name = self.limits.setting_names.note("code_calls");
            format!("a script may make {}{name}: print what you have", count(most, "call"))
        })
    }

    fn begin(&mut self, call: ScriptCall) {
        self.numbered += 1;
        let number = self.numbered;
        let caller = Arc::clone(&self.caller);
        let outer = self.cx;
        let on_question = self.clock.question_listener();
        self.running.push(Box::pin(async move {
            let place = first_line(&call);
            let ScriptCall { id, tool, arguments } = call;
            // Values that were read from JSON can be written.
            let arguments = serde_json::to_string(&arguments).unwrap_or_default();
            let call =
                NestedCall { outer, number, tool: &tool, arguments: &arguments, on_question };
            let result = caller.caller().call(call).await?;
            let next_page = place.and_then(|(path, _)| Some((path, next_line(&result)?)));
            Ok((id, next_page, result))
        }));
    }
}

/// Returns where a call that reads a file to its end begins; `None` if it does something else.
fn first_line(call: &ScriptCall) -> Option<PagePlace> {
    let all = call.tool == "read_file" && !call.arguments.contains_key("limit");
    let path = call.arguments.get("path").filter(|_| all)?.as_str()?.to_owned();
    Some((path, call.arguments.get("offset")?.as_u64()?))
}

/// Returns the line with which the next page of a file begins, as the script reads it too.
fn next_line(page: &NestedResult) -> Option<u64> {
    page.notes.iter().find_map(|note| note.rsplit_once("; to go on: offset ")?.1.parse().ok())
}

/// Lines that wait to be written.
#[derive(Debug, Default)]
struct ReplyQueue {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of the first line that are written.
    written: usize,
    /// Bytes that wait.
    bytes: usize,
}

impl ReplyQueue {
    fn push(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns what is to be written next.
    fn next(&self) -> &[u8] {
        let first = self.lines.front();
        first.and_then(|line| line.get(self.written..)).unwrap_or_default()
    }

    /// Takes out so many bytes, which are written.
    fn take(&mut self, written: usize) {
        self.bytes -= written.min(self.bytes);
        self.written += written;
        if self.lines.front().is_some_and(|line| line.len() <= self.written) {
            self.lines.pop_front();
            self.written = 0;
        }
    }
}
