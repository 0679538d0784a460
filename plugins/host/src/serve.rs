//! The host process: loads one plugin and makes its calls for the program that started it.

use deputize_core::describe_error;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deputize_plugin::{CallContext, Plugin};

use crate::boundary::MAX_NOTES;
use crate::error::{HostError, PluginError};
use crate::file::PluginFile;
use crate::load::load;
use crate::memory::limit_memory;
use crate::wire::{Ask, Tell, read_blocking, write};

/// Calls that run side by side at most.
const MAX_CALLS: usize = 64;

/// The whole of a host process: reads what it is asked on its standard input, answers on its
/// standard output, and ends when its input does. Call it before anything else.
///
/// What the plugin itself prints goes to standard error, and it reads nothing.
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

/// Takes the two streams from where a plugin would find them.
fn streams() -> io::Result<(File, File)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input, output))
}

struct ServeShared {
    output: Mutex<File>,
    calls: Mutex<BTreeMap<u64, Arc<RunningCall>>>,
}

/// A call that runs.
struct RunningCall {
    id: u64,
    about: String,
    cancelled: AtomicBool,
    told: AtomicU32,
    shared: Arc<ServeShared>,
}

impl CallContext for RunningCall {
    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn note(&self, text: &str) {
        if self.told.fetch_add(1, Ordering::Relaxed) < MAX_NOTES {
            self.shared.tell(&Tell::Note { id: self.id }, text);
        }
    }

    fn about(&self) -> &str {
        &self.about
    }
}

impl ServeShared {
    /// A program that does not listen any more has closed the input too.
    fn tell(&self, head: &Tell, text: &str) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let _unheard = write(&mut *output, head, text);
    }

    fn answer(&self, id: u64, answer: Result<String, PluginError>) {
        match answer {
            Ok(text) => self.tell(&Tell::Answer { id }, &text),
            Err(error) => self.tell(&Tell::Failed { id }, &describe_error(&error)),
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<RunningCall>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(mut input: File, output: File) -> io::Result<()> {
    let shared = Arc::new(ServeShared { output: Mutex::new(output), calls: Mutex::default() });
    let mut plugin = None;
    while let Some((ask, text)) = read_blocking::<Ask>(&mut input)? {
        match (ask, plugin) {
            (Ask::Load { id, sha256, memory_mb }, _) => match loaded(&text, &sha256, memory_mb) {
                Ok(loaded) => {
                    plugin = Some(loaded);
                    shared.answer(id, Ok(String::new()));
                }
                Err(error) => shared.answer(id, Err(error)),
            },
            (Ask::Cancel { id }, _) => {
                if let Some(call) = shared.calls().get(&id) {
                    call.cancelled.store(true, Ordering::Relaxed);
                }
            }
            (Ask::Describe { id } | Ask::Call { id, .. }, None) => {
                shared.answer(id, Err(PluginError::Told("no plugin is loaded".to_owned())));
            }
            (Ask::Describe { id }, Some(plugin)) => {
                let shared = Arc::clone(&shared);
                on_thread(&Arc::clone(&shared), id, move || {
                    shared.answer(id, plugin.describe().map_err(PluginError::from));
                });
            }
            (Ask::Call { id, tool, about }, Some(plugin)) => {
                let request = CallRequest { id, tool, arguments: text, about };
                call(&shared, plugin, request);
            }
        }
    }
    Ok(())
}

fn loaded(path: &str, sha256: &str, memory_mb: u32) -> Result<Plugin, PluginError> {
    limit_memory(memory_mb).map_err(HostError::Memory)?;
    Ok(load(&PluginFile::read(Path::new(path))?.pinned(sha256)?)?)
}

/// A call that the program asks for.
struct CallRequest {
    id: u64,
    tool: String,
    arguments: String,
    about: String,
}

fn call(shared: &Arc<ServeShared>, plugin: Plugin, request: CallRequest) {
    let CallRequest { id, tool, arguments, about } = request;
    let running = Arc::new(RunningCall {
        id,
        about,
        cancelled: AtomicBool::new(false),
        told: AtomicU32::new(0),
        shared: Arc::clone(shared),
    });
    {
        let mut calls = shared.calls();
        if calls.len() >= MAX_CALLS {
            drop(calls);
            let why = format!("{MAX_CALLS} calls of this plugin run already");
            shared.answer(id, Err(PluginError::Told(why)));
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

/// Runs something on a thread that nobody joins: a plugin may keep it for good.
fn on_thread(shared: &ServeShared, id: u64, work: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().name("call".to_owned()).spawn(work);
    if let Err(error) = started {
        shared.calls().remove(&id);
        shared.answer(id, Err(HostError::Thread(error).into()));
    }
}
