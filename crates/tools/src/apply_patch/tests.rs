use super::*;
use crate::existing_file::timeless;
use crate::fixture::{ToolFixture, result};
use crate::read_file::ReadFile;
use deputize_core::ToolEffect;
use serde_json::json;

async fn patch_in(bench: &ToolFixture, patch: &str) -> String {
    bench.call(ApplyPatch, json!({"patch": patch})).await
}

/// A workspace whose files an agent has read.
async fn reader(files: &[(&str, &str)]) -> ToolFixture {
    let bench = ToolFixture::new();
    for (path, content) in files {
        bench.put(path, content);
        bench.call(ReadFile, json!({"path": path})).await;
    }
    bench
}

fn text(bench: &ToolFixture, path: &str) -> String {
    String::from_utf8(bench.get(path)).unwrap()
}

const FOUR: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n--- /dev/null\n+++ \
    b/n/new.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\ndiff --git \
    a/c.txt b/d.txt\nrename from c.txt\nrename to d.txt\n--- a/c.txt\n+++ b/d.txt\n@@ -1 +1 @@\n-see\n+C\n";

#[tokio::test]
async fn several_files_are_changed_created_removed_and_renamed_at_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = reader(&[("a.txt", "one\ntwo\n"), ("b.txt", "gone\n"), ("c.txt", "see\n")]).await;
    let mode = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(bench.path("c.txt"), mode).unwrap();
    let output = result(&bench.cx, ApplyPatch, json!({"patch": FOUR})).await.unwrap();
    insta::assert_snapshot!(output.content, @r"
    changed a.txt: +1 -1
    created n/new.txt: +2 -0
    removed b.txt: +0 -1
    renamed c.txt to d.txt: +1 -1
    ");
    let facts: Vec<String> = output
        .facts
        .iter()
        .map(|fact| match fact {
            ToolEffect::FileWritten { path, created, .. } => {
                format!("{} {created}", path.strip_prefix(bench.root()).unwrap().display())
            }
            ToolEffect::FileRemoved { path } => {
                format!("{} removed", path.strip_prefix(bench.root()).unwrap().display())
            }
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        facts,
        ["a.txt false", "n/new.txt true", "b.txt removed", "d.txt true", "c.txt removed"]
    );
    let shown: Vec<_> = output.display.iter().flat_map(Display::diffs).collect();
    assert_eq!(shown.len(), 4);
    assert_eq!(text(&bench, "a.txt"), "one\n2\n");
    assert_eq!(text(&bench, "n/new.txt"), "x\ny\n");
    assert_eq!(text(&bench, "d.txt"), "C\n");
    assert!(!bench.path("b.txt").exists() && !bench.path("c.txt").exists());
    assert_eq!(bench.path("d.txt").metadata().unwrap().permissions().mode() & 0o777, 0o750);
    // The agent knows what it wrote.
    let again =
        "*** Begin Patch\n*** Update File: d.txt\n-C\n+D\n*** Add File: b.txt\n+b\n*** End Patch";
    assert!(patch_in(&bench, again).await.starts_with("changed d.txt: +1 -1\ncreated b.txt"));
}

#[tokio::test]
async fn one_hunk_that_does_not_fit_stops_all() {
    let bench = reader(&[("a.txt", "one\ntwo\n"), ("b.txt", "keep\n"), ("c.txt", "see\n")]).await;
    insta::assert_snapshot!(patch_in(&bench, FOUR).await, @"refused: b.txt, hunk at line 14 of the patch: its lines do not occur in the file; nothing was changed");
    for (path, content) in [("a.txt", "one\ntwo\n"), ("b.txt", "keep\n"), ("c.txt", "see\n")] {
        assert_eq!(text(&bench, path), content);
    }
    assert!(!bench.path("n").exists() && !bench.path("d.txt").exists());
}

#[tokio::test]
async fn files_are_changed_only_as_the_agent_knows_them() {
    let bench = ToolFixture::new();
    bench.put("a.txt", "one\ntwo\n");
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n";
    let unread =
        "refused: a.txt: you have not read it: read it first, so that nothing in it is lost";
    assert_eq!(patch_in(&bench, patch).await, unread);
    let read = json!({"path": "a.txt", "limit": 1});
    bench.call(ReadFile, read.clone()).await;
    let removal = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch";
    let answer = patch_in(&bench, removal).await;
    assert!(answer.contains("1 of its 2 lines was never shown to you"), "{answer}");
    assert!(patch_in(&bench, patch).await.starts_with("changed a.txt"));
    bench.put("a.txt", "1\nTWO\n");
    let stale =
        timeless(&patch_in(&bench, "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-1\n+0\n").await);
    assert!(stale.starts_with("refused: a.txt: changed on disk since you read it"), "{stale}");
    let created = patch_in(&bench, "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch").await;
    assert_eq!(created, "refused: a.txt is there already: read it, and patch its lines");
    assert_eq!(text(&bench, "a.txt"), "1\nTWO\n");
}

#[tokio::test]
async fn no_patch_leaves_the_workspace_or_writes_where_file_tools_do_not() {
    let bench = ToolFixture::new();
    bench.put(".git/config", "x\n").put("a.txt", "a\n").link("../outside", "out");
    bench.link("a.txt", "l1").put("sub/f", "x").put("image", b"\x89PNG\r\n\x1a\n\0");
    bench.call(ReadFile, json!({"path": ".git/config"})).await;
    bench.call(ReadFile, json!({"path": "a.txt"})).await;
    let mut seen = String::new();
    for patch in [
        "*** Begin Patch\n*** Add File: ../outside/f\n+x\n*** End Patch",
        "*** Begin Patch\n*** Add File: out/f\n+x\n*** End Patch",
        "*** Begin Patch\n*** Update File: .git/config\n-x\n+y\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: .GIT/hooks/x\n-a\n+b\n*** End Patch",
        "*** Begin Patch\n*** Delete File: .git/config\n*** End Patch",
        "*** Begin Patch\n*** Update File: none\n-a\n+b\n*** End Patch",
        "*** Begin Patch\n*** Add File: b\n+x\n*** Add File: ./b\n+y\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.txt\n-a\n+b\n*** Update File: l1\n-a\n+c\n*** End Patch",
        "*** Begin Patch\n*** Add File: b\n+x\n*** Update File: a.txt\n*** Move to: b\n*** End Patch",
        "*** Begin Patch\n*** Delete File: a.txt\n*** Add File: a.txt\n+y\n*** End Patch",
        "*** Begin Patch\n*** Add File: n/a\n+x\n*** Add File: n.old\n+x\n*** Add File: n\n+y\n*** End Patch",
        "*** Begin Patch\n*** Add File: sub\n+x\n*** End Patch",
        "*** Begin Patch\n*** Delete File: image\n*** End Patch",
        "*** Begin Patch\n*** Update File: image\n*** Move to: b\n*** End Patch",
    ] {
        let answer = patch_in(&bench, patch).await;
        seen += &format!("{}\n", answer.split(" or below it").next().unwrap());
    }
    insta::assert_snapshot!(seen, @r"
    refused: outside the workspace: ../outside/f
    refused: symlink leaves the workspace: out/f
    denied: not written: .git/config; file tools do not write `.git`
    denied: not written: .GIT/hooks/x; file tools do not write `.git`
    denied: not written: .git/config; file tools do not write `.git`
    refused: not found: none
    refused: b and ./b are the same file: put all its hunks under one header, in the order of the file
    refused: a.txt and l1 are the same file: put all its hunks under one header, in the order of the file
    refused: the patch names b twice: put all its hunks under one header, in the order of the file
    refused: the patch removes and creates a.txt: update it instead
    refused: the patch names the file n, and n/a as if it were a directory: use another path, or two patches
    refused: sub is a directory: name a file in it, or another path
    refused: image: binary file (PNG image): change, rename or remove it with a command
    refused: image: binary file (PNG image): change, rename or remove it with a command
    ");
    assert_eq!((text(&bench, "a.txt"), text(&bench, ".git/config")), ("a\n".into(), "x\n".into()));
}

#[tokio::test]
async fn a_hunk_that_fits_several_times_fits_once_with_the_line_that_the_error_shows() {
    let bench = reader(&[("a.txt", "a\nx\nb\n\nx\nb\n")]).await;
    let hunk = |head: &str| format!("--- a/a.txt\n+++ b/a.txt\n{head}\n-x\n+y\n+z\n b\n");
    let answer = patch_in(&bench, &hunk("@@")).await;
    assert!(answer.contains("at lines 2, 5: give the line number as in"), "{answer}");
    let example = answer.split('`').nth(1).unwrap();
    assert_eq!(example, "@@ -2,2 +2,3 @@");
    let answer = patch_in(&bench, &hunk(&example.replace('2', "5").replace(",5", ",2"))).await;
    assert!(answer.starts_with("changed a.txt"), "{answer}");
    assert_eq!(text(&bench, "a.txt"), "a\nx\nb\n\ny\nz\nb\n");
}

#[tokio::test]
async fn a_hunk_is_found_with_other_space_and_marks_are_restored() {
    let bench = reader(&[("a.rs", "fn a() {\n    one();\n}\n"), ("m", "<s>x</s>\n")]).await;
    let patch = "*** Begin Patch\n*** Update File: a.rs\n-one();\n+two();\n*** Update File: \
                 m\n-‹s>x‹/s>\n+‹s>y‹/s>\n*** End Patch";
    let answer = patch_in(&bench, patch).await;
    assert!(
        answer.contains("[the hunk at line 3 of the patch was found in a.rs with other space]")
    );
    assert!(answer.contains("[2 chat-format marks given with ‹ written"), "{answer}");
    assert_eq!(text(&bench, "a.rs"), "fn a() {\n    two();\n}\n");
    assert_eq!(text(&bench, "m"), "<s>y</s>\n");
}

/// What the link leads to would go, and the link would stay and lead nowhere.
#[tokio::test]
async fn a_symlink_is_neither_removed_nor_renamed_with_what_it_leads_to() {
    let bench = reader(&[("a.txt", "a\n"), ("d/CLAUDE.md", "c\n"), ("d/f", "f\n")]).await;
    bench.link("a.txt", "al").link("al", "all").link("CLAUDE.md", "d/AGENTS.md").link("d", "dl");
    bench.link(&bench.path("a.txt").to_string_lossy(), "abs");
    let mut seen = String::new();
    for change in [
        "Delete File: al",
        "Delete File: all",
        "Delete File: ./d/../abs",
        "Delete File: dl/AGENTS.md",
        "Update File: al\n*** Move to: moved.txt",
        "Update File: al\n*** Move to: moved.txt\n-a\n+b",
        // Through a link, and by their own names.
        "Update File: al\n-a\n+b",
        "Delete File: dl/f",
        "Update File: a.txt\n*** Move to: moved.txt",
    ] {
        seen += &patch_in(&bench, &format!("*** Begin Patch\n*** {change}\n*** End Patch")).await;
        seen += "\n";
    }
    insta::assert_snapshot!(seen, @r"
    refused: al is a symlink to a.txt, and a patch removes or renames no symlinks: name that file if you mean it, or use a command for the symlink
    refused: all is a symlink to a.txt, and a patch removes or renames no symlinks: name that file if you mean it, or use a command for the symlink
    refused: ./d/../abs is a symlink to a.txt, and a patch removes or renames no symlinks: name that file if you mean it, or use a command for the symlink
    refused: dl/AGENTS.md is a symlink to d/CLAUDE.md, and a patch removes or renames no symlinks: name that file if you mean it, or use a command for the symlink
    refused: al is a symlink to a.txt, and a patch removes or renames no symlinks: name that file if you mean it, or use a command for the symlink
    refused: al is a symlink to a.txt, and a patch removes or renames no symlinks: name that file if you mean it, or use a command for the symlink
    changed al: +1 -1
    (diff of ROOT/a.txt)
    removed dl/f: +0 -1
    (diff of ROOT/d/f)
    renamed a.txt to moved.txt: +0 -0
    (diff of ROOT/moved.txt)
    ");
    assert_eq!(
        (text(&bench, "moved.txt"), text(&bench, "d/CLAUDE.md")),
        ("b\n".into(), "c\n".into())
    );
    assert!(bench.path("al").is_symlink() && !bench.path("d/f").exists());
}
