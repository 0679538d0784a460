//! The person's editor, on a copy of a text.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::tell;

#[derive(Debug, thiserror::Error)]
enum EditError {
    #[error("no editor: set VISUAL or EDITOR")]
    NoEditor,
    #[error("the editor `{0}` failed; nothing is changed")]
    Failed(String),
    #[error("the editor `{0}` left no file; nothing is changed")]
    NoFile(String),
    #[error("a file for the editor cannot be used")]
    File(#[source] std::io::Error),
}

/// Lets the person edit a text in a file of this name, and passes the new text on. If that fails,
/// the error says where the text is. Returns `None` if the person changed nothing, which is said.
pub(super) fn edit_text<T>(
    env: &ProcessEnv,
    name: &str,
    text: &str,
    write: impl FnOnce(&str) -> Result<T, CliError>,
) -> Result<Option<T>, CliError> {
    let failed = |error| CliError::failed(EditError::File(error));
    // The text may be what only its owner may read.
    let private = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().permissions(private).tempdir().map_err(failed)?;
    let file = folder.path().join(name);
    fs::write(&file, text).map_err(failed)?;
    let done = run_editor(env, &file).and_then(|()| {
        if !file.exists() {
            let editor = editor(env).unwrap_or_default().to_owned();
            return Err(CliError::failed(EditError::NoFile(editor)));
        }
        let edited = fs::read_to_string(&file).map_err(failed)?;
        if edited == text {
            tell("nothing changed");
            return Ok(None);
        }
        write(&edited).map(Some)
    });
    done.map_err(|error| {
        // Also a text that cannot be read, and one whose editor failed, is the person's.
        if !file.exists() || fs::read(&file).is_ok_and(|bytes| bytes == text.as_bytes()) {
            return error;
        }
        let kept = folder.keep().join(name);
        error.hint(format!("your text is in {}", kept.display()))
    })
}

fn editor(env: &ProcessEnv) -> Option<&str> {
    env.var("VISUAL").or_else(|| env.var("EDITOR"))
}

/// Runs the person's editor on a file, as the shell would.
fn run_editor(env: &ProcessEnv, file: &Path) -> Result<(), CliError> {
    let editor = editor(env).ok_or(EditError::NoEditor).map_err(CliError::usage)?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(CliError::failed(EditError::Failed(editor.to_owned()))),
    }
}
