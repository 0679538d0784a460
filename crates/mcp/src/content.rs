//! Answers of a server, as a model reads them.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use deputize_core::image::ImageFormat;
use deputize_core::{ToolCx, ToolOutput};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::image_shower::ImageShower;

/// Limit on text for the model, in bytes; longer text is stored whole in a file.
pub const TEXT_BYTES: usize = 256 * 1024;
/// Limit on the entries of a list for the model.
const ENTRIES: usize = 500;

/// Limit on the parts of one result that are stored in files.
const KEPT: usize = 100;

/// Collects the parts of an answer. What the server says is text, which is framed; the notes stand
/// outside the frame, so no word of it is in them.
pub(crate) struct ContentReader<'a> {
    cx: &'a ToolCx,
    text: Vec<String>,
    notes: Vec<String>,
    files: Vec<ContentFile>,
    left_out: OmittedParts,
}

/// An answer in its parts, of which some go into files.
pub(crate) struct Content {
    output: ToolOutput,
    files: Vec<ContentFile>,
    /// Shows images, where the model sees them.
    images: Option<ImageShower>,
}

/// A part of an answer for a file of the session.
struct ContentFile {
    path: PathBuf,
    bytes: Vec<u8>,
    /// The place among the notes of the one that names the file.
    note: usize,
    /// That note if the file is not written, without the error.
    failure: String,
    /// Whether a model that sees images is shown it.
    is_image: bool,
}

impl Content {
    /// Writes the files, and returns the rest with the images. A note says which one could not be
    /// written or shown.
    pub(crate) async fn store(self) -> ToolOutput {
        let Self { mut output, files, images } = self;
        for ContentFile { path, bytes, note, failure, is_image } in files {
            let shower = images.clone().filter(|_| is_image);
            let work = spawn_blocking(move || {
                (write_new(&path, &bytes), shower.map(|shower| shower.show(&bytes)))
            });
            let (written, shown) =
                work.await.unwrap_or_else(|lost| (Err(io::Error::other(lost)), None));
            let Some(note) = output.notes.get_mut(note) else { continue };
            if let Err(error) = written {
                *note = format!("{failure}: {error}");
            }
            match shown {
                Some(Ok((image, about))) => {
                    note.push_str(&format!("; {about}"));
                    output.images.push(image);
                }
                Some(Err(why)) => note.push_str(&format!("; not shown: {why}")),
                None => {}
            }
        }
        output
    }
}

/// Counts the parts of an answer that are omitted or changed.
#[derive(Default)]
struct OmittedParts {
    links: usize,
    others: usize,
    empty: usize,
    broken: usize,
    above_limit: usize,
}

impl OmittedParts {
    /// A note for each kind that there is.
    fn notes(&self) -> impl Iterator<Item = String> {
        [
            (
                self.links,
                "a link to a resource is not followed",
                "links to resources are not followed",
            ),
            (
                self.others,
                "a part of another kind is left out",
                "parts of another kind are left out",
            ),
            (
                self.empty,
                "a resource without content is left out",
                "resources without content are left out",
            ),
            (
                self.broken,
                "a part is left out: it is not base64",
                "parts are left out: they are not base64",
            ),
            (
                self.above_limit,
                "a part is left out: 100 are kept",
                "parts are left out: 100 are kept",
            ),
        ]
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(
            |(count, one, many)| {
                if count == 1 { one.to_owned() } else { format!("{count} {many}") }
            },
        )
    }
}

impl<'a> ContentReader<'a> {
    pub(crate) fn new(cx: &'a ToolCx) -> Self {
        Self {
            cx,
            text: Vec::new(),
            notes: Vec::new(),
            files: Vec::new(),
            left_out: OmittedParts::default(),
        }
    }

    /// The parts of a call's result: its content, and what is structured where no text repeats it.
    pub(crate) fn result(mut self, answer: &Value) -> Content {
        let blocks = answer.get("content").and_then(Value::as_array);
        blocks.into_iter().flatten().for_each(|block| self.block(block));
        if let Some(structured) = answer.get("structuredContent") {
            if self.text.is_empty() {
                self.text.push(structured.to_string());
            } else if !repeats(&self.text, structured) {
                self.text.push(format!("structured data: {structured}"));
            }
        }
        if blocks.is_none() && self.text.is_empty() {
            self.notes.push("the server's answer has no content".to_owned());
        }
        self.finish()
    }

    /// The contents of a resource.
    pub(crate) fn contents(mut self, answer: &Value) -> Content {
        let parts = answer.get("contents").and_then(Value::as_array);
        parts.into_iter().flatten().for_each(|part| self.resource(part));
        self.finish()
    }

    /// The messages of a prompt.
    pub(crate) fn messages(mut self, answer: &Value) -> Content {
        if let Some(about) = answer.get("description").and_then(Value::as_str) {
            self.text.push(about.to_owned());
        }
        let messages = answer.get("messages").and_then(Value::as_array);
        for message in messages.into_iter().flatten() {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
            self.text.push(format!("{role}:"));
            if let Some(block) = message.get("content") {
                self.block(block);
            }
        }
        self.finish()
    }

