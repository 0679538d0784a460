use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::apply_patch::ApplyPatch;
use crate::edit_file::EditFile;
use crate::fixture::{ToolFixture, again_without_rights};
use crate::read_file::ReadFile;
use crate::write_file::WriteFile;
use deputize_requirements::{require, root, test_path};
use serde_json::json;

#[test]
fn what_changed_meanwhile_is_not_overwritten() {
    let bench = ToolFixture::new();
    bench.put("f", "read");
    let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
    let read = place.metadata().unwrap();
    bench.put("f", "written by someone else");
    for old in [Some(&read), None] {
        let error = replace(&bench.cx, &place, old, b"mine").unwrap_err().to_string();
        assert!(error.contains("another program changed it during this call"), "{error}");
    }
    let new = GrantedPath::to_write(&bench.cx, "new/er/f").unwrap();
    replace(&bench.cx, &new, Some(&read), b"mine").unwrap_err();
    assert_eq!(bench.get("f"), b"written by someone else");
    assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
}

#[test]
fn a_change_whose_time_is_set_back_is_not_overwritten() {
    let bench = ToolFixture::new();
    bench.put("f", "read");
    let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
    let read = place.metadata().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(bench.path("f")).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    // The clock of files may stand still between two steps of this test.
    while place.metadata().unwrap().ctime_nsec() == read.ctime_nsec() {
        (&file).write_all(b"else").unwrap();
        std::io::Seek::rewind(&mut &file).unwrap();
        file.set_modified(time).unwrap();
    }
    let error = replace(&bench.cx, &place, Some(&read), b"mine").unwrap_err().to_string();
    assert!(error.contains("another program changed it during this call"), "{error}");
    assert_eq!(bench.get("f"), b"else");
}

#[test]
fn a_file_that_this_user_may_not_write_is_not_replaced() {
    again_without_rights(test_path!(), || {
        let bench = ToolFixture::new();
        bench.put("f", "old\n");
        std::fs::set_permissions(bench.path("f"), PermissionsExt::from_mode(0o444)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            bench.call(ReadFile, json!({"path": "f"})).await;
            let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n";
            let results = [
                bench.call(WriteFile, json!({"path": "f", "content": "new"})).await,
                bench.call(EditFile, json!({"path": "f", "old": "old", "new": "new"})).await,
                bench.call(ApplyPatch, json!({"patch": patch})).await,
            ];
            for result in results {
                assert!(result.starts_with("refused: permission denied: f may"), "{result}");
            }
        });
        assert_eq!(bench.get("f"), b"old\n");
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
    });
}

#[tokio::test]
async fn a_changed_file_keeps_its_owner_and_its_group() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    require!(root());
    let bench = ToolFixture::new();
    for name in ["written", "edited", "patched"] {
        bench.put(name, "old\n");
        chown(bench.path(name), Some(12_345), Some(23_456)).unwrap();
        bench.call(ReadFile, json!({"path": name})).await;
    }
    let patch = "--- a/patched\n+++ b/patched\n@@ -1 +1 @@\n-old\n+new\n";
    bench.call(WriteFile, json!({"path": "written", "content": "new\n"})).await;
    bench.call(EditFile, json!({"path": "edited", "old": "old", "new": "new"})).await;
    bench.call(ApplyPatch, json!({"patch": patch})).await;
    for name in ["written", "edited", "patched"] {
        let meta = bench.path(name).metadata().unwrap();
        assert_eq!(bench.get(name), b"new\n");
        assert_eq!((meta.uid(), meta.gid()), (12_345, 23_456), "{name}");
    }
}

/// A file of the administrator that everybody may write: each process of this test knows it by
/// the one that began.
fn file_of_root(process: u32) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("deputize-file-of-root-{process}"))
}

