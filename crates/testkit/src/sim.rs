//! Simulation: the same code on one thread, on a clock that runs only when all wait, over a
//! disk in memory. What happens follows from a seed, so that a failure can be repeated.

mod disk;
mod handle;
mod page_cache;
mod seed;
mod steps;

pub use disk::{CrashKind, DiskFault, SimDisk};
pub use seed::Seed;
pub use steps::{Steps, StepsEnd};
