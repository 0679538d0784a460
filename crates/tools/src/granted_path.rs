//! Paths from a model, resolved beneath the directories that its agent was granted.
//!
//! A path is first compared as text, so that a refusal reveals nothing about files outside. Then
//! everything happens relative to a descriptor of the granted directory, which the kernel itself
//! refuses to leave: links inside are followed, links out are errors.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, Metadata};
use deputize_core::protected_path::instruction_file;
use deputize_core::sanitize::{has_inert_mark, restore_marks};
use deputize_core::tool::{CallCheck, CallRisk};
use deputize_core::{ToolCallResult, ToolCx, ToolError};
use deputize_documents::open_beneath;

use crate::blocking::blocking;
use crate::canonical_path::{canonical, path_of_open, tidy};
use crate::display_name::display_name;
use crate::granted_roots::GrantedRoots;
use crate::nearest_name;
use crate::path_error::{FileKindError, PathDenial, PathError, special};

#[cfg(test)]
mod guards;
mod in_memory;

pub(crate) use in_memory::read_in_memory;

/// The purpose of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A place beneath a granted directory.
#[derive(Debug)]
pub(crate) struct GrantedPath {
    root: PathBuf,
    dir: Arc<Dir>,
    rel: PathBuf,
    /// The path beneath it that was asked for, before links were followed.
    asked: PathBuf,
    shown: String,
}

impl GrantedPath {
    /// The place of something that exists, with all links on the way to it followed. Names are
    /// shown with inert marks of chat formats, so a path that leads to nothing as it is written is
    /// tried with its marks restored.
    pub(crate) fn existing(cx: &ToolCx, path: &str, access: Access) -> Result<Self, PathError> {
        match (Self::existing_as_written(cx, path, access), path_with_marks(path)) {
            (Err(error), Some(path)) if error.is_about_no_file() => {
                Self::existing_as_written(cx, &path, access)
            }
            (result, _) => result,
        }
    }

    fn existing_as_written(cx: &ToolCx, path: &str, access: Access) -> Result<Self, PathError> {
        let asked = Self::asked(cx, path, access)?;
        match canonical(&asked.dir, &asked.root, &asked.rel) {
            Ok(rel) => Self { rel, ..asked }.unguarded(cx, path, access),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(asked.not_found()),
            Err(error) => Err(PathError::of("find", &asked.shown, error)),
        }
    }

    /// The place to write to: it need not exist, nor the directories above it. Of a path with inert
    /// marks of chat formats, the form of which more exists is meant; else the restored form.
    pub(crate) fn to_write(cx: &ToolCx, path: &str) -> Result<Self, PathError> {
        let written = Self::to_write_as_written(cx, path);
        let Some(path) = path_with_marks(path) else { return written.map(|(place, _)| place) };
        let restored = Self::to_write_as_written(cx, &path);
        match (written, restored) {
            (Ok((written, missing)), Ok((_, more))) if missing == 0 || missing < more => {
                Ok(written)
            }
            (Ok((written, _)), Err(error)) if error.is_about_no_file() => Ok(written),
            (_, restored) => restored.map(|(place, _)| place),
        }
    }

    /// The same for one spelling of a path, and how many of its last names do not exist.
    fn to_write_as_written(cx: &ToolCx, path: &str) -> Result<(Self, usize), PathError> {
        let asked = Self::asked(cx, path, Access::Write)?;
        if path.ends_with('/') {
            return Err(FileKindError::Directory(asked.shown).into());
        }
        let mut above = asked.rel.as_path();
        let mut missing = Vec::new();
        let found = loop {
            match canonical(&asked.dir, &asked.root, above) {
                Ok(found) => break found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(PathError::of("find", &asked.shown, error)),
            }
            if asked.dir.symlink_metadata(above).is_ok_and(|meta| meta.is_symlink()) {
                return Err(PathError::Dangling(asked.shown));
            }
            let (Some(name), Some(parent)) = (above.file_name(), above.parent()) else {
                return Err(asked.not_found());
            };
            missing.push(name);
            above = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        };
        let rel = missing.iter().rev().fold(found, |path, name| path.join(name));
        let place = Self { rel: tidy(&rel), ..asked }.unguarded(cx, path, Access::Write)?;
        Ok((place, missing.len()))
    }

