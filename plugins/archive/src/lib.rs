//! Lists what is in an archive, without unpacking it: zip, tar, and tar packed by gzip.
//!
//! Linked, `Cli::new().tools(deputize_plugin_archive::LINK)`; loaded, the library that
//! `cargo build` makes of this crate.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};

use deputize_core::tool::spec_of;
use deputize_core::{
    ArgumentRole, Cancel, Example, Subject, ToolCallResult, ToolCx, ToolError, ToolKind,
    ToolOutput, ToolSpec, TypedTool,
};
use deputize_plugin::readable;

deputize_core::tool_crate!();
deputize_plugin::export_plugin!();

/// Entries of one list, when the call does not say.
const LISTED: usize = 200;
/// Limit on the entries of one list.
const MOST_LISTED: usize = 2000;
/// Limit on the bytes unpacked to list a packed tar: a small file may unpack to any size.
const MOST_UNPACKED: u64 = 4 << 30;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Args {
    /// The archive: a .zip (also .jar, .docx, .whl), .tar, .tar.gz or .tgz file.
    path: PathBuf,
    /// List only entries whose path contains this text.
    contains: Option<String>,
    /// How many entries at most; 200 if not given, 2000 at most.
    limit: Option<usize>,
}

struct ArchiveList;

impl TypedTool for ArchiveList {
    type Args = Args;

    fn spec() -> ToolSpec {
        let about = "List the files in an archive (zip, tar, tar.gz) with their sizes in bytes, \
                     without unpacking it.";
        ToolSpec {
            examples: vec![Example {
                title: "What is in a zip file",
                arguments: serde_json::json!({"path": "sample.zip"}),
            }],
            kind: ToolKind::Read,
            subject: Subject::new(Some("list".into()), "path", ArgumentRole::Path),
            ..ToolSpec::read_only(spec_of::<Args>("archive_list", about))
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        let path = readable(cx, &args.path)?;
        let filter = EntryFilter::of(&args);
        let cancel = cx.cancel.clone();
        let (send, mut counts) = tokio::sync::mpsc::unbounded_channel();
        let work = move || {
            list(&path, &filter, &cancel, &|count| {
                // Nobody hears it when the call has ended.
                let _unheard = send.send(count);
            })
        };
        let mut work = tokio::task::spawn_blocking(work);
        loop {
            tokio::select! {
                Some(count) = counts.recv() => cx.report_progress(&format!("{count} entries so far")),
                listed = &mut work => return listed.map_err(ToolError::failed)?,
            }
        }
    }
}

deputize_core::register_tool!("archive", ArchiveList);

/// Which entries of an archive to list.
struct EntryFilter {
    contains: String,
    limit: usize,
}

impl EntryFilter {
    fn of(args: &Args) -> Self {
        let limit = args.limit.unwrap_or(LISTED).clamp(1, MOST_LISTED);
        Self { contains: args.contains.clone().unwrap_or_default(), limit }
    }
}

/// Entries found so far.
struct Listing<'a> {
    filter: &'a EntryFilter,
    cancel: &'a Cancel,
    tell: &'a dyn Fn(usize),
    lines: String,
    listed: usize,
    fitting: usize,
    all: usize,
    bytes: u64,
}

/// The call was cancelled.
struct CancelError;

impl Listing<'_> {
    fn add(&mut self, name: &str, size: u64, is_dir: bool) -> Result<(), CancelError> {
        self.all += 1;
        self.bytes = self.bytes.saturating_add(size);
        if self.all.is_multiple_of(1000) {
            (self.tell)(self.all);
        }
        if name.contains(&self.filter.contains) {
            self.fitting += 1;
            if self.listed < self.filter.limit {
                self.listed += 1;
                let name = name.escape_debug();
                let _always_room = if is_dir {
                    writeln!(self.lines, "{:>12}  {name}", "-")
                } else {
                    writeln!(self.lines, "{size:>12}  {name}")
                };
            }
        }
        if self.cancel.is_cancelled() { Err(CancelError) } else { Ok(()) }
    }

    fn output(self, kind: &str) -> ToolOutput {
        let Self { lines, listed, fitting, all, bytes, .. } = self;
        let output =
            ToolOutput::text(format!("{kind}: {all} entries, {bytes} bytes unpacked\n{lines}"));
        if listed == fitting {
            return output;
        }
        output.note(format!("{} more entries are not listed; `contains` narrows", fitting - listed))
    }
}

