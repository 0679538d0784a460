//! Messages between a program and the host process of a plugin: two lengths, a small JSON head and
//! a text. Both sides are the same program, so there is no version.

use std::io::{self, Read, Write};

use deputize_plugin::MAX_ANSWER_BYTES;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Maximum size of a head in bytes.
const MAX_HEAD_BYTES: usize = 1024 * 1024;

/// A request of the program. Each but the last has a reply.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum HostRequest {
    /// Limit memory, and load the file at the path in the text if it has this digest.
    Load { id: u64, sha256: String, memory_mb: u32 },
    /// Describe the plugin.
    Describe { id: u64 },
    /// Make a call, with the text as its arguments.
    Call { id: u64, tool: String, about: String },
    /// Cancel a call.
    Cancel { id: u64 },
}

/// A message of the host process.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub(crate) enum HostMessage {
    /// The plugin's answer, in the text.
    Answer { id: u64 },
    /// There is no answer, for the reason in the text.
    Failed { id: u64 },
    /// A note on the progress of a call, in the text.
    Note { id: u64 },
}

/// Returns the bytes of a message.
pub(crate) fn message(head: &impl Serialize, text: &str) -> io::Result<Vec<u8>> {
    let head = serde_json::to_vec(head)?;
    let length = |len: usize| u32::try_from(len).map(u32::to_le_bytes).map_err(io::Error::other);
    let mut bytes = Vec::with_capacity(8 + head.len() + text.len());
    bytes.extend(length(head.len())?);
    bytes.extend(length(text.len())?);
    bytes.extend(head);
    bytes.extend(text.as_bytes());
    Ok(bytes)
}

/// Returns the lengths of head and text, checked against their limits.
fn lengths(head: [u8; 4], text: [u8; 4]) -> io::Result<(usize, usize)> {
    let within = |bytes: [u8; 4], most: usize| {
        let len = usize::try_from(u32::from_le_bytes(bytes)).map_err(io::Error::other)?;
        if len > most {
            return Err(io::Error::other(format!("a message of {len} bytes; the limit is {most}")));
        }
        Ok(len)
    };
    Ok((within(head, MAX_HEAD_BYTES)?, within(text, MAX_ANSWER_BYTES)?))
}

fn parse<T: DeserializeOwned>(head: &[u8], text: Vec<u8>) -> io::Result<(T, String)> {
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    Ok((serde_json::from_slice(head)?, text))
}

/// Reads the next message; `None` at the end.
pub(crate) async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<(T, String)>> {
    let mut head = [0; 4];
    let mut text = [0; 4];
    match from.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    from.read_exact(&mut text).await?;
    let (head_len, text_len) = lengths(head, text)?;
    let head = read_bytes(from, head_len).await?;
    let text = read_bytes(from, text_len).await?;
    parse(&head, text).map(Some)
}

/// Reads this many bytes. Memory grows only as they arrive.
async fn read_bytes(from: &mut (impl AsyncRead + Unpin), len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(len as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// Reads the next message like [`read`], blocking.
pub(crate) fn read_blocking<T: DeserializeOwned>(
    from: &mut impl Read,
) -> io::Result<Option<(T, String)>> {
    let mut head = [0; 4];
    let mut text = [0; 4];
    match from.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    from.read_exact(&mut text)?;
    let (head_len, text_len) = lengths(head, text)?;
    let mut head = vec![0; head_len];
    let mut text = vec![0; text_len];
    from.read_exact(&mut head)?;
    from.read_exact(&mut text)?;
    parse(&head, text).map(Some)
}

/// Writes a complete message.
pub(crate) fn write(to: &mut impl Write, head: &impl Serialize, text: &str) -> io::Result<()> {
    to.write_all(&message(head, text)?)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_readers_read_what_is_written_and_stop_at_its_end() {
        let mut bytes = Vec::new();
        write(&mut bytes, &HostMessage::Note { id: 7 }, "é\0\n").unwrap();
        write(&mut bytes, &HostMessage::Answer { id: 8 }, "").unwrap();
        let mut from = bytes.as_slice();
        let note = read_blocking::<HostMessage>(&mut from).unwrap();
        assert_eq!(note, Some((HostMessage::Note { id: 7 }, "é\0\n".to_owned())));
        let answer = read::<HostMessage>(&mut from).await.unwrap();
        assert_eq!(answer, Some((HostMessage::Answer { id: 8 }, String::new())));
        assert_eq!(read::<HostMessage>(&mut from).await.unwrap(), None);
        assert_eq!(read_blocking::<HostMessage>(&mut from).unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_no_message_is_an_error_and_takes_no_room() {
        let good = message(&HostMessage::Answer { id: 1 }, "abc").unwrap();
        let mut long = good.clone();
        long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut other = good.clone();
        other[8] = b'[';
        let mut not_text = good.clone();
        *not_text.last_mut().unwrap() = 0xff;
        for bytes in [&good[..good.len() - 1], &good[..6], &long, &other, &not_text] {
            assert!(read::<HostMessage>(&mut &*bytes).await.is_err(), "{bytes:?}");
            assert!(read_blocking::<HostMessage>(&mut &*bytes).is_err(), "{bytes:?}");
        }
    }
}