    /// Itself, if it is not written to or nothing guards where the links led.
    fn unguarded(self, cx: &ToolCx, path: &str, access: Access) -> Result<Self, PathError> {
        if access == Access::Read {
            return Ok(self);
        }
        let authority = &cx.agent.authority;
        // What is guarded is known by a path without links, and the root may be named by one.
        let root = path_of_open(&self.dir).or_else(|_| self.root.canonicalize());
        let root = root.unwrap_or_else(|_| self.root.clone());
        let guards = authority.protects(&self.path());
        if let Some(guarded) = guards.or_else(|| authority.protects(&root.join(&self.rel))) {
            return Err(PathDenial::Guarded { path: self.shown, guarded }.into());
        }
        // Only a path that names instructions itself was asked about.
        match instruction_file(&root.join(&self.rel)) {
            Some(_) if named_instructions(cx, path).is_none() => {
                let leads_to = crate::display_name::display_name(&self.rel.to_string_lossy());
                Err(PathDenial::HiddenInstructions { path: self.shown, leads_to }.into())
            }
            _ => Ok(self),
        }
    }

    /// The root that a path lies under by its letters, opened.
    fn asked(cx: &ToolCx, path: &str, access: Access) -> Result<Self, PathError> {
        let LexicalPath { root, rel, shown } = LexicalPath::of(cx, path, access)?;
        let dir = GrantedRoots::in_session(cx).open(root, &shown)?;
        Ok(Self { root: root.clone(), dir, asked: rel.clone(), rel, shown })
    }

    /// The granted directory that it lies in.
    pub(crate) const fn root(&self) -> &Arc<Dir> {
        &self.dir
    }

    /// The outermost directory of the session around it.
    pub(crate) fn session_root(&self, cx: &ToolCx) -> Arc<Dir> {
        let around = GrantedRoots::in_session(cx).around(&self.root);
        around.unwrap_or_else(|| Arc::clone(&self.dir))
    }

    /// The path beneath [`GrantedPath::root`]; `.` for the root itself.
    pub(crate) fn rel(&self) -> &Path {
        &self.rel
    }

    /// Its absolute path, by which the ledger knows it: one for all spellings.
    pub(crate) fn path(&self) -> PathBuf {
        self.absolute(&self.rel)
    }

    /// The absolute path of something beneath the same root.
    pub(crate) fn absolute(&self, rel: &Path) -> PathBuf {
        if rel == Path::new(".") { self.root.clone() } else { self.root.join(rel) }
    }

    /// The path as the caller wrote it, safe for a sentence.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns whether the entry was asked for by the name of a symlink, not by its own.
    pub(crate) fn is_behind_symlink(&self) -> Result<bool, PathError> {
        let (Some(name), Some(parent)) = (self.asked.file_name(), self.asked.parent()) else {
            return Ok(false);
        };
        canonical(&self.dir, &self.root, &tidy(parent))
            .and_then(|parent| self.dir.symlink_metadata(parent.join(name)))
            .map(|meta| meta.is_symlink())
            .map_err(|error| PathError::of("look at", &self.shown, error))
    }

    /// Returns the metadata of the entry.
    pub(crate) fn metadata(&self) -> Result<Metadata, PathError> {
        self.dir.metadata(&self.rel).map_err(|error| PathError::of("look at", &self.shown, error))
    }

    /// Fails if the directory that is there cannot be read. `action` is what is to be done with it.
    pub(crate) fn check_readable_directory(&self, action: &'static str) -> Result<(), PathError> {
        let entries = self.dir.read_dir(&self.rel);
        entries.map(drop).map_err(|error| PathError::of(action, &self.shown, error))
    }

    /// Opens the regular file that is there for reading.
    pub(crate) fn open(&self) -> Result<(File, Metadata), PathError> {
        // Asked before opening too, because opening a device can already do something.
        self.must_be_file(&self.metadata()?)?;
        let file = open_beneath(&self.dir, &self.rel)
            .map_err(|error| PathError::of("open", &self.shown, error))?;
        let meta = file.metadata().map_err(|error| PathError::of("look at", &self.shown, error))?;
        self.must_be_file(&meta)?;
        Ok((file.into_std(), meta))
    }

    fn must_be_file(&self, meta: &Metadata) -> Result<(), PathError> {
        let path = self.shown.clone();
        match meta.file_type() {
            kind if kind.is_file() => Ok(()),
            kind if kind.is_dir() => Err(FileKindError::Directory(path).into()),
            kind => Err(FileKindError::Special { kind: special(kind), path }.into()),
        }
    }

