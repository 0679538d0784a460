//! `search_files`: lines by pattern, files by name.

use std::path::{Path, PathBuf};

use deputize_core::sanitize::glob_of_marks;
use deputize_core::tool::spec_of;
use deputize_core::wording::count;
use deputize_core::{
    ArgumentRole, Example, Subject, ToolCallResult, ToolCx, ToolError, ToolKind, ToolOutput,
    ToolSpec, TypedTool,
};
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Settings;
use crate::blocking::blocking;
use crate::granted_path::{Access, GrantedPath};
use crate::search::{CancellableFile, FileContent, MatchDisplay, Search, SearchPage};
use crate::search_threads::{FileLook, FileLooker, SearchThreads, open_regular};
use crate::walk::{EntryKind, Walk, relative};

/// Limit on the results of one call.
const MAX_LIMIT: u64 = 2_000;
/// Limit on the lines around a match.
const MAX_CONTEXT: usize = 10;
/// Bytes of the longest glob.
const GLOB_BYTES: usize = 1_000;

const DESCRIPTION: &str = "Find lines by a regular expression in a directory tree, as \
    `path:line:text`; without one, files by glob, as path, tab and bytes. Skips ignored, hidden \
    and binary files unless `path` names them.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SearchMode {
    Content,
    Files,
    Count,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Rust syntax.
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    path: Option<String>,
    /// `*.rs` or `src/**/*.{c,h}`.
    #[serde(default)]
    glob: Option<String>,
    #[schemars(with = "SearchMode")]
    #[serde(default)]
    mode: Option<SearchMode>,
    #[serde(default)]
    ignore_case: bool,
    #[schemars(range(max = 10))]
    #[serde(default)]
    context: usize,
    #[schemars(range(max = 2000))]
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default)]
    offset: u64,
}

#[derive(Debug)]
pub(crate) struct SearchFiles;

impl TypedTool for SearchFiles {
    type Args = Args;

    fn spec() -> ToolSpec {
        let example = |title, arguments| Example { title, arguments };
        ToolSpec {
            examples: vec![
                example("Files by name", serde_json::json!({"glob": "*.md"})),
                example(
                    "Lines with what is around them",
                    serde_json::json!({"pattern": "TODO|FIXME", "context": 2}),
                ),
                example(
                    "The number of lines of each file",
                    serde_json::json!({"pattern": "^", "mode": "count"}),
                ),
            ],
            kind: ToolKind::Search,
            subject: Subject::new(Some("search".into()), "pattern", ArgumentRole::Pattern)
                .with("glob", ArgumentRole::NamePattern),
            ..ToolSpec::read_only(spec_of::<Args>("search_files", DESCRIPTION))
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| search_files(&args, cx)).await
    }
}

deputize_core::register_tool!("file", SearchFiles);

fn search_files(args: &Args, cx: &ToolCx) -> ToolCallResult {
    let settings = Settings::of(cx);
    let show = match (args.mode, &args.pattern) {
        (None | Some(SearchMode::Content), Some(_)) => {
            MatchDisplay::Lines(args.context.min(MAX_CONTEXT))
        }
        (Some(SearchMode::Count), Some(_)) => MatchDisplay::Count,
        (Some(SearchMode::Files), Some(_)) | (None | Some(SearchMode::Files), None) => {
            MatchDisplay::Any
        }
        (Some(SearchMode::Content | SearchMode::Count), None) => {
            return Err(ToolError::refused("this mode needs a pattern; `^` matches every line"));
        }
    };
    let search = match &args.pattern {
        Some(pattern) => Some(
            Search::new(pattern, args.ignore_case, show)
                .map_err(|error| ToolError::refused(error.to_string()))?,
        ),
        None => None,
    };
    let limit = args.limit.unwrap_or(settings.search_matches as u64).clamp(1, MAX_LIMIT);
    let place = GrantedPath::existing(cx, args.path.as_deref().unwrap_or("."), Access::Read)?;
    let mut run = SearchRun {
        cx,
        place: &place,
        glob: args.glob.as_deref().map(Glob::new).transpose()?,
        search,
        show,
        page: SearchPage::new(args.offset, limit, settings.files.read_bytes),
        counts: SearchCounts::default(),
    };
    let left_out = run.all()?;
    let ended_early = cx.cancel.is_cancelled();
    let output = run.report(left_out, ended_early);
    if ended_early { Err(ToolError::Cancelled(Box::new(output))) } else { Ok(output) }
}

