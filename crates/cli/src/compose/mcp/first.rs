//! Servers that nothing is known of what they have are asked before the first request.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use deputize_mcp::{Card, Cards, McpError, Server, look};
use deputize_tools::Processes;
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::{cards_of, is_wanted, server};
use crate::config::Config;
use crate::exit::CliError;
use crate::processes::setup;
use crate::surroundings::Surroundings;

/// How long servers that nothing is known of may hold up the first request, all together.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// Servers that are asked what they have for the first time.
#[derive(Default)]
pub(crate) struct FirstLook {
    /// What is to be told of that, once.
    pub(crate) notes: Vec<String>,
    /// Those that have not said it yet: what they say is kept for the next session.
    _asking: Option<Asking>,
}

/// A thread that asks servers, and ends them with itself when this is dropped.
struct Asking {
    end: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _its_fault_was_told = thread.join();
        }
    }
}

/// Asks servers that nothing is known of what they have, all at once. The first request does not
/// wait for long; who needs longer to start, as what is downloaded first, is asked on beside the
/// session.
pub(crate) fn first_look(config: &Config, around: &Surroundings, cwd: &Path) -> FirstLook {
    let mut unknown = Vec::new();
    for (name, entry) in config.mcp_servers.iter().filter(|(name, _)| is_wanted(config, name)) {
        // What is wrong with it is told where its tools are put together.
        let Ok(server) = server(name, entry, around, cwd) else { continue };
        let Ok(cards) = cards_of(entry, around) else { continue };
        let Ok(mut card) = cards.read(name) else { continue };
        let start = server.start();
        if card.is_held(&start) {
            // The review of an editor's server has nothing else to tell it by.
            card.start = start;
            let _kept = if entry.of_editor { cards.write(name, &card) } else { Ok(()) };
        } else if card.is_stale(&start) {
            unknown.push((server, card, cards));
        }
    }
    if unknown.is_empty() {
        return FirstLook::default();
    }
    asked(unknown, cwd, around)
}

/// Asks them, and waits for those that are quick.
fn asked(unknown: Vec<(Server, Card, Cards)>, cwd: &Path, around: &Surroundings) -> FirstLook {
    let mut waiting: BTreeSet<String> =
        unknown.iter().map(|(server, ..)| server.name.clone()).collect();
    let processes = Arc::new(Processes::with(setup(around.open_files)));
    let (said, hears) = mpsc::channel();
    let looks: Vec<_> = unknown
        .into_iter()
        .map(|(server, card, cards)| {
            let (cwd, processes, said) = (cwd.to_owned(), Arc::clone(&processes), said.clone());
            async move {
                let name = server.name.clone();
                let note = ask_first(server, (card, cards), cwd, processes).await;
                let _nobody_waits_any_more = said.send((name, note));
            }
        })
        .collect();
    let (end, ended) = oneshot::channel::<Infallible>();
    let thread = std::thread::Builder::new().name("mcp".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            tokio::select! {
                _ = ended => {}
                _ = join_all(looks) => {}
            }
        });
        drop(runtime);
        drop(processes);
    });
    drop(said);
    let until = Instant::now() + FIRST_LOOK;
    let mut notes = Vec::new();
    while let Ok((name, note)) = hears.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        waiting.remove(&name);
        notes.extend(note);
    }
    notes.extend(waiting.iter().map(|name| {
        let seconds = FIRST_LOOK.as_secs();
        format!(
            "mcp {name}: it did not say within {seconds} s what it has. This session goes without \
             its tools; it is asked on beside it, for the next one. Or ask it now with: deputize \
             mcp test {name}"
        )
    }));
    let asking = Asking { end: Some(end), thread: thread.ok() };
    FirstLook { notes, _asking: (!waiting.is_empty()).then_some(asking) }
}

/// Asks a server and keeps what it says. What is to be told of that.
async fn ask_first(
    server: Server,
    (mut card, cards): (Card, Cards),
    cwd: PathBuf,
    processes: Arc<Processes>,
) -> Option<String> {
    let (name, start) = (server.name.clone(), server.start());
    let listed = match look(server, cwd, move || processes.shared()).await {
        Ok(listed) => listed,
        Err(error) => return Some(without(&name, &error)),
    };
    let (first, tools) = (card.approved.is_none(), listed.tools.len());
    card.keep(&start, listed);
    if let Err(error) = cards.write(&name, &card) {
        return Some(CliError::failed(error).chain());
    }
    first.then(|| {
        format!(
            "mcp {name}: seen for the first time: its {tools} tools are taken as they are; what \
             changes later waits for you. Read them with: deputize mcp review {name}"
        )
    })
}

/// What is told of a server that a session goes without.
fn without(name: &str, error: &McpError) -> String {
    let why = error_told(error);
    format!("{why}. This session goes without its tools; try it with: deputize mcp test {name}")
}

/// An error of a server with its causes.
fn error_told(error: &McpError) -> String {
    let mut said = error.to_string();
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    for cause in causes.map(ToString::to_string) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}
