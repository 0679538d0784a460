//! The host's side: a checked table, and calls through it.
#![expect(unsafe_code, reason = "calls functions of another library through their C addresses")]

use std::error::Error;
use std::ffi::c_void;
use std::fmt;
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use crate::abi::{HostV1, OwnedBytes, TableV1, View};
use crate::check::{Head, TableError};

/// Maximum size of an answer in bytes.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A plugin whose table was checked. Calls may come from several threads at once; each blocks.
#[derive(Clone, Copy, Debug)]
pub struct Plugin {
    describe: unsafe extern "C" fn() -> OwnedBytes,
    call: unsafe extern "C" fn(View, View, *const HostV1) -> OwnedBytes,
    free: unsafe extern "C" fn(OwnedBytes),
}

/// Maximum size of a note in bytes; the rest is cut off.
pub const MAX_NOTE_BYTES: usize = 4096;

/// The host's side of a call. A function that returns whether the call is cancelled implements it.
pub trait CallContext: Sync {
    /// Returns whether the call is cancelled. If this panics, it is.
    fn cancelled(&self) -> bool;

    /// Receives a short note on the progress of the call.
    fn note(&self, _text: &str) {}

    /// Returns who calls, where, and what it may access, as JSON text.
    fn about(&self) -> &str {
        ""
    }
}

impl<F: Fn() -> bool + Sync> CallContext for F {
    fn cancelled(&self) -> bool {
        self()
    }
}

/// The target of the context pointer of a [`HostV1`] made here.
type ContextRef<'a> = &'a dyn CallContext;

impl Plugin {
    /// Checks the table and takes its functions.
    ///
    /// # Safety
    /// If `table` is neither null nor misaligned, it points to a static that begins as a [`Head`] and, where
    /// [`Head::check`] passes, is a [`TableV1`] whose functions keep the contract on the front page of this
    /// crate. Its library stays loaded as long as the process runs.
    ///
    /// # Errors
    /// If the table is not one that this crate can use. None of its functions has been called.
    pub unsafe fn from_table(table: *const TableV1) -> Result<Self, TableError> {
        if table.is_null() {
            return Err(TableError::Null);
        }
        if !table.is_aligned() {
            return Err(TableError::Misaligned { address: table.addr() });
        }
        // SAFETY: not null, aligned, and by this function's contract the start of any table.
        let head = unsafe { table.cast::<Head>().read() };
        head.check()?;
        // SAFETY: by the check and the contract these are the bytes of a `TableV1`; every bit pattern of
        // its fields is valid, since null functions are `None`.
        let table = unsafe { table.read() };
        let missing = |field| TableError::Missing { field };
        Ok(Self {
            describe: table.describe.ok_or(missing("describe"))?,
            call: table.call.ok_or(missing("call"))?,
            free: table.free.ok_or(missing("free"))?,
        })
    }

    /// Returns the description of the plugin, an answer as on the front page. Its JSON is not checked.
    ///
    /// # Errors
    /// If the plugin returns no text, or more than [`MAX_ANSWER_BYTES`].
    pub fn describe(&self) -> Result<String, CallError> {
        // SAFETY: the contract of `from_table`.
        let bytes = unsafe { (self.describe)() };
        self.take(bytes)
    }

    /// Calls a tool and blocks until it has answered. `arguments` is JSON text. The plugin may use
    /// the context at any time during the call, from any thread. The answer's JSON is not checked.
    ///
    /// # Errors
    /// If the plugin returns no text, or more than [`MAX_ANSWER_BYTES`].
    pub fn call(
        &self,
        tool: &str,
        arguments: &str,
        context: &dyn CallContext,
    ) -> Result<String, CallError> {
        let context: ContextRef<'_> = context;
        let host = HostV1 {
            size: const { size_of::<HostV1>() as u32 },
            reserved: 0,
            context: (&raw const context).cast(),
            cancelled: Some(is_cancelled),
            about: view_of(context.about()),
            note: Some(receive_note),
        };
        // SAFETY: the contract of `from_table`; the views and the host live until the call returns.
        let bytes = unsafe { (self.call)(view_of(tool), view_of(arguments), &raw const host) };
        self.take(bytes)
    }

    /// Copies an answer and frees its bytes.
    fn take(&self, bytes: OwnedBytes) -> Result<String, CallError> {
        let copy = copy(bytes);
        // SAFETY: the bytes are from this table, and this is the only place that frees, once for each.
        unsafe { (self.free)(bytes) };
        copy
    }
}

fn view_of(text: &str) -> View {
    View { ptr: text.as_ptr(), len: text.len() }
}

fn copy(bytes: OwnedBytes) -> Result<String, CallError> {
    let OwnedBytes { ptr, len, cap: _ } = bytes;
    if len > MAX_ANSWER_BYTES {
        return Err(CallError::TooLong { found: len, limit: MAX_ANSWER_BYTES });
    }
    if len == 0 {
        return Ok(String::new());
    }
    if ptr.is_null() {
        return Err(CallError::Null { len });
    }
    // SAFETY: not null, and by the contract of `from_table` so many initialised bytes, which nobody
    // changes before they are given back.
    let bytes = unsafe { slice::from_raw_parts(ptr, len) };
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(CallError::NotUtf8 { at: error.valid_up_to() }),
    }
}

/// The `cancelled` of every [`HostV1`] made here.
unsafe extern "C" fn is_cancelled(context: *const c_void) -> u32 {
    let context: *const ContextRef<'_> = context.cast();
    // SAFETY: a plugin hands back the context of its host while the call lasts, in which `call` keeps
    // it alive; it is `Sync`, so any thread may ask.
    let context = unsafe { &*context };
    // A panic must not leave a C function. Whoever cannot say whether to go on should stop.
    match catch_unwind(AssertUnwindSafe(|| context.cancelled())) {
        Ok(cancelled) => u32::from(cancelled),
        Err(panic) => {
            // Dropping what was thrown can throw again.
            std::mem::forget(panic);
            1
        }
    }
}

