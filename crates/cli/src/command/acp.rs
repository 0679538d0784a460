//! `deputize acp`: this agent for an editor, on the standard streams.

use std::io;
use std::sync::Arc;

use deputize_acp::serve::{ServerIdentity, serve};
use deputize_core::Cancel;

use crate::args::Acp;
use crate::command::serve::SharedAssembly;
use crate::compose::LinkedTools;
use crate::exit::{CliError, Exit};
use crate::process_env::ProcessEnv;
use crate::runtime::{STUCK, own, start_threads, take_stdout};
use crate::stdio::tell;
use crate::stop::Signals;

mod conversations;
mod servers;

use conversations::AcpSessions;

/// Serves until the editor is gone.
pub(crate) fn acp(links: &LinkedTools, mut env: ProcessEnv, args: &Acp) -> Result<u8, CliError> {
    let runtime = start_threads(&env)?;
    if env.terminals.stdin {
        tell("note: an editor starts this program and talks to it; see docs/guide/editors.md");
    }
    env.at_editor = true;
    env.person_available = true;
    let input = own(io::stdin()).map_err(CliError::failed)?;
    let output = take_stdout()?;
    let sessions = AcpSessions(Arc::new(SharedAssembly::new(links, env, args.options())?));
    // The editor is told by each session, and a person who tries it at a terminal by this.
    if let Err(error) = sessions.0.check() {
        tell(&format!("{error}\nnote: no session begins in this directory before that is mended"));
    }
    let code = runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed)?;
        let end = Cancel::new();
        let input = tokio::fs::File::from_std(input);
        let output = tokio::fs::File::from_std(output);
        let who = ServerIdentity { name: "deputize", version: env!("CARGO_PKG_VERSION") };
        let served = Box::pin(serve(who, Arc::new(sessions), input, output, &end));
        let served = signals.guard(served, &end, |_| {}).await;
        let interrupted = served.is_none() || end.is_cancelled();
        Ok(if interrupted { Exit::Interrupted.code() } else { 0 })
    });
    runtime.shutdown_timeout(STUCK);
    code
}