fn list(
    path: &Path,
    filter: &EntryFilter,
    cancel: &Cancel,
    tell: &dyn Fn(usize),
) -> ToolCallResult {
    let unreadable = |error: io::Error| {
        ToolError::refused(format!("`{}` cannot be read as an archive: {error}", path.display()))
    };
    let mut file = File::open(path).map_err(unreadable)?;
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(ToolError::refused(format!("`{}` is not a file", path.display())));
    }
    let mut start = [0; 4];
    let count = file.read(&mut start).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    let mut found = Listing {
        filter,
        cancel,
        tell,
        lines: String::new(),
        listed: 0,
        fitting: 0,
        all: 0,
        bytes: 0,
    };
    let (kind, listed) = match start.get(..count).unwrap_or_default() {
        // An empty zip has nothing but its end.
        [b'P', b'K', 3, 4] | [b'P', b'K', 5, 6] => ("zip", zip(file, &mut found)),
        [0x1f, 0x8b, ..] => {
            let unpacked = flate2::read::MultiGzDecoder::new(BufReader::new(file));
            ("tar.gz", tar(unpacked.take(MOST_UNPACKED), &mut found))
        }
        _ => ("tar", tar(BufReader::new(file), &mut found)),
    };
    match listed {
        Ok(Ok(())) => Ok(found.output(kind)),
        Ok(Err(CancelError)) => Err(ToolError::Cancelled(Box::new(found.output(kind)))),
        Err(error) if found.all == 0 => Err(unreadable(error)),
        Err(error) => Ok(found.output(kind).note(format!("the archive breaks off here: {error}"))),
    }
}

fn zip(file: File, found: &mut Listing<'_>) -> io::Result<Result<(), CancelError>> {
    let mut archive = zip::ZipArchive::new(BufReader::new(file))?;
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index)?;
        if let Err(cancelled) = found.add(&entry.name()?, entry.size(), entry.is_dir()) {
            return Ok(Err(cancelled));
        }
    }
    Ok(Ok(()))
}

fn tar(from: impl Read, found: &mut Listing<'_>) -> io::Result<Result<(), CancelError>> {
    for entry in tar::Archive::new(from).entries()? {
        let entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let is_dir = entry.header().entry_type().is_dir();
        if let Err(cancelled) = found.add(&name, entry.size(), is_dir) {
            return Ok(Err(cancelled));
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use deputize_testkit::ToolHarness;
    use serde_json::{Value, json};

    use super::*;

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, *bytes).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    async fn describe(dir: &Path, arguments: Value) -> String {
        match ToolHarness::new(dir).call("archive_list", arguments).await {
            Ok(ToolOutput { content, notes, .. }) => format!("{content}{}", notes.join("\n")),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn each_kind_is_listed_by_what_it_is_and_not_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut zip = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        let stored = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        zip.add_directory("a", stored).unwrap();
        zip.start_file("a/one.txt", stored).unwrap();
        zip.write_all(b"12345").unwrap();
        let zip = zip.finish().unwrap().into_inner();
        let tar = tar_of(&[("one.txt", b"12345"), ("two\u{1b}.txt", b"")]);
        for (name, bytes) in [("x", zip), ("y", tar.clone()), ("z", gz(&tar))] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let list = |name: &str| describe(dir.path(), json!({ "path": name }));
        assert_eq!(
            list("x").await,
            "zip: 2 entries, 5 bytes unpacked\n           -  a/\n           5  a/one.txt\n"
        );
        let listed =
            "2 entries, 5 bytes unpacked\n           5  one.txt\n           0  two\\u{1b}.txt\n";
        assert_eq!(list("y").await, format!("tar: {listed}"));
        assert_eq!(list("z").await, format!("tar.gz: {listed}"));
    }

    #[tokio::test]
    async fn a_long_list_is_cut_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..30).map(|n| format!("f{n}.txt")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|n| (n.as_str(), &b"x"[..])).collect();
        std::fs::write(dir.path().join("t"), tar_of(&files)).unwrap();
        let all = describe(dir.path(), json!({"path": "t", "limit": 3})).await;
        assert!(all.starts_with("tar: 30 entries") && all.contains("27 more entries"), "{all}");
        let few = describe(dir.path(), json!({"path": "t", "contains": "f2", "limit": 3})).await;
        assert!(few.contains("f2.txt") && few.contains("8 more entries"), "{few}");
    }

    #[tokio::test]
    async fn what_is_no_archive_or_not_here_is_refused_and_half_of_one_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let whole = tar_of(&[("one.txt", &[7; 600]), ("two.txt", &[7; 600])]);
        std::fs::write(dir.path().join("half"), &whole[..1800]).unwrap();
        std::fs::write(dir.path().join("text"), "no archive at all\n".repeat(100)).unwrap();
        let describe = |path: &str| describe(dir.path(), json!({ "path": path }));
        let half = describe("half").await;
        assert!(half.contains("one.txt") && half.contains("breaks off"), "{half}");
        for (path, word) in [
            ("text", "cannot be read as an archive"),
            ("missing", "cannot open `missing`"),
            (".", "is not a file"),
            ("/etc/passwd", "outside of what this agent may read"),
        ] {
            let refused = describe(path).await;
            assert!(refused.contains(word), "{path}: {refused}");
        }
    }
}
