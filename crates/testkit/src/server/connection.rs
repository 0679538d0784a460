//! One connection: HTTP/1.1 requests and answers, one after the other.

use std::io::{self, ErrorKind};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::ServerInner;
use super::answer::{BodyEnd, MockAnswer};

/// Maximum bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;
/// Bytes that are asked for while a head is read: with less room, a request takes several reads.
const READ_BYTES: usize = 16 * 1024;
/// Maximum bytes of a request's body.
const BODY_BYTES: usize = 64 * 1024 * 1024;

/// A request as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Its method, such as `POST`.
    pub method: String,
    /// Its path, with its query.
    pub path: String,
    /// Its headers, as written, in order.
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// Returns a header by its name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON; null if it is not valid JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Serves requests until either side closes.
pub(super) async fn serve(mut stream: TcpStream, shared: &ServerInner) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut received).await? {
        let answer = (shared.handler)(&request);
        let close = request.header("connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
        if shared.keeps {
            shared.requests.send_modify(|requests| requests.push(request));
        } else {
            drop(request);
        }
        let stays = write_answer(&mut stream, &answer).await?;
        if close || !stays {
            break;
        }
    }
    Ok(())
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

/// Reads the next request; `None` if the client closed the connection. Bytes after it stay in
/// `received`.
async fn read_request(
    stream: &mut TcpStream,
    received: &mut Vec<u8>,
) -> io::Result<Option<HttpRequest>> {
    let head = loop {
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break received.drain(..end + 4).collect::<Vec<u8>>();
        }
        if received.len() > HEAD_BYTES {
            return Err(wrong("the head of a request is too long"));
        }
        received.reserve(READ_BYTES);
        if stream.read_buf(received).await? == 0 {
            return Ok(None);
        }
    };
    let mut request = parse_head(&String::from_utf8_lossy(&head))?;
    let length = request.header("content-length").map_or(Ok(0), str::parse::<usize>);
    let length = length.map_err(|_| wrong("content-length is no number"))?;
    if length > BODY_BYTES || request.header("transfer-encoding").is_some() {
        return Err(wrong("the body of a request is too long, or has no length"));
    }
    received.reserve(length.saturating_sub(received.len()));
    while received.len() < length {
        if stream.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
    // Mostly nothing follows, and nothing is copied.
    let rest = if received.len() > length { received.split_off(length) } else { Vec::new() };
    request.body = std::mem::replace(received, rest);
    Ok(Some(request))
}

fn parse_head(head: &str) -> io::Result<HttpRequest> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(wrong("the first line of a request is none"));
    };
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    Ok(HttpRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: lines.filter_map(header).collect(),
        body: Vec::new(),
    })
}

/// Writes an answer. Returns whether the connection stays open.
async fn write_answer(stream: &mut TcpStream, answer: &MockAnswer) -> io::Result<bool> {
    if !answer.latency.is_zero() && client_left(stream, tokio::time::sleep(answer.latency)).await {
        return Ok(false);
    }
    if let Some(gate) = &answer.held
        && client_left(stream, gate.pass()).await
    {
        return Ok(false);
    }
    if answer.is_plain() {
        return stream.write_all(&plain(answer)).await.map(|()| true);
    }
    let chunked = answer.end != BodyEnd::WithConnection;
    stream.write_all(head(answer, chunked).as_bytes()).await?;
    let stop = answer.stall.as_ref().map_or(usize::MAX, |(bytes, _)| *bytes);
    let (before, after) = answer.body.split_at(stop.min(answer.body.len()));
    write_pieces(stream, before, answer.pieces, chunked).await?;
    if let Some((_, gate)) = &answer.stall
        && client_left(stream, gate.pass()).await
    {
        return Ok(false);
    }
    write_pieces(stream, after, answer.pieces, chunked).await?;
    while let Some((bytes, pause)) = &answer.forever {
        if client_left(stream, tokio::time::sleep(*pause)).await {
            return Ok(false);
        }
        write_pieces(stream, bytes, answer.pieces, chunked).await?;
    }
    match answer.end {
        BodyEnd::InOrder => stream.write_all(b"0\r\n\r\n").await.map(|()| true),
        BodyEnd::Cut | BodyEnd::WithConnection => stream.shutdown().await.map(|()| false),
        BodyEnd::Reset => stream.set_zero_linger().map(|()| false),
    }
}

/// Returns an answer without faults as sent in one piece.
fn plain(answer: &MockAnswer) -> Vec<u8> {
    let mut bytes = head(answer, true).into_bytes();
    chunk(&mut bytes, &answer.body);
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

fn chunk(bytes: &mut Vec<u8>, piece: &[u8]) {
    if piece.is_empty() {
        return;
    }
    bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
    bytes.extend_from_slice(piece);
    bytes.extend_from_slice(b"\r\n");
}

fn head(answer: &MockAnswer, chunked: bool) -> String {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(if chunked {
        "transfer-encoding: chunked\r\n\r\n"
    } else {
        "connection: close\r\n\r\n"
    });
    head
}

async fn write_pieces(
    stream: &mut TcpStream,
    body: &[u8],
    pieces: usize,
    chunked: bool,
) -> io::Result<()> {
    for piece in body.chunks(pieces) {
        if chunked {
            let mut bytes = Vec::with_capacity(piece.len() + 16);
            chunk(&mut bytes, piece);
            stream.write_all(&bytes).await?;
        } else {
            stream.write_all(piece).await?;
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Waits for `wait`. Returns whether the client disconnected before.
async fn client_left(stream: &TcpStream, wait: impl Future<Output = ()>) -> bool {
    let gone = async {
        let mut byte = [0];
        // Bytes of a next request stay unread; only the end of the stream matters here.
        !matches!(stream.peek(&mut byte).await, Ok(1..))
    };
    tokio::select! {
        biased;
        () = wait => false,
        true = gone => true,
        else => false,
    }
}
