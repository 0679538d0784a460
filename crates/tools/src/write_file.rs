//! `write_file`: a whole file, created or replaced.

use deputize_core::tool::{CallCheck, spec_of};
use deputize_core::wording::count;
use deputize_core::{
    ArgumentRole, Effects, Example, Subject, ToolCallResult, ToolCx, ToolError, ToolKind,
    ToolOutput, ToolSpec, TypedTool, sanitize,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Settings;
use crate::blocking::{CallMode, blocking, still_wanted};
use crate::diff::FileDiff;
use crate::display_name::restored_marks;
use crate::existing_file::{ExistingFile, FileChange, WriteExtent, may_create};
use crate::granted_path::{GrantedPath, check_written_paths};
use crate::path_error::PathError;
use crate::text::{Charset, FileText};

const DESCRIPTION: &str = "Create or replace a whole text file, with missing directories; change a \
    part with edit_file.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    path: String,
    content: String,
}

#[derive(Debug)]
pub(crate) struct WriteFile;

impl TypedTool for WriteFile {
    type Args = Args;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({"path": "notes/plan.md", "content": "# Plan\n"});
        ToolSpec {
            examples: vec![Example { title: "A new file in a new directory", arguments }],
            kind: ToolKind::Edit,
            subject: Subject::new(Some("write".into()), "path", ArgumentRole::Path),
            ..ToolSpec::effectful(spec_of::<Args>("write_file", DESCRIPTION), Effects::WritesFiles)
        }
    }

    async fn check(&self, args: Args, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        let path = args.path.clone();
        check_written_paths(cx, &[&path], move |cx| write_file(&args, cx, CallMode::DryRun)).await
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| write_file(&args, cx, CallMode::Real)).await
    }
}

deputize_core::register_tool!("file", WriteFile);

