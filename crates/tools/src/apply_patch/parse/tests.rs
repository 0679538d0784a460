use super::*;

/// The files of a patch, one a line, with their hunks below.
fn show(patch: &str) -> String {
    let files = match parse(patch) {
        Ok(files) => files,
        Err(error) => return error.to_string(),
    };
    let hunk = |hunk: &Hunk| {
        let Hunk { at, old, added, signs, line, anchor } = hunk;
        let (mut kept, mut more) = (old.split_inclusive('\n'), added.split_inclusive('\n'));
        let new = signs.iter().filter_map(|sign| match sign {
            LineSign::Keep => kept.next(),
            LineSign::Remove => kept.next().and(None),
            LineSign::Add => more.next(),
        });
        let new: String = new.collect();
        let line = line.map_or_else(|| "-".to_owned(), |line| line.to_string());
        let anchor = anchor.as_ref().map(|anchor| format!(" ({anchor})")).unwrap_or_default();
        format!("\n  {at}: {line}{anchor} {old:?} -> {new:?}")
    };
    let file = |FilePatch { path, change }: &FilePatch| match change {
        PatchAction::Create { content } => format!("create {path} {content:?}"),
        PatchAction::Remove { hunks } => {
            format!("remove {path}{}", hunks.iter().map(hunk).collect::<String>())
        }
        PatchAction::Update { hunks, new_path } => {
            let to = new_path.as_ref().map(|path| format!(" to {path}")).unwrap_or_default();
            format!("update {path}{to}{}", hunks.iter().map(hunk).collect::<String>())
        }
    };
    files.iter().map(file).collect::<Vec<_>>().join("\n")
}

#[test]
fn unified_diffs_of_git_and_of_others_are_read() {
    let git = "commit 1\n\n    Words.\n\ndiff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- \
        a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@ fn x() {\n a\n-b\n+B\n c\n@@ -9 +9,2 @@\n-y\n\\ No \
        newline at end of file\n+y\n+z\ndiff --git a/new b/new\nnew file mode 100644\n--- \
        /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\ndiff --git a/empty b/empty\nnew file mode \
        100644\nindex 0..e\ndiff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ \
        /dev/null\n@@ -1 +0,0 @@\n-o\ndiff --git a/from b/to\nsimilarity index 100%\nrename from \
        from\nrename to to\n";
    insta::assert_snapshot!(show(git), @r#"
    update src/a.rs
      9: 1 "a\nb\nc\n" -> "a\nB\nc\n"
      14: 9 "y" -> "y\nz\n"
    create new "n\n"
    create empty ""
    remove old
      32: 1 "o\n" -> ""
    update from to to
    "#);
    let plain = "--- f.txt\t2026-01-01 10:00\n+++ f.txt\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(show(plain), "update f.txt\n  3: 1 \"a\\n\" -> \"b\\n\"");
    let renamed = "diff --git a/x b/y\nsimilarity index 50%\nrename from x\nrename to y\n--- a/x\n+++ \
        b/y\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(show(renamed), "update x to y\n  7: 1 \"a\\n\" -> \"b\\n\"");
}

