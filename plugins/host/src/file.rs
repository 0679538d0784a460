//! The file of a plugin, read once and checked before any of its code runs.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use deputize_plugin::{ABI, Head, SYMBOL, TableError};
use object::{Object as _, ObjectSection as _};
use sha2::{Digest as _, Sha256};

use crate::error::PluginFileError;

/// Maximum size of a plugin's file in bytes.
pub const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

/// Prefix of the names of all tables, before the version.
const PREFIX: &str = "deputize_plugin_v";

/// The content of a plugin's file. The checked bytes are those that are loaded, even if the file
/// changes meanwhile.
pub struct PluginFile {
    path: PathBuf,
    bytes: Vec<u8>,
    sha256: String,
}

impl std::fmt::Debug for PluginFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PluginFile({}, {} bytes)", self.path.display(), self.bytes.len())
    }
}

impl PluginFile {
    /// Reads a file. Nothing of it is run.
    ///
    /// # Errors
    /// If it is no regular file, is too large, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, PluginFileError> {
        let failed = |source| PluginFileError::Read { path: path.to_owned(), source };
        let bytes = bytes(path).map_err(failed)?;
        let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes));
        Ok(Self { path: path.to_owned(), bytes, sha256 })
    }

    /// Returns its SHA-256, in lower case hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the file, if it has the pinned digest.
    ///
    /// # Errors
    /// If it has another one.
    pub fn verify(self, sha256: &str) -> Result<Self, PluginFileError> {
        if self.sha256.eq_ignore_ascii_case(sha256) {
            return Ok(self);
        }
        let Self { path, sha256: found, .. } = self;
        Err(PluginFileError::Digest { path, pinned: sha256.to_owned(), found })
    }

    /// Returns the name of its table, after checking the table in the bytes of the file.
    ///
    /// # Errors
    /// If it is no library, has no table or several, or one that this program cannot use.
    pub fn table(&self) -> Result<String, PluginFileError> {
        let path = || self.path.clone();
        let broken = |source| PluginFileError::NoLibrary { path: path(), source };
        let library = object::File::parse(&*self.bytes).map_err(broken)?;
        let mut tables = Vec::new();
        for export in library.exports().map_err(broken)? {
            // On some systems C names have an underscore before them in the file.
            let name = std::str::from_utf8(export.name()).unwrap_or_default();
            let name = name.strip_prefix('_').unwrap_or(name);
            if let Some(version) = version_of(name) {
                tables.push((name.to_owned(), version, export.address()));
            }
        }
        tables.sort();
        let refused = |source| PluginFileError::Table { path: path(), source };
        let spoken: Vec<_> = tables.iter().filter(|(_, version, _)| *version == ABI).collect();
        let for_all: Vec<_> =
            spoken.iter().copied().filter(|(name, ..)| is_for_all(name)).collect();
        let (name, _, address) = match (spoken.as_slice(), for_all.as_slice()) {
            ([], _) => {
                return Err(match tables.first() {
                    Some((_, other, _)) => refused(TableError::Abi { plugin: *other, host: ABI }),
                    None => PluginFileError::NoTable { path: path() },
                });
            }
            ([only], _) | (_, [only]) => only,
            _ => {
                let names = tables.into_iter().map(|(name, ..)| name).collect();
                return Err(PluginFileError::Several { path: path(), names });
            }
        };
        let head = head(&library, *address).ok_or(PluginFileError::NoTable { path: path() })?;
        head.check().map_err(refused)?;
        Ok(name.clone())
    }
}

/// Returns whether a table stands for all others of its library: its name has two `_` after the
/// version.
fn is_for_all(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.trim_start_matches(char::is_numeric).starts_with("__"))
}

/// Returns the version in a table's name, such as `deputize_plugin_v1` or
/// `deputize_plugin_v1_words`; `None` if it names no table.
fn version_of(name: &str) -> Option<u32> {
    debug_assert!(SYMBOL.to_bytes().starts_with(PREFIX.as_bytes()));
    let rest = name.strip_prefix(PREFIX)?;
    let number = rest.split('_').next().unwrap_or_default();
    number.parse().ok()
}

/// Reads the first numbers of a table from the file.
fn head(library: &object::File<'_>, address: u64) -> Option<Head> {
    const BYTES: u64 = size_of::<Head>() as u64;
    let mut found = library.sections().filter_map(|section| {
        section.data_range(address, BYTES).ok().flatten()?.first_chunk::<12>().copied()
    });
    let [a, b, c, d, e, f, g, h, i, j, k, l] = found.next()?;
    let number = |bytes: [u8; 4]| {
        if library.is_little_endian() {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        }
    };
    Some(Head {
        magic: number([a, b, c, d]),
        size: number([e, f, g, h]),
        abi: number([i, j, k, l]),
    })
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for a writer.
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message = format!("it has more than {MAX_FILE_BYTES} bytes, which is the limit");
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_its_version_by_its_name() {
        let names = ["deputize_plugin_v1", "deputize_plugin_v12_my_tools", "deputize_plugin_v"];
        assert_eq!(names.map(version_of), [Some(1), Some(12), None]);
        assert_eq!(version_of("deputize_plugin_vx_1"), None);
        assert_eq!(version_of("other_v1"), None);
        assert_eq!(version_of("deputize_plugin_v1__all_0_1_0"), Some(1));
        let names = ["deputize_plugin_v1", "deputize_plugin_v1_all", "deputize_plugin_v1__all"];
        assert_eq!(names.map(is_for_all), [false, false, true]);
    }

    #[test]
    fn what_is_no_plugin_is_refused_by_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let table = |path: &Path| PluginFile::read(path).unwrap().table().unwrap_err();
        assert!(matches!(table(&place("a", b"no library")), PluginFileError::NoLibrary { .. }));
        assert!(matches!(table(&place("b", b"")), PluginFileError::NoLibrary { .. }));
        // A program is a library of sorts, without a table.
        let program = std::env::current_exe().unwrap();
        assert!(matches!(table(&program), PluginFileError::NoTable { .. }));
        assert!(matches!(PluginFile::read(dir.path()), Err(PluginFileError::Read { .. })));
        let empty = PluginFile::read(&place("c", b"x")).unwrap();
        let digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        assert_eq!(empty.sha256(), digest);
        let pinned = empty.verify(&digest.to_uppercase()).unwrap();
        assert!(matches!(pinned.verify("00"), Err(PluginFileError::Digest { .. })));
    }
}
