//! Simulation: the same code on one thread, over an in-memory disk, with a clock that advances only
//! when all tasks wait. A seed determines what happens, so that a failure can be repeated.

mod disk;
mod handle;
mod page_cache;
mod seed;
mod steps;

pub use disk::{CrashKind, DiskFault, SimDisk};
pub use seed::Seed;
pub use steps::{Steps, StepsEnd};