    /// Returns the error for a missing path, with the nearest existing name.
    fn not_found(&self) -> PathError {
        let path = self.shown.clone();
        if self.dir.symlink_metadata(&self.rel).is_ok_and(|meta| meta.is_symlink()) {
            return PathError::Dangling(path);
        }
        let hint = nearest_name::hint(&self.dir, &self.rel, Path::new(&path));
        PathError::NotFound { path, hint }
    }
}

/// A path as it was asked for, by its letters: nothing was looked at yet.
struct LexicalPath<'r> {
    /// The granted directory that it lies under.
    root: &'r PathBuf,
    /// The path beneath it.
    rel: PathBuf,
    shown: String,
}

impl<'r> LexicalPath<'r> {
    fn of(cx: &'r ToolCx, path: &str, access: Access) -> Result<Self, PathError> {
        let name = display_name(path);
        if path.is_empty() {
            return Err(PathError::Empty);
        }
        if path.contains('\0') {
            return Err(PathError::Nul(name));
        }
        let whole = cx.agent.spec.cwd.join(path);
        let plain = lexical(&whole);
        let authority = &cx.agent.authority;
        let under = |root: &&PathBuf| plain.starts_with(root);
        let readable = || {
            let spill = Some(&cx.agent.session.spill).filter(under);
            authority.read_roots().iter().find(under).or(spill)
        };
        // Of nested roots the outermost comes first, so that links between them stay inside.
        let root = match access {
            Access::Read => readable(),
            Access::Write => authority.write_roots().iter().find(under),
        };
        let Some(root) = root else {
            let denial = match access {
                Access::Write if readable().is_some() => PathDenial::ReadOnly(name),
                Access::Read | Access::Write => PathDenial::Outside(name),
            };
            return Err(denial.into());
        };
        let guards = || authority.protects(&plain);
        if let Some(guarded) = (access == Access::Write).then(guards).flatten() {
            return Err(PathDenial::Guarded { path: name, guarded }.into());
        }
        // Dots are the kernel's to follow, but those that go above the root and come back are
        // only a spelling.
        let as_written = whole.strip_prefix(root).ok().filter(|rest| !rises(rest));
        let rel = tidy(as_written.or(plain.strip_prefix(root).ok()).unwrap_or(Path::new(".")));
        Ok(Self { root, rel, shown: name })
    }
}

/// Returns the name of the instructions for agents that a path names; `None` if it names none.
fn named_instructions(cx: &ToolCx, path: &str) -> Option<&'static str> {
    instruction_file(&lexical(&cx.agent.spec.cwd.join(path)))
}

/// Returns the check of a call that writes to these paths: it asks if one of them names
/// instructions for agents. `try_call` makes the call without writing.
pub(crate) async fn check_written_paths(
    cx: &ToolCx,
    paths: &[&str],
    try_call: impl FnOnce(&ToolCx) -> ToolCallResult + Send + 'static,
) -> Result<CallCheck, ToolError> {
    let Some(name) = paths.iter().find_map(|path| named_instructions(cx, path)) else {
        return Ok(CallCheck::Accepted);
    };
    blocking(cx, try_call).await?;
    let reason = format!("agents of later sessions obey what stands in `{name}`");
    Ok(CallCheck::Asks(CallRisk::new(CallRisk::LASTING, reason)))
}

/// Returns a path with its marks of chat formats restored; `None` if none of them is inert.
fn path_with_marks(path: &str) -> Option<String> {
    let restored = has_inert_mark(path).then(|| restore_marks(path, ""))?;
    restored.ok().map(|restored| restored.text.into_owned())
}

/// Whether a relative path goes above its beginning, by its letters.
fn rises(rel: &Path) -> bool {
    let mut depth = 0_usize;
    for part in rel.components() {
        match part {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => depth += 1,
        }
    }
    false
}

