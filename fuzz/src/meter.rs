//! How much memory a reading asks for, all its allocations together.
//!
//! The sum bounds what is held at any time. It also bounds the copying, so that a reading that
//! copies what it has again and again is seen by its count, on any machine. Looking at the same
//! bytes again and again without copying them is not seen here; the time limit of a run and the
//! benchmarks are for that.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static METER: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What a reading may ask for.
#[derive(Debug, Clone, Copy)]
pub struct MemoryLimit {
    /// Bytes that any reading may ask for.
    pub base: usize,
    /// Bytes for each byte that is read.
    pub each: usize,
}

impl MemoryLimit {
    /// Does `work`, which reads `read` bytes.
    ///
    /// # Panics
    /// When it asks for more memory than this.
    pub fn during<T>(self, read: usize, work: impl FnOnce() -> T) -> T {
        let (result, asked) = asked(work);
        let allowed = self.base + self.each * read;
        assert!(
            asked <= allowed,
            "{read} bytes were read with {asked}, at most {allowed} expected"
        );
        result
    }
}

/// The result of a work, and how many bytes it asked for.
pub fn asked<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(METER);
    let result = work();
    (result, region.change().bytes_allocated)
}
