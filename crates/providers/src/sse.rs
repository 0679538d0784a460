//! Server-sent events, from bytes in pieces of any size.
//!
//! Written here and not taken from a library because of three rules that none keeps together:
//! no event beyond a size is held, comments do not count as life, and a last event without
//! its blank line is still looked at.

use std::borrow::Cow;

use crate::limits::ReplyLimit;
use crate::stream_error::{ReplyTooLarge, StreamError};
use crate::stream_status::StreamStatus;

/// The fields of a line.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];
/// Limit on the stored part of a body that is not a stream of events, in bytes.
const PLAIN_BYTES: usize = 4 * 1024;
/// Bytes of room that an event leaves to the next one.
const KEPT_ROOM: usize = 4 * 1024;

/// One event: its name (mostly empty) and its data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SseEvent<'e> {
    pub(crate) name: &'e str,
    pub(crate) data: &'e str,
}

/// Takes the events out.
pub(crate) type Sink<'s> = dyn FnMut(SseEvent<'_>) -> Result<StreamStatus, StreamError> + 's;

#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    limit: ReplyLimit,
    /// The line that is not at its end. Of a comment nothing is kept.
    line: Vec<u8>,
    in_comment: bool,
    /// The last line ended with CR, so that a LF now belongs to it.
    after_cr: bool,
    /// The data lines of the event that is not at its end, each with a line feed.
    data: Vec<u8>,
    name: Vec<u8>,
    /// Whether some line was one of this format.
    is_known: bool,
    /// The beginning of lines that are none, until one is.
    plain: Vec<u8>,
    /// Whether the body ended inside an event.
    is_cut: bool,
}

impl SseDecoder {
    pub(crate) fn new(limit: ReplyLimit) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Takes bytes; stops at an event that ends the reply.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<StreamStatus, StreamError> {
        let mut rest = bytes;
        while let [first, ..] = rest {
            let doubled = std::mem::take(&mut self.after_cr) && *first == b'\n';
            if doubled {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (line, tail) = rest.split_at(end.unwrap_or(rest.len()));
            self.extend(line)?;
            let Some((end, tail)) = tail.split_first() else { break };
            self.after_cr = *end == b'\r';
            rest = tail;
            if self.end_line(sink)? == StreamStatus::Done {
                return Ok(StreamStatus::Done);
            }
        }
        Ok(StreamStatus::More)
    }

    /// The body is over: an event without its blank line is given out if `whole` takes it.
    pub(crate) fn end(
        &mut self,
        sink: &mut Sink<'_>,
        whole: impl Fn(&str) -> bool,
    ) -> Result<StreamStatus, StreamError> {
        if !self.line.is_empty() {
            let begins_field = FIELDS.iter().any(|field| field.starts_with(&self.line));
            self.is_cut = begins_field && self.plain.is_empty();
            if self.end_line(sink)? == StreamStatus::Done {
                return Ok(StreamStatus::Done);
            }
        }
        if whole(&String::from_utf8_lossy(&self.data)) {
            return self.dispatch(sink);
        }
        self.is_cut |= !self.name.is_empty() || !self.data.trim_ascii().is_empty();
        Ok(StreamStatus::More)
    }

    /// Returns whether the body ended inside an event, which was dropped.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What came, where no line of it was one of this format and some was not empty.
    pub(crate) fn plain_text(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.plain);
        (!self.is_known && !text.trim().is_empty()).then(|| text.into_owned())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.in_comment |= self.line.is_empty() && bytes.first() == Some(&b':');
        if self.in_comment {
            return Ok(());
        }
        let found = self.data.len() + self.line.len() + bytes.len();
        let limit = self.limit.event_bytes();
        if found > limit {
            let setting = self.limit.event_rule();
            return Err(ReplyTooLarge::Event { limit, found, setting }.into());
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, sink: &mut Sink<'_>) -> Result<StreamStatus, StreamError> {
        if std::mem::take(&mut self.in_comment) {
            self.is_known = true;
            return Ok(StreamStatus::More);
        }
        let line = std::mem::take(&mut self.line);
        let mut flow = StreamStatus::More;
        match line.iter().position(|byte| *byte == b':') {
            _ if line.is_empty() => flow = self.dispatch(sink)?,
            // No field begins so: a server that forgot the `data:`, mostly before an error.
            _ if line.starts_with(b"{") => {
                self.is_known = true;
                self.push_data(&line);
            }
            Some(colon) => {
                let (field, value) = line.split_at(colon);
                let value = value.get(1..).unwrap_or_default();
                let value = value.strip_prefix(b" ").unwrap_or(value);
                self.is_known |= FIELDS.contains(&field);
                match field {
                    b"data" => self.push_data(value),
                    b"event" => value.clone_into(&mut self.name),
                    _ => self.keep_plain(&line),
                }
            }
            None => self.keep_plain(&line),
        }
        self.line = line;
        self.line.clear();
        Ok(flow)
    }

    /// Keeps the beginning of a line that is none of this format.
    fn keep_plain(&mut self, line: &[u8]) {
        if !self.is_known && self.plain.len() < PLAIN_BYTES {
            let room = PLAIN_BYTES.saturating_sub(self.plain.len());
            self.plain.extend_from_slice(line.get(..room).unwrap_or(line));
            self.plain.push(b'\n');
        }
    }

    fn push_data(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.data.push(b'\n');
    }

    fn dispatch(&mut self, sink: &mut Sink<'_>) -> Result<StreamStatus, StreamError> {
        let Self { name, data, .. } = self;
        let text = text_of(data);
        let event = SseEvent { name: &text_of(name), data: text.trim() };
        let flow = if event.data.is_empty() { Ok(StreamStatus::More) } else { sink(event) };
        drop(text);
        // The next event uses the room again, but for that of a large one.
        for room in [name, data] {
            room.clear();
            room.shrink_to(KEPT_ROOM);
        }
        flow
    }
}

/// Decodes a text; what is malformed becomes U+FFFD. Nearly all texts are well formed, which is found
/// out faster than where one is not.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EVENT_BYTES;

