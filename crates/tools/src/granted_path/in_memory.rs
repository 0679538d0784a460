//! Small files that the kernel has in memory, read without waiting for anything.

use super::GrantedPath;
use deputize_core::ToolCx;

/// Limit on a file read this way, in bytes; more work would delay other calls.
pub(crate) const MOST_BYTES: u64 = 32 * 1024;

#[cfg(target_os = "linux")]
pub(crate) use linux::read_in_memory;

/// Returns `None`: only Linux can be asked not to wait.
#[cfg(not(target_os = "linux"))]
pub(crate) fn read_in_memory(_cx: &ToolCx, _path: &str) -> Option<(GrantedPath, Vec<u8>)> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::IoSliceMut;
    use std::os::fd::AsFd;
    use std::path::Component;

    use rustix::fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx,
    };
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    use super::{GrantedPath, MOST_BYTES, ToolCx};
    use crate::granted_path::{Access, LexicalPath};
    use crate::granted_roots::GrantedRoots;

    /// Returns the place and the content of a regular file that is in memory. `None` if reading it
    /// may wait (for a disk, a network, another program), if there is a link on the way, if it is
    /// long, or if it cannot be read, and for the first path of a root. A caller that may wait then
    /// reads it or reports the fault.
    pub(crate) fn read_in_memory(cx: &ToolCx, path: &str) -> Option<(GrantedPath, Vec<u8>)> {
        let LexicalPath { root, rel, shown } = LexicalPath::of(cx, path, Access::Read).ok()?;
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !rel.components().all(plain) {
            return None;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let now = openat2(CWD, root, flags, Mode::empty(), ResolveFlags::CACHED).ok()?;
        let dir = GrantedRoots::in_session(cx).opened(root)?;
        if identity(&now)? != identity(&dir)? {
            return None;
        }
        let beneath = ResolveFlags::CACHED
            | ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS;
        let open = |flags| openat2(&*dir, &rel, flags | OFlags::CLOEXEC, Mode::empty(), beneath);
        // Looked at before it is opened too, because opening a device can already do something.
        length(&open(OFlags::PATH).ok()?)?;
        let file = open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).ok()?;
        let content = content(&file, length(&file)?)?;
        let root = root.clone();
        Some((GrantedPath { root, dir, asked: rel.clone(), rel, shown }, content))
    }

    /// What makes a directory another one than another.
    fn identity(dir: impl AsFd) -> Option<(u32, u32, u64)> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let meta = statx(dir, "", flags, StatxFlags::INO).ok()?;
        Some((meta.stx_dev_major, meta.stx_dev_minor, meta.stx_ino))
    }

    /// The length of a regular file that is not long.
    fn length(file: impl AsFd) -> Option<usize> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let meta = statx(file, "", flags, StatxFlags::TYPE | StatxFlags::SIZE).ok()?;
        let regular = FileType::from_raw_mode(meta.stx_mode.into()) == FileType::RegularFile;
        (regular && meta.stx_size <= MOST_BYTES).then(|| usize::try_from(meta.stx_size).ok())?
    }

    /// Returns all of a file that has this length; `None` if it has become longer.
    fn content(file: impl AsFd, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length + 1];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = filled as u64;
            match preadv2(&file, &mut [IoSliceMut::new(rest)], at, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        bytes.truncate(filled);
        (filled <= length).then_some(bytes)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::io::IoSliceMut;

    use rustix::io::{ReadWriteFlags, preadv2};

    use super::*;
    use crate::fixture::ToolFixture;
    use crate::granted_path::Access;

    fn content(bench: &ToolFixture, path: &str) -> Option<Vec<u8>> {
        read_in_memory(&bench.cx, path).map(|(_, content)| content)
    }

    #[test]
    fn a_small_file_is_read_whole_where_the_file_system_allows_it() {
        let bench = ToolFixture::new();
        let longest = vec![b'x'; usize::try_from(MOST_BYTES).unwrap()];
        bench.put("a/f", "text").put("empty", "").put("longest", &longest);
        assert_eq!(content(&bench, "a/f"), None, "the root is not open yet");
        assert!(GrantedPath::existing(&bench.cx, ".", Access::Read).is_ok());
        let file = File::open(bench.path("a/f")).unwrap();
        let mut byte = [0];
        let piece = &mut [IoSliceMut::new(&mut byte)];
        let allowed = preadv2(file, piece, 0, ReadWriteFlags::NOWAIT).is_ok();
        let read = |path| content(&bench, path).is_some();
        assert_eq!(["a/f", "empty", "longest"].map(read), [allowed; 3]);
        if allowed {
            assert_eq!(content(&bench, "./a/f").unwrap(), b"text");
            assert_eq!(content(&bench, "empty").unwrap(), b"");
            assert_eq!(content(&bench, "longest").unwrap(), longest);
            let (place, _) = read_in_memory(&bench.cx, "a//f").unwrap();
            assert_eq!(place.path(), bench.path("a/f"));
            assert_eq!((place.shown(), place.open().is_ok()), ("a//f", true));
        }
    }

    #[test]
    fn what_is_none_of_these_is_left_to_who_may_take_time() {
        let bench = ToolFixture::new();
        let long = vec![b'x'; usize::try_from(MOST_BYTES).unwrap() + 1];
        bench.put("a/f", "text").put("long", long).fifo("fifo").put("../outside/f", "text");
        bench.link("a/f", "link").link("a", "dir").link("../outside/f", "out");
        assert!(GrantedPath::existing(&bench.cx, ".", Access::Read).is_ok());
        let outside = bench.path("../outside/f").to_string_lossy().into_owned();
        let paths = [
            "long",
            "fifo",
            "link",
            "dir/f",
            "out",
            "a",
            ".",
            "a/..",
            "a/../a/f",
            "missing",
            "",
            "a/\0",
            "../outside/f",
            &outside,
            "/dev/null",
        ];
        for path in paths {
            assert_eq!(content(&bench, path), None, "{path:?}");
        }
    }
}
