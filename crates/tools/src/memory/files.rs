//! What agents keep across sessions: two Markdown files with an entry a line.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deputize_core::memory::{Memory, MemoryError, MemorySnapshot};
use deputize_core::sanitize::{Secrets, clean};
use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::wording::one_line;
use deputize_core::{AgentId, BoxFuture, Outcome, describe_error};
use deputize_documents::read_exact_text;
use deputize_file_lock::lock;

use super::entry::{BULLET, TextEntry, keep_fitting, parse, text_of};
use super::source_mark::SourceMark;
use super::topic::{ENTRY_CHARS, MEMORY_BYTES, MemoryFileError, MemoryTopic};
use crate::secret_text::secret_in;

/// Bytes of a file that a person wrote; a longer one is not read.
const READ_BYTES: u64 = 1024 * 1024;
/// How long another process that writes is waited for.
const LOCK_LIMIT: Duration = Duration::from_secs(20);

/// The memory of a person's agents: `user.md` and `work.md` in a folder.
///
/// Each change holds a lock, so that processes that write at the same time lose nothing. A prompt
/// has what was there when its agent began.
///
/// ```
/// use deputize_core::memory::Memory as _;
/// use deputize_core::sanitize::Secrets;
/// use deputize_tools::{MemoryFiles, MemoryTopic};
///
/// let dir = tempfile::tempdir()?;
/// let memory = MemoryFiles::new(dir.path().to_owned(), Secrets::default());
/// memory.add(MemoryTopic::User, "Likes short answers.", &[])?;
/// assert_eq!(memory.snapshot().unwrap().text, "# About the person\n- Likes short answers.\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct MemoryFiles {
    folder: PathBuf,
    secrets: Secrets,
    /// Whether changes are only tried.
    dry_run: bool,
}

/// What the files say in a prompt.
#[derive(Debug, Default)]
pub struct MemoryPrompt {
    /// Their entries; `None` if there are none.
    pub text: Option<String>,
    /// Their topics, and the sources that their marks name.
    pub sources: SourceSet,
    /// Files that are there and cannot be read, or are too long for a prompt.
    pub faults: Vec<MemoryFileError>,
}

impl MemoryFiles {
    /// Creates the memory of a folder, which may not exist yet. An entry with one of the secrets is
    /// refused.
    #[must_use]
    pub const fn new(folder: PathBuf, secrets: Secrets) -> Self {
        Self { folder, secrets, dry_run: false }
    }