/// The `note` of every [`HostV1`] made here. Ignores what is no text.
unsafe extern "C" fn receive_note(context: *const c_void, text: View) {
    let context: *const ContextRef<'_> = context.cast();
    if text.ptr.is_null() || text.len == 0 {
        return;
    }
    // SAFETY: as in `is_cancelled`.
    let context = unsafe { &*context };
    // SAFETY: not null, and by the contract of `from_table` so many initialised bytes for now.
    let bytes = unsafe { slice::from_raw_parts(text.ptr, text.len.min(MAX_NOTE_BYTES)) };
    let text = String::from_utf8_lossy(bytes);
    let received = catch_unwind(AssertUnwindSafe(|| context.note(&text)));
    // Dropping what was thrown can throw again.
    received.unwrap_or_else(std::mem::forget);
}

/// Why a call returned no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The answer has a length and a null pointer.
    Null {
        /// Length in bytes.
        len: usize,
    },
    /// The answer exceeds the limit; it was not read.
    TooLong {
        /// Its length in bytes.
        found: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is not text.
    NotUtf8 {
        /// Number of valid bytes at its start.
        at: usize,
    },
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null { len } => {
                write!(f, "the plugin answered with {len} bytes at a null pointer")
            }
            Self::TooLong { found, limit } => {
                write!(f, "the plugin answered with {found} bytes, and the limit is {limit}")
            }
            Self::NotUtf8 { at } => {
                write!(f, "the plugin's answer is not UTF-8 from byte {at} on")
            }
        }
    }
}

impl Error for CallError {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::abi::{ABI, MAGIC};

    /// A table as another language would make it, with answers that no good plugin gives.
    static TABLE: TableV1 = TableV1 {
        magic: MAGIC,
        size: size_of::<TableV1>() as u32,
        abi: ABI,
        reserved: 0,
        describe: Some(empty),
        call: Some(odd),
        free: Some(count),
    };
    static FREED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn empty() -> OwnedBytes {
        OwnedBytes { ptr: std::ptr::null_mut(), len: 0, cap: 0 }
    }

    /// The number of arguments chooses the answer.
    unsafe extern "C" fn odd(_: View, arguments: View, host: *const HostV1) -> OwnedBytes {
        static NOT_TEXT: [u8; 4] = [b'{', b'"', 0xff, b'}'];
        let ptr = NOT_TEXT.as_ptr().cast_mut();
        match arguments.len {
            0 => OwnedBytes { ptr: std::ptr::null_mut(), len: 7, cap: 0 },
            1 => OwnedBytes { ptr, len: MAX_ANSWER_BYTES + 1, cap: 0 },
            2 => OwnedBytes { ptr, len: usize::MAX, cap: 0 },
            3 => OwnedBytes { ptr, len: 4, cap: 0 },
            _ => {
                // SAFETY: the host is valid during the call.
                let host = unsafe { host.read() };
                // SAFETY: asked with its own context during the call.
                let cancelled = unsafe { host.cancelled.unwrap()(host.context) };
                OwnedBytes { ptr, len: usize::try_from(2 * cancelled).unwrap(), cap: 0 }
            }
        }
    }

    unsafe extern "C" fn count(_: OwnedBytes) {
        FREED.fetch_add(1, Ordering::Relaxed);
    }

    fn open(table: *const TableV1) -> Result<Plugin, TableError> {
        // SAFETY: only pointers to tables with functions of this module are passed, or bad ones.
        unsafe { Plugin::from_table(table) }
    }

    #[test]
    fn bad_answers_are_errors_and_every_answer_is_freed_once() {
        let plugin = open(&raw const TABLE).unwrap();
        let call = |arguments| plugin.call("odd", arguments, &|| false);
        let limit = MAX_ANSWER_BYTES;
        assert_eq!(plugin.describe(), Ok(String::new()));
        assert_eq!(call(""), Err(CallError::Null { len: 7 }));
        assert_eq!(call("1"), Err(CallError::TooLong { found: limit + 1, limit }));
        assert_eq!(call("12"), Err(CallError::TooLong { found: usize::MAX, limit }));
        assert_eq!(call("123"), Err(CallError::NotUtf8 { at: 2 }));
        let panics = || -> bool { panic!("the host's own question fails") };
        assert_eq!(plugin.call("odd", "1234", &panics).unwrap(), "{\"");
        assert_eq!(FREED.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn a_bad_table_is_refused() {
        let refused = |table: &TableV1| open(std::ptr::from_ref(table)).unwrap_err();
        assert_eq!(open(std::ptr::null()).unwrap_err(), TableError::Null);
        let odd = std::ptr::without_provenance(0x1001);
        assert_eq!(open(odd).unwrap_err(), TableError::Misaligned { address: 0x1001 });
        let other = TableV1 { magic: 1, ..TABLE };
        assert_eq!(refused(&other), TableError::Magic { plugin: 1, host: MAGIC });
        let newer = TableV1 { abi: 2, ..TABLE };
        assert_eq!(refused(&newer), TableError::Abi { plugin: 2, host: 1 });
        let host = size_of::<TableV1>();
        let short = TableV1 { size: 16, ..TABLE };
        assert_eq!(refused(&short), TableError::Size { plugin: 16, host, abi: 1 });
        for (field, table) in [
            ("describe", TableV1 { describe: None, ..TABLE }),
            ("call", TableV1 { call: None, ..TABLE }),
            ("free", TableV1 { free: None, ..TABLE }),
        ] {
            assert_eq!(refused(&table), TableError::Missing { field });
        }
    }
}
