//! Loads a library into this process. It stays loaded, because its threads and handlers may run at
//! any time.
#![expect(
    unsafe_code,
    reason = "the system loads libraries and finds their statics by C addresses"
)]

use deputize_plugin::{Plugin, TableV1};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::PluginFileError;
use crate::file::PluginFile;

/// Loads a file whose table was found and checked in its bytes.
pub(crate) fn load(file: &PluginFile) -> Result<Plugin, PluginFileError> {
    let name = file.table()?;
    let failed = |source| PluginFileError::Open { path: file.path().to_owned(), source };
    let path = file_path::library_path(file)?;
    // SAFETY: opening a library runs its constructors. The person has named this file, and its
    // bytes are the ones that were pinned and that have a table of ours; `file_path` keeps them.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
    // SAFETY: the symbol is a static, and what is taken is its address.
    let table = unsafe { library.get::<*const TableV1>(name.as_bytes()) }.map_err(failed)?;
    let table: *const TableV1 = *table;
    std::mem::forget(library);
    // SAFETY: the address of a static that begins as the bytes in the file do, in a library that
    // is never closed; that its functions keep the contract is what the table says.
    let plugin = unsafe { Plugin::from_table(table) };
    plugin.map_err(|source| PluginFileError::Table { path: file.path().to_owned(), source })
}

#[cfg(target_os = "linux")]
mod file_path {
    use std::fs::File;
    use std::io::{self, Write as _};
    use std::mem::ManuallyDrop;
    use std::os::fd::AsRawFd as _;
    use std::path::PathBuf;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use rustix::io::Errno;

    use crate::error::PluginFileError;
    use crate::file::PluginFile;

    /// Returns the path of an anonymous, sealed file with the checked bytes. It stays open, because
    /// the loader identifies the library by its path.
    pub(super) fn library_path(file: &PluginFile) -> Result<PathBuf, PluginFileError> {
        let kept = sealed(file)
            .map_err(|source| PluginFileError::Read { path: file.path().to_owned(), source })?;
        let kept = ManuallyDrop::new(kept);
        Ok(PathBuf::from(format!("/proc/self/fd/{}", kept.as_raw_fd())))
    }

    fn sealed(file: &PluginFile) -> io::Result<File> {
        let name = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name: String = name.chars().filter(|c| *c != '\0').take(60).collect();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let made = match memfd_create(&name, flags | MemfdFlags::EXEC) {
            // A kernel before 6.3.
            Err(Errno::INVAL) => memfd_create(&name, flags),
            other => other,
        };
        let mut kept = File::from(made?);
        kept.write_all(file.bytes())?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(&kept, seals)?;
        Ok(kept)
    }
}

#[cfg(not(target_os = "linux"))]
mod file_path {
    use std::path::PathBuf;

    use crate::error::PluginFileError;
    use crate::file::PluginFile;

    /// Returns the path of the file itself, if it still is the one that was checked.
    pub(super) fn library_path(file: &PluginFile) -> Result<PathBuf, PluginFileError> {
        PluginFile::read(file.path())?.pinned(file.sha256())?;
        Ok(file.path().to_owned())
    }
}