/// Files by their name or path.
struct Glob {
    matcher: GlobMatcher,
    by_name: bool,
}

impl Glob {
    fn new(glob: &str) -> Result<Self, ToolError> {
        if glob.len() > GLOB_BYTES {
            let bytes = glob.len();
            return Err(ToolError::refused(format!(
                "the glob has {bytes} bytes; the limit is {GLOB_BYTES}"
            )));
        }
        let plain = glob.trim_start_matches("./").trim_start_matches('/');
        let built = GlobBuilder::new(&glob_of_marks(plain)).literal_separator(true).build();
        let glob = built.map_err(|error| ToolError::refused(error.to_string()))?;
        Ok(Self { matcher: glob.compile_matcher(), by_name: !plain.contains('/') })
    }

    /// Whether a file in this place is one of them: its path is taken from where the search begins,
    /// or from the working directory.
    fn is_match(&self, place: &GrantedPath, cwd: &Path, rel: &Path) -> bool {
        if self.by_name {
            return rel.file_name().is_some_and(|name| self.matcher.is_match(name));
        }
        let file = place.absolute(rel);
        [place.path().as_path(), cwd]
            .iter()
            .filter_map(|from| file.strip_prefix(from).ok())
            .any(|path| self.matcher.is_match(path))
    }
}

/// Counts of skipped entries.
#[derive(Debug, Default)]
struct SearchCounts {
    files: u64,
    with_matches: u64,
    matches: u64,
    binary: u64,
    special: u64,
    links: u64,
    unreadable: u64,
    /// Directories and ignore files that could not be read.
    unread_directories: u64,
}

/// A search in progress.
struct SearchRun<'a> {
    cx: &'a ToolCx,
    place: &'a GrantedPath,
    glob: Option<Glob>,
    search: Option<Search>,
    show: MatchDisplay,
    page: SearchPage,
    counts: SearchCounts,
}