    /// Returns the same for trying changes: nothing is written.
    pub(super) fn dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    /// Returns the same, with more values that no entry may have in it.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &Secrets) -> Self {
        self.secrets.add_all(secrets);
        self
    }

    /// Returns the path of a file.
    #[must_use]
    pub fn path(&self, topic: MemoryTopic) -> PathBuf {
        self.folder.join(format!("{}.md", topic.as_str()))
    }

    /// Returns the entries of a file.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn entries(&self, topic: MemoryTopic) -> Result<Vec<String>, MemoryFileError> {
        let path = self.path(topic);
        read(topic, &path).map_err(|source| MemoryFileError::Io { path, source })
    }

    /// Returns the text of a file as agents read it: a title, and an entry a line.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn text(&self, topic: MemoryTopic) -> Result<String, MemoryFileError> {
        Ok(text_of(topic, &self.entries(topic)?))
    }

    /// Returns the text of both files for a prompt. Of a file that is too long the entries are
    /// shown for which there is room, and the rest is counted. One that cannot be read hides nothing of the other.
    #[must_use]
    pub fn prompt_text(&self) -> MemoryPrompt {
        let mut texts = Vec::new();
        let mut sources = SourceSet::new();
        let mut faults = Vec::new();
        for topic in MemoryTopic::ALL {
            let mut entries = match self.entries(topic) {
                Ok(entries) => entries,
                Err(error) => {
                    faults.push(error);
                    continue;
                }
            };
            let all = entries.len();
            keep_fitting(topic, &mut entries);
            let more = all - entries.len();
            if all > 0 {
                sources.insert(Source::memory(topic.as_str()));
                sources.extend(
                    entries.iter().flat_map(|entry| SourceMark::split(entry).1.into_sources()),
                );
                texts.push(text_of(topic, &entries));
            }
            if more > 0 {
                let are = if more == 1 { "entry is" } else { "entries are" };
                texts.push(format!("[{more} more {are} left out here]\n"));
                let path = self.path(topic);
                faults.push(MemoryFileError::Omitted {
                    topic: topic.as_str(),
                    path,
                    entries: more,
                });
            }
        }
        MemoryPrompt { text: (!texts.is_empty()).then(|| texts.join("\n")), sources, faults }
    }

    /// Returns the entry that is `old`, or the one that has it in it.
    ///
    /// # Errors
    /// If the file cannot be read, or no entry is that text and not exactly one has it.
    pub(super) fn find(&self, topic: MemoryTopic, old: &str) -> Result<String, MemoryFileError> {
        let mut entries = self.entries(topic)?;
        let index = one_with(&entries, topic, old)?;
        Ok(entries.swap_remove(index))
    }

    /// Adds an entry, with a mark that names the sources from outside, if there are any.
    ///
    /// # Errors
    /// If the entry is empty, too long, a secret, or kept already, or the file is full or cannot be
    /// written.
    pub fn add(
        &self,
        topic: MemoryTopic,
        text: &str,
        sources: &[String],
    ) -> Result<String, MemoryFileError> {
        let mut mark = SourceMark::default();
        mark.add(sources);
        let entry = mark.entry(&self.check_entry(text)?);
        self.change(topic, |entries| {
            if entries.contains(&entry) {
                return Err(MemoryFileError::Known);
            }
            entries.push(entry.clone());
            Ok(())
        })?;
        Ok(entry)
    }

    /// Replaces the entry that is `old`, or the one that has it in it. The sources of the old entry stay in the mark.
    ///
    /// # Errors
    /// As [`MemoryFiles::add`], and if no entry is that text and not exactly one has it.
    pub fn replace(
        &self,
        topic: MemoryTopic,
        old: &str,
        text: &str,
        sources: &[String],
    ) -> Result<String, MemoryFileError> {
        let text = self.check_entry(text)?;
        let mut written = String::new();
        self.change(topic, |entries| {
            let index = one_with(entries, topic, old)?;
            let before = entries.remove(index);
            let (_, mut mark) = SourceMark::split(&before);
            mark.add(sources);
            written = mark.entry(&text);
            entries.insert(index, written.clone());
            Ok(())
        })?;
        Ok(written)
    }

    /// Removes the entry that is `old`, or the one that has it in it, and returns it.
    ///
    /// # Errors
    /// If no entry is that text and not exactly one has it, or the file cannot be written.
    pub fn remove(&self, topic: MemoryTopic, old: &str) -> Result<String, MemoryFileError> {
        let mut removed = String::new();
        self.change(topic, |entries| {
            let index = one_with(entries, topic, old)?;
            removed = entries.remove(index);
            Ok(())
        })?;
        Ok(removed)
    }

    /// Replaces all entries of a file by those of a text. Each line is an entry, with or without
    /// `- ` before it; an indented line without it belongs to the entry before. The title of the
    /// file is none. Marks in the text are kept. `before` has the entries that the text was made
    /// from.
    ///
    /// # Errors
    /// If an entry is too long or a secret, the file has other entries than `before` by now, or it
    /// would be too long or cannot be written.
    pub fn replace_all(
        &self,
        topic: MemoryTopic,
        before: &[String],
        text: &str,
    ) -> Result<(), MemoryFileError> {
        let mut new = Vec::new();
        for TextEntry { line, text } in parse(topic, text) {
            let (text, mark) = SourceMark::split(&text);
            let in_line = |error| MemoryFileError::Line { line, source: Box::new(error) };
            new.push(mark.entry(&self.check_entry(text).map_err(in_line)?));
        }
        self.change(topic, |entries| {
            if entries != before {
                return Err(MemoryFileError::Changed(topic.as_str()));
            }
            *entries = new;
            Ok(())
        })
    }

    /// Returns the text of an entry as it is kept: on one line.
    fn check_entry(&self, text: &str) -> Result<String, MemoryFileError> {
        let text = one_line(&clean(text).text);
        let text = text.strip_prefix(BULLET).unwrap_or(&text);
        if text.is_empty() {
            return Err(MemoryFileError::Empty);
        }
        let chars = text.chars().count();
        if chars > ENTRY_CHARS {
            return Err(MemoryFileError::Long { chars });
        }
        if let Some(secret) = secret_in(text, &self.secrets) {
            return Err(MemoryFileError::Secret(secret));
        }
        Ok(text.to_owned())
    }

    /// Changes the entries of a file under the lock, whole or not at all.
    fn change(
        &self,
        topic: MemoryTopic,
        change: impl FnOnce(&mut Vec<String>) -> Result<(), MemoryFileError>,
    ) -> Result<(), MemoryFileError> {
        let path = self.path(topic);
        let failed = |source| MemoryFileError::Io { path: path.clone(), source };
        let _lock = (!self.dry_run).then(|| self.lock().map_err(failed)).transpose()?;
        let mut entries = read(topic, &path).map_err(failed)?;
        let before = entries.len();
        change(&mut entries)?;
        let text = text_of(topic, &entries);
        if text.len() > MEMORY_BYTES && entries.len() >= before {
            return Err(MemoryFileError::Full { topic: topic.as_str(), bytes: text.len() });
        }
        if self.dry_run {
            return Ok(());
        }
        write_whole(&real_path(&path), &text).map_err(failed)
    }

    /// Waits for the lock of the folder, which is held until the file is dropped.
    fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        Ok(lock(File::create(self.folder.join(".lock"))?, LOCK_LIMIT, || false)?)
    }
}

