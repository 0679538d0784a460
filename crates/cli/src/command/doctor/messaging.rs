//! Checks whether the targets of messages look reachable. Nothing is sent.

use deputize_core::Cancel;
use deputize_core::sanitize::for_terminal_line;
use deputize_tools::{MessageSettings, Messenger, Processes};
use futures_util::future::join_all;

use super::Check;
use crate::exit::CliError;

const TARGET: &str = "message target";
/// Characters of what was found.
const FOUND_CHARS: usize = 300;

/// Looks at all targets side by side.
pub(super) fn checks(settings: &MessageSettings) -> Result<Vec<Check>, CliError> {
    if settings.targets.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::failed)?;
    let (processes, cancel) = (Processes::default(), Cancel::new());
    let messenger = Messenger { settings, processes: &processes, cancel: &cancel };
    let probes = settings.targets.keys().map(async |name| {
        let found = messenger.probe(name).await;
        let line = |found: String| format!("{name}: {}", for_terminal_line(&found, FOUND_CHARS));
        Check::new(TARGET, found.map(line).map_err(line))
    });
    Ok(runtime.block_on(join_all(probes)))
}
