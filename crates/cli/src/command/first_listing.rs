//! Lists the tools of new MCP servers before the first request.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use deputize_core::authority::ApproverMode;
use deputize_core::wording::count;
use deputize_mcp::{ApprovalStore, McpError, ServerConfig, ServerRecord, look};
use deputize_tools::Processes;
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::mcp::show;
use crate::approve::confirmed;
use crate::compose::mcp::{approval_store_of, is_wanted, server};
use crate::config::Config;
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::processes::setup;
use crate::stdio::tell;

/// Time limit for all new servers together before the first request is sent.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// The first listing of new servers.
#[derive(Default)]
pub(crate) struct FirstListing {
    /// Notes for the person.
    pub(crate) notes: Vec<String>,
    /// Servers that the session goes without, as the notes say.
    pub(crate) without: BTreeSet<String>,
    /// Servers that have not answered yet; their answer is stored for the next session.
    _asking: Option<QueryThread>,
}

/// A thread that lists servers; dropping it ends the thread and the servers.
struct QueryThread {
    end: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for QueryThread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _reported = thread.join();
        }
    }
}

/// Lists new servers all at once, and asks the person to approve them. The first request waits for
/// a limited time. A server that starts slowly, for example because it is downloaded first, goes on
/// beside the session, and is not waited for again.
pub(crate) fn first_look(
    config: &Config,
    env: &ProcessEnv,
    cwd: &Path,
    mode: ApproverMode,
) -> FirstListing {
    let mut looked = ask_servers(unknown(config, env), cwd, env);
    let shown = pending_servers(config, env).into_iter();
    looked.notes.extend(shown.filter_map(|asked| asked.shown(mode)));
    looked
}

/// A server, and its stored record.
struct PendingServer {
    server: ServerConfig,
    record: ServerRecord,
    approvals: ApprovalStore,
    of_editor: bool,
}

impl PendingServer {
    /// Returns whether the server was too slow when it was last started the same way.
    fn was_slow(&self) -> bool {
        self.record.unanswered.as_ref() == Some(&self.server.start().digest)
    }
}

/// Returns the servers whose tools the top agent has.
fn pending_servers(config: &Config, env: &ProcessEnv) -> Vec<PendingServer> {
    let wanted = config.mcp_servers.iter().filter(|(name, _)| is_wanted(config, name));
    // What is wrong with one is told where its tools are put together.
    let asked = wanted.filter_map(|(name, entry)| {
        let server = server(name, entry, env).ok()?;
        let approvals = approval_store_of(entry, env).ok()?;
        let record = approvals.read(name, &server.start()).ok()?;
        Some(PendingServer { server, record, approvals, of_editor: entry.of_editor })
    });
    asked.collect()
}

/// Returns those whose listing is missing or out of date.
fn unknown(config: &Config, env: &ProcessEnv) -> Vec<PendingServer> {
    let mut unknown = Vec::new();
    for mut asked in pending_servers(config, env) {
        let start = asked.server.start();
        if asked.record.target_changed(&start) {
            // The review of an editor's server has nothing else to tell it by.
            asked.record.start = start.clone();
            let PendingServer { server, record, approvals, of_editor } = &asked;
            let _kept =
                if *of_editor { approvals.write(&server.name, &start, record) } else { Ok(()) };
        } else if asked.record.is_stale(&start) {
            unknown.push(asked);
        }
    }
    unknown
}

impl PendingServer {
    /// Asks the person to approve a new server. Returns a note, which also names the tools that are
    /// not offered without approval.
    fn shown(mut self, mode: ApproverMode) -> Option<String> {
        let name = &self.server.name;
        let start = self.server.start();
        let listed = self.record.listed.as_ref()?;
        if self.record.approved.is_some() || self.record.is_stale(&start) {
            return None;
        }
        let text = show::whole(name, &start, listed, &[]);
        let tools = listed.tools.len();
        let allowed = match mode {
            ApproverMode::Auto => {
                tell(&text);
                true
            }
            ApproverMode::Ask => {
                let text = format!(
                    "\nThe configuration names this server; nobody approved it yet.\n{text}"
                );
                confirmed(&text, "Approve all of this?")
            }
            ApproverMode::Deny => false,
        };
        if !allowed {
            return None;
        }
        self.record.approve(start.clone());
        if let Err(error) = self.approvals.write(name, &start, &self.record) {
            return Some(CliError::failed(error).chain());
        }
        Some(format!(
            "mcp {name}: seen for the first time: {} approved as shown; what changes later waits \
             for you. Read all of it again with: {} {name}",
            tools_are(tools),
            format_command("mcp review")
        ))
    }
}

