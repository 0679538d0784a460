//! Simulation: the same code on one thread, over an in-memory disk, with a clock that advances only
//! when all tasks wait. A seed determines what happens, so that a failure can be repeated.

mod disk;
mod disk_state;
mod handle;
mod page_cache;
mod seed;
mod steps;

pub use disk::{CrashKind, SimDisk};
pub use disk_state::DiskFault;
pub use seed::Seed;
pub use steps::{Steps, StepsEnd};
