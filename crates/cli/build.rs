//! How the program is linked.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first version of the GNU C library that reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);
/// The functions that a run calls, by `just link-order`.
const ORDER: &str = "link-order.txt";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    let target = variable("TARGET");
    if !target.ends_with("-linux-gnu") || target != variable("HOST") {
        return;
    }
    // The program runs on the library that it is built with, or on a newer one.
    if glibc().is_some_and(|version| version >= PACKED_SINCE) {
        // A smaller file, and less to read before the first instruction. A linker that does not know
        // it says so and goes on.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if variable("PROFILE") == "release" {
        // Functions with the same code become one.
        let mut options = vec!["-Wl,--icf=all".to_owned()];
        let order = Path::new(&variable("CARGO_MANIFEST_DIR")).join(ORDER);
        if order.exists() {
            // What a run calls lies together, so that it maps that and not a page of everything.
            // Names that this compiler or these features do not make are passed over.
            options.push(format!("-Wl,--symbol-ordering-file={}", order.display()));
            options.push("-Wl,--no-warn-symbol-ordering".to_owned());
        }
        if links_with(&options) {
            for option in options {
                println!("cargo::rustc-link-arg-bins={option}");
            }
        }
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

/// Whether the linker that will link the program takes these options, which only LLVM's has.
fn links_with(options: &[String]) -> bool {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--crate-name", "probe", "--crate-type", "bin", "--target", &variable("TARGET")]);
    let linker = variable("RUSTC_LINKER");
    if !linker.is_empty() {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\u{1f}').filter(|flag| !flag.is_empty()));
    rustc.args(options.iter().map(|option| format!("-Clink-arg={option}")));
    rustc.arg("-o").arg(Path::new(&variable("OUT_DIR")).join("probe")).arg("-");
    rustc.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = rustc.spawn() else { return false };
    let written =
        child.stdin.take().is_some_and(|mut stdin| stdin.write_all(b"fn main() {}").is_ok());
    child.wait().is_ok_and(|status| status.success()) && written
}
