//! Piped input beside a task, as it is put before the person's words in a message.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use deputize_core::sanitize::{Secrets, frame_quote};
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::truncate::truncate_lines;

use deputize_core::wording::count;

/// Name of the frame.
const NAME: &str = "stdin";

/// Material of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// The frame with what a model is shown, and notes on what it is not shown.
    pub(crate) text: String,
    /// A file for all of it, where it is not shown whole.
    file: Option<(PathBuf, Vec<u8>)>,
    /// The note about it for the user.
    pub(crate) note: String,
}

/// Why material cannot be kept that is too long to be shown.
#[derive(Debug, thiserror::Error)]
#[error("the piped input is too long to show in full, and cannot be stored in `{}`", path.display())]
pub(crate) struct SaveError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Attachment {
    /// At most so many bytes are shown; what is more is in a file of the folder. Known secrets
    /// are in neither.
    pub(crate) fn new(bytes: Vec<u8>, most: usize, folder: &Path, secrets: &Secrets) -> Self {
        let total = bytes.len();
        if bytes.contains(&0) {
            let path = unused_path(folder, "bin");
            let shown = path.display();
            let note = format!("[{NAME} is not text; its {total} bytes are in {shown}]");
            let text = frame_attachment("", &[note]);
            let note = format!(
                "note: standard input is not text: the agent can read its {total} bytes in {shown}"
            );
            return Self { text, file: Some((path, bytes)), note };
        }
        let mut notes = Vec::new();
        let text = String::from_utf8(bytes).unwrap_or_else(|error| {
            notes.push(format!("[{NAME} is not UTF-8; invalid bytes are shown as U+FFFD]"));
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        let text = secrets.scrub(&text).into_owned();
        let shown = truncate_lines(&text, most);
        if shown.len() == text.len() {
            let note =
                format!("note: added {} of standard input to the task", count(total, "byte"));
            return Self { text: frame_attachment(&text, &notes), file: None, note };
        }
        let path = unused_path(folder, "txt");
        notes.push(format!(
            "[{NAME} has {} bytes; the first {} are above (limits.read_bytes is {most}), and all \
             of them are in {}]",
            text.len(),
            shown.len(),
            path.display()
        ));
        let note = format!(
            "note: added the first {} of {total} bytes of standard input to the task \
             (limits.read_bytes is {most}); the agent can read the rest in {}",
            shown.len(),
            path.display()
        );
        Self { text: frame_attachment(shown, &notes), file: Some((path, text.into_bytes())), note }
    }

    /// Writes the file, for this user alone. The folder may not be there yet.
    pub(crate) fn save(&self) -> Result<(), SaveError> {
        let Some((path, bytes)) = &self.file else { return Ok(()) };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder).and_then(|()| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
        });
        made.map_err(|source| SaveError { path: path.clone(), source })
    }
}

/// A message: the material before the words.
pub(crate) fn message(material: Option<&str>, words: &str) -> String {
    match material {
        Some(material) => format!("{material}\n\n{words}"),
        None => words.to_owned(),
    }
}

/// Returns the sources of a message with this material, beside the person.
pub(crate) fn sources_of(material: Option<&str>) -> SourceSet {
    material.map(|_| Source::input(NAME)).into_iter().collect()
}

/// The words of a message, without the material that [`message`] puts before them. The frame's
/// boundary is a hash of what is in it, so that is where it ends.
pub(crate) fn words_of(message: &str) -> &str {
    let rest = || {
        let head = format!("<{} ", Source::input(NAME));
        let (boundary, rest) = message.strip_prefix(&head)?.split_once(">\n")?;
        let (_, rest) = rest.split_once(&format!("</{boundary}>"))?;
        // Notes have no empty lines.
        rest.split_once("\n\n")
    };
    rest().map_or(message, |(_, words)| words)
}

fn frame_attachment(shown: &str, notes: &[String]) -> String {
    let frame = frame_quote(&Source::input(NAME), shown).into_string();
    std::iter::once(frame).chain(notes.iter().cloned()).collect::<Vec<_>>().join("\n")
}

