//! `edit_file`: one text of a file replaced by another.

use deputize_core::message::ModelText;
use deputize_core::tool::{CallCheck, spec_of};
use deputize_core::wording::count;
use deputize_core::{
    ArgumentRole, Effects, Example, Subject, ToolCallResult, ToolCx, ToolError, ToolKind,
    ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Settings;
use crate::blocking::{CallMode, blocking};
use crate::diff::{FileDiff, MODEL_LINES};
use crate::display_name::restored_marks;
use crate::existing_file::{ExistingFile, FileChange, WriteExtent, none_to_change};
use crate::granted_path::{Access, GrantedPath, check_written_paths};
use crate::matching::{Edit, EditScope, EditedText, MOST_PLACES, MatchTier, NoMatch, edit};
use crate::nearest_text::nearest_text;
use crate::path_error::PathError;
use crate::text::FileText;

/// Lines of places that an ambiguous edit names.
const NAMED_LINES: usize = 20;

const DESCRIPTION: &str = "Replace text in a file. Copy `old` from the file, without line numbers; \
    if it occurs more than once, add lines around it.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    path: String,
    old: String,
    new: String,
    /// Every occurrence.
    #[serde(default)]
    all: bool,
}

#[derive(Debug)]
pub(crate) struct EditFile;

impl TypedTool for EditFile {
    type Args = Args;

    fn spec() -> ToolSpec {
        let example = |title, arguments| Example { title, arguments };
        ToolSpec {
            examples: vec![
                example(
                    "One occurrence",
                    serde_json::json!({"path": "README.md", "old": "# Title\n", "new": "# Name\n"}),
                ),
                example(
                    "Every occurrence",
                    serde_json::json!({"path": "README.md", "old": "a", "new": "b", "all": true}),
                ),
            ],
            kind: ToolKind::Edit,
            subject: Subject::new(Some("edit".into()), "path", ArgumentRole::Path),
            ..ToolSpec::effectful(spec_of::<Args>("edit_file", DESCRIPTION), Effects::WritesFiles)
        }
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        let path = args.path.clone();
        check_written_paths(cx, &[&path], move |cx| edit_file(&args, cx, CallMode::DryRun)).await
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| edit_file(&args, cx, CallMode::Real)).await
    }
}

deputize_core::register_tool!("file", EditFile);

fn edit_file(args: &Args, cx: &ToolCx, mode: CallMode) -> ToolCallResult {
    if args.old.is_empty() {
        return Err(ToolError::refused(
            "old is empty: give the text to replace, or use write_file",
        ));
    }
    if args.old == args.new {
        return Err(ToolError::refused("old and new are the same: nothing to change"));
    }
    let place = GrantedPath::existing(cx, &args.path, Access::Write)
        .map_err(|error| none_to_change(cx, &args.path, error))?;
    let _guard = cx.agent.session.files.lock_path(&place.path());
    let limit = Settings::of(cx).files.edit_bytes;
    let old = ExistingFile::read(cx, &place, limit)?;
    let Some(bytes) = &old.bytes else {
        let path = place.shown().to_owned();
        let bytes = old.version.bytes;
        let instead = "change it with the terminal";
        return Err(PathError::TooLarge { path, bytes, limit, instead }.into());
    };
    let warning = old.may_change(cx, &place, WriteExtent::Part)?;
    let refused = |error| ToolError::refused(format!("{}: {error}", place.shown()));
    let text = FileText::decode(bytes).map_err(refused)?;
    let scope = if args.all { EditScope::All } else { EditScope::Only };
    let asked = Edit { old: &args.old, new: &args.new, scope };
    let edited =
        edit(&text.text, asked).map_err(|miss| no_match_error(&place, &text.text, args, miss))?;
    let new = text.charset.encode(&edited.text).map_err(refused)?;
    let mut output = report(&place, &text.text, &edited);
    output.notes.extend(warning);
    match mode {
        CallMode::DryRun => Ok(output),
        CallMode::Real => {
            FileChange { place: &place, old: Some(&old), new: &new }.write(cx, output)
        }
    }
}

