//! What is not written under a directory that may be written, by every way that leads there.

use std::collections::BTreeSet;

use deputize_core::ToolCx;
use deputize_core::authority::Grant;
use serde_json::json;

use super::{Access, GrantedPath};
use crate::apply_patch::ApplyPatch;
use crate::edit_file::EditFile;
use crate::fixture::ToolFixture;
use crate::read_file::ReadFile;
use crate::write_file::WriteFile;

mod races;

/// A workspace with a repository and a folder of this program, and links to both.
fn workspace() -> (ToolFixture, [ToolCx; 3]) {
    let bench = ToolFixture::new();
    bench.put(".git/config", "old").put("real/hooks/x", "old").put("own/config.yaml", "old");
    bench.put("sub/.git", "old").put("d/f", "old").put(".envrc", "old");
    bench.link(".git", "by_link").link("../own", "d/up").link("../real", "d/.git");
    bench.link(&bench.path("own").to_string_lossy(), "absolute");
    let top = bench.keeping(&bench.cx, bench.path("own"));
    let roots = BTreeSet::from([bench.path("own"), bench.path(".git"), bench.path("d")]);
    let narrow = Grant { read: Some(roots.clone()), write: Some(roots), ..Grant::default() };
    let child = bench.keeping(&bench.child(&narrow), bench.path("own"));
    // A root that is named by a link.
    bench.link(".", "again");
    let roots = Some(BTreeSet::from([bench.path("again")]));
    let linked = Grant { read: roots.clone(), write: roots, ..Grant::default() };
    let linked = bench.keeping(&bench.child(&linked), bench.path("own"));
    (bench, [top, child, linked])
}

const GUARDED: [&str; 17] = [
    ".git/config",
    ".git/hooks/post-checkout",
    ".git",
    "sub/.git",
    "new/.GIT/config",
    "d/../.git/config",
    "d/.git/hooks/x",
    "by_link/config",
    "by_link/new",
    ".envrc",
    ".Husky/pre-commit",
    "sub/.vscode/tasks.json",
    ".bashrc",
    "own/config.yaml",
    "own/mcp/started-in/x",
    "d/up/config.yaml",
    "absolute/new",
];

#[tokio::test]
async fn neither_written_nor_edited_by_any_way_nor_by_any_agent() {
    let (bench, agents) = workspace();
    for cx in &agents {
        for path in GUARDED {
            // What the child and the linked root cannot name so is outside of their roots.
            let spelled = match cx.agent.authority.write_roots().first() {
                Some(root) if root.ends_with("again") => format!("again/{path}"),
                _ => path.to_owned(),
            };
            let edit = json!({"path": spelled, "old": "old", "new": "new"});
            let edited = bench.call_as(cx, EditFile, edit).await;
            let write = json!({"path": spelled, "content": "new"});
            let written = bench.call_as(cx, WriteFile, write).await;
            let is_refused =
                |text: &str| text.starts_with("refused: ") || text.starts_with("denied: ");
            assert!(is_refused(&edited), "{spelled}: {edited}");
            let why = ["file tools do not write", "outside the workspace", "leaves the workspace"];
            let known = why.iter().any(|why| written.contains(why));
            assert!(is_refused(&written) && known, "{spelled}: {written}");
        }
    }
    for (path, content) in [(".git/config", "old"), ("own/config.yaml", "old"), (".envrc", "old")] {
        assert_eq!(bench.get(path), content.as_bytes(), "{path}");
    }
    assert!(!bench.path("new").exists() && !bench.path("own/mcp").exists());
}