    fn events(pieces: &[&[u8]]) -> (Vec<String>, SseDecoder) {
        let mut decoder = SseDecoder::default();
        let mut found = Vec::new();
        for piece in pieces {
            let mut sink = |event: SseEvent<'_>| {
                found.push(format!("{}|{}", event.name, event.data));
                Ok(StreamStatus::More)
            };
            decoder.feed(piece, &mut sink).unwrap();
        }
        (found, decoder)
    }

    #[test]
    fn all_three_line_ends_and_any_cut_between_them() {
        let body = b"data: a\r\ndata:b\r\n\r\ndata: c\r\revent: e\ndata:  d\n\nid: 1\nretry\n\n";
        let expected = ["|a\nb", "|c", "e|d"];
        assert_eq!(events(&[body]).0, expected);
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(events(&bytes).0, expected);
    }

    #[test]
    fn comments_are_not_kept() {
        let most = ReplyLimit::default().event_bytes();
        let flood = [b": ".as_slice(), &vec![b'x'; 2 * most], b"\n\n: again\n"];
        let (found, decoder) = events(&flood);
        assert_eq!((found.len(), decoder.line.len()), (0, 0));
    }

    #[test]
    fn an_event_at_the_limit_passes_and_one_beyond_is_refused() {
        let small = || ReplyLimit { bytes: 1000, ..ReplyLimit::default() };
        let mut decoder = SseDecoder::new(small());
        let mut sink = |_: SseEvent<'_>| Ok(StreamStatus::More);
        decoder.feed(&vec![b'x'; EVENT_BYTES], &mut sink).unwrap();
        let error = decoder.feed(b"x", &mut sink).unwrap_err();
        let StreamError::TooLarge(ReplyTooLarge::Event { found, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(found, EVENT_BYTES + 1);
        let mut decoder = SseDecoder::new(small());
        let lines = "data: x\n".repeat(EVENT_BYTES);
        assert!(decoder.feed(lines.as_bytes(), &mut sink).is_err(), "many lines of one event");
    }

    #[test]
    fn a_body_that_ends_inside_an_event_is_known_as_cut() {
        let is_cut = |body: &[u8]| {
            let (_, mut decoder) = events(&[body]);
            decoder.end(&mut |_| Ok(StreamStatus::More), |data| data.trim() == "whole").unwrap();
            decoder.is_cut()
        };
        for body in ["d", "data", "data: {", "data: {\n", "event: a", "event: a\n", "x\n{\"a\""] {
            assert!(is_cut(body.as_bytes()), "{body}");
        }
        for body in
            ["", "\n", ": d", "data: a\n\n", "data: whole", "data:\n", "id: 1", "words", "a\nd"]
        {
            assert!(!is_cut(body.as_bytes()), "{body}");
        }
    }
}
