//! A program that speaks ACP.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use deputize_process::{ProgramError, resolve_program};

/// A program that speaks ACP on its standard streams.
#[derive(Debug, Clone)]
pub struct AcpProgram {
    pub(crate) path: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: BTreeMap<OsString, OsString>,
}

impl AcpProgram {
    /// Makes a program by its absolute path, or by a name that is looked up in the `PATH` of its
    /// environment. It gets that environment and no other variable.
    ///
    /// # Errors
    /// When there is no such program, or it cannot be run.
    pub fn find(
        command: impl AsRef<OsStr>,
        args: Vec<OsString>,
        env: BTreeMap<OsString, OsString>,
    ) -> Result<Self, ProgramError> {
        let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let path = resolve_program(command.as_ref(), path)?;
        Ok(Self { path: path.into(), args, env })
    }

    /// Returns where it was found.
    #[must_use]
    pub fn path(&self) -> &OsStr {
        &self.path
    }
}
