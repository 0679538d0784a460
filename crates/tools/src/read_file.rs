//! `read_file`: a text file, page by page, with line numbers.

use std::io::Read;

use deputize_core::file_state::{FileVersion, ReadRange};
use deputize_core::image::{ImageFormat, Vision};
use deputize_core::tool::spec_of;
use deputize_core::wording::count;
use deputize_core::{
    ArgumentRole, Example, Subject, ToolCallResult, ToolCx, ToolEffect, ToolError, ToolKind,
    ToolOutput, ToolSpec, TypedTool,
};
#[cfg(feature = "images")]
use deputize_image::ImageReader;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::blocking::{blocking, still_wanted};
use crate::granted_path::{Access, GrantedPath, read_in_memory};
use crate::page::{PageBounds, PageLine, PagedText, Pager};
use crate::path_error::PathError;
use crate::settings::{FileLimits, Settings};
use crate::text::{Charset, HEAD, Utf8Check, guess};

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Bytes of a line's number with what stands around it, mostly.
const NUMBER_BYTES: usize = 6;

const DESCRIPTION: &str =
    "Read a text file in pages, each line as number, tab and text, or see an image.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    path: String,
    /// First line, from 1.
    #[serde(default)]
    offset: Option<u64>,
    #[serde(default)]
    limit: Option<usize>,
    /// Within a truncated first line.
    #[serde(default)]
    byte: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct ReadFile;

impl TypedTool for ReadFile {
    type Args = Args;

    fn spec() -> ToolSpec {
        let example = |title, arguments| Example { title, arguments };
        ToolSpec {
            examples: vec![
                example("A file from its beginning", serde_json::json!({"path": "README.md"})),
                example(
                    "One line of it",
                    serde_json::json!({"path": "README.md", "offset": 1, "limit": 1}),
                ),
            ],
            kind: ToolKind::Read,
            subject: Subject::new(Some("read".into()), "path", ArgumentRole::Path)
                .with("offset", ArgumentRole::Line),
            ..ToolSpec::read_only(spec_of::<Args>("read_file", DESCRIPTION))
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        // Another thread would have to be woken, which takes longer than to read a small file.
        let in_memory = read_in_memory(cx, &args.path);
        // To decode an image takes longer.
        let in_memory = in_memory.filter(|(_, content)| ImageFormat::of_head(content).is_none());
        if let Some((place, content)) = in_memory {
            let length = content.len() as u64;
            return FileReader::new(cx, &place, length).page(&args, content.as_slice());
        }
        blocking(cx, move |cx| read(&args, cx)).await
    }
}

deputize_core::register_tool!("file", ReadFile);

/// What is in a file.
enum FileContent {
    Text(FilePage),
    /// All bytes of an image.
    Image(Vec<u8>),
}

/// A page of a file and what the whole file is.
struct FilePage {
    paged: PagedText,
    charset: Charset,
    version: FileVersion,
}

fn read(args: &Args, cx: &ToolCx) -> ToolCallResult {
    let place = match GrantedPath::existing(cx, &args.path, Access::Read) {
        Err(missing @ PathError::NotFound { .. }) => {
            // Whoever may write there may create it now.
            if let Ok(place) = GrantedPath::to_write(cx, &args.path) {
                cx.agent.session.files.record_absence(cx.agent.id(), &place.path());
            }
            return Err(missing.into());
        }
        place => place?,
    };
    let (file, meta) = place.open()?;
    FileReader::new(cx, &place, meta.len()).page(args, file)
}

/// A file of some length, from which a page is read.
struct FileReader<'a> {
    cx: &'a ToolCx,
    place: &'a GrantedPath,
    /// In bytes, as the system says.
    length: u64,
    limits: FileLimits,
}

impl<'a> FileReader<'a> {
    fn new(cx: &'a ToolCx, place: &'a GrantedPath, length: u64) -> Self {
        Self { cx, place, length, limits: Settings::of(cx).files }
    }

