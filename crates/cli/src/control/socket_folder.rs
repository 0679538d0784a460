//! The folder of the sockets: this user's, and nobody else's.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use deputize_core::SessionId;
use deputize_runtime::SessionDir;
use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;

use super::ControlError;

/// The folder, held open: whoever puts another one in its place changes nothing.
pub(super) struct SocketFolder {
    pub(super) folder: OwnedFd,
    path: PathBuf,
}

impl SocketFolder {
    /// The folder beside the session files, if it is there.
    pub(super) fn open(sessions: &SessionDir) -> Result<Self, ControlError> {
        let path = sessions.path().with_file_name("control");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, &path, flags, Mode::empty()).map_err(|errno| match errno {
            // The path is a link, or no directory.
            Errno::LOOP | Errno::NOTDIR => {
                ControlError::Exposed { path: path.clone(), why: "it is a link or a file".into() }
            }
            _ => ControlError::Folder { path: path.clone(), source: errno.into() },
        })?;
        let stat = fstat(&folder)
            .map_err(|errno| ControlError::Folder { path: path.clone(), source: errno.into() })?;
        let mode = stat.st_mode & 0o777;
        let exposed = |why| Err(ControlError::Exposed { path: path.clone(), why });
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return exposed(format!("it is of user {}", stat.st_uid));
        }
        if mode & 0o077 != 0 {
            return exposed(format!("its mode is {mode:o}"));
        }
        Ok(Self { folder, path })
    }

    /// The same, made where it is missing.
    pub(super) fn make(sessions: &SessionDir) -> Result<Self, ControlError> {
        let path = sessions.path().with_file_name("control");
        match mkdirat(CWD, &path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::open(sessions),
            Err(errno) => Err(ControlError::Folder { path, source: errno.into() }),
        }
    }

    /// The name of a session's socket.
    pub(super) fn name(session: &SessionId) -> String {
        format!("{session}.sock")
    }

    /// A path to a name in the folder for those who take no handle. Where the system has a way
    /// by handle it is short, whatever the folder is called: addresses of sockets have about a
    /// hundred bytes.
    pub(super) fn reach(&self, name: &str) -> PathBuf {
        let by_handle = PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()));
        if by_handle.is_dir() { by_handle.join(name) } else { self.path.join(name) }
    }

    /// The path that a person knows it by.
    pub(super) fn shown(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// An error of a socket's address that is too long, in words that say so.
pub(super) fn explain_path_length(error: io::Error, path: &Path) -> io::Error {
    if error.kind() != io::ErrorKind::InvalidInput {
        return error;
    }
    let bytes = path.as_os_str().len();
    io::Error::other(format!("its path has {bytes} bytes, and a socket's about 100 at most"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn exposed(sessions: &SessionDir) -> String {
        match SocketFolder::make(sessions) {
            Err(error @ ControlError::Exposed { .. }) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was taken"),
        }
    }

    #[test]
    fn only_a_folder_of_this_user_alone_will_do() {
        let home = tempfile::tempdir().unwrap();
        let sessions = SessionDir::new(home.path().join("sessions"));
        SocketFolder::make(&sessions).unwrap();
        let folder = home.path().join("control");
        let mode = |mode| {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o750);
        assert!(exposed(&sessions).contains("its mode is 750"));
        mode(0o700);
        SocketFolder::make(&sessions).unwrap();
        std::fs::remove_dir(&folder).unwrap();
        let elsewhere = home.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        assert!(exposed(&sessions).contains("a link or a file"));
        std::fs::remove_file(&folder).unwrap();
        std::fs::write(&folder, "").unwrap();
        assert!(exposed(&sessions).contains("a link or a file"));
    }
}
