//! The folder for output that is too long to be shown, and how much of it there may be.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;

use deputize_core::ToolCx;
use deputize_process::SpillFile;

use crate::Settings;

/// Why the output of a command is not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpillError {
    #[error("no folder for the output")]
    Folder(#[source] io::Error),
    #[error(
        "the long outputs of this session take {used} bytes, and the limit is {limit}; print less, \
         or write to a file"
    )]
    Full { used: u64, limit: u64 },
}

/// Makes the session's folder for what is too long to be shown.
pub(crate) fn folder(cx: &ToolCx) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(&cx.agent.session.spill)
}

/// Returns where the output of this call goes, with what room there is. It looks on a thread that
/// may block. Commands that run side by side
/// count on the same room, so together they may take more, each at most the limit of one call.
pub(crate) async fn file(cx: &ToolCx) -> Result<SpillFile, SpillError> {
    let cx = cx.clone();
    let prepared = tokio::task::spawn_blocking(move || prepare_file(&cx)).await;
    prepared.map_err(|lost| SpillError::Folder(lost.into())).flatten()
}

fn prepare_file(cx: &ToolCx) -> Result<SpillFile, SpillError> {
    folder(cx).map_err(SpillError::Folder)?;
    let used = used_bytes(cx).map_err(SpillError::Folder)?;
    let limit = Settings::of(cx).spill_bytes;
    let mut file = SpillFile::new(cx.spill_path("log"));
    file.limit = file.limit.min(limit.saturating_sub(used));
    if file.limit == 0 { Err(SpillError::Full { used, limit }) } else { Ok(file) }
}

/// Bytes of everything in the folder.
fn used_bytes(cx: &ToolCx) -> io::Result<u64> {
    let sizes = std::fs::read_dir(&cx.agent.session.spill)?.map(|entry| {
        // What is gone by now takes no room.
        entry.map(|entry| entry.metadata().map_or(0, |meta| meta.len()))
    });
    sizes.sum()
}