    /// Returns a page of the content, and enters in the ledger what of it the agent sees.
    fn page(&self, args: &Args, content: impl Read) -> ToolCallResult {
        let limits = &self.limits;
        let page = PageBounds {
            line: args.offset.unwrap_or(1).max(1),
            byte: args.byte.unwrap_or(0),
            lines: args.limit.unwrap_or(limits.read_lines).min(limits.read_lines).max(1),
            bytes: limits.read_bytes,
            line_bytes: limits.line_bytes,
        };
        let reading = match self.read(content, page)? {
            FileContent::Text(reading) => reading,
            FileContent::Image(bytes) => return self.image(&bytes),
        };
        let output = output(self.place, page, &reading)?;
        let path = self.place.path();
        let version = reading.version;
        let agent = &self.cx.agent;
        let seen = extent(&reading.paged);
        let whole =
            agent.session.files.record_partial_read(agent.id(), &path, version.clone(), seen);
        Ok(output.fact(ToolEffect::FileRead { path, version, whole }))
    }

    /// Reads a file to its end, because its version is that of all its bytes, and keeps a page.
    fn read(&self, file: impl Read, page: PageBounds) -> Result<FileContent, ToolError> {
        let limits = &self.limits;
        self.check_size(self.length, limits.file_bytes)?;
        let mut file = file.take(limits.file_bytes + 1);
        let mut sum = Sha256::new();
        // The system gives some files no length, however much comes of them.
        let known = usize::try_from(self.length).ok().filter(|length| *length > 0);
        let mut room = known.map_or(HEAD, |length| HEAD.min(length + 1));
        let mut head = vec![0; room];
        let got = self.fill(&mut file, &mut head)?;
        head.truncate(got);
        let Some(charset) = Charset::of_head(&head) else {
            return self.binary(head, file);
        };
        let utf16 = matches!(charset, Charset::Utf16Le | Charset::Utf16Be);
        let mut pager = Pager::new(page, !utf16);
        let mut check = Utf8Check::default();
        let mut all = Vec::new();
        let mut bytes = 0;
        let mut begun = false;
        let mut piece = head;
        while !piece.is_empty() {
            still_wanted(self.cx)?;
            sum.update(&piece);
            bytes += piece.len() as u64;
            self.check_size(bytes, if utf16 { limits.edit_bytes } else { limits.file_bytes })?;
            let mark = if begun { b"" } else { charset.mark() };
            let body = piece.strip_prefix(mark).unwrap_or(&piece);
            begun = true;
            if utf16 {
                all.extend_from_slice(body);
            } else {
                check.feed(body);
                pager.feed(body);
            }
            // A piece that is not full is the last.
            if piece.len() < room {
                break;
            }
            room = CHUNK;
            piece.resize(room, 0);
            let got = self.fill(&mut file, &mut piece)?;
            piece.truncate(got);
        }
        if utf16 {
            pager.feed(charset.decode(&all).as_bytes());
        }
        let charset = match charset {
            Charset::Utf8 if !check.is_valid() => Charset::Windows1252,
            other => other,
        };
        let sha256 = data_encoding::HEXLOWER.encode(&sum.finalize());
        let version = FileVersion { sha256, bytes };
        Ok(FileContent::Text(FilePage { paged: pager.finish(), charset, version }))
    }

    /// Returns the bytes of an image, if the model sees images; refuses any other file that is no
    /// text, by its first bytes.
    fn binary(&self, head: Vec<u8>, mut rest: impl Read) -> Result<FileContent, ToolError> {
        let got = head.len() as u64;
        let is_image = ImageFormat::of_head(&head).is_some();
        let sees_images = is_image && sees_images(self.cx);
        if sees_images {
            let mut bytes = head;
            let path = self.place.shown();
            let read = rest.read_to_end(&mut bytes);
            read.map_err(|error| PathError::of("read", path, error))?;
            return Ok(FileContent::Image(bytes));
        }
        let length = match self.length.max(got) {
            more if more > self.length && got == HEAD as u64 => format!("at least {more} bytes"),
            length => count(length, "byte"),
        };
        let reads_images = cfg!(feature = "images");
        let why = match is_image && reads_images {
            true => "your model sees no images",
            false => "this shows text only",
        };
        let what = guess(&head);
        let path = self.place.shown();
        Err(ToolError::refused(format!("binary file ({what}, {length}): {path}; {why}")))
    }