impl SearchRun<'_> {
    /// Goes through everything; gives how many entries were left out as hidden or ignored.
    fn all(&mut self) -> Result<u64, ToolError> {
        let place = self.place;
        if !place.metadata()?.is_dir() {
            place.open()?;
            self.file(place.rel());
            return Ok(0);
        }
        place.check_readable_directory("search")?;
        let mut walk = Walk::new(place, usize::MAX, false);
        self.tree(&mut walk);
        self.counts.unread_directories = walk.unreadable;
        Ok(walk.left_out)
    }

    /// Goes through a tree: threads look through its files, and this one takes what they saw in
    /// the order of the walk.
    fn tree(&mut self, walk: &mut Walk<'_>) {
        let Some(search) = &self.search else {
            return self.each_file(walk, |run, rel| run.add_file(&rel, FileLook::Counted(1)));
        };
        let looker = FileLooker::new(self.place.root(), search, self.show, &self.cx.cancel);
        std::thread::scope(|scope| {
            let mut threads = SearchThreads::new(scope, &looker);
            self.each_file(walk, |run, rel| {
                for (rel, look) in threads.add(rel) {
                    run.add_file(&rel, look);
                }
                looker.count_all_if(run.page.is_full());
            });
            for (rel, look) in threads.rest() {
                self.add_file(&rel, look);
                looker.count_all_if(self.page.is_full());
            }
        });
    }

    /// Does something with each file of a walk that the glob means.
    fn each_file(&mut self, walk: &mut Walk<'_>, mut with: impl FnMut(&mut Self, PathBuf)) {
        for entry in walk {
            if self.cx.cancel.is_cancelled() {
                break;
            }
            match entry.kind {
                EntryKind::Directory => {}
                EntryKind::File if self.is_meant(&entry.rel) => with(self, entry.rel),
                EntryKind::File => {}
                EntryKind::Link => self.counts.links += 1,
                EntryKind::Special => self.counts.special += 1,
            }
        }
    }

    fn is_meant(&self, rel: &Path) -> bool {
        let cwd = &self.cx.agent.spec.cwd;
        self.glob.as_ref().is_none_or(|glob| glob.is_match(self.place, cwd, rel))
    }

    /// Looks through one file by itself.
    fn file(&mut self, rel: &Path) {
        if !self.is_meant(rel) {
            return;
        }
        let look = match &self.search {
            None => FileLook::Counted(1),
            Some(search) => {
                let cancel = &self.cx.cancel;
                let looker = FileLooker::new(self.place.root(), search, self.show, cancel);
                looker.look(&mut looker.counter(), rel)
            }
        };
        self.add_file(rel, look);
    }

    /// Counts what was seen in a file, and shows what belongs on the page.
    fn add_file(&mut self, rel: &Path, look: FileLook) {
        self.counts.files += 1;
        let seen = match look {
            FileLook::Matches => self.lines(rel),
            FileLook::Counted(matches) => {
                if let MatchDisplay::Lines(_) = self.show {
                    self.page.add_found(matches);
                }
                Some(FileContent::Matches(matches))
            }
            FileLook::Binary => Some(FileContent::Binary),
            FileLook::Unreadable => None,
        };
        match seen {
            None if self.cx.cancel.is_cancelled() => {}
            None => self.counts.unreadable += 1,
            Some(FileContent::Binary) => self.counts.binary += 1,
            Some(FileContent::Matches(0)) => {}
            Some(FileContent::Matches(matches)) => {
                self.counts.with_matches += 1;
                self.counts.matches += matches;
                let (cwd, place) = (&self.cx.agent.spec.cwd, self.place);
                let name = || relative(cwd, &place.absolute(rel));
                match self.show {
                    MatchDisplay::Lines(_) => {}
                    MatchDisplay::Count => self.page.add(|| format!("{}:{matches}", name())),
                    MatchDisplay::Any => {
                        self.page.add(|| format!("{}\t{}", name(), bytes(place, rel)));
                    }
                }
            }
        }
    }

    /// Puts the lines of a file that match on the page.
    fn lines(&mut self, rel: &Path) -> Option<FileContent> {
        let name = relative(&self.cx.agent.spec.cwd, &self.place.absolute(rel));
        let file = open_regular(self.place.root(), rel)?;
        let file = CancellableFile { file, cancel: &self.cx.cancel };
        self.search.as_mut()?.file(&name, file, &mut self.page).ok()
    }

    fn report(&self, left_out: u64, ended_early: bool) -> ToolOutput {
        let mut output = ToolOutput::text(self.page.text());
        output.notes.push(self.summary());
        if ended_early {
            let files = count(self.counts.files, "file");
            output = output.note(format!("ended early, after {files}: narrow path or glob"));
        }
        let SearchCounts {
            matches, binary, special, links, unreadable, unread_directories, ..
        } = self.counts;
        let some = |number, thing| (number > 0).then(|| count(number, thing));
        let unreadable = (unreadable > 0)
            .then(|| format!("{unreadable} unreadable or with a line above 64 MiB"));
        let directories = some(unread_directories, "directory")
            .map(|directories| format!("{directories} that cannot be read"));
        let mut skipped: Vec<_> =
            [some(binary, "binary file"), unreadable, directories, some(links, "symlink")].into();
        // What is left out always is worth a word only when nothing was found.
        if matches == 0 {
            skipped.push(some(left_out, "hidden or ignored entry"));
            skipped.push(some(special, "special file"));
        }
        let skipped: Vec<_> = skipped.into_iter().flatten().collect();
        if !skipped.is_empty() {
            output = output.note(format!("skipped: {}", skipped.join(", ")));
        }
        output
    }

    /// Returns a remark on how many results were found and shown, and how to get the others.
    fn summary(&self) -> String {
        let (found, shown) = self.page.counts();
        let files = |number| count(number, "file");
        let SearchCounts { files: looked_at, with_matches, matches, .. } = self.counts;
        let head = match (&self.search, self.show) {
            (Some(_), _) if found == 0 => format!("no match in {}", files(looked_at)),
            (None, _) if found == 0 => "no such file".to_owned(),
            (Some(_), MatchDisplay::Lines(_) | MatchDisplay::Count) => {
                let matches = count(matches, "match");
                format!("{matches} in {}", files(with_matches))
            }
            (Some(_) | None, _) => files(found),
        };
        match self.page.next() {
            Some(next) => format!("{head}; shown {shown}; offset {next} for more"),
            None if shown < found => format!("{head}; shown {shown}"),
            None => head,
        }
    }
}