impl Memory for MemoryFiles {
    fn on_delegation<'a>(
        &'a self,
        _: &'a str,
        _: &'a Outcome,
        _: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        // The agent itself decides what of it is worth keeping.
        Box::pin(async { Ok(()) })
    }

    fn snapshot(&self) -> Option<MemorySnapshot> {
        let MemoryPrompt { text, sources, faults } = self.prompt_text();
        for fault in faults {
            tracing::warn!(error = %describe_error(&fault), "of a memory file something is left out");
        }
        Some(MemorySnapshot { text: text?, sources })
    }
}

/// Returns the index of the entry that is a text, with or without its mark; else that of the one
/// entry with the text in it.
fn one_with(entries: &[String], topic: MemoryTopic, text: &str) -> Result<usize, MemoryFileError> {
    let text = text.trim();
    let whole = text.strip_prefix(BULLET).unwrap_or(text);
    if let Some(index) = entries.iter().position(|entry| entry == whole) {
        return Ok(index);
    }
    let matching = |is_match: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let entries = entries.iter().enumerate();
        entries.filter_map(|(index, entry)| is_match(entry).then_some(index)).collect()
    };
    let mut found = matching(&|entry| SourceMark::split(entry).0 == whole);
    if found.is_empty() {
        found = matching(&|entry| entry.contains(text));
    }
    match found.as_slice() {
        [one] if !text.is_empty() => Ok(*one),
        found if found.is_empty() || text.is_empty() => {
            Err(MemoryFileError::NoMatch { topic: topic.as_str(), text: text.to_owned() })
        }
        found => Err(MemoryFileError::Ambiguous {
            topic: topic.as_str(),
            text: text.to_owned(),
            count: found.len(),
        }),
    }
}

/// Returns what a link leads to, which may not be there yet: a person's link stays one.
fn real_path(path: &Path) -> PathBuf {
    let linked = || path.parent().unwrap_or(path).join(fs::read_link(path).unwrap_or_default());
    path.canonicalize()
        .unwrap_or_else(|_| if path.is_symlink() { linked() } else { path.to_owned() })
}

/// Writes a file whole or not at all. Only who holds the lock writes, so one name will do for what is
/// not whole yet, and what a killed process left under it goes.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let _there_may_be_none = fs::remove_file(&new);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        let _best_effort = fs::remove_file(&new);
    })
}

fn read(topic: MemoryTopic, path: &Path) -> io::Result<Vec<String>> {
    let text = read_exact_text(path, READ_BYTES)?;
    let entries = text.map(|text| parse(topic, &text)).unwrap_or_default();
    Ok(entries.into_iter().map(|entry| entry.text).collect())
}

#[cfg(test)]
mod tests;
