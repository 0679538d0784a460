//! Memory layout that both sides share. `include/deputize_plugin.h` has the same in C.

use std::ffi::{CStr, c_void};

/// The name of the static that a plugin exports, a [`TableV1`]. What `export_plugin!` exports has
/// `_` and the name and version of its crate behind it, so that several such crates can be linked
/// into one program. Two `_` in a row are those of a plugin that stands for all others in its
/// library.
///
pub const SYMBOL: &CStr = c"deputize_plugin_v1";

/// The first field of every table, of any version.
pub const MAGIC: u32 = 0x4450_5459;

/// The version of the ABI that this crate speaks.
pub const ABI: u32 = 1;

/// Bytes lent for the length of one call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The first byte; anything, also null, when `len` is 0.
    pub ptr: *const u8,
    /// How many bytes.
    pub len: usize,
}

/// Bytes given away, until they are given back to the `free` of the table they came from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OwnedBytes {
    /// The first byte; anything, also null, when `len` is 0.
    pub ptr: *mut u8,
    /// How many bytes.
    pub len: usize,
    /// The maker's own; the other side only hands it back.
    pub cap: usize,
}

/// Context that a host lends to one call of a tool. Valid, in any thread, until that call returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostV1 {
    /// Bytes of this struct as the host knows it; a later host may have more fields.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The host's own; handed back to its functions.
    pub context: *const c_void,
    /// Not 0 once the call is cancelled, and from then on. Takes `context`. Cheap, and never blocks.
    pub cancelled: Option<unsafe extern "C" fn(context: *const c_void) -> u32>,
    /// Who calls, where, and what it may touch, as JSON text; see the front page.
    pub about: View,
    /// Takes a few words on how far the call is: `context`, and UTF-8 text. Cheap, and never
    /// blocks for long.
    pub note: Option<unsafe extern "C" fn(context: *const c_void, text: View)>,
}

/// The bytes of a [`HostV1`] of the first hosts, which ends before `about`.
#[cfg(feature = "export")]
pub(crate) const LEAST_HOST: usize = std::mem::offset_of!(HostV1, about);

/// A plugin's one exported static. The first three fields are the same in every version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TableV1 {
    /// [`MAGIC`].
    pub magic: u32,
    /// Bytes of this struct as the plugin knows it; a later plugin may have more fields.
    pub size: u32,
    /// [`ABI`].
    pub abi: u32,
    /// 0.
    pub reserved: u32,
    /// Which tools there are.
    pub describe: Option<unsafe extern "C" fn() -> OwnedBytes>,
    /// Calls one tool: its name, its arguments as JSON text, and a host, which is not null.
    pub call: Option<
        unsafe extern "C" fn(tool: View, arguments: View, host: *const HostV1) -> OwnedBytes,
    >,
    /// Takes back what `describe` or `call` gave; once for each.
    pub free: Option<unsafe extern "C" fn(bytes: OwnedBytes)>,
}

#[cfg(test)]
#[cfg(target_pointer_width = "64")]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::{HostV1, LEAST_HOST, OwnedBytes, TableV1, View};

    macro_rules! layout {
        ($($type:ident: $($field:ident)*;)*) => {{
            let mut lines = Vec::new();
            $(
                let size = size_of::<$type>();
                let align = align_of::<$type>();
                lines.push(format!("{} size {size} align {align}", stringify!($type)));
                $(lines.push(format!("  {} {}", offset_of!($type, $field), stringify!($field)));)*
            )*
            lines.join("\n")
        }};
    }

    #[test]
    fn the_first_hosts_are_still_read() {
        assert_eq!(LEAST_HOST, 24);
    }

    /// A difference here breaks every plugin built so far: it needs a new version of the ABI.
    #[test]
    fn the_layout_of_version_1_is_fixed() {
        let layout = layout! {
            View: ptr len;
            OwnedBytes: ptr len cap;
            HostV1: size reserved context cancelled about note;
            TableV1: magic size abi reserved describe call free;
        };
        insta::assert_snapshot!(layout, @"
        View size 16 align 8
          0 ptr
          8 len
        OwnedBytes size 24 align 8
          0 ptr
          8 len
          16 cap
        HostV1 size 48 align 8
          0 size
          4 reserved
          8 context
          16 cancelled
          24 about
          40 note
        TableV1 size 40 align 8
          0 magic
          4 size
          8 abi
          12 reserved
          16 describe
          24 call
          32 free
        ");
    }
}