fn write_file(args: &Args, cx: &ToolCx, mode: CallMode) -> ToolCallResult {
    let place = GrantedPath::to_write(cx, &args.path)?;
    let _guard = cx.agent.session.files.lock_path(&place.path());
    still_wanted(cx)?;
    let old = match place.metadata() {
        Ok(_) => Some(ExistingFile::read(cx, &place, Settings::of(cx).files.edit_bytes)?),
        Err(PathError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let warning = match &old {
        Some(old) => old.may_change(cx, &place, WriteExtent::Whole)?,
        None => may_create(cx, &place)?,
    };
    let before = match &old {
        None => Some(FileText { text: String::new(), charset: Charset::Utf8 }),
        Some(old) => old.bytes.as_ref().and_then(|bytes| FileText::decode(bytes).ok()),
    };
    let there = before.as_ref().map_or("", |before| &before.text);
    let content = sanitize::restored_whole(&args.content, there).map_err(|error| {
        let path = place.shown();
        ToolError::refused(format!(
            "{path}: {error}, since the file has both or fewer: change its parts with edit_file"
        ))
    })?;
    let marks = content.marks;
    let content = content.text;
    let new = content.as_bytes();
    if let Some(bytes) = old.as_ref().and_then(|old| old.bytes.as_deref())
        && bytes == new
    {
        let path = place.shown();
        return Ok(ToolOutput::text(format!("{path} has this content already; nothing changed")));
    }
    let mut output = ToolOutput::text(summary(&place, old.as_ref(), &content));
    output.notes.extend(warning);
    output.notes.extend(restored_marks(marks));
    if let Some(before) = before {
        output.notes.extend(lost(&before, &content));
        // The change for a screen, when both sides are text.
        let difference = FileDiff::of(&before.text, &content);
        output.display = Some(difference.display(place.path()));
    }
    output.notes.extend(old.as_ref().and_then(other_names));
    match mode {
        CallMode::DryRun => Ok(output),
        CallMode::Real => FileChange { place: &place, old: old.as_ref(), new }.write(cx, output),
    }
}

fn summary(place: &GrantedPath, old: Option<&ExistingFile>, new: &str) -> String {
    let lines = count(new.lines().count() as u64, "line");
    let bytes = count(new.len() as u64, "byte");
    let path = place.shown();
    match old {
        None => format!("created {path}: {lines}, {bytes}"),
        Some(old) => format!("changed {path}: {lines}, {bytes} (before: {})", old.version.bytes),
    }
}

/// Says what of the old file is not in the new one beside its text.
fn lost(old: &FileText, new: &str) -> Vec<String> {
    let mut notes = Vec::new();
    if old.charset != Charset::Utf8 {
        notes.push(format!("it was {} and is UTF-8 now", old.charset.name()));
    }
    if old.text.contains("\r\n") && !new.contains("\r\n") && !new.is_empty() {
        notes.push("its lines ended in CRLF and end in LF now".to_owned());
    }
    notes
}

/// Says what becomes of the other names of a file.
fn other_names(old: &ExistingFile) -> Option<String> {
    use cap_std::fs::MetadataExt as _;
    let others = old.meta.nlink().checked_sub(1).filter(|others| *others > 0)?;
    let others = count(others, "other name");
    Some(format!("the file had {others} (hard links), which keep the old content"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::existing_file::timeless;
    use deputize_requirements::test_path;

    use crate::FileLimits;
    use crate::fixture::{
        ToolFixture, again_on_small_disk, again_without_rights, file_limits, result, show,
    };
    use crate::read_file::ReadFile;
    use deputize_core::file_state::{FileVersion, OnStaleWrite};
    use deputize_core::{CancelReason, ToolEffect};
    use serde_json::json;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

    async fn write_in(bench: &ToolFixture, path: &str, content: &str) -> String {
        bench.call(WriteFile, json!({"path": path, "content": content})).await
    }

    async fn read_in(bench: &ToolFixture, path: &str) {
        bench.call(ReadFile, json!({"path": path})).await;
    }

    /// Every name in the workspace.
    fn names(bench: &ToolFixture) -> Vec<String> {
        let entries = std::fs::read_dir(bench.root()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_new_file_is_created_with_its_directories() {
        let bench = ToolFixture::new();
        assert_eq!(
            write_in(&bench, "a/b/f", "x\ny\n").await,
            "created a/b/f: 2 lines, 4 bytes\n(diff of ROOT/a/b/f)"
        );
        assert_eq!(bench.get("a/b/f"), b"x\ny\n");
        // The agent knows what it wrote.
        assert!(write_in(&bench, "a/b/f", "z").await.starts_with("changed a/b/f: 1 line, 1 byte"));
        assert_eq!(
            write_in(&bench, "a/b/f", "z").await,
            "a/b/f has this content already; nothing changed"
        );
    }

    #[tokio::test]
    async fn nothing_is_overwritten_unread_or_unseen() {
        let bench = ToolFixture::new();
        bench.put("f", "old");
        assert_eq!(
            write_in(&bench, "f", "new").await,
            "refused: f: you have not read it: read it first, so that nothing in it is lost"
        );
        read_in(&bench, "f").await;
        bench.put("f", "other");
        assert_eq!(
            timeless(&write_in(&bench, "f", "new").await),
            "refused: f: changed on disk since you read it (by a command or another program, at \
             TIME): read it again"
        );
        assert_eq!(bench.get("f"), b"other");
    }

    #[tokio::test]
    async fn what_was_deleted_or_renamed_is_not_created_anew_unseen() {
        let bench = ToolFixture::new();
        bench.put("f", "old");
        read_in(&bench, "f").await;
        std::fs::rename(bench.path("f"), bench.path("g")).unwrap();
        let gone = "refused: f: deleted or renamed since you read it (by a command or another \
                    program): look where it went, and read it again before you write it anew";
        for _ in 0..2 {
            assert_eq!(write_in(&bench, "f", "new").await, gone);
        }
        assert_eq!(names(&bench), ["g"]);
        read_in(&bench, "f").await;
        assert!(write_in(&bench, "f", "new").await.starts_with("created f"));
        // What it wrote itself it knows too.
        std::fs::remove_file(bench.path("f")).unwrap();
        assert_eq!(write_in(&bench, "f", "new").await, gone);

        let warns = Settings { on_stale_write: OnStaleWrite::Warn, ..Settings::default() };
        let bench = ToolFixture::with(warns);
        bench.put("f", "old");
        read_in(&bench, "f").await;
        std::fs::remove_file(bench.path("f")).unwrap();
        let text = write_in(&bench, "f", "new").await;
        let note = "[f had been deleted or renamed since you read it]";
        assert!(text.starts_with("created f") && text.contains(note), "{text}");
    }

    #[tokio::test]
    async fn what_was_read_in_part_is_not_overwritten_whole() {
        let bench = ToolFixture::new();
        bench.put("f", "x\n".repeat(5000));
        let read = async |offset: u32, limit: u32| {
            let page = json!({"path": "f", "offset": offset, "limit": limit});
            bench.call(ReadFile, page).await;
        };
        read(17, 1).await;
        assert_eq!(
            write_in(&bench, "f", "new").await,
            "refused: f: 4999 of its 5000 lines were never shown to you: read on, or edit only \
             a part that you have read"
        );
        read(2001, 2000).await;
        read(1, 2000).await;
        assert!(write_in(&bench, "f", "new").await.starts_with("refused: f: 1000 of its 5000"));
        read(4001, 2000).await;
        assert!(write_in(&bench, "f", "a\nb\n").await.starts_with("changed f"));
        // What an edit leaves of the unseen stays unseen.
        bench.put("f", "a\nb\n");
        bench.put("f", "a\nb\nc\n");
        read(1, 1).await;
        let edit = json!({"path": "f", "old": "a", "new": "A"});
        let edited = bench.call(crate::edit_file::EditFile, edit).await;
        assert!(edited.starts_with("changed f"), "{edited}");
        assert_eq!(
            write_in(&bench, "f", "new").await,
            "refused: f: you have seen only a part of it as it is now: read on, or edit only \
             a part that you have read"
        );
        assert_eq!(bench.get("f"), b"A\nb\nc\n");
    }

    #[tokio::test]
    async fn a_line_that_was_cut_counts_when_it_was_read_to_its_end() {
        let bench =
            ToolFixture::with(file_limits(FileLimits { line_bytes: 10, ..FileLimits::default() }));
        bench.put("f", "0123456789abc\nend");
        for byte in [0, 10] {
            let refused = "refused: f: ";
            assert!(write_in(&bench, "f", "new").await.starts_with(refused));
            bench.call(ReadFile, json!({"path": "f", "byte": byte})).await;
        }
        assert!(write_in(&bench, "f", "new").await.starts_with("changed f"));
    }

    #[tokio::test]
    async fn a_stale_write_can_be_a_warning_but_not_an_unread_one() {
        let bench = ToolFixture::with(Settings {
            on_stale_write: OnStaleWrite::Warn,
            ..Settings::default()
        });
        bench.put("f", "old");
        assert!(write_in(&bench, "f", "new").await.starts_with("refused: f: you have not read it"));
        read_in(&bench, "f").await;
        bench.put("f", "other");
        assert_eq!(
            timeless(&write_in(&bench, "f", "new").await),
            "changed f: 1 line, 3 bytes (before: 5)\n[f had changed on disk since you read it \
             (by a command or another program, at TIME); that change may be lost]\n(diff of ROOT/f)"
        );
    }

    #[tokio::test]
    async fn a_write_after_a_part_was_read_and_the_file_changed_says_who_and_when_in_each_mode() {
        for on_stale_write in [OnStaleWrite::Refuse, OnStaleWrite::Warn] {
            let bench = ToolFixture::with(Settings { on_stale_write, ..Settings::default() });
            bench.put("f", "a\nb\n");
            bench.call(ReadFile, json!({"path": "f", "offset": 1, "limit": 1})).await;
            bench.put("f", "a\nB\n");
            assert_eq!(
                timeless(&write_in(&bench, "f", "new").await),
                "refused: f: changed on disk since you read it (by a command or another program, \
                 at TIME): read it again"
            );
            assert_eq!(bench.get("f"), b"a\nB\n");
        }
    }

    #[tokio::test]
    async fn marks_that_were_shown_inert_are_written_in_their_true_form() {
        let bench = ToolFixture::new();
        let copied = write_in(&bench, "copy", "‹s>a‹/s> ‹b>").await;
        assert!(copied.contains("[2 chat-format marks given with ‹ written"), "{copied}");
        assert_eq!(bench.get("copy"), "<s>a</s> ‹b>".as_bytes());
        // A file that is about inert marks keeps them.
        bench.put("inert", "say ‹s>\n").put("both", "‹s> <s>\n");
        read_in(&bench, "inert").await;
        let kept = write_in(&bench, "inert", "write ‹s>, not ‹think>\n").await;
        assert!(kept.contains("[1 chat-format mark given with ‹ written"), "{kept}");
        assert_eq!(bench.get("inert"), "write ‹s>, not <think>\n".as_bytes());
        read_in(&bench, "both").await;
        for (path, content) in [("inert", "‹s> ‹/s>"), ("both", "‹s>")] {
            let refused = write_in(&bench, path, content).await;
            assert!(refused.contains("`‹s>` is ambiguous"), "{refused}");
            assert!(refused.contains("change its parts with edit_file"), "{refused}");
        }
        assert!(write_in(&bench, "both", "nothing").await.starts_with("changed both"));
    }

    #[tokio::test]
    async fn a_write_is_a_fact_of_the_place_itself() {
        let bench = ToolFixture::new();
        bench.put("f", "").link("f", "l");
        read_in(&bench, "l").await;
        let output = result(&bench.cx, WriteFile, json!({"path": "l", "content": "x"})).await;
        let path = bench.path("f");
        let version = FileVersion::of(b"x");
        assert_eq!(
            output.unwrap().facts,
            [ToolEffect::FileWritten { path, version, created: false }]
        );
        assert!(bench.path("l").is_symlink());
        assert_eq!(bench.get("f"), b"x");
    }

    #[tokio::test]
    async fn mode_stays_and_hard_links_are_broken() {
        let bench = ToolFixture::new();
        bench.put("f", "old");
        std::fs::set_permissions(bench.path("f"), PermissionsExt::from_mode(0o4751)).unwrap();
        std::fs::hard_link(bench.path("f"), bench.path("other")).unwrap();
        read_in(&bench, "f").await;
        let text = write_in(&bench, "f", "new").await;
        assert!(
            text.contains("[the file had 1 other name (hard links), which keep the old content]"),
            "{text}"
        );
        assert_eq!((bench.get("f"), bench.get("other")), (b"new".to_vec(), b"old".to_vec()));
        assert_eq!(bench.path("f").metadata().unwrap().mode() & 0o7777, 0o751);
        assert_eq!(names(&bench), ["f", "other"]);
    }

    #[tokio::test]
    async fn what_the_text_alone_would_lose_is_said() {
        let bench = ToolFixture::new();
        bench.put("f", b"\xef\xbb\xbfa\r\n");
        read_in(&bench, "f").await;
        let text = write_in(&bench, "f", "b\n").await;
        assert!(
            text.contains("[it was UTF-8 with a byte order mark and is UTF-8 now]\n[its lines ended in CRLF and end in LF now]"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn no_file_is_made_where_none_can_be() {
        let bench = ToolFixture::new();
        std::fs::write(bench.path("../outside/f"), "o").unwrap();
        bench.put("d/x", "").put("file", "").link("../outside", "out").link("gone", "dangling");
        bench.fifo("p");
        let mut seen = String::new();
        for path in [
            "d",
            "new/",
            "../outside/f",
            "out/f",
            "out/new",
            "dangling",
            "p",
            "file/x",
            "a/../../x",
        ] {
            seen += &(write_in(&bench, path, "x").await + "\n");
        }
        insta::assert_snapshot!(seen, @r"
        refused: is a directory: d; list_dir shows what is in it
        refused: is a directory: new/; list_dir shows what is in it
        refused: outside the workspace: ../outside/f
        refused: symlink leaves the workspace: out/f
        refused: symlink leaves the workspace: out/new
        refused: symlink leads nowhere: dangling
        refused: not a regular file (named pipe): p
        refused: cannot find file/x: Not a directory (os error 20)
        refused: outside the workspace: a/../../x
        ");
        assert_eq!(std::fs::read_dir(bench.path("../outside")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_cancelled_write_changes_nothing() {
        let bench = ToolFixture::new();
        bench.cx.cancel.cancel(CancelReason::Interrupted);
        let result = result(&bench.cx, WriteFile, json!({"path": "f", "content": "x"})).await;
        assert_eq!(show(&result), "cancelled\n");
        assert_eq!(names(&bench), Vec::<String>::new());
    }

    #[test]
    fn without_permission_nothing_happens() {
        again_without_rights(test_path!(), || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let bench = ToolFixture::new();
                bench.put("d/f", "old").put("secret", "s");
                read_in(&bench, "d/f").await;
                let mode = |name, mode| {
                    let mode = PermissionsExt::from_mode(mode);
                    std::fs::set_permissions(bench.path(name), mode).unwrap();
                };
                mode("secret", 0);
                mode("d", 0o555);
                assert_eq!(
                    write_in(&bench, "d/f", "new").await,
                    "refused: cannot write d/f: Permission denied (os error 13)"
                );
                assert_eq!(
                    bench.call(ReadFile, json!({"path": "secret"})).await,
                    "refused: cannot open secret: Permission denied (os error 13)"
                );
                mode("d", 0o755);
                assert_eq!(bench.get("d/f"), b"old");
            });
        });
    }

    #[test]
    fn on_a_full_or_read_only_disk_the_old_content_stays() {
        again_on_small_disk(test_path!(), |disk| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let bench = ToolFixture::on(disk, Settings::default());
                bench.put("f", "old");
                read_in(&bench, "f").await;
                let large = "x".repeat(1 << 20);
                for path in ["f", "new"] {
                    assert_eq!(
                        write_in(&bench, path, &large).await,
                        format!(
                            "refused: cannot write {path}: No space left on device (os error 28)"
                        )
                    );
                }
                assert_eq!(
                    (names(&bench), bench.get("f")),
                    (vec!["f".to_owned()], b"old".to_vec())
                );
                // Of this mount alone: what a user without rights may change.
                let remount = ["-o", "remount,bind,ro"];
                let done = std::process::Command::new("mount").args(remount).arg(disk).status();
                assert!(done.unwrap().success());
                assert_eq!(
                    write_in(&bench, "f", "new").await,
                    "refused: cannot write f: Read-only file system (os error 30)"
                );
                assert_eq!(bench.get("f"), b"old");
            });
        });
    }
}