    /// Shows an image, of which the agent then has seen all.
    #[cfg(feature = "images")]
    fn image(&self, bytes: &[u8]) -> ToolCallResult {
        let path = self.place.shown();
        let agent = &self.cx.agent;
        let reader = agent.session.settings.get_or_insert_with(ImageReader::default);
        let read = reader.read(bytes);
        let read = read.map_err(|why| ToolError::refused(format!("{path}: {why}")))?;
        let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(bytes));
        let version = FileVersion { sha256, bytes: bytes.len() as u64 };
        let note = format!("{path}: {read}, {}", count(version.bytes, "byte"));
        let path = self.place.path();
        agent.session.files.record_read(agent.id(), &path, version.clone());
        let fact = ToolEffect::FileRead { path, version, whole: true };
        Ok(ToolOutput { images: vec![read.image], ..ToolOutput::default() }.note(note).fact(fact))
    }

    #[cfg(not(feature = "images"))]
    fn image(&self, _: &[u8]) -> ToolCallResult {
        let path = self.place.shown();
        Err(ToolError::refused(format!("{path} is an image; this program shows text only")))
    }

    /// Fills a buffer as far as the file goes.
    fn fill(&self, file: &mut impl Read, buffer: &mut [u8]) -> Result<usize, PathError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.read(rest) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(PathError::of("read", self.place.shown(), error)),
            }
        }
        Ok(filled)
    }

    fn check_size(&self, bytes: u64, limit: u64) -> Result<(), PathError> {
        if bytes <= limit {
            return Ok(());
        }
        let path = self.place.shown().to_owned();
        let instead = "search_files finds lines in it, or take a part with the terminal";
        Err(PathError::TooLarge { path, bytes, limit, instead })
    }
}

/// Whether the agent's model sees images, and this program reads them.
fn sees_images(cx: &ToolCx) -> bool {
    cfg!(feature = "images") && cx.agent.store.get_or_insert_with(Vision::default).sees_images()
}

/// Returns the part of the file on the page.
fn extent(paged: &PagedText) -> ReadRange {
    let part = |line: &PageLine| {
        let end = line.next_byte().map_or((line.number + 1, 0), |next| (line.number, next));
        (line.number, line.start)..end
    };
    ReadRange::Parts { parts: paged.kept.iter().map(part).collect(), lines: paged.lines }
}

/// Returns lines with their numbers before them.
fn numbered_lines(lines: &[PageLine], charset: Charset) -> String {
    let bytes: usize = lines.iter().map(|line| line.bytes.len() + NUMBER_BYTES).sum();
    let mut text = String::with_capacity(bytes);
    for line in lines {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line.number.to_string());
        text.push('\t');
        text.push_str(&charset.decode(&line.bytes));
    }
    text
}

fn output(place: &GrantedPath, page: PageBounds, reading: &FilePage) -> ToolCallResult {
    let FilePage { paged, charset, .. } = reading;
    let path = place.shown();
    if page.line > paged.lines.max(1) {
        let lines = count(paged.lines, "line");
        let offset = page.line;
        return Err(ToolError::refused(format!(
            "offset {offset} is past the end: {path} has {lines}"
        )));
    }
    let shown = match charset {
        // The pages of UTF-16 text are UTF-8 already.
        Charset::Utf16Le | Charset::Utf16Be => Charset::Utf8,
        other => *other,
    };
    let mut output = ToolOutput::text(numbered_lines(&paged.kept, shown));
    let missing = missing(paged);
    let cut = cut_note(paged);
    if page.byte > 0
        && let Some(line) = paged.kept.first()
    {
        let PageLine { number, start, length, .. } = line;
        output = output.note(format!("line {number} is shown from byte {start} of {length}"));
    }
    for note in [cut, missing].into_iter().flatten() {
        output = output.note(note);
    }
    for note in about(paged, *charset) {
        output = output.note(note);
    }
    Ok(output)
}

