//! The host process, which loads one plugin and makes its calls for the program that started it.

use deputize_core::describe_error;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use deputize_plugin::{CallContext, Plugin};
use parking_lot::Mutex;

use crate::boundary::MAX_NOTES;
use crate::error::{HostError, PluginError};
use crate::file::PluginFile;
use crate::load::load;
use crate::memory::limit_memory;
use crate::wire::{HostMessage, HostRequest, read_blocking, write};

/// Maximum number of concurrent calls.
const MAX_CALLS: usize = 64;

/// Runs a host process: reads requests from standard input, answers on standard output, and returns
/// when the input ends. Call it before anything else in `main`.
///
/// The plugin's own output goes to standard error, and its standard input is empty.
#[must_use]
pub fn host_main() -> ExitCode {
    let served = streams().and_then(|(input, output)| serve(input, output));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let said = format!("this is the process of a plugin, for another program: {error}\n");
            let _unread = io::Write::write_all(&mut io::stderr(), said.as_bytes());
            ExitCode::from(2)
        }
    }
}

/// Moves the two streams to where a plugin cannot use them.
fn streams() -> io::Result<(File, File)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input, output))
}

struct ServeInner {
    output: Mutex<File>,
    calls: Mutex<BTreeMap<u64, Arc<RunningCall>>>,
}

/// A call that runs.
struct RunningCall {
    id: u64,
    about: String,
    cancelled: AtomicBool,
    notes_sent: AtomicU32,
    shared: Arc<ServeInner>,
}

impl CallContext for RunningCall {
    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn note(&self, text: &str) {
        if self.notes_sent.fetch_add(1, Ordering::Relaxed) < MAX_NOTES {
            self.shared.send(&HostMessage::Note { id: self.id }, text);
        }
    }

    fn about(&self) -> &str {
        &self.about
    }
}

impl ServeInner {
    /// Sends a message. A program that does not read it has closed the input too.
    fn send(&self, head: &HostMessage, text: &str) {
        let mut output = self.output.lock();
        let _unheard = write(&mut *output, head, text);
    }

    fn answer(&self, id: u64, answer: Result<String, PluginError>) {
        match answer {
            Ok(text) => self.send(&HostMessage::Answer { id }, &text),
            Err(error) => self.send(&HostMessage::Failed { id }, &describe_error(&error)),
        }
    }

    fn calls(&self) -> parking_lot::MutexGuard<'_, BTreeMap<u64, Arc<RunningCall>>> {
        self.calls.lock()
    }
}

fn serve(mut input: File, output: File) -> io::Result<()> {
    let shared = Arc::new(ServeInner { output: Mutex::new(output), calls: Mutex::default() });
    let mut plugin = None;
    while let Some((ask, text)) = read_blocking::<HostRequest>(&mut input)? {
        match (ask, plugin) {
            (HostRequest::Load { id, sha256, memory_mb }, _) => {
                match load_plugin(&text, &sha256, memory_mb) {
                    Ok(loaded) => {
                        plugin = Some(loaded);
                        shared.answer(id, Ok(String::new()));
                    }
                    Err(error) => shared.answer(id, Err(error)),
                }
            }
            (HostRequest::Cancel { id }, _) => {
                if let Some(call) = shared.calls().get(&id) {
                    call.cancelled.store(true, Ordering::Relaxed);
                }
            }
            (HostRequest::Describe { id } | HostRequest::Call { id, .. }, None) => {
                shared.answer(id, Err(PluginError::Message("no plugin is loaded".to_owned())));
            }
            (HostRequest::Describe { id }, Some(plugin)) => {
                let shared = Arc::clone(&shared);
                on_thread(&Arc::clone(&shared), id, move || {
                    shared.answer(id, plugin.describe().map_err(PluginError::from));
                });
            }
            (HostRequest::Call { id, tool, about }, Some(plugin)) => {
                let request = CallRequest { id, tool, arguments: text, about };
                start_call(&shared, plugin, request);
            }
        }
    }
    Ok(())
}

fn load_plugin(path: &str, sha256: &str, memory_mb: u32) -> Result<Plugin, PluginError> {
    limit_memory(memory_mb).map_err(HostError::Memory)?;
    Ok(load(&PluginFile::read(Path::new(path))?.verify(sha256)?)?)
}

/// A call that the program asks for.
struct CallRequest {
    id: u64,
    tool: String,
    arguments: String,
    about: String,
}

fn start_call(shared: &Arc<ServeInner>, plugin: Plugin, request: CallRequest) {
    let CallRequest { id, tool, arguments, about } = request;
    let running = Arc::new(RunningCall {
        id,
        about,
        cancelled: AtomicBool::new(false),
        notes_sent: AtomicU32::new(0),
        shared: Arc::clone(shared),
    });
    {
        let mut calls = shared.calls();
        if calls.len() >= MAX_CALLS {
            drop(calls);
            let why = format!("{MAX_CALLS} calls of this plugin run already");
            shared.answer(id, Err(PluginError::Message(why)));
            return;
        }
        calls.insert(id, Arc::clone(&running));
    }
    on_thread(shared, id, move || {
        let answer = plugin.call(&tool, &arguments, &*running);
        running.shared.calls().remove(&id);
        running.shared.answer(id, answer.map_err(PluginError::from));
    });
}

/// Runs work on a thread that is not joined, because a plugin may never return.
fn on_thread(shared: &ServeInner, id: u64, work: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().name("call".to_owned()).spawn(work);
    if let Err(error) = started {
        shared.calls().remove(&id);
        shared.answer(id, Err(HostError::Thread(error).into()));
    }
}
