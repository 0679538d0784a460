//! Hides this process's memory and environment from others of the same user.

use std::io;

/// Keeps commands, which run as the same user, from reading this process's environment and memory:
/// only the administrator can read them through `/proc`, trace the process or get a core file.
/// Programs that it starts stay readable.
///
/// Call it before anything else in a `main` whose environment has secrets. Where there is no
/// `/proc` there is nothing to do.
///
/// # Errors
/// If the system refuses; commands could then read everything.
pub fn keep_private() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}