/// Says which lines were cut and how to read on in them.
fn cut_note(paged: &PagedText) -> Option<String> {
    let cut: Vec<_> =
        paged.kept.iter().filter_map(|line| Some((line, line.next_byte()?))).collect();
    let (PageLine { number, length, .. }, next) = cut.first()?;
    let more = match cut.len() - 1 {
        0 => String::new(),
        more => format!("; {} more cut likewise", count(more as u64, "line")),
    };
    Some(format!(
        "line {number} has {length} bytes and is cut; to go on in it: offset {number}, byte {next}{more}"
    ))
}

/// Says which lines are not on the page after it.
fn missing(paged: &PagedText) -> Option<String> {
    let first = paged.kept.first()?.number;
    let last = paged.kept.last()?.number;
    let all = paged.lines;
    (last < all).then(|| format!("lines {first}-{last} of {all}; to go on: offset {}", last + 1))
}

/// Says what of the file the lines do not show.
fn about(paged: &PagedText, charset: Charset) -> Vec<String> {
    let mut notes = Vec::new();
    if paged.lines == 0 {
        notes.push("the file is empty".to_owned());
    }
    match charset {
        Charset::Utf8 => {}
        Charset::Utf8Marked => {
            notes
                .push("it begins with a byte order mark, not shown; edit_file keeps it".to_owned());
        }
        Charset::Utf16Le | Charset::Utf16Be => {
            notes.push(format!("decoded from {}; edit_file keeps that", charset.name()));
        }
        Charset::Windows1252 => notes.push(format!(
            "not UTF-8; decoded as {}, perhaps wrongly; edit_file keeps the bytes",
            charset.name()
        )),
    }
    match (paged.crlf, paged.lines - u64::from(!paged.ended)) {
        (0, _) => {}
        (crlf, ends) if crlf == ends => {
            notes.push("lines end in CRLF, shown as LF; edit_file keeps it".to_owned());
        }
        (crlf, ends) => notes.push(format!("{crlf} of {ends} lines end in CRLF, the others in LF")),
    }
    let at_end = paged.kept.last().is_some_and(|line| line.number == paged.lines);
    if !paged.ended && at_end {
        notes.push("no newline at the end".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{ToolFixture, file_limits, result, show};
    use serde_json::json;

    async fn read_in(bench: &ToolFixture, arguments: serde_json::Value) -> String {
        bench.call(ReadFile, arguments).await
    }

    async fn read_of(content: impl AsRef<[u8]>) -> String {
        read_in(ToolFixture::new().put("f", content), json!({"path": "f"})).await
    }

    #[tokio::test]
    async fn lines_come_with_their_numbers_in_pages() {
        let bench = ToolFixture::new();
        bench.put("f", "a\nb\nc\n");
        assert_eq!(read_in(&bench, json!({"path": "f"})).await, "1\ta\n2\tb\n3\tc");
        assert_eq!(
            read_in(&bench, json!({"path": "f", "offset": 2, "limit": 1})).await,
            "2\tb\n[lines 2-2 of 3; to go on: offset 3]"
        );
        assert_eq!(
            read_in(&bench, json!({"path": "f", "offset": 4})).await,
            "refused: offset 4 is past the end: f has 3 lines"
        );
        assert_eq!(
            read_in(&bench, json!({"path": "f", "offset": -3})).await,
            "refused: arguments of read_file: invalid value: integer `-3`, expected a whole number from 0"
        );
    }

    #[tokio::test]
    async fn a_file_in_memory_is_shown_as_any_other() {
        let bench = ToolFixture::new();
        let long = "a line\n".repeat(3_000);
        let contents: [&[u8]; 7] =
            [b"", b"a\nb", b"\xef\xbb\xbfa\r\n", b"\xff\xfea\0", b"\0\0", b"\xff", long.as_bytes()];
        for content in contents {
            bench.put("f", content);
            for arguments in [json!({"path": "f"}), json!({"path": "f", "offset": 2, "byte": 1})] {
                let args: Args = serde_json::from_value(arguments.clone()).unwrap();
                let slowly = read(&args, &bench.cx);
                assert_eq!(ReadFile.run(args, &bench.cx).await.is_ok(), slowly.is_ok());
                assert_eq!(read_in(&bench, arguments).await, show(&slowly));
            }
        }
    }

    #[tokio::test]
    async fn what_lines_do_not_show_is_said() {
        assert_eq!(read_of("").await, "\n[the file is empty]");
        assert_eq!(read_of("a").await, "1\ta\n[no newline at the end]");
        assert_eq!(
            read_of("a\r\nb\r\n").await,
            "1\ta\n2\tb\n[lines end in CRLF, shown as LF; edit_file keeps it]"
        );
        assert_eq!(
            read_of("a\r\nb\n").await,
            "1\ta\n2\tb\n[1 of 2 lines end in CRLF, the others in LF]"
        );
    }

    #[tokio::test]
    async fn other_encodings_are_decoded_and_named() {
        assert_eq!(
            read_of(b"\xff\xfea\0\n\0\xac\x20").await,
            "1\ta\n2\t€\n[decoded from UTF-16 LE; edit_file keeps that]\n[no newline at the end]"
        );
        assert_eq!(
            read_of(b"caf\xe9\n").await,
            "1\tcafé\n[not UTF-8; decoded as windows-1252 (Latin-1), perhaps wrongly; edit_file keeps the bytes]"
        );
        assert_eq!(
            read_of(b"\xef\xbb\xbfa\n").await,
            "1\ta\n[it begins with a byte order mark, not shown; edit_file keeps it]"
        );
    }

    #[tokio::test]
    async fn a_binary_file_is_named_and_not_shown() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        let refused = read_of(png).await;
        assert!(
            refused.starts_with("refused: binary file (PNG image, 16 bytes): f; "),
            "{refused}"
        );
        let refused = read_of(b"\x7fELF\0\0").await;
        assert!(refused.ends_with("(ELF program or library, 6 bytes): f; this shows text only"));
    }

    #[tokio::test]
    async fn what_is_no_regular_file_is_refused_at_once() {
        let bench = ToolFixture::new();
        bench.put("d/x", "").fifo("p").link("/dev/zero", "zero").link("p", "to_pipe");
        let socket = std::os::unix::net::UnixListener::bind(bench.path("sock")).unwrap();
        let mut seen = String::new();
        for path in ["d", "p", "to_pipe", "sock", "zero", ".", "f\0"] {
            seen += &(read_in(&bench, json!({"path": path})).await + "\n");
        }
        drop(socket);
        insta::assert_snapshot!(seen, @r"
        refused: is a directory: d; list_dir shows what is in it
        refused: not a regular file (named pipe): p
        refused: not a regular file (named pipe): to_pipe
        refused: not a regular file (socket): sock
        refused: symlink leaves the workspace: zero
        refused: is a directory: .; list_dir shows what is in it
        refused: the path contains a NUL byte: f\u{0}
        ");
    }

    #[tokio::test]
    async fn a_huge_line_is_cut_and_can_be_read_on() {
        let bench =
            ToolFixture::with(file_limits(FileLimits { line_bytes: 10, ..FileLimits::default() }));
        bench.put("f", format!("{}\nend\n", "0123456789".repeat(1 << 20)));
        assert_eq!(
            read_in(&bench, json!({"path": "f"})).await,
            "1\t0123456789\n2\tend\n\
             [line 1 has 10485760 bytes and is cut; to go on in it: offset 1, byte 10]"
        );
        assert_eq!(
            read_in(&bench, json!({"path": "f", "byte": 10_485_755})).await,
            "1\t56789\n2\tend\n[line 1 is shown from byte 10485755 of 10485760]"
        );
    }

    #[tokio::test]
    async fn pages_of_a_long_file_are_bounded_by_lines_and_by_bytes() {
        let bench = ToolFixture::new();
        bench.put("long", "x\n".repeat(300_000));
        let text = read_in(&bench, json!({"path": "long", "limit": 5000})).await;
        assert!(text.ends_with("2000\tx\n[lines 1-2000 of 300000; to go on: offset 2001]"));
        bench.put("wide", format!("{}\n", "y".repeat(1000)).repeat(1000));
        let text = read_in(&bench, json!({"path": "wide"})).await;
        assert!(text.ends_with("[lines 1-262 of 1000; to go on: offset 263]"));
        assert!(text.len() < READ_BYTES_AND_NUMBERS);
    }

    const READ_BYTES_AND_NUMBERS: usize = crate::READ_BYTES + 262 * 5 + 100;

    #[tokio::test]
    async fn a_file_above_the_limit_is_refused_with_its_size() {
        let bench =
            ToolFixture::with(file_limits(FileLimits { file_bytes: 100, ..FileLimits::default() }));
        bench.put("f", "x".repeat(101));
        assert_eq!(
            read_in(&bench, json!({"path": "f"})).await,
            "refused: is larger than 100 bytes: f (101 bytes); search_files finds lines in it, \
             or take a part with the terminal"
        );
    }

    #[tokio::test]
    async fn a_read_is_a_fact_and_in_the_ledger() {
        let bench = ToolFixture::new();
        bench.put("f", "a\nb\n").link("f", "l");
        let version = FileVersion::of(b"a\nb\n");
        for (arguments, expected) in [
            (json!({"path": "f", "limit": 1}), false),
            (json!({"path": "f", "offset": 2}), true),
            (json!({"path": "l"}), true),
        ] {
            let output = result(&bench.cx, ReadFile, arguments).await.unwrap();
            let path = bench.path("f");
            let fact = ToolEffect::FileRead { path, version: version.clone(), whole: expected };
            assert_eq!(output.facts, [fact]);
        }
        let ledger = &bench.cx.agent.session.files;
        assert_eq!(ledger.check(bench.cx.agent.id(), &bench.path("f"), &version), Ok(()));
    }

    #[tokio::test]
    async fn a_cancelled_read_settles() {
        let bench = ToolFixture::new();
        bench.put("f", "x\n");
        bench.cx.cancel.cancel(deputize_core::CancelReason::Interrupted);
        let result = result(&bench.cx, ReadFile, json!({"path": "f"})).await;
        assert_eq!(show(&result), "cancelled\n");
    }

    /// Gives bytes and then has none for now.
    struct SlowDevice<'a>(&'a [u8]);

    impl Read for SlowDevice<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(std::io::ErrorKind::WouldBlock.into()),
                some => Ok(some),
            }
        }
    }

    #[test]
    fn a_file_of_the_system_is_shown_as_it_is_read() {
        let bench = ToolFixture::new();
        std::fs::write(bench.root().join("f"), "").unwrap();
        let cx = &bench.cx;
        let place = GrantedPath::existing(cx, "f", Access::Read).unwrap();
        let args = Args { path: "f".to_owned(), offset: None, limit: None, byte: None };
        let describe = |bytes: &[u8]| {
            FileReader::new(cx, &place, 0).page(&args, bytes).unwrap_err().to_string()
        };
        let environ = describe(b"HOME=/\0USER=me\0");
        assert!(environ.contains(", 15 bytes): f;"), "{environ}");
        let much = describe(&[0; 2 * HEAD]);
        assert!(much.contains(&format!(", at least {HEAD} bytes): f;")), "{much}");
        let log =
            FileReader::new(cx, &place, 0).page(&args, SlowDevice(b"")).unwrap_err().to_string();
        assert!(
            log.contains("nothing to read without waiting") && !log.contains("os error"),
            "{log}"
        );
    }

    #[tokio::test]
    async fn unknown_arguments_are_named() {
        let text = read_in(&ToolFixture::new(), json!({"path": "f", "lines": 3})).await;
        assert!(
            text.starts_with("refused: arguments of read_file: unknown field `lines`"),
            "{text}"
        );
    }
}
