//! Checks whether a table can be used, from its first three numbers. Pure.

use std::error::Error;
use std::fmt;
use std::mem::size_of;

use crate::abi::{ABI, MAGIC, TableV1};

/// The start of a plugin's table, the same in every version of the ABI.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// [`MAGIC`], or this is no table.
    pub magic: u32,
    /// Bytes of the table as the plugin knows it.
    pub size: u32,
    /// The version of the ABI that the plugin speaks.
    pub abi: u32,
}

/// Minimum size of a table of this version in bytes.
pub(crate) const LEAST_SIZE: usize = size_of::<TableV1>();

impl Head {
    /// Checks whether the rest of the table may be read as a [`TableV1`].
    ///
    /// # Errors
    /// The first difference, with the plugin's value and this crate's.
    pub fn check(self) -> Result<(), TableError> {
        if self.magic != MAGIC {
            return Err(TableError::Magic { plugin: self.magic, host: MAGIC });
        }
        if self.abi != ABI {
            return Err(TableError::Abi { plugin: self.abi, host: ABI });
        }
        // A size that does not fit is large enough.
        if usize::try_from(self.size).is_ok_and(|size| size < LEAST_SIZE) {
            return Err(TableError::Size { plugin: self.size, host: LEAST_SIZE, abi: ABI });
        }
        Ok(())
    }
}

/// Why a table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableError {
    /// The pointer is null.
    Null,
    /// The pointer is not aligned as a table has to be.
    Misaligned {
        /// The address.
        address: usize,
    },
    /// It does not begin as a table does.
    Magic {
        /// The first bytes.
        plugin: u32,
        /// The first bytes of a table.
        host: u32,
    },
    /// The plugin speaks another version of the ABI.
    Abi {
        /// ABI version of the plugin.
        plugin: u32,
        /// ABI version of the host.
        host: u32,
    },
    /// The table is too short for its version.
    Size {
        /// The bytes the plugin says there are.
        plugin: u32,
        /// The bytes the host needs.
        host: usize,
        /// The version of the ABI, which both speak.
        abi: u32,
    },
    /// A function is missing.
    Missing {
        /// The field that is null.
        field: &'static str,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("the plugin's table is a null pointer"),
            Self::Misaligned { address } => {
                write!(f, "the plugin's table is at {address:#x}, which cannot be one")
            }
            Self::Magic { plugin, host } => write!(
                f,
                "this is no plugin table: it begins with {plugin:#010x} where {host:#010x} belongs"
            ),
            Self::Abi { plugin, host } => write!(
                f,
                "the plugin speaks version {plugin} of the plugin ABI and this program version {host}; {}",
                if plugin < host {
                    "rebuild the plugin with a newer deputize-plugin"
                } else {
                    "use a newer deputize, or rebuild the plugin with an older deputize-plugin"
                }
            ),
            Self::Size { plugin, host, abi } => write!(
                f,
                "the plugin's table has {plugin} bytes and version {abi} of the plugin ABI needs {host}; \
                 rebuild the plugin"
            ),
            Self::Missing { field } => write!(f, "the plugin's table has no `{field}` function"),
        }
    }
}

impl Error for TableError {}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Head = Head { magic: MAGIC, size: 40, abi: ABI };

    fn check(head: Head) -> String {
        head.check().map_or_else(|error| error.to_string(), |()| "fine".into())
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn another_kind_version_or_size_is_refused_with_both_values() {
        insta::assert_snapshot!(check(Head { magic: 0x464c_457f, ..GOOD }), @"
        this is no plugin table: it begins with 0x464c457f where 0x44505459 belongs
        ");
        insta::assert_snapshot!(check(Head { abi: 2, ..GOOD }), @"
        the plugin speaks version 2 of the plugin ABI and this program version 1; use a newer deputize, or rebuild the plugin with an older deputize-plugin
        ");
        insta::assert_snapshot!(check(Head { abi: 0, ..GOOD }), @"
        the plugin speaks version 0 of the plugin ABI and this program version 1; rebuild the plugin with a newer deputize-plugin
        ");
        insta::assert_snapshot!(check(Head { size: 39, ..GOOD }), @"
        the plugin's table has 39 bytes and version 1 of the plugin ABI needs 40; rebuild the plugin
        ");
    }

    #[test]
    fn fields_may_be_appended() {
        assert_eq!(check(GOOD), "fine");
        assert_eq!(check(Head { size: 48, ..GOOD }), "fine");
        assert_eq!(check(Head { size: u32::MAX, ..GOOD }), "fine");
    }

    #[test]
    fn a_version_is_reported_before_a_size_since_it_says_what_the_size_means() {
        let error = Head { abi: 2, size: 12, ..GOOD }.check().unwrap_err();
        assert_eq!(error, TableError::Abi { plugin: 2, host: ABI });
    }
}
