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
        PluginFile::read(file.path())?.verify(file.sha256())?;
        Ok(file.path().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::path::PathBuf;

    use deputize_plugin::CallContext;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    /// A call that its plugin finds cancelled once it has sent a note.
    #[derive(Default)]
    struct Call {
        notes: Mutex<Vec<String>>,
    }

    impl CallContext for Call {
        fn cancelled(&self) -> bool {
            !self.notes.lock().is_empty()
        }

        fn note(&self, text: &str) {
            self.notes.lock().push(text.to_owned());
        }

        fn about(&self) -> &str {
            r#"{"session":"s","agent":"s","call":"call_1_0","cwd":"/"}"#
        }
    }

    /// The library that cargo makes of the crate `trouble`, on which these tests depend.
    fn library() -> PathBuf {
        let start = env::consts::DLL_PREFIX;
        let end = env::consts::DLL_SUFFIX;
        let name = format!("{start}deputize_plugin_trouble{end}");
        env::current_exe().unwrap().with_file_name(name)
    }

    fn call(plugin: &Plugin, tool: &str, call: &Call) -> Value {
        serde_json::from_str(&plugin.call(tool, "{}", call).unwrap()).unwrap()
    }

    /// All of it crosses to code that another linker run has put together. This is what a build
    /// with AddressSanitizer watches.
    #[test]
    fn a_library_is_described_called_from_many_threads_cancelled_and_survives_a_panic() {
        let plugin = load(&PluginFile::read(&library()).unwrap()).unwrap();
        let described: Value = serde_json::from_str(&plugin.describe().unwrap()).unwrap();
        assert_eq!(described["ok"]["name"], "deputize-plugin-trouble");

        let fine = || call(&plugin, "trouble_fine", &Call::default());
        let mut counts: Vec<Value> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(fine)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()["ok"].take()).collect()
        });
        counts.sort_by_key(Value::to_string);
        let expected: Vec<Value> = (1..=8).map(|n| json!(format!("asked {n} times"))).collect();
        assert_eq!(counts, expected);

        let waits = Call::default();
        let cancelled = call(&plugin, "trouble_wait", &waits);
        assert_eq!(cancelled, json!({"cancelled": "half of it"}));
        assert_eq!(*waits.notes.lock(), ["waiting in the plugin"]);

        let panicked = call(&plugin, "trouble_panic", &Call::default());
        assert_eq!(panicked, json!({"panicked": true}));
        assert_eq!(fine(), json!({"ok": "asked 9 times", "notes": ["a remark"]}));
    }
}