/// Reports the change as a diff.
fn report(place: &GrantedPath, old: &str, edited: &EditedText) -> ToolOutput {
    let difference = FileDiff::between(old, &edited.text, &edited.changes);
    let (diff, cut) = difference.first(MODEL_LINES);
    let added = difference.added;
    let removed = difference.removed;
    let head = format!("changed {}: +{added} -{removed}", place.shown());
    let mut output = ToolOutput::text(format!("{head}\n{diff}"));
    let places = edited.changes.len() as u64;
    if places > 1 {
        output = output.note(count(places, "occurrence") + " replaced");
    }
    let how = match edited.tier {
        MatchTier::Exact | MatchTier::LineEnds => None,
        MatchTier::TrailingSpace => Some("old was found with other trailing space"),
        MatchTier::Unshown => {
            Some("old was found but for invisible characters, which are gone from there now")
        }
        MatchTier::Indentation => {
            Some("old was found with other indentation; new was indented like the file")
        }
    };
    output.notes.extend(how.map(str::to_owned));
    output.notes.extend(restored_marks(edited.marks));
    output.notes.extend(cut);
    output.display = Some(difference.display(place.path()));
    output
}

/// Explains why nothing was changed, with a hint.
fn no_match_error(place: &GrantedPath, text: &str, args: &Args, miss: NoMatch) -> ToolError {
    let path = place.shown();
    match miss {
        NoMatch::NoChange => {
            ToolError::refused(format!("{path} has the new text there already: nothing to change"))
        }
        NoMatch::Ambiguous(mut lines) => {
            let times = lines.len();
            lines.dedup();
            let named: Vec<_> = lines.iter().take(NAMED_LINES).map(usize::to_string).collect();
            let more = match lines.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let at = if lines.len() == 1 { "on line" } else { "at lines" };
            ToolError::refused(format!(
                "old occurs {times} times in {path}, {at} {}{more}: add lines around it until it \
                 occurs once, or set all",
                named.join(", "),
            ))
        }
        NoMatch::TooMany => ToolError::refused(format!(
            "old occurs more than {MOST_PLACES} times in {path}, which is the most that one edit \
             looks at: add lines around it, or change the file with the terminal"
        )),
        NoMatch::TooLarge { bytes, limit } => ToolError::refused(format!(
            "{path} would have {bytes} bytes or more, and {limit} is the most after an edit: \
             change it with the terminal"
        )),
        NoMatch::Mark(error) => ToolError::refused(format!(
            "{path}: {error}, since old covers both: edit a smaller part, which has one of them"
        )),
        NoMatch::Nowhere => nowhere(path, text, &args.old),
    }
}