/// Lists the servers, and waits for the quick ones.
fn ask_servers(unknown: Vec<PendingServer>, cwd: &Path, env: &ProcessEnv) -> FirstListing {
    if unknown.is_empty() {
        return FirstListing::default();
    }
    let slow = unknown.iter().filter(|asked| asked.was_slow());
    let was_slow: BTreeSet<String> = slow.map(|asked| asked.server.name.clone()).collect();
    let mut waiting: BTreeMap<String, bool> =
        unknown.iter().map(|asked| (asked.server.name.clone(), asked.of_editor)).collect();
    let processes = Arc::new(Processes::with(setup(env.open_files)));
    let (said, hears) = mpsc::channel();
    let looks: Vec<_> = unknown
        .into_iter()
        .map(|asked| send_listing(asked, cwd.to_owned(), Arc::clone(&processes), said.clone()))
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
    let mut without = BTreeSet::new();
    while waiting.keys().any(|name| !was_slow.contains(name)) {
        let left = until.saturating_duration_since(Instant::now());
        let Ok((name, heard)) = hears.recv_timeout(left) else { break };
        waiting.remove(&name);
        match heard {
            Ok(note) => notes.extend(note),
            Err(why) => {
                notes.push(why);
                without.insert(name);
            }
        }
    }
    for (name, of_editor) in &waiting {
        let mut note = unheard(name, was_slow.contains(name));
        // What an editor names is started by the editor's word alone.
        if !of_editor {
            note.push_str(&format!(". To wait for it: {} {name}", format_command("mcp test")));
        }
        notes.push(note);
        without.insert(name.clone());
    }
    let asking = QueryThread { end: Some(end), thread: thread.ok() };
    FirstListing { notes, without, _asking: (!waiting.is_empty()).then_some(asking) }
}

/// Lists a server, and sends the note on it or the reason why it is left out.
async fn send_listing(
    asked: PendingServer,
    cwd: PathBuf,
    processes: Arc<Processes>,
    said: mpsc::Sender<(String, Result<Option<String>, String>)>,
) {
    let name = asked.server.name.clone();
    let heard = ask_first(asked, cwd, processes).await;
    let _nobody_waits_any_more = said.send((name, heard));
}

/// Returns the note on a server that has not answered yet.
fn unheard(name: &str, was_slow: bool) -> String {
    let why = if was_slow {
        "the session does not wait for it, because it was too slow to list its tools the last time"
            .to_owned()
    } else {
        format!("it did not list its tools within {} s", FIRST_LOOK.as_secs())
    };
    format!(
        "mcp {name}: {why}. This session does without its tools, and gets the list for the next \
         session"
    )
}

/// Lists a server and stores the result. Returns a note, or why the session goes without the
/// server.
async fn ask_first(
    asked: PendingServer,
    cwd: PathBuf,
    processes: Arc<Processes>,
) -> Result<Option<String>, String> {
    let PendingServer { server, mut record, approvals, of_editor } = asked;
    let name = server.name.clone();
    let start = server.start();
    // A run that ends before the answer leaves that behind, and the next one does not wait.
    record.unanswered = Some(start.digest.clone());
    if let Err(error) = approvals.write(&name, &start, &record) {
        return Err(CliError::failed(error).chain());
    }
    let listed = match look(server, cwd, move || processes.shared()).await {
        Ok(listed) => listed,
        Err(error) => {
            record.unanswered = None;
            let _kept = approvals.write(&name, &start, &record);
            return Err(without(&name, of_editor, error));
        }
    };
    let taken = of_editor && record.approved.is_none();
    let tools = listed.tools.len();
    if of_editor {
        record.record_and_approve(&start, listed);
    } else {
        record.record_listing(&start, listed);
    }
    if let Err(error) = approvals.write(&name, &start, &record) {
        return Err(CliError::failed(error).chain());
    }
    Ok(taken.then(|| {
        format!(
            "mcp {name}: seen for the first time: {} taken as found; what changes later waits for \
             you. Read all of it with: {} {name}",
            tools_are(tools),
            format_command("mcp review")
        )
    }))
}

/// Returns `its 1 tool is` or `its 2 tools are`.
fn tools_are(n: usize) -> String {
    format!("its {} {}", count(n, "tool"), if n == 1 { "is" } else { "are" })
}

/// Returns the note on a server that a session goes without.
fn without(name: &str, of_editor: bool, error: McpError) -> String {
    let why = CliError::failed(error).chain();
    let next = match of_editor {
        true => "what the editor says of it is to be mended there".to_owned(),
        false => format!("try it with: {} {name}", format_command("mcp test")),
    };
    format!("{why}. This session does without its tools; {next}")
}
