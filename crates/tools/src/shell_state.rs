//! Where a shell was and what it had exported, kept on disk so that it outlives the program.
//!
//! A model that goes on after a resume believes to be where it was. So what its shell hands on
//! from command to command lies in the session's folder, one file an agent, readable by its owner
//! only: the directory, and how the exported variables differ from those that every shell starts
//! with. Bytes are written in base64, because neither directories nor variables must be UTF-8.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use deputize_core::ToolCx;
use deputize_process::{STATE_LIMIT, ShellState};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// Bytes of the largest file that is read back; what a shell may export, written down, is less.
const FILE_LIMIT: u64 = 16 * STATE_LIMIT as u64;

/// Variables of a shell.
type Env = BTreeMap<OsString, OsString>;

/// Why what was kept cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedStateError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is larger than {FILE_LIMIT} bytes", .0.display())]
    TooLarge(PathBuf),
    #[error("{} is not what was written there", .0.display())]
    Malformed(PathBuf),
}

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedState {
    directory: String,
    set: Vec<(String, String)>,
    unset: Vec<String>,
}

/// The file of an agent's shell.
pub(crate) fn path(cx: &ToolCx) -> PathBuf {
    let agent = cx.agent.id().as_str().replace('/', "~");
    cx.agent.session.spill.join(format!("{agent}~shell.json"))
}

/// Returns the saved state, over the variables that every shell starts with; `None` if nothing was
/// saved.
fn load(path: &Path, base: &Env) -> Result<Option<ShellState>, SavedStateError> {
    let failed = |source| SavedStateError::Read { path: path.to_owned(), source };
    let file = match open(path) {
        Err(error) if is_absence(&error) => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(SavedStateError::TooLarge(path.to_owned()));
    }
    let kept: Option<SavedState> = serde_json::from_slice(&bytes).ok();
    let state = kept.and_then(|kept| kept.over(base));
    state.map(Some).ok_or_else(|| SavedStateError::Malformed(path.to_owned()))
}

/// Loads a state on a thread that may block.
pub(crate) async fn restore(
    path: PathBuf,
    base: &Env,
) -> Result<Option<ShellState>, SavedStateError> {
    let (from, base) = (path.clone(), base.clone());
    let loaded = tokio::task::spawn_blocking(move || load(&from, &base)).await;
    loaded.map_err(|lost| SavedStateError::Read { path, source: lost.into() }).flatten()
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens without waiting for a writer, should a command have put a pipe there.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Keeps a state. A failure or a crash at any point leaves what was kept before.
pub(crate) fn save(path: &Path, base: &Env, state: &ShellState) -> io::Result<()> {
    let text = serde_json::to_vec(&SavedState::of(base, state))?;
    let beside = path.with_extension("tmp");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&beside)?;
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

impl SavedState {
    fn of(base: &Env, state: &ShellState) -> Self {
        let new = |(name, value): &(&OsString, &OsString)| base.get(*name) != Some(*value);
        let gone = |name: &&OsString| !state.env.contains_key(*name);
        Self {
            directory: BASE64.encode(state.cwd.as_os_str().as_bytes()),
            set: state.env.iter().filter(new).map(|(n, v)| (encode(n), encode(v))).collect(),
            unset: base.keys().filter(gone).map(encode).collect(),
        }
    }

    /// The state, if every part of it can be one.
    fn over(&self, base: &Env) -> Option<ShellState> {
        let cwd = PathBuf::from(decode(&self.directory)?);
        let mut env = base.clone();
        for name in &self.unset {
            env.remove(&decode(name)?);
        }
        for (name, value) in &self.set {
            let name = decode(name)?;
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return None;
            }
            env.insert(name, decode(value)?);
        }
        cwd.is_absolute().then_some(ShellState { cwd, env })
    }
}

fn encode(text: &OsString) -> String {
    BASE64.encode(text.as_bytes())
}

fn decode(text: &str) -> Option<OsString> {
    let bytes = BASE64.decode(text.as_bytes()).ok()?;
    (!bytes.contains(&0)).then(|| OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn env(variables: &[(Vec<u8>, Vec<u8>)]) -> Env {
        let variable = |(name, value): &(Vec<u8>, Vec<u8>)| {
            (OsString::from_vec(name.clone()), OsString::from_vec(value.clone()))
        };
        variables.iter().map(variable).collect()
    }

    fn variables() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
        let name = proptest::collection::vec(b'>'..=b'\xff', 1..3);
        let value = proptest::collection::vec(1..=255_u8, 0..4);
        proptest::collection::vec((name, value), 0..6)
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back_byte_by_byte(
            base in variables(), now in variables(), cwd in proptest::collection::vec(1..=255_u8, 0..6),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("s~shell.json");
            let cwd = PathBuf::from(OsString::from_vec([b"/".as_slice(), &cwd].concat()));
            let state = ShellState { cwd, env: env(&now) };
            save(&path, &env(&base), &state).unwrap();
            prop_assert_eq!(load(&path, &env(&base)).unwrap(), Some(state));
            prop_assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_is_not_a_state_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(load(&path, &Env::new()).unwrap(), None);
        let broken = [
            "",
            "{",
            r#"{"directory":"YQ==","set":[],"unset":[]}"#,
            r#"{"directory":"Lw==","set":[["","YQ=="]],"unset":[]}"#,
            r#"{"directory":"LwA=","set":[],"unset":[]}"#,
            r#"{"directory":"/","set":[],"unset":[]}"#,
        ];
        for text in broken {
            std::fs::write(&path, text).unwrap();
            let error = load(&path, &Env::new()).unwrap_err().to_string();
            assert!(error.ends_with("/f is not what was written there"), "{text}: {error}");
        }
        let file = File::create(&path).unwrap();
        file.set_len(FILE_LIMIT + 1).unwrap();
        let error = load(&path, &Env::new()).unwrap_err().to_string();
        assert!(error.ends_with("/f is larger than 16777216 bytes"), "{error}");
        assert!(matches!(load(dir.path(), &Env::new()), Err(SavedStateError::Read { .. })));
    }
}