#[tokio::test]
async fn instructions_for_agents_are_written_only_after_a_question() {
    let bench = ToolFixture::new();
    bench.put("d/f", "old").put("d/AGENTS.md", "old").put(".claude/agents/a.md", "old");
    bench.put("notes.md", "old").link("AGENTS.md", "d/CLAUDE.md").link("d/AGENTS.md", "hidden.md");
    for path in ["d/AGENTS.md", "d/CLAUDE.md", ".claude/agents/a.md", "notes.md", "hidden.md"] {
        bench.call(ReadFile, json!({"path": path})).await;
    }
    let rename = "*** Begin Patch\n*** Update File: notes.md\n*** Move to: .deputize/agents/x.md\n\
                  @@\n-old\n+new\n*** End Patch";
    let remove = "*** Begin Patch\n*** Delete File: d/AGENTS.md\n*** End Patch";
    let mut seen = String::new();
    for path in
        ["AGENTS.md", "sub/claude.md", ".claude/settings.json", "d/../.cursorrules", "d/AGENTS.md"]
    {
        let write = json!({"path": path, "content": "new"});
        seen += &format!("{path}: {}\n", bench.check(WriteFile, &write).await);
    }
    for path in ["d/CLAUDE.md", ".claude/agents/a.md"] {
        let edit = json!({"path": path, "old": "old", "new": "new"});
        seen += &format!("{path}: {}\n", bench.check(EditFile, &edit).await);
    }
    for patch in [rename, remove] {
        seen += &format!("patch: {}\n", bench.check(ApplyPatch, &json!({"patch": patch})).await);
    }
    insta::assert_snapshot!(seen, @r"
    AGENTS.md: asks: lasting: agents of later sessions obey what stands in `AGENTS.md`
    sub/claude.md: asks: lasting: agents of later sessions obey what stands in `CLAUDE.md`
    .claude/settings.json: asks: lasting: agents of later sessions obey what stands in `.claude/settings.json`
    d/../.cursorrules: asks: lasting: agents of later sessions obey what stands in `.cursorrules`
    d/AGENTS.md: asks: lasting: agents of later sessions obey what stands in `AGENTS.md`
    d/CLAUDE.md: asks: lasting: agents of later sessions obey what stands in `CLAUDE.md`
    .claude/agents/a.md: asks: lasting: agents of later sessions obey what stands in `.claude/agents`
    patch: asks: lasting: agents of later sessions obey what stands in `.deputize/agents`
    patch: asks: lasting: agents of later sessions obey what stands in `AGENTS.md`
    ");
    assert!(!bench.path("AGENTS.md").exists() && bench.path("notes.md").exists());
    assert_eq!(bench.get("d/AGENTS.md"), b"old");
    for path in ["notes.md", "docs/my-agents.md", "agents/md", ".claude/worktrees/a/f"] {
        let write = json!({"path": path, "content": "new"});
        assert_eq!(bench.check(WriteFile, &write).await, "accepted", "{path}");
    }
}

#[tokio::test]
async fn nobody_is_asked_about_instructions_that_are_not_written() {
    let bench = ToolFixture::new();
    bench.put("AGENTS.md", "old").put("CLAUDE.md", "old").put(".git/AGENTS.md", "old");
    bench.link("AGENTS.md", "hidden.md");
    bench.call(ReadFile, json!({"path": "CLAUDE.md"})).await;
    bench.call(ReadFile, json!({"path": "hidden.md"})).await;
    let refused = async |text: String| {
        assert!(text.starts_with("refused: ") || text.starts_with("denied: "), "{text}");
        text
    };
    let mut seen = String::new();
    for path in ["../AGENTS.md", ".git/AGENTS.md", "AGENTS.md/x"] {
        let write = json!({"path": path, "content": "new"});
        seen += &(refused(bench.check(WriteFile, &write).await).await + "\n");
    }
    for (path, old) in [("CLAUDE.md", "none"), ("GEMINI.md", "old")] {
        let edit = json!({"path": path, "old": old, "new": "new"});
        seen += &(refused(bench.check(EditFile, &edit).await).await + "\n");
    }
    // Nobody was asked about what a link hides, so the call itself refuses it.
    let write = json!({"path": "hidden.md", "content": "new"});
    assert_eq!(bench.check(WriteFile, &write).await, "accepted");
    seen += &(refused(bench.call(WriteFile, write).await).await + "\n");
    let edit = json!({"path": "hidden.md", "old": "old", "new": "new"});
    seen += &(refused(bench.call(EditFile, edit).await).await + "\n");
    let patch = "--- a/hidden.md\n+++ b/hidden.md\n@@ -1 +1 @@\n-old\n+new\n";
    seen += &(refused(bench.call(ApplyPatch, json!({"patch": patch})).await).await + "\n");
    insta::assert_snapshot!(seen, @r"
    refused: outside the workspace: ../AGENTS.md
    denied: not written: .git/AGENTS.md; file tools do not write `.git` or below it: other programs run what stands there, and nobody would be asked. Leave it to the person, or use a command that they can approve, such as `git config` for `.git`
    refused: cannot find AGENTS.md/x: Not a directory (os error 20)
    refused: old does not occur in CLAUDE.md; nothing was changed
    refused: not found: GEMINI.md
    refused: not written: hidden.md leads to AGENTS.md, which has instructions for agents: name that path itself, so that the person can be asked
    refused: not written: hidden.md leads to AGENTS.md, which has instructions for agents: name that path itself, so that the person can be asked
    refused: not written: hidden.md leads to AGENTS.md, which has instructions for agents: name that path itself, so that the person can be asked
    ");
    assert_eq!(bench.get("AGENTS.md"), b"old");
}

#[tokio::test]
async fn a_refusal_says_what_is_not_written_and_why_and_reading_goes_on() {
    let (bench, [top, child, linked]) = workspace();
    let refusals =
        [(&top, "d/up/config.yaml"), (&child, ".git/config"), (&linked, "again/sub/.git")];
    let mut actual = String::new();
    for (cx, path) in refusals {
        actual += &bench.call_as(cx, WriteFile, json!({"path": path, "content": "new"})).await;
        actual.push('\n');
    }
    insta::assert_snapshot!(actual, @r"
    denied: not written: d/up/config.yaml; file tools do not write `ROOT/own` or below it: this program or another obeys what stands there, and nobody would be asked. Leave it to the person, and tell them what to change
    denied: not written: .git/config; file tools do not write `.git` or below it: other programs run what stands there, and nobody would be asked. Leave it to the person, or use a command that they can approve, such as `git config` for `.git`
    denied: not written: again/sub/.git; file tools do not write `.git` or below it: other programs run what stands there, and nobody would be asked. Leave it to the person, or use a command that they can approve, such as `git config` for `.git`
    ");
    for path in GUARDED {
        let reads = GrantedPath::existing(&top, path, Access::Read);
        assert!(reads.is_ok() || !bench.path(path).exists(), "{path}");
    }
    for path in ["d/f", ".gitignore", ".github/workflows/x.yml", "owner/f"] {
        assert!(GrantedPath::to_write(&top, path).is_ok(), "{path}");
    }
}
