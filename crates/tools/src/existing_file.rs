//! What is in a file before it is changed, and whether an agent may change it.

use std::fs::File;
use std::io::Read as _;

use cap_std::fs::{Metadata, MetadataExt as _};
use deputize_core::file_state::{FileVersion, OnStaleWrite, StaleWrite};
use deputize_core::{ToolCallResult, ToolCx, ToolEffect, ToolError, ToolOutput};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::Settings;
use crate::atomic_write::replace;
use crate::blocking::still_wanted;
use crate::granted_path::GrantedPath;
use crate::path_error::PathError;

/// Bytes that are read at once.
const CHUNK: usize = 256 * 1024;

/// Extent of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteExtent {
    /// What it names.
    Part,
    /// All of it.
    Whole,
}

/// A file as it is now.
#[derive(Debug)]
pub(crate) struct ExistingFile {
    pub(crate) meta: Metadata,
    pub(crate) version: FileVersion,
    /// Its content, if that is not too large to be held.
    pub(crate) bytes: Option<Vec<u8>>,
    /// The open file. As long as it is, no new file gets its inode number, by which a change is
    /// noticed: files of the same tick of the clock may have the same times.
    pub(crate) _open: Option<File>,
}

impl ExistingFile {
    /// Reads a file whole; keeps its content up to a number of bytes.
    pub(crate) fn read(cx: &ToolCx, place: &GrantedPath, keep: u64) -> Result<Self, ToolError> {
        let (mut file, meta) = place.open()?;
        let mut sum = Sha256::new();
        let room = usize::try_from(meta.len()).unwrap_or(usize::MAX);
        let mut kept = (meta.len() <= keep).then(|| Vec::with_capacity(room));
        let mut bytes = 0;
        let mut piece = vec![0; CHUNK];
        loop {
            still_wanted(cx)?;
            let got = next(&mut file, &mut piece)
                .map_err(|error| PathError::of("read", place.shown(), error))?;
            let got = piece.get(..got).unwrap_or_default();
            if got.is_empty() {
                break;
            }
            sum.update(got);
            bytes += got.len() as u64;
            kept = kept.filter(|_| bytes <= keep);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(got);
            }
        }
        let sha256 = data_encoding::HEXLOWER.encode(&sum.finalize());
        Ok(Self { meta, version: FileVersion { sha256, bytes }, bytes: kept, _open: Some(file) })
    }

    /// Whether the agent may change this: a note when it may in spite of a change.
    pub(crate) fn may_change(
        &self,
        cx: &ToolCx,
        place: &GrantedPath,
        what: WriteExtent,
    ) -> Result<Option<String>, ToolError> {
        let files = &cx.agent.session.files;
        let agent = cx.agent.id();
        let allowed = match what {
            WriteExtent::Part => files.check(agent, &place.path(), &self.version),
            WriteExtent::Whole => files.check_whole(agent, &place.path(), &self.version),
        };
        let allowed = allowed.map_err(|stale| match stale {
            StaleWrite::Changed { by } => {
                StaleWrite::Changed { by: format!("{by}{}", self.when()) }
            }
            unseen => unseen,
        });
        // What was never seen is lost in no mode.
        let whole = what == WriteExtent::Part || files.record_full_read(agent, &place.path());
        match allowed {
            Ok(()) => Ok(None),
            Err(stale @ StaleWrite::Changed { .. }) if !whole => Err(stale_error(place, &stale)),
            Err(stale) => stale_write(cx, place, &stale),
        }
    }

    /// When it was last changed, as the file system has it.
    fn when(&self) -> String {
        let changed = Timestamp::from_second(self.meta.mtime()).ok();
        changed.map_or_else(String::new, |at| format!(", at {}", at.strftime("%F %T UTC")))
    }
}

/// Whether the agent may create a file where there is none: a note when it may although there was
/// one that it had read.
pub(crate) fn may_create(cx: &ToolCx, place: &GrantedPath) -> Result<Option<String>, ToolError> {
    let allowed = cx.agent.session.files.check_none(cx.agent.id(), &place.path());
    allowed.map(|()| None).or_else(|stale| stale_write(cx, place, &stale))
}

/// Why there is nothing to change at a path: what is known of a file that the agent had read there.
pub(crate) fn none_to_change(cx: &ToolCx, path: &str, error: PathError) -> ToolError {
    let PathError::NotFound { .. } = error else { return error.into() };
    let Ok(place) = GrantedPath::to_write(cx, path) else { return error.into() };
    match cx.agent.session.files.check_none(cx.agent.id(), &place.path()) {
        Ok(()) => error.into(),
        Err(stale) => stale_error(&place, &stale),
    }
}

/// Decides on a write to a file that is another one than the agent read: a note when it may write
/// all the same.
fn stale_write(
    cx: &ToolCx,
    place: &GrantedPath,
    stale: &StaleWrite,
) -> Result<Option<String>, ToolError> {
    let path = place.shown();
    match (stale, Settings::of(cx).on_stale_write) {
        (StaleWrite::Changed { by }, OnStaleWrite::Warn) => Ok(Some(format!(
            "{path} had changed on disk since you read it ({by}); that change may be lost"
        ))),
        (StaleWrite::Gone, OnStaleWrite::Warn) => {
            Ok(Some(format!("{path} had been deleted or renamed since you read it")))
        }
        (stale, OnStaleWrite::Refuse | OnStaleWrite::Warn) => Err(stale_error(place, stale)),
    }
}

fn stale_error(place: &GrantedPath, stale: &StaleWrite) -> ToolError {
    ToolError::refused(format!("{}: {stale}", place.shown()))
}

fn next(file: &mut File, piece: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match file.read(piece) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            got => return got,
        }
    }
}

/// A file's content that is replaced. The caller holds the lock of its path.
pub(crate) struct FileChange<'a> {
    pub(crate) place: &'a GrantedPath,
    /// `None` if there is no file yet.
    pub(crate) old: Option<&'a ExistingFile>,
    pub(crate) new: &'a [u8],
}

impl FileChange<'_> {
    /// Writes the content, enters that in the ledger, and answers with `output`.
    ///
    /// The output is passed in before the write, so that nothing slow follows it: a cancelled call
    /// has either written nothing, or settles at once with a recorded write.
    pub(crate) fn write(self, cx: &ToolCx, output: ToolOutput) -> ToolCallResult {
        let path = self.place.path();
        let version = FileVersion::of(self.new);
        let output = output.fact(ToolEffect::FileWritten {
            path: path.clone(),
            version: version.clone(),
            created: self.old.is_none(),
        });
        replace(cx, self.place, self.old.map(|old| &old.meta), self.new)?;
        let files = &cx.agent.session.files;
        match self.old {
            Some(_) => files.record_write(cx.agent.id(), &path, version),
            None => files.record_creation(cx.agent.id(), &path, version),
        }
        Ok(output)
    }
}

/// A text with the word TIME where it has one: that of this year's runs and the next ones'.
#[cfg(test)]
pub(crate) fn timeless(text: &str) -> String {
    const LENGTH: usize = "2026-01-31 12:34:56 UTC".len();
    match text.split_once(", at 2") {
        Some((before, time)) => format!("{before}, at TIME{}", &time[LENGTH - 1..]),
        None => text.to_owned(),
    }
}
