//! What this process holds is not for others of the same user.

use std::io;

/// From here on nobody but the administrator reads the environment and the memory of this process
/// through `/proc`, traces it, or finds them in a core file: commands that it starts run as the
/// same user. Programs that it starts are as readable as ever.
///
/// Call it before anything else in a `main` whose environment has secrets. Where there is no
/// `/proc` there is nothing to do.
///
/// # Errors
/// When the system refuses: then commands could read everything.
pub fn keep_private() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}
