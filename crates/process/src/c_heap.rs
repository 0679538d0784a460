//! The heap of the C library.

/// Lets all threads of this process share one heap of the C library, which otherwise makes one for each
/// thread: four system calls while the thread starts. For a program whose own allocator is another,
/// so that few use this one; call it before threads start. Other C libraries have one heap anyway.
pub fn share_c_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the standard library does not set this")]
    {
        // SAFETY: `mallopt` takes two numbers, and allocations may go on meanwhile. If it refuses,
        // nothing has changed.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}
