//! An open file of the in-memory disk.

use std::io;
use std::path::PathBuf;

use deputize_core::BoxFuture;
use deputize_runtime::DiskFile;

use super::disk_state::{DiskFault, SharedDisk};
use super::page_cache::PageCache;

/// A file that a process has opened.
pub(super) struct Handle {
    pub(super) disk: SharedDisk,
    pub(super) path: PathBuf,
    pub(super) process: u64,
}

impl DiskFile for Handle {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let trouble = self.disk.operation(self.process, true)?;
        let mut state = self.disk.state();
        let part = match trouble {
            None => bytes.len(),
            Some(DiskFault::Broken | DiskFault::ReadOnly) => 0,
            Some(DiskFault::Full | DiskFault::Short) => state.dice.usize(..bytes.len().max(1)),
            Some(DiskFault::Killed) => state.dice.usize(..=bytes.len()),
        };
        let file = state.get(&self.path)?;
        file.content.now.extend_from_slice(bytes.get(..part).unwrap_or_default());
        trouble.map_or(Ok(()), |trouble| Err(trouble.error()))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.whole(self.process, true, |state| {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            state.get(&self.path)?.content.truncate(bytes);
            Ok(())
        })
    }

    fn sync_now(&self) -> io::Result<()> {
        let trouble = self.disk.operation(self.process, true)?;
        let mut state = self.disk.state();
        let content = &mut state.get(&self.path)?.content;
        let now = content.now.clone();
        sync(content, now, trouble)
    }

    fn sync(&self) -> BoxFuture<'static, io::Result<()>> {
        let disk = self.disk.clone();
        let path = self.path.clone();
        let process = self.process;
        Box::pin(async move {
            let trouble = disk.operation(process, true)?;
            // Writes that happen during the sync may be too late for it.
            let now = disk.state().get(&path)?.content.now.clone();
            disk.moment().await;
            let mut state = disk.state();
            if state.dead || state.process != process {
                return Err(DiskFault::Killed.error());
            }
            sync(&mut state.get(&path)?.content, now, trouble)
        })
    }
}

fn sync(content: &mut PageCache, now: Vec<u8>, trouble: Option<DiskFault>) -> io::Result<()> {
    let Some(trouble) = trouble else {
        content.synced(now);
        return Ok(());
    };
    if trouble != DiskFault::Killed {
        content.sync_failed(now.len());
    }
    Err(trouble.error())
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.process == self.process
            && let Ok(file) = state.get(&self.path)
        {
            file.locked = false;
        }
    }
}
