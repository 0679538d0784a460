//! The C header and the Rust types describe the same bytes.

use std::io::{ErrorKind, Write as _};
use std::mem::{align_of, offset_of};
use std::path::Path;
use std::process::Command;

use deputize_plugin::{ABI, HostV1, MAGIC, OwnedBytes, TableV1, View};

fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! layout {
    ($($type:ident $name:literal: $($field:ident)*;)*) => {{
        let mut text = format!("magic {MAGIC} abi {ABI}\n");
        $(
            text += &format!("{} size {} align {}\n", $name, size_of::<$type>(), align_of::<$type>());
            $(
                let at = offset_of!($type, $field);
                let size = size_of_field(|t: &$type| &t.$field);
                text += &format!("  {at} {} {size}\n", stringify!($field));
            )*
        )*
        text
    }};
}

/// Says why a test does not run, past the harness, which shows nothing of a test that passes.
fn not_run(why: &str) {
    // `eprintln!` would be kept back by the test harness.
    let written = std::io::stderr().write_all(format!("not run: {why}\n").as_bytes());
    assert!(written.is_ok(), "standard error is closed");
}

#[test]
fn the_header_says_what_the_types_are() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(format!("deputize-header-{}", std::process::id()));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests/header.c"))
        .arg("-o")
        .arg(&program)
        .output();
    let compiled = match compiled {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            not_run("no C compiler");
            return;
        }
        other => other.unwrap(),
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output();
    std::fs::remove_file(&program).unwrap();
    let ran = ran.unwrap();
    assert!(ran.status.success());

    let expected = layout! {
        View "deputize_view": ptr len;
        OwnedBytes "deputize_owned": ptr len cap;
        HostV1 "deputize_host_v1": size reserved context cancelled about note;
        TableV1 "deputize_table_v1": magic size abi reserved describe call free;
    };
    let expected = expected + "{\"failed\":\"cancelled\"}\n";
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), expected);
}