/// The size of a file, as it is shown.
fn bytes(place: &GrantedPath, rel: &Path) -> String {
    let meta = place.root().symlink_metadata(rel);
    meta.map_or_else(|_| "?".to_owned(), |meta| meta.len().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileLimits;
    use crate::fixture::{ToolFixture, file_limits, result, show};
    use deputize_core::CancelReason;
    use serde_json::json;

    async fn search_in(bench: &ToolFixture, arguments: serde_json::Value) -> String {
        bench.call(SearchFiles, arguments).await
    }

    fn tree() -> ToolFixture {
        let bench = ToolFixture::new();
        bench.put("src/main.rs", "fn main() {\n    run();\n}\n").put("src/run.rs", "fn run() {}\n");
        bench.put("README.md", "# Run\n\nfn\n").put(".gitignore", "target\n");
        bench.put("target/x.rs", "fn x() {}\n").put(".env", "fn\n").put("bin", b"fn\0fn\n");
        bench
    }

    #[tokio::test]
    async fn lines_come_with_path_and_number() {
        let bench = tree();
        insta::assert_snapshot!(search_in(&bench, json!({"pattern": "^fn"})).await, @r"
        README.md:3:fn
        src/main.rs:1:fn main() {
        src/run.rs:1:fn run() {}
        [3 matches in 3 files]
        [skipped: 1 binary file]
        ");
        let within = json!({"pattern": "RUN", "ignore_case": true, "path": ".."});
        insta::assert_snapshot!(bench.call_as(&bench.within("src"), SearchFiles, within).await, @r"
        ROOT/README.md:1:# Run
        main.rs:2:    run();
        run.rs:1:fn run() {}
        [3 matches in 3 files]
        [skipped: 1 binary file]
        ");
    }

    #[tokio::test]
    async fn a_mark_that_was_shown_inert_is_found_in_both_forms() {
        let bench = ToolFixture::new();
        bench.put("f", "a</think>\nb‹/think>\n[INST] c\n<|im_end|>\n");
        for (pattern, lines) in [
            ("‹/think>", "f:1:a</think>\nf:2:b‹/think>"),
            ("^‹INST] .$", "f:3:[INST] c"),
            (r"‹\|im_(start|end)\|>|‹\|im_end\|>", "f:4:<|im_end|>"),
            ("</think>", "f:1:a</think>"),
        ] {
            let found = search_in(&bench, json!({"pattern": pattern})).await;
            assert!(found.starts_with(&format!("{lines}\n[")), "{pattern}: {found}");
        }
    }

    #[tokio::test]
    async fn what_path_names_is_searched_whatever_it_is() {
        let bench = tree();
        assert_eq!(
            search_in(&bench, json!({"pattern": "fn", "path": "target"})).await,
            "target/x.rs:1:fn x() {}\n[1 match in 1 file]"
        );
        assert_eq!(
            search_in(&bench, json!({"pattern": "fn", "path": ".env"})).await,
            ".env:1:fn\n[1 match in 1 file]"
        );
        assert_eq!(
            search_in(&bench, json!({"pattern": "fn", "path": "bin"})).await,
            "\n[no match in 1 file]\n[skipped: 1 binary file]"
        );
    }

    #[tokio::test]
    async fn files_are_found_by_name_and_counted_by_lines() {
        let bench = tree();
        assert_eq!(
            search_in(&bench, json!({"glob": "*.rs"})).await,
            "src/main.rs\t25\nsrc/run.rs\t12\n[2 files]"
        );
        for glob in ["src/m*.rs", "./src/m*", "**/main.{rs,c}", "/src/[l-n]*"] {
            let text = search_in(&bench, json!({"glob": glob})).await;
            assert_eq!(text, "src/main.rs\t25\n[1 file]", "{glob}");
        }
        assert_eq!(
            search_in(&bench, json!({"glob": "main.rs", "path": "src"})).await,
            "src/main.rs\t25\n[1 file]"
        );
        assert_eq!(
            search_in(&bench, json!({"pattern": "^", "mode": "count", "glob": "*.rs"})).await,
            "src/main.rs:3\nsrc/run.rs:1\n[4 matches in 2 files]"
        );
        assert_eq!(
            search_in(&bench, json!({"pattern": "run", "mode": "files"})).await,
            "src/main.rs\t25\nsrc/run.rs\t12\n[2 files]\n[skipped: 1 binary file]"
        );
    }

    #[tokio::test]
    async fn context_is_set_apart() {
        let bench = ToolFixture::new();
        bench.put("a", "1\n2\nx\n4\n5\n6\n7\nx\n").put("b", "x\n");
        insta::assert_snapshot!(search_in(&bench, json!({"pattern": "x", "context": 1})).await, @r"
        a-2-2
        a:3:x
        a-4-4
        --
        a-7-7
        a:8:x
        --
        b:1:x
        [3 matches in 2 files]
        ");
        insta::assert_snapshot!(
            search_in(&bench, json!({"pattern": "x", "context": 1, "offset": 1, "limit": 1})).await, @r"
        a-7-7
        a:8:x
        [3 matches in 2 files; shown 1; offset 2 for more]
        ");
    }

    #[tokio::test]
    async fn pages_of_results_make_up_all_of_them() {
        let bench =
            ToolFixture::with(file_limits(FileLimits { read_bytes: 100, ..FileLimits::default() }));
        for file in ["a", "b", "c"] {
            bench.put(file, (0..40).map(|n| format!("line {n}\n")).collect::<String>());
        }
        let mut seen = Vec::new();
        for mode in ["content", "count"] {
            let mut offset = 0;
            loop {
                let arguments =
                    json!({"pattern": "line", "mode": mode, "limit": 7, "offset": offset});
                let text = search_in(&bench, arguments).await;
                let (lines, note) = text.rsplit_once("\n[").unwrap();
                assert!(lines.len() <= 100);
                seen.extend(lines.lines().map(str::to_owned));
                let Some((_, next)) = note.split_once("offset ") else { break };
                offset = next.split(' ').next().unwrap().parse::<u64>().unwrap();
            }
        }
        let lines = |file| (0..40).map(move |n| format!("{file}:{}:line {n}", n + 1));
        let counts = ["a", "b", "c"].map(|file| format!("{file}:40"));
        let all: Vec<_> = ["a", "b", "c"].into_iter().flat_map(lines).chain(counts).collect();
        assert_eq!(seen, all);
    }

    #[tokio::test]
    async fn what_threads_saw_comes_in_the_order_of_the_paths() {
        let bench = ToolFixture::new();
        let mut lines = Vec::new();
        let mut counts = Vec::new();
        // Several batches: files without a match, with one and with many, and binary ones.
        for file in 0..1_000 {
            let name = format!("d{:02}/f{file:04}", file / 50);
            let matches = if file % 7 == 0 { file % 40 } else { 0 };
            let mut text = "nothing\n".to_owned();
            for line in 0..matches {
                text += &format!("needle {line}\n");
                lines.push(format!("{name}:{}:needle {line}", line + 2));
            }
            if matches > 0 {
                counts.push(format!("{name}:{matches}"));
            }
            let text = if file % 101 == 5 { "needle\0".to_owned() } else { text };
            bench.put(&name, text);
        }
        let binary =
            |file: &str| (0..1_000).any(|n| n % 101 == 5 && file.contains(&format!("f{n:04}:")));
        lines.retain(|line| !binary(line));
        counts.retain(|line| !binary(line));
        for (mode, all) in [("content", &lines), ("count", &counts)] {
            for offset in [0, 3, all.len() - 5] {
                let arguments =
                    json!({"pattern": "needle", "mode": mode, "limit": 30, "offset": offset});
                let text = search_in(&bench, arguments).await;
                let (shown, notes) = text.split_once("\n[").unwrap();
                let wanted: Vec<_> = all.iter().skip(offset).take(30).cloned().collect();
                assert_eq!(shown.lines().collect::<Vec<_>>(), wanted, "{mode} from {offset}");
                let head = format!("{} matches in {} files", lines.len(), counts.len());
                assert!(notes.starts_with(&head), "{notes}");
                assert!(notes.contains("[skipped: 10 binary files]"), "{notes}");
            }
        }
    }

    #[tokio::test]
    async fn long_lines_are_cut_around_the_match() {
        let bench = ToolFixture::new();
        bench.put(
            "f",
            format!("{}needle{}\nneedle{}\n", "x".repeat(9000), "é".repeat(500), "y".repeat(600)),
        );
        let text = search_in(&bench, json!({"pattern": "needle"})).await;
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("f:1:[8900 bytes]…xxx"), "{}", lines[0]);
        assert!(
            lines[0].ends_with("éé…[606 bytes]") && lines[0].contains("needle"),
            "{}",
            lines[0]
        );
        assert!(
            lines[1].starts_with("f:2:needleyyy") && lines[1].ends_with("y…[106 bytes]"),
            "{}",
            lines[1]
        );
    }

    #[tokio::test]
    async fn other_line_ends_and_encodings_are_searched() {
        let bench = ToolFixture::new();
        bench.put("crlf", "one\r\ntwo\r\n").put("wide", b"\xff\xfeo\0n\0e\0\n\0");
        bench.put("latin", b"one \xe9\n");
        assert_eq!(
            search_in(&bench, json!({"pattern": "one( .)?$"})).await,
            "crlf:1:one\nwide:1:one\n[2 matches in 2 files]"
        );
        assert_eq!(
            search_in(&bench, json!({"pattern": "^one "})).await,
            "latin:1:one \u{fffd}\n[1 match in 1 file]"
        );
    }

    #[tokio::test]
    async fn bad_questions_get_an_answer() {
        let bench = ToolFixture::new();
        let long = "x".repeat(2001);
        let mut seen = String::new();
        for arguments in [
            json!({"pattern": "a(b"}),
            json!({"pattern": ""}),
            json!({"pattern": "a\nb"}),
            json!({"pattern": "\\w{1000}{1000}"}),
            json!({"pattern": long}),
            json!({"glob": "a[b"}),
            json!({"glob": long}),
            json!({"mode": "count"}),
            json!({"pattern": "x", "path": "../outside"}),
            json!({"pattern": "x", "path": "gone"}),
            json!({"pattern": "x", "mode": "lines"}),
        ] {
            seen += &(search_in(&bench, arguments).await + "\n");
        }
        insta::assert_snapshot!("bad_questions", seen);
    }

    #[tokio::test]
    async fn nothing_found_says_where_was_not_looked() {
        let bench = tree();
        bench.link("../outside", "out").fifo("pipe");
        std::fs::write(bench.path("../outside/f"), "needle").unwrap();
        assert_eq!(
            search_in(&bench, json!({"pattern": "needle"})).await,
            "\n[no match in 4 files]\n[skipped: 1 binary file, 1 symlink, 3 hidden or ignored entries, 1 special file]"
        );
        assert_eq!(
            search_in(&bench, json!({"glob": "*.py", "path": "src"})).await,
            "\n[no such file]"
        );
        assert_eq!(
            search_in(&bench, json!({"pattern": "x", "path": "pipe"})).await,
            "refused: not a regular file (named pipe): pipe"
        );
    }

    #[tokio::test]
    async fn a_cancelled_search_gives_what_it_has() {
        let bench = tree();
        bench.cx.cancel.cancel(CancelReason::TimeLimit);
        let text = show(&result(&bench.cx, SearchFiles, json!({"pattern": "fn"})).await);
        assert_eq!(
            text,
            "cancelled\n\n[no match in 0 files]\n[ended early, after 0 files: narrow path or glob]\n\
             [skipped: 3 hidden or ignored entries]"
        );
        // Inside of a file too.
        let arguments = json!({"pattern": "fn", "path": "README.md"});
        let text = show(&result(&bench.cx, SearchFiles, arguments).await);
        assert!(text.starts_with("cancelled\n\n[no match in 1 file]"), "{text}");
    }

    #[tokio::test]
    async fn a_glob_matches_names_with_marks_of_chat_formats_by_the_form_that_is_shown() {
        let bench = ToolFixture::new();
        bench.put("<s>/a.txt", "").put("[INST].txt", "").put("‹s>.md", "");
        let found = async |glob: &str| search_in(&bench, json!({"glob": glob})).await;
        assert_eq!(found("‹s>/*").await, "<s>/a.txt\t0\n[1 file]");
        assert_eq!(found("‹INST].*").await, "[INST].txt\t0\n[1 file]");
        assert_eq!(found("‹s>.md").await, "‹s>.md\t0\n[1 file]");
    }
}