fn nowhere(path: &str, text: &str, old: &str) -> ToolError {
    let numbered = |line: &str| {
        line.split_once('\t')
            .is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let hint = if old.lines().all(numbered) {
        "; it seems to contain the line numbers of read_file: leave them out"
    } else {
        ""
    };
    let words = format!("old does not occur in {path}{hint}; nothing was changed");
    match nearest_text(text, old) {
        // The file's own text goes where content goes, so that it is framed as such.
        Some(near) => ToolError::Partly {
            text: ModelText::own(format!("{words}. The most similar lines of it:")),
            output: Box::new(ToolOutput::text(near)),
        },
        None => ToolError::refused(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::existing_file::timeless;
    use deputize_requirements::test_path;

    use crate::FileLimits;
    use crate::fixture::{PeakMemory, ToolFixture, again_alone, file_limits};
    use crate::read_file::ReadFile;
    use deputize_core::authority::Grant;
    use serde_json::json;

    async fn edit_in(bench: &ToolFixture, old: &str, new: &str) -> String {
        bench.call(EditFile, json!({"path": "f", "old": old, "new": new})).await
    }

    /// An agent that has just read a file `f` of this content.
    async fn reader(content: impl AsRef<[u8]>) -> ToolFixture {
        let bench = ToolFixture::new();
        bench.put("f", content);
        bench.call(ReadFile, json!({"path": "f"})).await;
        bench
    }

    #[tokio::test]
    async fn an_edit_answers_with_its_diff() {
        let bench = reader("a\nb\nc\n").await;
        insta::assert_snapshot!(edit_in(&bench, "b\n", "x\ny\n").await, @r"
        changed f: +2 -1
        @@ -1,3 +1,4 @@
         a
        -b
        +x
        +y
         c
        (diff of ROOT/f)
        ");
        assert_eq!(bench.get("f"), b"a\nx\ny\nc\n");
        // The agent knows what it wrote, so the next edit needs no new read.
        assert!(edit_in(&bench, "x", "z").await.starts_with("changed f: +1 -1"));
    }

    #[tokio::test]
    async fn marks_of_chat_formats_are_edited_as_they_are_shown_and_stay_what_they_are() {
        let bench = ToolFixture::new();
        bench.put("f", "<p>\n<s>one</s> <b>two</b>\n[INST] x [/INST]\n<|im_start|>user\n");
        let shown = bench.call(ReadFile, json!({"path": "f"})).await;
        let shown = deputize_core::sanitize::clean(&shown).text.into_owned();
        let line = |n: usize| shown.lines().nth(n).unwrap().split_once('\t').unwrap().1.to_owned();
        assert_eq!(line(1), "‹s>one‹/s> <b>two</b>");
        let answer = edit_in(&bench, &line(1), "‹s>three‹/s> four").await;
        assert!(answer.contains("[2 chat-format marks given with ‹"), "{answer}");
        edit_in(&bench, "x ‹/INST]", "y ‹/INST]").await;
        edit_in(&bench, "user", "user ‹|im_start|>").await;
        let now = "<p>\n<s>three</s> four\n[INST] y [/INST]\n<|im_start|>user <|im_start|>\n";
        assert_eq!(String::from_utf8(bench.get("f")).unwrap(), now);
        // Written whole, too, also with a mark that the file did not have.
        let content = "‹s>five‹/s>\n‹INST]\n‹tool_call>\n";
        let write = json!({"path": "f", "content": content});
        let answer = bench.call(crate::write_file::WriteFile, write).await;
        assert!(answer.contains("[4 chat-format marks given with ‹"), "{answer}");
        assert_eq!(bench.get("f"), b"<s>five</s>\n[INST]\n<tool_call>\n");
    }

    #[test]
    fn a_large_file_is_edited_in_a_few_times_its_size() {
        again_alone(test_path!(), || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let line = |n: u32| format!("line {n:08}\n");
                let bench = reader((0..1_000_000).map(line).collect::<String>()).await;
                bench.cx.agent.session.files.record_read(
                    bench.cx.agent.id(),
                    &bench.path("f"),
                    deputize_core::file_state::FileVersion::of(&bench.get("f")),
                );
                let most = 10 * bench.get("f").len() as u64;
                let text =
                    PeakMemory::of(edit_in(&bench, &line(500_000), "one\ntwo\n")).await.below(most);
                insta::assert_snapshot!(text, @r"
                changed f: +2 -1
                @@ -499998,7 +499998,8 @@
                 line 00499997
                 line 00499998
                 line 00499999
                -line 00500000
                +one
                +two
                 line 00500001
                 line 00500002
                 line 00500003
                (diff of ROOT/f)
                ");
                let all = json!({"path": "f", "old": "99\n", "new": "98\n", "all": true});
                let text = PeakMemory::of(bench.call(EditFile, all)).await.below(most);
                assert!(text.starts_with("changed f: +10000 -10000\n@@ -97,7 +97,7 @@"), "{text}");
                let text = PeakMemory::of(edit_in(&bench, "no such line\n", "x")).await.below(most);
                assert!(text.starts_with("refused: old does not occur in f"), "{text}");
                let content = "other\n".repeat(2_000_000);
                let write = json!({"path": "f", "content": content});
                let writing = bench.call(crate::write_file::WriteFile, write);
                let text = PeakMemory::of(writing).await.below(most);
                assert!(text.starts_with("changed f: 2000000 lines"), "{text}");
            });
        });
    }

    #[tokio::test]
    async fn every_occurrence_only_when_asked() {
        let bench = reader("a\nb\na\n").await;
        assert_eq!(
            edit_in(&bench, "a", "c").await,
            "refused: old occurs 2 times in f, at lines 1, 3: add lines around it until it \
             occurs once, or set all"
        );
        let text = edit_in(&reader("aba\n").await, "a", "c").await;
        assert!(text.starts_with("refused: old occurs 2 times in f, on line 1: add"), "{text}");
        let all = json!({"path": "f", "old": "a", "new": "c", "all": true});
        let text = bench.call(EditFile, all).await;
        assert!(text.contains("[2 occurrences replaced]"), "{text}");
        assert_eq!(bench.get("f"), b"c\nb\nc\n");
    }

    #[tokio::test]
    async fn other_indentation_is_found_and_said() {
        let bench = reader("fn f() {\n\tif a {\n\t\tb();\n\t}\n}\n").await;
        let text = edit_in(
            &bench,
            "    if a {\n        b();\n    }\n",
            "    if a {\n        if c {\n            b();\n        }\n    }\n",
        );
        let text = text.await;
        assert!(text.contains("new was indented like the file"), "{text}");
        assert_eq!(
            String::from_utf8(bench.get("f")).unwrap(),
            "fn f() {\n\tif a {\n\t\tif c {\n\t\t\tb();\n\t\t}\n\t}\n}\n"
        );
    }

    #[tokio::test]
    async fn what_is_not_there_comes_with_what_is_most_like_it() {
        let bench = reader("one\nlet total = add(a, b);\nthree\n").await;
        assert_eq!(
            edit_in(&bench, "let total = add(b, a);", "x").await,
            "refused: old does not occur in f; nothing was changed. The most similar lines of it:\n\
             1\tone\n2\tlet total = add(a, b);\n3\tthree"
        );
        assert_eq!(
            edit_in(&bench, "7\tsomething else", "x").await,
            "refused: old does not occur in f; it seems to contain the line numbers of read_file: \
             leave them out; nothing was changed"
        );
        assert_eq!(bench.get("f"), b"one\nlet total = add(a, b);\nthree\n");
    }

    #[tokio::test]
    async fn edits_that_change_nothing_are_refused() {
        let bench = reader("a \n").await;
        assert_eq!(
            edit_in(&bench, "a", "a").await,
            "refused: old and new are the same: nothing to change"
        );
        assert_eq!(
            edit_in(&bench, "", "a").await,
            "refused: old is empty: give the text to replace, or use write_file"
        );
        assert_eq!(
            edit_in(&bench, "a\t\n", "a \n").await,
            "refused: f has the new text there already: nothing to change"
        );
    }

    #[tokio::test]
    async fn the_files_encoding_and_line_ends_stay() {
        let bench = reader(b"caf\xe9\r\nb\r\nc").await;
        let text = edit_in(&bench, "café\nb\n", "thé\nx\n").await;
        assert!(text.starts_with("changed f: +2 -2"), "{text}");
        assert_eq!(bench.get("f"), b"th\xe9\r\nx\r\nc");
        assert_eq!(
            edit_in(&bench, "x", "→").await,
            "refused: f: the file is windows-1252 (Latin-1) and has no character '→' (U+2192)"
        );
        let wide = reader(b"\xff\xfea\0\n\0b\0").await;
        edit_in(&wide, "b", "€").await;
        assert_eq!(wide.get("f"), b"\xff\xfea\0\n\0\xac\x20");
    }

    #[tokio::test]
    async fn a_file_must_have_been_read_as_it_is() {
        let bench = ToolFixture::new();
        bench.put("f", "a\n");
        assert_eq!(
            edit_in(&bench, "a", "b").await,
            "refused: f: you have not read it: read it first, so that nothing in it is lost"
        );
        bench.call(ReadFile, json!({"path": "f"})).await;
        bench.put("f", "a\nc\n");
        assert_eq!(
            timeless(&edit_in(&bench, "a", "b").await),
            "refused: f: changed on disk since you read it (by a command or another program, at \
             TIME): read it again"
        );
        let name = edit_in(&ToolFixture::new(), "a", "b").await;
        assert_eq!(name, "refused: not found: f");
    }

    #[tokio::test]
    async fn what_was_deleted_or_renamed_is_said_as_for_a_write() {
        let bench = reader("a\n").await;
        std::fs::rename(bench.path("f"), bench.path("fa")).unwrap();
        assert_eq!(
            edit_in(&bench, "a", "b").await,
            "refused: f: deleted or renamed since you read it (by a command or another program): \
             look where it went, and read it again before you write it anew"
        );
        // What it never read is only not there.
        assert_eq!(edit_in(&ToolFixture::new(), "a", "b").await, "refused: not found: f");
    }

    #[tokio::test]
    async fn of_two_agents_the_second_learns_who_was_first() {
        let bench = reader("a\nb\n").await;
        let roots = bench.cx.agent.authority.read_roots().clone();
        let grant = Grant { read: Some(roots.clone()), write: Some(roots), ..Grant::default() };
        let child = bench.child(&grant);
        bench.call_as(&child, ReadFile, json!({"path": "f"})).await;
        let (mine, theirs) = tokio::join!(
            bench.call(EditFile, json!({"path": "f", "old": "a", "new": "mine"})),
            bench.call_as(&child, EditFile, json!({"path": "f", "old": "b", "new": "theirs"})),
        );
        let won = |text: &str| text.starts_with("changed f");
        let lost = |text: &str| {
            text.starts_with("refused: f: changed on disk since you read it (by agent s")
        };
        assert!((won(&mine) && lost(&theirs)) || (lost(&mine) && won(&theirs)), "{mine}\n{theirs}");
        let text = String::from_utf8(bench.get("f")).unwrap();
        assert!(text == "mine\nb\n" || text == "a\ntheirs\n", "{text}");
    }

    #[tokio::test]
    async fn a_long_diff_is_cut_with_a_count() {
        let bench = reader("a\n".repeat(100)).await;
        let all = json!({"path": "f", "old": "a", "new": "b", "all": true});
        let text = bench.call(EditFile, all).await;
        assert!(
            text.contains("[100 occurrences replaced]\n[121 lines of the diff left out]"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn what_is_not_text_or_too_large_is_refused() {
        let bench =
            ToolFixture::with(file_limits(FileLimits { edit_bytes: 20, ..FileLimits::default() }));
        bench.put("f", "a\n".repeat(11)).call(ReadFile, json!({"path": "f"})).await;
        assert_eq!(
            edit_in(&bench, "a", "b").await,
            "refused: is larger than 20 bytes: f (22 bytes); change it with the terminal"
        );
        let bench = ToolFixture::new();
        bench.put("d/x", "").put("bin", b"\0\x01").fifo("p");
        let mut seen = String::new();
        for path in ["d", "bin", "p", "../w2"] {
            let arguments = json!({"path": path, "old": "a", "new": "b"});
            seen += &(bench.call(EditFile, arguments).await + "\n");
        }
        insta::assert_snapshot!(seen, @r"
        refused: is a directory: d; list_dir shows what is in it
        refused: bin: you have not read it: read it first, so that nothing in it is lost
        refused: not a regular file (named pipe): p
        refused: outside the workspace: ../w2
        ");
    }
}
