//! The host of a call, as the plugin sees it.
#![expect(unsafe_code, reason = "reads what a host lends through C pointers")]

use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr;
use std::slice;

use crate::abi::{ABI, HostV1, LEAST_HOST, View};

/// The host of a call, while that call lasts. Threads of the call may share it.
#[derive(Clone, Copy, Debug)]
pub struct CallHost<'a> {
    host: HostV1,
    call: PhantomData<&'a HostV1>,
}

// SAFETY: a host may be asked from any thread until its call returns, and `'a` ends no later.
unsafe impl Send for CallHost<'_> {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for CallHost<'_> {}

impl CallHost<'_> {
    /// Returns whether the call is cancelled and should answer soon, with what there is. Cheap.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        // SAFETY: asked with its own context while the call lasts, which `'a` is.
        self.host.cancelled.is_some_and(|ask| unsafe { ask(self.host.context) } != 0)
    }

    /// Reports progress to people, in a few words. An older host does not show it.
    pub fn note(&self, text: &str) {
        let text = View { ptr: text.as_ptr(), len: text.len() };
        if let Some(note) = self.host.note {
            // SAFETY: with its own context while the call lasts; the text lives as long.
            unsafe { note(self.host.context, text) };
        }
    }

    /// Returns who calls, where, and what it may access, as JSON text; empty with an older host.
    #[must_use]
    pub fn about(&self) -> &str {
        // SAFETY: the host lends it as long as the call lasts, which this borrow does not outlive.
        unsafe { text(&self.host.about, "what the call is about") }.unwrap_or_default()
    }
}

/// # Safety
/// A view that is not null is valid as long as the reference to it.
pub(crate) unsafe fn text<'a>(view: &'a View, what: &str) -> Result<&'a str, String> {
    if view.len == 0 {
        return Ok("");
    }
    if view.ptr.is_null() || isize::try_from(view.len).is_err() {
        return Err(format!("{what}: {} bytes at {:?}, which cannot be", view.len, view.ptr));
    }
    // SAFETY: not null, no longer than a slice may be, and valid by this function's contract.
    let bytes = unsafe { slice::from_raw_parts(view.ptr, view.len) };
    std::str::from_utf8(bytes).map_err(|error| format!("{what}: {error}"))
}

/// # Safety
/// A host that is not null is valid, for as many bytes as it says, as long as the reference to it.
pub(crate) unsafe fn borrow(host: &*const HostV1) -> Result<CallHost<'_>, String> {
    if host.is_null() || !host.is_aligned() {
        return Err(format!("the host is at {host:?}, which cannot be"));
    }
    // SAFETY: not null, aligned; every host begins with its size.
    let size = unsafe { host.cast::<u32>().read() };
    // A size that does not fit is large enough.
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size < LEAST_HOST {
        return Err(format!("the host has {size} bytes and ABI version {ABI} needs {LEAST_HOST}"));
    }
    let mut known = HostV1 {
        size: 0,
        reserved: 0,
        context: ptr::null(),
        cancelled: None,
        about: View { ptr: ptr::null(), len: 0 },
        note: None,
    };
    // An older host has fewer fields, which end where a field of ours ends.
    let there = if size < size_of::<HostV1>() { LEAST_HOST } else { size_of::<HostV1>() };
    // SAFETY: so many bytes are there, and every bit pattern of the fields that they fill is valid.
    unsafe { ptr::copy_nonoverlapping(host.cast::<u8>(), (&raw mut known).cast::<u8>(), there) };
    Ok(CallHost { host: known, call: PhantomData })
}