#[test]
fn the_form_with_marks_is_read() {
    let patch = "*** Begin Patch\n*** Add File: n/a.txt\n+one\n+\n*** Update File: b.rs\n*** Move \
        to: c.rs\n@@ fn x() {\n a\n-b\n+B\n@@\n-d\n*** End of File\n*** Update File: d.rs\n+first\n \
        x\n*** Delete File: gone\n*** End Patch\ntrailing words";
    insta::assert_snapshot!(show(patch), @r#"
    create n/a.txt "one\n\n"
    update b.rs to c.rs
      7: - (fn x() {) "a\nb\n" -> "a\nB\n"
      11: - "d\n" -> ""
    update d.rs
      15: - "x\n" -> "first\nx\n"
    remove gone
    "#);
}

#[test]
fn a_mark_within_a_unified_diff_is_a_line_of_the_file() {
    let hunk = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n *** Begin Patch\n-a\n+b\n";
    let read = r#"1 "*** Begin Patch\na\n" -> "*** Begin Patch\nb\n""#;
    assert_eq!(show(hunk), format!("update f\n  3: {read}"));
    // One that is added, without the space before it in the patch.
    let removed = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n*** Begin Patch\n";
    assert_eq!(show(removed), "update f\n  4: 1 \"a\\n\" -> \"b\\n\"");
    assert_eq!(
        show("Words.\n *** Begin Patch\n--- a/f\n+++ b/f\n@@\n-a\n+b\n").lines().next(),
        Some("update f")
    );
}

#[test]
fn wrong_counts_and_lost_spaces_do_not_matter() {
    let file = "--- a/f\n+++ b/f\n";
    let hunk = |body: &str| show(&format!("{file}{body}")).replace("update f\n  3: ", "");
    assert_eq!(hunk("@@ -5,9 +5,1 @@\n a\n-b\n+c\n"), r#"5 "a\nb\n" -> "a\nc\n""#);
    assert_eq!(hunk("@@ ... @@\n-b\n+c\n"), r#"- "b\n" -> "c\n""#);
    // An empty line without its space is one of the file; after the hunk it is none.
    assert_eq!(hunk("@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n\n\n"), r#"1 "a\n\nb\n" -> "a\n\nc\n""#);
    assert_eq!(hunk("@@ -1,3 +1,3 @@\n-a\n+c\n b\n\n"), r#"1 "a\nb\n\n" -> "c\nb\n\n""#);
    // A removed line may look like the name of a file.
    assert_eq!(hunk("@@ -1,2 +1,2 @@\n--- x\n+++ y\n z\n"), r#"1 "-- x\nz\n" -> "++ y\nz\n""#);
    assert_eq!(
        hunk("```\n@@ -1 +1 @@\n-a\n+b\n```"),
        "line 3 of the patch: no hunk for f: begin each with `@@`"
    );
    assert_eq!(
        show("```diff\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n-- \n2.40\n```"),
        "update f\n  4: 1 \"a\\n\" -> \"b\\n\""
    );
}

#[test]
fn what_is_no_patch_is_refused_with_its_line() {
    let file = "--- a/f\n+++ b/f\n";
    let rows = [
        "words",
        "@@ -1 +1 @@\n-a\n+b\n",
        file,
        &format!("{file}@@ -1,3 +1 @@\n a\nb\n"),
        &format!("{file}@@ -1 +1 @@\n a\n"),
        "--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        "--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
        "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/l b/l\ndeleted file mode 120000\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        "diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-x\n+y\n",
        "diff --git a/f b/f\nGIT binary patch\n",
        "diff --git a/f b/g\ncopy from f\ncopy to g\n",
        "diff --git a/f b/f\nindex 1..2\n",
        "*** Begin Patch\n*** Add File: f\nx\n*** End Patch",
        "*** Begin Patch\n*** Update File: f\n*** End Patch",
        "*** Begin Patch\n--- a/f\n*** End Patch",
        "*** Begin Patch\n*** Update File: f\n-a\n+b",
        "*** Begin Patch\n*** End Patch",
    ];
    let shown: String = rows.map(|row| show(row) + "\n").concat();
    insta::assert_snapshot!(shown, @r"
    line 1 of the patch: no file is named: begin each file with `--- a/PATH` and `+++ b/PATH`, or with `*** Update File: PATH` after `*** Begin Patch`; then `@@`, and lines that begin with a space, `-` or `+`
    line 1 of the patch: a hunk without a file: put `--- a/PATH` and `+++ b/PATH` before it
    line 2 of the patch: no hunk for f: begin each with `@@`
    line 5 of the patch: a line of a hunk begins with a space, `+` or `-`, and this one does not
    line 3 of the patch: this hunk changes nothing: its lines begin with a space, and no line with `+` or `-`
    line 3 of the patch: f is new, so each of its lines begins with `+`
    line 1 of the patch: quoted paths are not read: write the path as it is
    line 3 of the patch: a change of the file's mode to 100755 is not possible here: take it out, and use a command for it
    line 2 of the patch: this is a symlink, and a patch changes no symlinks: take it out, and use a command for it
    line 2 of the patch: this is a symlink, and a patch changes no symlinks: take it out, and use a command for it
    line 2 of the patch: this is a symlink, and a patch changes no symlinks: take it out, and use a command for it
    line 2 of the patch: binary files cannot be patched: leave this file out
    line 3 of the patch: copies are not possible: create the file with all its lines
    line 2 of the patch: nothing of this file is changed
    line 3 of the patch: each line of a new file begins with `+`
    line 3 of the patch: no hunk for f: begin each with `@@`
    line 2 of the patch: expected `*** Add File: PATH`, `*** Update File: PATH`, `*** Delete File: PATH` or `*** End Patch`
    line 4 of the patch: the patch is cut off: there is no `*** End Patch`; give all of it
    line 1 of the patch: no file is named: begin each file with `--- a/PATH` and `+++ b/PATH`, or with `*** Update File: PATH` after `*** Begin Patch`; then `@@`, and lines that begin with a space, `-` or `+`
    ");
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "([-+ @*\\\\a]|---|\\+\\+\\+ b|@@ -1 \\+1|diff --git a/f b/f|\\*\\*\\* |\n){0,30}") {
        let _either = parse(&text);
    }
}
