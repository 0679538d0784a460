//! The plugin's side: a trait for authors, and the C functions that call it.
#![expect(
    unsafe_code,
    reason = "reads what a host lends through C pointers, and gives bytes away as such"
)]

use std::mem::{ManuallyDrop, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{ABI, HostV1, MAGIC, OwnedBytes, TableV1, View};
use crate::answer::CallAnswer;
use crate::call_host::{CallHost, borrow, text};

#[cfg(panic = "abort")]
compile_error!(
    "a plugin built with panic = \"abort\" takes its host down with it; build it with panic = \"unwind\""
);

/// The answer of a call whose tool panicked.
const PANICKED: &str = r#"{"panicked":true}"#;

/// The tools of a plugin, with JSON text as input and output. Both functions may be called from any
/// thread and concurrently. A panic is the answer to that one call.
pub trait Tools {
    /// Returns `{"name","version","tools":[{"name","description","parameters"}]}`, see the front page.
    /// The text is always the same.
    fn describe() -> String;

    /// Calls a tool with its arguments as JSON text, and blocks until it is done. A long call checks
    /// [`CallHost::cancelled`] regularly.
    fn call(tool: &str, arguments: &str, host: &CallHost<'_>) -> CallAnswer;
}

/// Exports a crate's tools as this library's plugin.
///
/// `export_plugin!()` exports the tools that the crate registers, and `export_plugin!(links: a::LINK, b::LINK)`
/// those of other tool crates; both need the feature `tools`. `export_plugin!(Type)` exports a type's own [`Tools`].
///
/// The crate is a `cdylib` with `panic = "unwind"`, and may be an `rlib` too, to be linked as well as loaded;
/// it may deny `unsafe_code`, not forbid it. Once in a crate. A program links as many such crates as it likes. A
/// library has one plugin: where crates in it bring several, that of `links:` stands for all, and without one it is
/// refused, since nobody could say which is meant.
///
/// ```
/// # use deputize_plugin::{CallAnswer, CallHost, Tools};
/// struct Greeting;
///
/// impl Tools for Greeting {
///     fn describe() -> String {
///         r#"{"name":"greeting","version":"0.1.0","tools":[{"name":"greet",
///             "description":"Greet the world.","parameters":{"type":"object"}}]}"#
///             .into()
///     }
///     fn call(_: &str, _: &str, _: &CallHost<'_>) -> CallAnswer {
///         CallAnswer::text("Hello, world.")
///     }
/// }
///
/// deputize_plugin::export_plugin!(Greeting);
/// ```
#[macro_export]
macro_rules! export_plugin {
    () => {
        // The `LINK` of the crate that says it.
        $crate::export_plugin!(@links "_", self::LINK);
    };
    (links: $($link:path),+ $(,)?) => {
        $crate::export_plugin!(@links "__", $($link),+);
    };
    (@links $mark:literal, $($link:path),+) => {
        #[doc(hidden)]
        #[derive(Debug)]
        pub struct DeputizePlugin;

        impl $crate::Tools for DeputizePlugin {
            fn describe() -> String {
                DEPUTIZE_PLUGIN_TOOLS.describe()
            }

            fn call(tool: &str, arguments: &str, host: &$crate::CallHost<'_>) -> $crate::CallAnswer {
                DEPUTIZE_PLUGIN_TOOLS.call(tool, arguments, host)
            }
        }

        static DEPUTIZE_PLUGIN_TOOLS: $crate::LinkedTools = $crate::LinkedTools::new(
            env!("CARGO_PKG_NAME"),
            env!("CARGO_PKG_VERSION"),
            &[$($link),+],
        );

        $crate::export_plugin!(@table $mark, DeputizePlugin);
    };
    (@table $mark:literal, $tools:ty) => {
        /// This library's tools, for a host that opens it.
        #[expect(non_upper_case_globals, reason = "the name is the ABI's")]
        #[expect(unsafe_code, reason = "the ABI fixes the name")]
        // SAFETY: the name is this ABI's own with this crate's and its version behind it; nothing
        // else has it.
        #[unsafe(export_name = concat!(
            "deputize_plugin_v1",
            $mark,
            env!("CARGO_CRATE_NAME"),
            "_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH"),
        ))]
        pub static deputize_plugin_v1: $crate::TableV1 = $crate::table::<$tools>();
    };
    ($tools:ty) => {
        $crate::export_plugin!(@table "_", $tools);
    };
}

/// Returns the table that [`export_plugin!`](crate::export_plugin) exports.
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

unsafe extern "C" fn describe<T: Tools>() -> OwnedBytes {
    without_panic(|| Ok(CallAnswer::Ok(T::describe())))
}

unsafe extern "C" fn call<T: Tools>(
    tool: View,
    arguments: View,
    host: *const HostV1,
) -> OwnedBytes {
    without_panic(|| {
        // SAFETY: the host lends the name until this call returns.
        let tool = unsafe { text(&tool, "the name of the tool") }?;
        // SAFETY: the host lends the arguments until this call returns.
        let arguments = unsafe { text(&arguments, "the arguments") }?;
        // SAFETY: the host lends itself until this call returns.
        let host = unsafe { borrow(&host) }?;
        Ok(T::call(tool, arguments, &host))
    })
}

unsafe extern "C" fn free(bytes: OwnedBytes) {
    if bytes.cap == 0 {
        return;
    }
    // SAFETY: the host gives back, once, what `into_owned_bytes` made of a `Vec` of this library.
    let bytes = unsafe { Vec::from_raw_parts(bytes.ptr, bytes.len, bytes.cap) };
    drop(bytes);
}

/// Runs an entry so that no panic leaves it. An `Err` is a fault of the host, as text for the operator.
fn without_panic(entry: impl FnOnce() -> Result<CallAnswer, String>) -> OwnedBytes {
    let json = || entry().unwrap_or_else(CallAnswer::Failed).to_json();
    let json = catch_unwind(AssertUnwindSafe(json)).unwrap_or_else(|panic| {
        // Dropping what was thrown can throw again.
        std::mem::forget(panic);
        PANICKED.into()
    });
    into_owned_bytes(json)
}

fn into_owned_bytes(json: String) -> OwnedBytes {
    let mut bytes = ManuallyDrop::new(json.into_bytes());
    OwnedBytes { ptr: bytes.as_mut_ptr(), len: bytes.len(), cap: bytes.capacity() }
}