/// The path without `.` and `..`, by its letters alone.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::ToolFixture;
    use deputize_core::authority::Grant;
    use std::collections::BTreeSet;

    fn existing(cx: &ToolCx, path: &str) -> String {
        match GrantedPath::existing(cx, path, Access::Read) {
            Ok(place) => format!("{}", place.rel().display()),
            Err(error) => error.to_string(),
        }
    }

    fn to_write(cx: &ToolCx, path: &str) -> String {
        match GrantedPath::to_write(cx, path) {
            Ok(place) => format!("{}", place.rel().display()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_spelling_leads_to_one_place() {
        let bench = ToolFixture::new();
        bench.put("a/b/f", "").link("a/b", "l").link("../b/f", "a/up");
        bench.link(&bench.path("a").to_string_lossy(), "abs").link("abs/b", "by_abs");
        let absolute = bench.path("a/b/f").to_string_lossy().into_owned();
        let through = bench.root().join("../w/a/b/f").to_string_lossy().into_owned();
        let spellings = [
            "a/b/f",
            "./a//b/./f",
            "a/../a/b/f",
            "l/f",
            "abs/b/f",
            "by_abs/f",
            &absolute,
            &through,
        ];
        for path in spellings {
            assert_eq!(existing(&bench.cx, path), "a/b/f", "{path}");
            assert_eq!(to_write(&bench.cx, path), "a/b/f", "{path}");
        }
        // A `..` after a link is the kernel's, not a matter of letters.
        assert_eq!(existing(&bench.cx, "l/../b/f"), "a/b/f");
        assert_eq!(existing(&bench.cx, "."), ".");
        assert_eq!(existing(&bench.within("a/b"), "f"), "a/b/f");
        assert_eq!(existing(&bench.within("a/b"), "../../a/b/f"), "a/b/f");
    }

    #[test]
    fn a_file_that_is_replaced_meanwhile_keeps_its_name() {
        let bench = ToolFixture::new();
        bench.put("f", "").put("g (deleted)", "");
        assert_eq!(existing(&bench.cx, "g (deleted)"), "g (deleted)");
        let done = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(order) {
                    bench.put("new", "");
                    std::fs::rename(bench.path("new"), bench.path("f")).unwrap();
                }
            });
            let names = (0..2_000).map(|_| to_write(&bench.cx, "f")).collect::<BTreeSet<_>>();
            done.store(true, order);
            assert_eq!(names, BTreeSet::from(["f".to_owned()]));
        });
    }

    /// Paths that lead out of it, or seem to.
    const WAYS_OUT: [&str; 17] = [
        "../outside/secret",
        "../nothing",
        "/etc/passwd",
        "d/../../w2",
        "out/secret",
        "out",
        "etc/passwd",
        "chain/secret",
        "dots",
        "l1",
        "dangling",
        "magic",
        "~/f",
        "$HOME/f",
        "d%2ff",
        "",
        "d/f/x",
    ];

    /// A workspace with every way out that links offer.
    fn with_ways_out() -> ToolFixture {
        let bench = ToolFixture::new();
        std::fs::write(bench.path("../outside/secret"), "s").unwrap();
        bench.put("d/f", "").link("../outside", "out").link("/etc", "etc").link("out", "chain");
        bench.link("d/../../outside/secret", "dots").link("l2", "l1").link("l1", "l2");
        bench.link("nothing", "dangling").link("/proc/self/root/etc/passwd", "magic");
        bench
    }

    #[test]
    fn nothing_leads_out() {
        let bench = with_ways_out();
        let root = bench.root().to_string_lossy().into_owned();
        let table = |decide: fn(&ToolCx, &str) -> String| {
            WAYS_OUT.map(|path| decide(&bench.cx, path).replace(&root, "ROOT")).join("\n")
        };
        insta::assert_snapshot!(table(existing), @r"
        outside the workspace: ../outside/secret
        outside the workspace: ../nothing
        outside the workspace: /etc/passwd
        outside the workspace: d/../../w2
        symlink leaves the workspace: out/secret
        symlink leaves the workspace: out
        symlink leaves the workspace: etc/passwd
        symlink leaves the workspace: chain/secret
        symlink leaves the workspace: dots
        symlinks form a loop: l1
        symlink leads nowhere: dangling
        symlink leaves the workspace: magic
        not found: ~/f; there is no directory ~
        not found: $HOME/f; there is no directory $HOME
        not found: d%2ff
        the path is empty: name a file or a directory
        cannot find d/f/x
        ");
        insta::assert_snapshot!(table(to_write), @r"
        outside the workspace: ../outside/secret
        outside the workspace: ../nothing
        outside the workspace: /etc/passwd
        outside the workspace: d/../../w2
        symlink leaves the workspace: out/secret
        symlink leaves the workspace: out
        symlink leaves the workspace: etc/passwd
        symlink leaves the workspace: chain/secret
        symlink leaves the workspace: dots
        symlinks form a loop: l1
        symlink leads nowhere: dangling
        symlink leaves the workspace: magic
        ~/f
        $HOME/f
        d%2ff
        the path is empty: name a file or a directory
        cannot find d/f/x
        ");
    }

    #[test]
    fn dots_after_a_link_are_followed_by_the_kernel() {
        let bench = ToolFixture::new();
        bench.put("d/f", "");
        bench.link("../../outside", "d/o");
        assert_eq!(
            existing(&bench.cx, "d/o/../outside/secret"),
            "symlink leaves the workspace: d/o/../outside/secret"
        );
    }

    #[test]
    fn what_is_missing_comes_with_a_hint() {
        let bench = ToolFixture::new();
        bench.put("src/main.rs", "").put("src/lib.rs", "");
        assert_eq!(
            existing(&bench.cx, "src/mian.rs"),
            "not found: src/mian.rs; did you mean src/main.rs?"
        );
        assert_eq!(
            existing(&bench.within("src"), "Main.rs"),
            "not found: Main.rs; did you mean main.rs?"
        );
        assert_eq!(
            existing(&bench.cx, "scr/a/main.rs"),
            "not found: scr/a/main.rs; there is no directory scr"
        );
        assert_eq!(existing(&bench.cx, "src/zzz"), "not found: src/zzz");
    }

    #[test]
    fn reading_and_writing_are_separate_rights() {
        let bench = ToolFixture::new();
        bench.put("a/f", "").put("b/f", "");
        let root = |name: &str| Some(BTreeSet::from([bench.path(name)]));
        let child = bench.child(&Grant { read: root(""), write: root("b"), ..Grant::default() });
        assert_eq!(to_write(&child, "b/f"), "f");
        assert_eq!(
            to_write(&child, "a/f"),
            "not writable for this agent: a/f (it may read there, not write)"
        );
        assert_eq!(to_write(&child, "../f"), "outside the workspace: ../f");
        let blind = bench.child(&Grant::default());
        assert_eq!(existing(&blind, "a/f"), "outside the workspace: a/f");
        let spilled = bench.cx.spill_path("log");
        std::fs::write(&spilled, "").unwrap();
        let spilled = spilled.to_string_lossy();
        assert!(GrantedPath::existing(&blind, &spilled, Access::Read).is_ok());
        assert!(GrantedPath::to_write(&bench.cx, &spilled).is_err());
    }

    #[test]
    fn a_name_with_marks_of_chat_formats_is_found_by_the_form_that_is_shown() {
        let bench = ToolFixture::new();
        bench.put("<s>/a", "").put("b</think>", "").put("‹eos>/own", "").put("<unk>", "");
        bench.put("‹unk>", "");
        let rows = ["‹s>/a", "./‹s>/../‹s>/a", "b‹/think>", "‹eos>/own", "‹unk>", "<unk>"];
        let found = rows.map(|path| existing(&bench.cx, path));
        assert_eq!(found, ["<s>/a", "<s>/a", "b</think>", "‹eos>/own", "‹unk>", "<unk>"]);
        let rows = ["‹s>/new", "‹eos>/new", "‹pad>/new", "‹unk>", "b‹/think>", "‹x>/new"];
        let written = rows.map(|path| to_write(&bench.cx, path));
        let meant = ["<s>/new", "‹eos>/new", "<pad>/new", "‹unk>", "b</think>", "‹x>/new"];
        assert_eq!(written, meant);
        bench.put("<s>/name", "");
        let wrong = existing(&bench.cx, "‹s>/nam");
        assert_eq!(wrong, "not found: <s>/nam; did you mean <s>/name?");
        let absolute = bench.path("‹s>/a").to_string_lossy().into_owned();
        assert_eq!(existing(&bench.within("<s>"), &absolute), "<s>/a");
    }

    /// Also when a pipe takes a file's place after it was looked at.
    #[test]
    fn opening_never_waits_for_a_writer() {
        let bench = ToolFixture::new();
        bench.fifo("p");
        let place = GrantedPath::existing(&bench.cx, "p", Access::Read).unwrap();
        assert!(open_beneath(place.root(), place.rel()).is_ok());
    }

    #[test]
    fn a_deep_path_is_found_or_refused() {
        let bench = ToolFixture::new();
        let deep = "d/".repeat(300) + "f";
        bench.put(&deep, "");
        assert_eq!(existing(&bench.cx, &deep), deep);
        let long = existing(&bench.cx, &"d/".repeat(3000));
        assert!(long.starts_with("cannot find d/d/"), "{long}");
        assert!(existing(&bench.cx, &"n".repeat(300)).starts_with("cannot find nnn"));
    }
}
