//! The directories that agents are granted, as they were when the session began.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use deputize_core::{Resource, ToolCx};
use parking_lot::Mutex;
use rustix::fs::{fstat, stat};

use crate::canonical_path::{canonical, open_without_links, tidy};
use crate::display_name::display_name;
use crate::leftovers::remove_leftovers;
use crate::path_error::PathError;

/// The granted directories of a session or of several, each opened once. A directory that takes the
/// place of one is not used. A program that puts this into its session's settings has its
/// directory opened before any command runs; others are opened when they are first used.
///
/// ```
/// use std::sync::Arc;
/// use deputize_core::ResourceMap;
/// use deputize_tools::GrantedRoots;
/// let settings = ResourceMap::default();
/// settings.share(Arc::new(GrantedRoots::of(&std::env::current_dir()?)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct GrantedRoots(Mutex<Vec<(PathBuf, Arc<Dir>)>>);

impl Resource for GrantedRoots {}

impl GrantedRoots {
    /// Opens a directory, if it is there.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        let roots = Self::default();
        let _later = roots.first(root);
        roots
    }

    /// Removes the temporary files that killed sessions left in these directories. Call it when a session
    /// begins.
    pub fn remove_leftovers(&self) {
        for (_, dir) in self.0.lock().iter() {
            remove_leftovers(dir);
        }
    }

    /// Returns the directory that was opened first of those around a root.
    pub(crate) fn around(&self, root: &Path) -> Option<Arc<Dir>> {
        find(&self.0.lock(), |above| root.starts_with(above)).map(|(_, dir)| Arc::clone(dir))
    }

    pub(crate) fn in_session(cx: &ToolCx) -> Arc<Self> {
        cx.agent.session.settings.get_or_insert_with(Self::default)
    }

    /// Returns a granted directory. Fails if another directory is at its path by now; `asked` is the
    /// path that the error names if it cannot be opened.
    pub(crate) fn open(&self, root: &Path, asked: &str) -> Result<Arc<Dir>, PathError> {
        let failed = |error| PathError::of("open the root of", asked, error);
        let dir = self.first(root).map_err(failed)?;
        let now = stat(root).map_err(|error| failed(error.into()))?;
        let then = fstat(&dir).map_err(|error| failed(error.into()))?;
        if (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino) {
            return Ok(dir);
        }
        Err(PathError::Replaced(display_name(&root.to_string_lossy())))
    }

    /// Returns a directory that was opened already.
    #[cfg(target_os = "linux")]
    pub(crate) fn opened(&self, root: &Path) -> Option<Arc<Dir>> {
        find(&self.0.lock(), |known| known == root).map(|(_, dir)| Arc::clone(dir))
    }

    /// Returns a directory as it was opened first: beneath one that is open, if it lies in one, so
    /// that what took that one's place since is not opened.
    fn first(&self, root: &Path) -> io::Result<Arc<Dir>> {
        let mut roots = self.0.lock();
        if let Some((_, dir)) = find(&roots, |known| known == root) {
            return Ok(Arc::clone(dir));
        }
        let dir = match find(&roots, |above| root.starts_with(above)) {
            Some((above, dir)) => {
                let rel = tidy(root.strip_prefix(above).unwrap_or(Path::new(".")));
                // A link that takes its place after this would lead elsewhere.
                open_without_links(dir, &canonical(dir, above, &rel)?)?
            }
            None => Dir::open_ambient_dir(root, ambient_authority())?,
        };
        let dir = Arc::new(dir);
        roots.push((root.to_owned(), Arc::clone(&dir)));
        Ok(dir)
    }
}

fn find(
    roots: &[(PathBuf, Arc<Dir>)],
    is_meant: impl Fn(&Path) -> bool,
) -> Option<&(PathBuf, Arc<Dir>)> {
    roots.iter().find(|(root, _)| is_meant(root))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::{remove_file, rename};

    use deputize_core::authority::Grant;
    use serde_json::json;

    use super::*;
    use crate::edit_file::EditFile;
    use crate::fixture::ToolFixture;
    use crate::list_dir::ListDir;
    use crate::read_file::ReadFile;
    use crate::search_files::SearchFiles;
    use crate::write_file::WriteFile;

    /// What each file tool answers about the files of an agent.
    async fn answers(bench: &ToolFixture, cx: &ToolCx) -> Vec<String> {
        let write = json!({"path": "sub/f", "content": "written"});
        let edit = json!({"path": "sub/g", "old": "text", "new": "edited"});
        vec![
            bench.call_as(cx, ReadFile, json!({"path": "sub/f"})).await,
            bench.call_as(cx, ListDir, json!({"path": "sub"})).await,
            bench.call_as(cx, SearchFiles, json!({"path": "sub", "pattern": "text"})).await,
            bench.call_as(cx, WriteFile, write).await,
            bench.call_as(cx, EditFile, edit).await,
        ]
    }

    #[tokio::test]
    async fn a_directory_that_takes_the_place_of_a_granted_one_is_not_used() {
        let bench = ToolFixture::new();
        bench.put("sub/f", "text").put("sub/g", "text");
        bench.put("../outside/sub/f", "text").put("../outside/sub/g", "text");
        bench.cx.agent.session.settings.share(Arc::new(GrantedRoots::of(&bench.root())));
        let only = Some(BTreeSet::from([bench.path("sub")]));
        let child = bench.child(&Grant { read: only.clone(), write: only, ..Grant::default() });
        let away = bench.root().with_file_name("away");
        rename(bench.root(), &away).unwrap();
        std::os::unix::fs::symlink("outside", bench.root()).unwrap();
        for cx in [&bench.cx, &child] {
            for answer in answers(&bench, cx).await {
                assert!(answer.contains("is another one than at the start"), "{answer}");
            }
        }
        assert_eq!(bench.get("../outside/sub/f"), b"text");
        assert_eq!(bench.get("../outside/sub/g"), b"text");
        assert_eq!(std::fs::read(away.join("sub/f")).unwrap(), b"text");
        remove_file(bench.root()).unwrap();
        let gone = bench.call(ListDir, json!({"path": "sub"})).await;
        assert!(gone.contains("cannot open the root of sub: No such file"), "{gone}");
        rename(&away, bench.root()).unwrap();
        for cx in [&bench.cx, &child] {
            let back = bench.call_as(cx, ReadFile, json!({"path": "sub/f"})).await;
            assert!(!back.starts_with("refused"), "{back}");
        }
    }

    #[tokio::test]
    async fn a_granted_directory_within_another_is_no_way_out_of_it() {
        let bench = ToolFixture::new();
        bench.put("../outside/f", "text").link("../outside", "out");
        bench.cx.agent.session.settings.share(Arc::new(GrantedRoots::of(&bench.root())));
        let only = Some(BTreeSet::from([bench.path("out")]));
        let child = bench.child(&Grant { read: only, ..Grant::default() });
        let read = bench.call_as(&child, ReadFile, json!({"path": "out/f"})).await;
        assert_eq!(read, "refused: symlink leaves the workspace: out/f");
    }
}