    /// Entries of a list, one JSON object a line with these fields only.
    pub(crate) fn entries(mut self, entries: &[Value], fields: &[&str]) -> Content {
        for entry in entries.iter().take(ENTRIES) {
            let mut shown = serde_json::Map::new();
            for field in fields {
                if let Some(value) = entry.get(*field).filter(|value| !value.is_null()) {
                    shown.insert((*field).to_owned(), value.clone());
                }
            }
            self.text.push(Value::Object(shown).to_string());
        }
        match entries.len() {
            0 => self.notes.push("there are none".to_owned()),
            all if all > ENTRIES => {
                self.notes.push(format!("{} more are left out", all - ENTRIES));
            }
            _ => {}
        }
        self.finish()
    }

    fn block(&mut self, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => self.text.push(text("text").to_owned()),
            kind @ ("image" | "audio") => self.bytes(text("data"), text("mimeType"), kind),
            "resource" => {
                if let Some(resource) = block.get("resource") {
                    self.resource(resource);
                }
            }
            "resource_link" => {
                self.text.push(format!("resource {} ({})", text("uri"), text("name")));
                self.left_out.links += 1;
            }
            _ => self.left_out.others += 1,
        }
    }

    fn resource(&mut self, resource: &Value) {
        let field = |key: &str| resource.get(key).and_then(Value::as_str);
        match (field("text"), field("blob")) {
            (Some(text), _) => {
                self.text.push(format!("{}:\n{text}", field("uri").unwrap_or_default()));
            }
            (None, Some(blob)) => {
                self.text.push(field("uri").unwrap_or_default().to_owned());
                self.bytes(blob, field("mimeType").unwrap_or_default(), "data");
            }
            (None, None) => self.left_out.empty += 1,
        }
    }

    /// Adds a part for a file of the session. A model that sees images is shown one too.
    fn bytes(&mut self, data: &str, mime: &str, kind: &str) {
        if self.files.len() == KEPT {
            self.left_out.above_limit += 1;
            return;
        }
        let kind = medium(mime).unwrap_or(kind);
        let data: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let Ok(bytes) = data_encoding::BASE64.decode(&data) else {
            self.left_out.broken += 1;
            return;
        };
        let ending: String = kind
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(8)
            .collect();
        let ending =
            if kind.contains('/') && !ending.is_empty() { ending } else { "bin".to_owned() };
        let path = self.cx.spill_path(&format!("{}.{ending}", self.files.len() + 1));
        let about = format!("{kind}, {} bytes", bytes.len());
        let note = format!("{about}: {}", path.display());
        self.add_file(path, bytes, note, format!("{about}, is left out"));
    }

    fn add_file(&mut self, path: PathBuf, bytes: Vec<u8>, note: String, failure: String) {
        let note_place = self.notes.len();
        let is_image = ImageFormat::of_head(&bytes).is_some();
        self.files.push(ContentFile { path, bytes, note: note_place, failure, is_image });
        self.notes.push(note);
    }

    fn finish(mut self) -> Content {
        self.notes.extend(self.left_out.notes());
        let mut content = self.text.join("\n");
        let end = content.floor_char_boundary(TEXT_BYTES);
        if end < content.len() {
            let path = self.cx.spill_path("txt");
            let about = format!("{} bytes left out", content.len() - end);
            let note = format!("{about}; the whole is in {}", path.display());
            let whole = content.clone().into_bytes();
            content.truncate(end);
            self.add_file(path, whole, note, format!("{about}, and not kept"));
        }
        let output = ToolOutput { content, notes: self.notes, ..ToolOutput::default() };
        Content { output, files: self.files, images: ImageShower::of(self.cx) }
    }
}

/// A medium type where it is one, and short: it stands in a note, which must not be the server's to
/// write.
fn medium(mime: &str) -> Option<&str> {
    let mime = mime.split(';').next()?.trim();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/.+-".contains(c);
    let is_one = mime.len() <= 40 && mime.chars().all(plain) && mime.matches('/').count() == 1;
    is_one.then_some(mime)
}

/// Whether texts say all that is structured: its JSON, or the only entry in which a server wraps
/// what it says in words, be it one text or a list of them.
fn repeats(texts: &[String], structured: &Value) -> bool {
    let said = |value: &Value| texts.iter().any(|text| says(text, value));
    if said(structured) {
        return true;
    }
    let only = structured.as_object().filter(|entries| entries.len() == 1);
    let Some(wrapped) = only.and_then(|entries| entries.values().next()) else { return false };
    let is = |text: &String, value: &Value| value.as_str() == Some(text) || says(text, value);
    let whole = texts.join("\n");
    let each = wrapped.as_array().is_some_and(|items| {
        items.len() == texts.len() && texts.iter().zip(items).all(|(text, item)| is(text, item))
    });
    each || is(&whole, wrapped) || said(wrapped)
}

/// Returns whether a text repeats this value as JSON, as the protocol suggests for older clients.
fn says(text: &str, structured: &Value) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|said| said == *structured)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_that_repeats_what_is_structured_says_all_of_it() {
        assert!(says("{ \"b\": 1,\n \"a\": [2] }", &json!({"a": [2], "b": 1})));
        assert!(!says("1 of 2", &json!({"found": 1})));
        let texts =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let one = texts(&["a b"]);
        let two = texts(&["a", "7"]);
        assert!(repeats(&one, &json!({"content": "a b"})));
        assert!(
            repeats(&two, &json!({"result": ["a", 7]}))
                && repeats(&two, &json!({"result": "a\n7"}))
        );
        assert!(repeats(&texts(&["[1]"]), &json!({"result": [1]})));
        for more in [json!({"content": "a b", "next": 2}), json!({"content": "a"}), json!("a b c")]
        {
            assert!(!repeats(&one, &more), "{more}");
        }
    }
}
