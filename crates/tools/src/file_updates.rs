//! Changes of several files that are made together or not at all.

use std::path::Path;

use cap_std::fs::{Dir, Metadata};
use deputize_core::file_state::FileVersion;
use deputize_core::{ToolCx, ToolEffect, ToolError, ToolOutput};

use crate::atomic_write::{TemporaryFile, check_unchanged, wait_for_turn};
use crate::blocking::still_wanted;
use crate::existing_file::ExistingFile;
use crate::granted_path::GrantedPath;
use crate::parent_directory::{CreatedDirectories, ParentDirectory};
use crate::path_error::PathError;

/// A change of one file. The caller holds the lock of its path.
#[derive(Debug)]
pub(crate) struct FileUpdate {
    pub(crate) place: GrantedPath,
    /// What is there, with its content; `None` if there is no file.
    pub(crate) old: Option<ExistingFile>,
    /// What is to be there; `None` if there is to be no file.
    pub(crate) new: Option<Vec<u8>>,
    /// The file whose owner and mode a new file gets; `None` for those of any new file.
    pub(crate) mode_of: Option<Metadata>,
}

impl FileUpdate {
    /// Returns what the host sees of the change when it is made.
    fn effect(&self) -> ToolEffect {
        let path = self.place.path();
        match &self.new {
            None => ToolEffect::FileRemoved { path },
            Some(new) => {
                let version = FileVersion::of(new);
                let created = self.old.is_none();
                ToolEffect::FileWritten { path, version, created }
            }
        }
    }

    /// Enters the change in the ledger.
    fn record(&self, cx: &ToolCx) {
        let files = &cx.agent.session.files;
        let agent = cx.agent.id();
        let path = self.place.path();
        match (&self.old, &self.new) {
            (Some(_), Some(new)) => files.record_write(agent, &path, FileVersion::of(new)),
            (None, Some(new)) => files.record_creation(agent, &path, FileVersion::of(new)),
            (_, None) => files.record_absence(agent, &path),
        }
    }

    /// Writes a content beside the place, and returns it ready to be moved there.
    fn prepare(&self, cx: &ToolCx, content: Option<&[u8]>) -> Result<ReadyChange<'_>, ToolError> {
        let failed = |source| PathError::of("write", self.place.shown(), source);
        let ParentDirectory { dir, name, created } = ParentDirectory::open(&self.place)?;
        let ready = ReadyChange { change: self, dir, name, temporary: None, created };
        let Some(content) = content else { return Ok(ready) };
        let dir = ready.dir.try_clone().map_err(failed)?;
        let temporary = TemporaryFile::create(cx, &self.place, dir).map_err(failed)?;
        let mode_of = self.old.as_ref().map(|old| &old.meta).or(self.mode_of.as_ref());
        temporary.fill(&self.place, content, mode_of)?;
        Ok(ReadyChange { temporary: Some(temporary), ..ready })
    }
}

/// A change of which only the last step is left.
struct ReadyChange<'c> {
    change: &'c FileUpdate,
    dir: Dir,
    name: &'c Path,
    /// The new content; `None` if the file is to be removed.
    temporary: Option<TemporaryFile>,
    created: CreatedDirectories,
}

impl ReadyChange<'_> {
    /// Makes the change if no other session came first.
    fn make_in_turn(self, cx: &ToolCx) -> Result<(), PathError> {
        let _turn = wait_for_turn(cx, &self.dir);
        self.check_unchanged()?;
        self.make()
    }

    /// Fails if something else is there than when the change was made up.
    fn check_unchanged(&self) -> Result<(), PathError> {
        let old = self.change.old.as_ref().map(|old| &old.meta);
        check_unchanged(&self.change.place, &self.dir, self.name, old)
    }

    fn make(self) -> Result<(), PathError> {
        let made = match self.temporary {
            Some(temporary) => temporary.move_to(self.name),
            None => self.dir.remove_file(self.name),
        };
        made.map_err(|source| PathError::of("change", self.change.place.shown(), source))
    }
}

