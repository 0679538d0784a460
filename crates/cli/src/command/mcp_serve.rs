//! `deputize mcp-serve`: this agent for other agents, over MCP.

use std::io;
use std::sync::Arc;

use deputize_core::Cancel;
use deputize_mcp::serve::{ServeState, ServerInfo, bind};

use crate::args::McpServe;
use crate::compose::LinkedTools;
use crate::exit::{CliError, Exit};
use crate::process_env::ProcessEnv;
use crate::runtime::{STUCK, own, start_threads, take_stdout};
use crate::stdio::{print, tell};
use crate::stop::Signals;

mod progress;
mod relay_model;
mod service;

use service::{ProgramService, ServiceState};

/// Instructions that hold for every tool that may be offered: the settings may change while it
/// serves.
const INSTRUCTIONS: &str = "Each tool gives work to agents of this program and takes a long time: \
    ask for progress, and cancel calls that you no longer need. `run` gives a whole task to one \
    agent.";

/// Serves until the client is gone, or for ever by HTTP.
pub(crate) fn mcp_serve(
    links: &LinkedTools,
    mut env: ProcessEnv,
    args: &McpServe,
) -> Result<u8, CliError> {
    let runtime = start_threads(&env)?;
    // A client is no person.
    env.person_available = false;
    let http = args.http;
    if http.is_none() && env.terminals.stdin {
        tell("note: another program starts this one and talks to it; see docs/guide/mcp-server.md");
    }
    let output = match http {
        Some(_) => None,
        None => Some(take_stdout()?),
    };
    let state = ServiceState::new(links, env, args)?;
    let code = runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed)?;
        let end = Cancel::new();
        let who = ServerInfo {
            name: "deputize",
            version: env!("CARGO_PKG_VERSION"),
            instructions: INSTRUCTIONS.to_owned(),
        };
        let server = ServeState::new(who, Arc::new(ProgramService(Arc::new(state))), end.clone());
        let served = async {
            match (output, http) {
                (Some(output), _) => {
                    let input = own(io::stdin())?;
                    let [input, output] = [input, output].map(tokio::fs::File::from_std);
                    server.streams(input, output).await
                }
                (None, port) => {
                    let address = bind(port.unwrap_or_default()).await?;
                    let printed = print(&format!("{}\n", address.url));
                    printed.map_err(|error| io::Error::other(error.chain()))?;
                    server.http(address).await;
                    Ok(())
                }
            }
        };
        let served = signals.guard(Box::pin(served), &end, |_| {}).await;
        let interrupted = end.is_cancelled();
        match served {
            _ if interrupted => Ok(Exit::Interrupted.code()),
            None => Ok(Exit::Interrupted.code()),
            Some(served) => served.map(|()| 0).map_err(CliError::failed),
        }
    });
    runtime.shutdown_timeout(STUCK);
    code
}
