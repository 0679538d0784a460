//! The plugin's side: a trait for authors, and the C functions that call it.
#![expect(
    unsafe_code,
    reason = "reads what a host lends through C pointers, and gives bytes away as such"
)]

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use crate::abi::{ABI, HostV1, MAGIC, Owned, TableV1, View};
use crate::answer::Answer;

#[cfg(panic = "abort")]
compile_error!(
    "a plugin built with panic = \"abort\" takes its host down with it; build it with panic = \"unwind\""
);

/// The answer of a call whose tool panicked.
const PANICKED: &str = r#"{"panicked":true}"#;

/// The tools of a plugin, as JSON text in and out. Both functions may be called from any thread and several
/// times at once; both may panic, which is then the answer to that one call.
pub trait Tools {
    /// `{"name","version","tools":[{"name","description","parameters"}]}`, see the front page.
    /// The same text every time.
    fn describe() -> String;

    /// Calls one tool with its arguments as JSON text, and blocks until it is done. A long one asks
    /// [`CallHost::cancelled`] again and again.
    fn call(tool: &str, arguments: &str, host: &CallHost<'_>) -> Answer;
}

/// Exports the [`Tools`] of one type as this library's plugin.
///
/// The crate is a `cdylib` with `panic = "unwind"`; it may deny `unsafe_code`, not forbid it. Once in a library: a second use, also in another crate
/// linked into the same binary, does not link. So keep it out of crates that are linked as well as loaded.
///
/// ```
/// # use deputize_plugin::{Answer, CallHost, Tools};
/// struct Nothing;
///
/// impl Tools for Nothing {
///     fn describe() -> String {
///         r#"{"name":"nothing","version":"0.1.0","tools":[]}"#.into()
///     }
///     fn call(tool: &str, _: &str, _: &CallHost<'_>) -> Answer {
///         Answer::Refused(format!("there is no tool `{tool}`"))
///     }
/// }
///
/// deputize_plugin::export_plugin!(Nothing);
/// ```
#[macro_export]
macro_rules! export_plugin {
    ($tools:ty) => {
        /// This library's tools, for a host that opens it.
        #[expect(non_upper_case_globals, reason = "the name is the ABI's")]
        #[expect(unsafe_code, reason = "the ABI fixes the name")]
        // SAFETY: the name is this ABI's own; nothing else has it.
        #[unsafe(no_mangle)]
        pub static deputize_plugin_v1: $crate::TableV1 = $crate::table::<$tools>();
    };
}

/// The table that [`export_plugin!`](crate::export_plugin) exports.
#[must_use]
pub const fn table<T: Tools>() -> TableV1 {
    TableV1 {
        magic: MAGIC,
        size: size_of::<TableV1>() as u32,
        abi: ABI,
        reserved: 0,
        describe: Some(describe::<T>),
        call: Some(call::<T>),
        free: Some(free),
    }
}

/// The host of one call, for as long as that call lasts. Threads of the call may share it.
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
    /// Whether the call is cancelled by now. Then answer soon, with what there is; cheap to ask.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        // SAFETY: asked with its own context while the call lasts, which `'a` is.
        self.host.cancelled.is_some_and(|ask| unsafe { ask(self.host.context) } != 0)
    }
}

unsafe extern "C" fn describe<T: Tools>() -> Owned {
    guarded(|| Ok(Answer::Ok(T::describe())))
}

unsafe extern "C" fn call<T: Tools>(tool: View, arguments: View, host: *const HostV1) -> Owned {
    guarded(|| {
        // SAFETY: the host lends the name until this call returns.
        let tool = unsafe { text(&tool, "the name of the tool") }?;
        // SAFETY: the host lends the arguments until this call returns.
        let arguments = unsafe { text(&arguments, "the arguments") }?;
        // SAFETY: the host lends itself until this call returns.
        let host = unsafe { borrow(&host) }?;
        Ok(T::call(tool, arguments, &host))
    })
}

unsafe extern "C" fn free(bytes: Owned) {
    if bytes.cap == 0 {
        return;
    }
    // SAFETY: the host gives back, once, what `give` made of a `Vec` of this library.
    let bytes = unsafe { Vec::from_raw_parts(bytes.ptr, bytes.len, bytes.cap) };
    drop(bytes);
}

/// Runs an entry so that no panic leaves it. An `Err` is a fault of the host, in words for its operator.
fn guarded(entry: impl FnOnce() -> Result<Answer, String>) -> Owned {
    let json = || entry().unwrap_or_else(Answer::Failed).to_json();
    let json = catch_unwind(AssertUnwindSafe(json)).unwrap_or_else(|panic| {
        // Dropping what was thrown can throw again.
        std::mem::forget(panic);
        PANICKED.into()
    });
    give(json)
}

fn give(json: String) -> Owned {
    let mut bytes = ManuallyDrop::new(json.into_bytes());
    Owned { ptr: bytes.as_mut_ptr(), len: bytes.len(), cap: bytes.capacity() }
}

/// # Safety
/// A view that is not null is valid as long as the reference to it.
unsafe fn text<'a>(view: &'a View, what: &str) -> Result<&'a str, String> {
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
unsafe fn borrow(host: &*const HostV1) -> Result<CallHost<'_>, String> {
    if host.is_null() || !host.is_aligned() {
        return Err(format!("the host is at {host:?}, which cannot be"));
    }
    // SAFETY: not null, aligned; every host begins with its size.
    let size = unsafe { host.cast::<u32>().read() };
    let least = size_of::<HostV1>();
    if usize::try_from(size).is_ok_and(|size| size < least) {
        return Err(format!("the host has {size} bytes and ABI version {ABI} needs {least}"));
    }
    // SAFETY: so many bytes are there; every bit pattern of the fields is valid.
    let host = unsafe { host.read() };
    Ok(CallHost { host, call: PhantomData })
}
