//! What single tools take in a run of the program: from the model's reply to the next request.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::lab::Lab;
use crate::script::{NEEDLE, PAGE_TEXT, Script, TREE};
use crate::spread::Spread;
use crate::table::{Goal, Report};
use crate::words::Words;

/// Words of a file that is searched, some 1.6 KB.
const FILE_WORDS: usize = 300;
/// Words of a line of it.
const LINE_WORDS: usize = 12;
/// Files in a folder, and folders in a folder.
const FOLDER: u64 = 50;
/// One file of so many has what is searched for.
const RARE: u64 = 1_000;

/// Measures a search over so many files, in turns with ripgrep if it is installed.
pub(crate) fn search(lab: &Lab, files: u64, runs: usize, report: &mut Report) -> io::Result<()> {
    write_tree(lab, files)?;
    let script = Script { searches: 1, ..Script::default() };
    let found = found_line();
    let mut ours = Vec::new();
    let mut floor = Vec::new();
    // The first one of each finds the files in no cache.
    let mut has_ripgrep = ripgrep(lab)?.is_some();
    lab.run(&script)?;
    for _run in 0..runs.max(1) {
        if has_ripgrep {
            let ms = ripgrep(lab)?;
            has_ripgrep = ms.is_some();
            floor.extend(ms);
        }
        ours.push(lab.run(&script)?.time_of_call(&found)?);
    }
    fs::remove_dir_all(lab.work().join(TREE))?;
    let floor = (!floor.is_empty()).then(|| Spread::of(floor));
    let what = format!("search_files over {files} files; the floor is ripgrep");
    report.row(&what, "ms", (floor, Spread::of(ours)), Goal::Times(1.5));
    Ok(())
}

/// Measures the fetch of a page of so many bytes.
pub(crate) fn fetch(lab: &Lab, bytes: u64, runs: usize, report: &mut Report) -> io::Result<()> {
    let script = Script { page: u64::from(lab.port()), bytes, ..Script::default() };
    let mut ours = Vec::new();
    for _run in 0..runs.max(1) {
        ours.push(lab.run(&script)?.time_of_call(PAGE_TEXT)?);
    }
    let what = format!("web_fetch of {:.1} MB", bytes as f64 / 1e6);
    report.row(&what, "ms", (None, Spread::of(ours)), Goal::AtMost(300.0));
    Ok(())
}

/// The whole process, in milliseconds; nothing if there is no such program.
fn ripgrep(lab: &Lab) -> io::Result<Option<f64>> {
    let mut command = Command::new("rg");
    command.args(["--no-config", "--line-number", "--color=never", NEEDLE, TREE]);
    let since = Instant::now();
    match command.current_dir(lab.work()).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(Some(since.elapsed().as_secs_f64() * 1e3)),
        Ok(output) => Err(io::Error::other(format!("rg ended with {}", output.status))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The line that a search finds.
fn found_line() -> String {
    format!("Here is a {NEEDLE}.")
}

fn write_tree(lab: &Lab, files: u64) -> io::Result<()> {
    let mut words = Words::new();
    for number in 0..files {
        let folder = number / FOLDER;
        let folder = format!("{TREE}/{}/{}", folder / FOLDER, folder % FOLDER);
        let folder = lab.work().join(folder);
        if number % FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        let mut text = String::new();
        for _line in 0..FILE_WORDS / LINE_WORDS {
            text.push_str(words.text(LINE_WORDS).trim_end());
            text.push('\n');
        }
        if number % RARE == 0 {
            text.push_str(&format!("{}\n", found_line()));
        }
        fs::write(folder.join(format!("{number}.txt")), text)?;
    }
    Ok(())
}
