//! Real servers, a real client and the conformance suite, installed once into the target folder.
//! Their versions, and those of all that they need, are in `tests/fixtures/mcp`; those of a client of
//! ACP in `tests/fixtures/acp`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use deputize_requirements::program;

use super::real::blocking;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The place of what these files name, installed by `install` if it is not there.
fn place(
    kind: &str,
    files: &[String],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_BIN_EXE_deputize-it")).ancestors().nth(2).unwrap();
    let texts = files.iter().flat_map(|file| fs::read(fixture(file)).unwrap());
    let sum = crc32fast::hash(&texts.collect::<Vec<u8>>());
    let place = target.join(format!("{kind}-{sum:08x}"));
    // Whoever runs tests after its owner may not write there.
    if place.join("done").is_file() {
        return Ok(place);
    }
    // Tests of one run, and of two at once, install once.
    let lock = fs::File::create(target.join(format!("{kind}.lock"))).unwrap();
    lock.lock().unwrap();
    if !place.join("done").is_file() {
        let _half = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).unwrap();
        install(&place)?;
        fs::write(place.join("done"), "").unwrap();
    }
    Ok(place)
}

/// Runs a package manager; an error says what it said, mostly that there is no network.
pub(crate) fn install(command: &mut Command, manager: &str) -> Result<(), String> {
    let done = command.output().map_err(|error| format!("{manager} does not run: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("{manager} installs nothing: {said}")) }
}

/// The folder of the npm packages of a kind of tests; `node_modules` is in it.
pub(crate) async fn npm(kind: &'static str) -> Result<PathBuf, String> {
    blocking(move || {
        program("node")?;
        let files = ["package.json", "package-lock.json"];
        place(&format!("{kind}-npm"), &files.map(|file| format!("{kind}/{file}")), |place| {
            for file in files {
                fs::copy(fixture(kind).join(file), place.join(file)).unwrap();
            }
            let options = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
            program("npm")?;
            install(Command::new("npm").args(options).current_dir(place), "npm")
        })
    })
    .await
}

/// The program of an npm package.
pub(crate) async fn node(package: &str, file: &str) -> Result<String, String> {
    let path = npm("mcp").await?.join("node_modules").join(package).join(file);
    assert!(path.is_file(), "{}", path.display());
    Ok(path.to_str().unwrap().to_owned())
}

/// The server with everything.
pub(crate) async fn everything() -> Result<String, String> {
    node("@modelcontextprotocol/server-everything", "dist/index.js").await
}

/// The folder of Python packages.
async fn python() -> Result<PathBuf, String> {
    blocking(|| {
        program("python3")?;
        let needs = "mcp/requirements.txt";
        place("mcp-pip", &[needs.to_owned()], |place| {
            let options = ["-m", "pip", "install", "-q", "--no-input", "--no-deps", "--target"];
            let mut pip = Command::new("python3");
            install(pip.args(options).arg(place).arg("-r").arg(fixture(needs)), "pip")
        })
    })
    .await
}

/// The arguments of `python3` that start a server of a Python package.
pub(super) async fn python_server(module: &str, args: &[&str]) -> Result<Vec<String>, String> {
    let folder = python().await?;
    let code =
        format!("import sys; sys.path.insert(0, {folder:?}); import {module}; {module}.main()");
    let args = args.iter().map(|arg| (*arg).to_owned());
    Ok(["-c".to_owned(), code].into_iter().chain(args).collect())
}