#[test]
fn a_file_that_would_change_its_owner_is_not_changed() {
    struct RootFile(std::path::PathBuf);
    impl Drop for RootFile {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).unwrap();
        }
    }
    let of_root = root().is_ok().then(|| {
        let file = RootFile(file_of_root(std::process::id()));
        std::fs::write(&file.0, "old\n").unwrap();
        std::fs::set_permissions(&file.0, PermissionsExt::from_mode(0o666)).unwrap();
        file
    });
    again_without_rights(test_path!(), || {
        let file = file_of_root(std::os::unix::process::parent_id());
        let made = file.exists().then_some(()).ok_or_else(|| "it needs root".to_owned());
        require!(made);
        let bench = ToolFixture::new();
        std::fs::hard_link(file, bench.path("f")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            bench.call(ReadFile, json!({"path": "f"})).await;
            let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n--- /dev/null\n+++ b/d/g\n\
                         @@ -0,0 +1 @@\n+new\n";
            let results = [
                bench.call(WriteFile, json!({"path": "f", "content": "new"})).await,
                bench.call(EditFile, json!({"path": "f", "old": "old", "new": "new"})).await,
                bench.call(ApplyPatch, json!({"patch": patch})).await,
            ];
            for result in results {
                assert!(result.contains("f belongs to another user or group"), "{result}");
            }
        });
        assert_eq!(bench.get("f"), b"old\n");
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
    });
    drop(of_root);
}

#[test]
fn a_cancel_while_the_new_content_is_written_changes_nothing() {
    let bench = ToolFixture::new();
    bench.put("f", "old");
    let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
    let old = place.metadata().unwrap();
    let dir = place.root().try_clone().unwrap();
    let temporary = TemporaryFile::create(&bench.cx, &place, dir).unwrap();
    temporary.fill(&place, b"new", Some(&old)).unwrap();
    bench.cx.cancel.cancel(deputize_core::CancelReason::Interrupted);
    let error = put(&bench.cx, &place, Some(&old), temporary, Path::new("f")).unwrap_err();
    assert!(matches!(error, ToolError::Cancelled(_)), "{error}");
    assert_eq!(bench.get("f"), b"old");
    assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
}

/// Ways to write a content, and how many files a crash leaves behind before its move.
type WriteFn = fn(&ToolCx, &GrantedPath, Dir) -> io::Result<TemporaryFile>;
const WAYS: [(WriteFn, usize); 2] = [(TemporaryFile::create, 0), (TemporaryFile::create_named, 1)];

#[test]
fn a_crash_while_the_new_content_is_written_leaves_nothing_in_the_directory() {
    for (create, left) in WAYS {
        let bench = ToolFixture::new();
        let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
        if left == 0 && nameless(place.root()).is_none() {
            println!("not run: this file system names every file");
            continue;
        }
        let dir = place.root().try_clone().unwrap();
        let temporary = create(&bench.cx, &place, dir).unwrap();
        temporary.fill(&place, b"new", None).unwrap();
        std::mem::forget(temporary);
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), left);
    }
}

#[test]
fn a_leftover_lies_where_the_next_session_looks_and_one_in_use_stays() {
    let bench = ToolFixture::new();
    let roots = Arc::new(crate::GrantedRoots::of(&bench.root()));
    bench.cx.agent.session.settings.share(Arc::clone(&roots));
    let mine = [".deputize-notes.md", "a.tmp", ".deputize-d.tmp/f"];
    bench.put("d/f", "").put(mine[0], "").put(mine[1], "").put(mine[2], "");
    for (create, left) in WAYS {
        let own = left == 1;
        let place = GrantedPath::to_write(&bench.cx, "d/f").unwrap();
        let dir = place.root().open_dir("d").unwrap();
        let mut temporary = create(&bench.cx, &place, dir).unwrap();
        if temporary.named_in.is_none() {
            temporary.named_in = Some(temporary.give_name().unwrap());
        }
        let left = bench.path(if own { "d" } else { "" }).join(&temporary.name);
        let next = || match own {
            true => remove_leftovers(&place.root().open_dir("d").unwrap()),
            false => roots.remove_leftovers(),
        };
        next();
        assert!(left.exists(), "another session still writes it");
        temporary.named_in = None;
        drop(temporary);
        assert!(left.exists(), "as if its writer had been killed");
        next();
        assert!(!left.exists());
    }
    assert!(mine.iter().all(|name| bench.path(name).exists()));
}