/// Makes all changes, enters them in the ledger, and answers with `output`.
///
/// All new contents are on disk before the first file is changed, and nothing is changed if another
/// program changed one of the files meanwhile. If a change fails nevertheless, those before it are
/// undone. A program that is killed between two of these last steps leaves the first ones made.
/// Directories that were created for files that are not written are removed.
///
/// # Errors
/// If a change is not possible. Nothing is changed then, unless the error says so.
pub(crate) fn make_all(
    cx: &ToolCx,
    changes: &[FileUpdate],
    mut output: ToolOutput,
) -> Result<ToolOutput, ToolError> {
    // Dropped last, when nothing is in them any more.
    let mut created = CreatedDirectories::default();
    let mut ready = Vec::with_capacity(changes.len());
    for change in changes {
        still_wanted(cx)?;
        let mut prepared = change.prepare(cx, change.new.as_deref())?;
        created.add(std::mem::take(&mut prepared.created));
        ready.push(prepared);
    }
    for change in &ready {
        change.check_unchanged()?;
    }
    still_wanted(cx)?;
    for (index, change) in ready.into_iter().enumerate() {
        if let Err(error) = change.make_in_turn(cx) {
            let made = changes.get(..index).unwrap_or_default();
            return Err(undo(cx, made, error));
        }
    }
    created.keep();
    for change in changes {
        change.record(cx);
        output.facts.push(change.effect());
    }
    Ok(output)
}

/// Undoes changes, the last one first, and returns the error for the one that failed.
fn undo(cx: &ToolCx, made: &[FileUpdate], error: PathError) -> ToolError {
    let mut output = ToolOutput::default();
    let mut left = Vec::new();
    for change in made.iter().rev() {
        let old = change.old.as_ref().map(|old| old.bytes.as_deref().unwrap_or_default());
        let undone = change.prepare(cx, old).and_then(|mut ready| {
            let created = std::mem::take(&mut ready.created);
            ready.make()?;
            created.keep();
            Ok(())
        });
        if undone.is_err() {
            change.record(cx);
            output.facts.push(change.effect());
            left.push(change.place.shown());
        }
    }
    if left.is_empty() {
        return error.into();
    }
    let text = format!("{error}; these files are changed nevertheless: {}", left.join(", "));
    ToolError::Partly {
        text: deputize_core::message::ModelText::own(text),
        output: Box::new(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::ToolFixture;

    fn change(bench: &ToolFixture, path: &str, new: Option<&str>) -> FileUpdate {
        let place = GrantedPath::to_write(&bench.cx, path).unwrap();
        let old = place.metadata().is_ok_and(|meta| meta.is_file());
        let old = old.then(|| ExistingFile::read(&bench.cx, &place, 1000).unwrap());
        FileUpdate { place, old, new: new.map(Into::into), mode_of: None }
    }

    #[test]
    fn a_change_that_fails_at_the_end_undoes_those_before_it() {
        let bench = ToolFixture::new();
        bench.put("a", "old a").put("b", "old b").put("d/x", "");
        let mut last = change(&bench, "d", None);
        // No file is removed there, because it is a directory.
        let meta = last.place.metadata().unwrap();
        let version = FileVersion::of(b"");
        last.old = Some(ExistingFile { meta, version, bytes: None, _open: None });
        let changes = [
            change(&bench, "a", Some("new a")),
            change(&bench, "new/er/x", Some("x")),
            change(&bench, "b", None),
            last,
        ];
        let error = make_all(&bench.cx, &changes, ToolOutput::default()).unwrap_err();
        assert!(error.to_string().starts_with("refused: cannot change d"), "{error}");
        assert_eq!((bench.get("a"), bench.get("b")), (b"old a".to_vec(), b"old b".to_vec()));
        assert!(!bench.path("new").exists());
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 3, "nothing is left behind");
    }

    #[test]
    fn a_patch_that_is_not_made_leaves_no_directory() {
        let bench = ToolFixture::new();
        bench.put("a", "old a").put("kept/x", "");
        let changes = [
            change(&bench, "kept/new/one", Some("1")),
            change(&bench, "kept/new/two/two", Some("2")),
            change(&bench, "a", Some("new a")),
        ];
        bench.put("a", "other");
        make_all(&bench.cx, &changes, ToolOutput::default()).unwrap_err();
        assert_eq!(std::fs::read_dir(bench.path("kept")).unwrap().count(), 1);
    }

    #[test]
    fn what_another_program_changed_meanwhile_stops_all() {
        let bench = ToolFixture::new();
        bench.put("a", "old a").put("b", "old b");
        let changes = [change(&bench, "a", Some("new a")), change(&bench, "b", Some("new b"))];
        bench.put("b", "other");
        let error = make_all(&bench.cx, &changes, ToolOutput::default()).unwrap_err();
        assert!(error.to_string().contains("another program changed it"), "{error}");
        assert_eq!((bench.get("a"), bench.get("b")), (b"old a".to_vec(), b"other".to_vec()));
    }
}