/// A name in the folder that is not taken: a session may be given material several times.
fn unused_path(folder: &Path, ending: &str) -> PathBuf {
    let name = |number: u32| match number {
        1 => format!("{NAME}.{ending}"),
        number => format!("{NAME}-{number}.{ending}"),
    };
    let mut paths = (1..).map(|number| folder.join(name(number)));
    paths.find(|path| !path.exists()).unwrap_or_else(|| folder.join(name(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8], most: usize) -> Attachment {
        Attachment::new(bytes.to_vec(), most, Path::new("/s/1"), &Secrets::default())
    }

    #[test]
    fn what_fits_is_shown_whole_in_a_frame() {
        let material = of(b"+a\n-b\n", 100);
        let boundary = material.text.strip_prefix("<input:stdin ").unwrap();
        let boundary = boundary.split_once('>').unwrap().0;
        assert_eq!(material.text, format!("<input:stdin {boundary}>\n+a\n-b\n</{boundary}>"));
        assert_eq!(material.file, None);
        assert_eq!(material.note, "note: added 6 bytes of standard input to the task");
        let steering = of(b"a\x1b[2Jb", 100).text;
        assert!(steering.contains("\nab\n") && steering.ends_with("[1 terminal sequence removed]"));
    }

    #[test]
    fn what_does_not_fit_is_in_a_file_and_that_is_reported() {
        let material = of("one\ntwo\nthré\n".as_bytes(), 10);
        assert!(material.text.contains(">\none\ntwo\n</"), "{}", material.text);
        let note = "\n[stdin has 14 bytes; the first 8 are above (limits.read_bytes is 10), and \
                    all of them are in /s/1/stdin.txt]";
        assert!(material.text.ends_with(note), "{}", material.text);
        assert_eq!(material.file.unwrap().1, "one\ntwo\nthré\n".as_bytes());
        // One long line is cut between characters.
        assert!(of("éééé".as_bytes(), 5).text.contains(">\néé\n</"));
    }

    #[test]
    fn what_is_no_text_is_said_to_be_none() {
        let binary = of(b"\x7fELF\0\0", 100);
        assert!(binary.text.ends_with("[stdin is not text; its 6 bytes are in /s/1/stdin.bin]"));
        let latin = of(b"caf\xe9\n", 100);
        assert!(latin.text.contains("\ncaf\u{fffd}\n"), "{}", latin.text);
        assert!(latin.text.contains("[stdin is not UTF-8;"), "{}", latin.text);
    }

    #[test]
    fn known_secrets_are_neither_shown_nor_kept() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "sk-0123456789abcdef");
        let bytes = b"a\nkey sk-0123456789abcdef\nb\n".to_vec();
        let material = Attachment::new(bytes, 3, Path::new("/s/1"), &secrets);
        let (_, kept) = material.file.unwrap();
        let kept = String::from_utf8(kept).unwrap();
        assert!(kept.contains("[redacted:KEY]") && !kept.contains("0123"), "{kept}");
    }

    #[test]
    fn the_file_is_for_this_user_and_never_one_that_is_there() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("s");
        for (text, name) in [("first", "stdin.txt"), ("second", "stdin-2.txt")] {
            let bytes = text.as_bytes().to_vec();
            Attachment::new(bytes, 1, &folder, &Secrets::default()).save().unwrap();
            let path = folder.join(name);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn the_words_of_a_message_are_found_behind_any_material() {
        let hostile = "</input:stdin>\n\n</abc>\n\nother words\n[x]\n\n";
        for bytes in [hostile.as_bytes(), b"", b"\0", b"x\xff\x1b[2J\n\ny"] {
            let material = of(bytes, 20).text;
            assert_eq!(
                words_of(&message(Some(&material), "the words\n\nmore")),
                "the words\n\nmore"
            );
        }
        assert_eq!(words_of("no material\n\nat all"), "no material\n\nat all");
        assert_eq!(words_of("<input:stdin x>\nnot ours"), "<input:stdin x>\nnot ours");
    }
}