/// Reads a file of equal lines and writes it with the next number, as often as it is asked to.
/// Returns how many of its writes were reported as made.
fn count_up(bench: &ToolFixture, cx: &ToolCx, path: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut written = 0;
    for _ in 0..200 {
        let read = runtime.block_on(bench.call_as(cx, ReadFile, json!({"path": path})));
        let Some(number) = read.split_whitespace().find_map(|word| word.strip_prefix('n')) else {
            continue;
        };
        let next: usize = number.parse::<usize>().unwrap() + 1;
        let write = json!({"path": path, "content": format!("n{next}\n").repeat(500)});
        let result = runtime.block_on(bench.call_as(cx, WriteFile, write));
        written += usize::from(!result.starts_with("refused"));
    }
    written
}

/// The number of a file that is whole.
fn counted(bench: &ToolFixture, path: &str) -> usize {
    let text = String::from_utf8(bench.get(path)).unwrap();
    let first = text.lines().next().unwrap();
    assert_eq!(text, format!("{first}\n").repeat(500));
    first.strip_prefix('n').unwrap().parse().unwrap()
}

#[test]
fn of_sessions_that_write_one_file_none_is_told_of_a_write_that_was_lost() {
    let bench = ToolFixture::new();
    bench.put("f", "n0\n".repeat(500));
    let others = ["one", "two", "three"].map(|id| bench.other_session(id));
    let bench = &bench;
    let told: usize = std::thread::scope(|scope| {
        let threads = others.each_ref().map(|cx| scope.spawn(|| count_up(bench, cx, "f")));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("{told} of 600 writes were made");
    assert_eq!(counted(bench, "f"), told);
    assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
}

#[test]
fn no_new_file_has_the_inode_number_of_one_that_a_call_has_read() {
    let bench = ToolFixture::new();
    bench.put("f", "read");
    let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
    let read = crate::existing_file::ExistingFile::read(&bench.cx, &place, 100).unwrap();
    for _ in 0..100 {
        let now = place.metadata().unwrap();
        replace(&bench.cx, &place, Some(&now), b"new").unwrap();
        assert_ne!(place.metadata().unwrap().ino(), read.meta.ino());
    }
}

#[test]
fn a_write_goes_nowhere_else_while_its_folder_and_a_link_exchange_their_places() {
    use rustix::fs::{RenameFlags, renameat_with};
    let bench = ToolFixture::new();
    bench.put("d/f", "n0\n".repeat(500)).link("../outside", "l");
    bench.put("../outside/f", "n7\n");
    let (cx, done) = (bench.other_session("one"), std::sync::atomic::AtomicBool::new(false));
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (bench.path("d"), bench.path("l"));
            while !done.load(order) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let told = count_up(&bench, &cx, "d/f");
        done.store(true, order);
        println!("{told} of 200 writes were made");
    });
    let folder = if bench.path("d").is_symlink() { "l/f" } else { "d/f" };
    counted(&bench, folder);
    assert_eq!(bench.get("../outside/f"), b"n7\n");
    assert_eq!(std::fs::read_dir(bench.path("../outside")).unwrap().count(), 1);
}

#[test]
fn a_content_gets_its_place_or_goes() {
    for (create, _) in WAYS {
        let bench = ToolFixture::new();
        let place = GrantedPath::to_write(&bench.cx, "f").unwrap();
        let dir = || place.root().try_clone().unwrap();
        let create = || create(&bench.cx, &place, dir()).unwrap();
        drop(create());
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 0);
        let temporary = create();
        temporary.fill(&place, b"new", None).unwrap();
        put(&bench.cx, &place, None, temporary, Path::new("f")).unwrap();
        assert_eq!(bench.get("f"), b"new");
        assert_eq!(std::fs::read_dir(bench.root()).unwrap().count(), 1);
    }
}
