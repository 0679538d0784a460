//! Cargo below cargo.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// This checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The target folder of all that is built here.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("downstream")
}

/// Waits for the lock of [`target`], which is held until the file is dropped. Each test may be a
/// process of its own. Builds would wait for each other anyway, and say so in their output.
pub(crate) fn turn() -> File {
    fs::create_dir_all(target()).unwrap();
    let file = File::create(target().join("turn")).unwrap();
    file.lock().unwrap();
    file
}

/// What a cargo said and how it ended.
pub(crate) struct CargoResult {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) ok: bool,
}

impl CargoResult {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { out: text(&output.stdout), err: text(&output.stderr), ok: output.status.success() }
    }

    #[track_caller]
    pub(crate) fn passes(self) -> Self {
        assert!(self.ok, "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn fails_with(self, parts: &[&str]) -> Self {
        assert!(!self.ok, "it passed, without {parts:?}");
        let said = format!("{}\n{}", self.out, self.err);
        for part in parts {
            assert!(said.contains(part), "no `{part}` in:\n{said}");
        }
        self
    }
}

/// Cargo in a folder: offline, behind everything else, without what this test was started with.
pub(crate) fn cargo(folder: &Path, args: &[&str]) -> CargoResult {
    let _turn = turn();
    let mut command = Command::new("nice");
    command.arg(env!("CARGO")).args(args).current_dir(folder);
    command
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("INSTA_UPDATE", "no")
        .env_remove("RUSTDOCFLAGS");
    deputize_requirements::remove_package_env(&mut command);
    CargoResult::of(&command.output().unwrap())
}

/// Writes a file whole or not at all, unless it has this text: what cargo has built of it stays good.
pub(crate) fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    let folder = path.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.persist(path).unwrap();
}

/// How this workspace builds its dependencies: what is built in the same way is built once.
pub(crate) fn profiles() -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, profiles) = manifest.split_once("\n[profile.dev]").unwrap();
    let (profiles, _) = profiles.split_once("\n[profile.release]").unwrap();
    format!("\n[profile.dev]{profiles}\n")
}

/// The versions that this workspace is built with.
pub(crate) fn lock(folder: &Path) {
    let versions = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    write(&folder.join("Cargo.lock"), &versions);
}
