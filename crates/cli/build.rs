//! How the program is linked.

use std::process::Command;

/// The first version of the GNU C library that reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = variable("TARGET");
    // The program runs on the library that it is built with, or on a newer one.
    if target.ends_with("-linux-gnu")
        && target == variable("HOST")
        && glibc().is_some_and(|version| version >= PACKED_SINCE)
    {
        // A smaller file, and less to read before the first instruction. A linker that does not know
        // it says so and goes on.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

#[expect(clippy::disallowed_methods, reason = "Cargo tells a build script by variables")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Returns the version of this machine's GNU C library; `None` if it has another one.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
