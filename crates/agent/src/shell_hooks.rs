//! Shell commands as hooks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use deputize_core::hook::{Hook, HookAnswer, HookDecision, HookInput, HookPoint};
use deputize_core::{BoxFuture, Cancel, describe_error};
use deputize_process::{
    Command, DRAIN_LIMIT, Exit, Owner, Service, SpawnError, SupervisorError, base_env, drop_hooks,
};
use deputize_runtime::SessionConfig;
use deputize_tools::Processes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::Sender;

use crate::extension::{Extension, ExtensionContext};

mod document;

use document::document;

/// The exit code by which a hook blocks.
const BLOCKS: i32 = 2;
/// Bytes of standard error that are kept for the reason; the rest is read and counted.
const REASON_BYTES: usize = 16 * 1024;
/// A text has one character in so many at most that is none, as in another encoding than UTF-8.
const STRANGE_SHARE: usize = 2;
/// Bytes read at once.
const CHUNK: usize = 16 * 1024;

/// A shell command that runs at a point of what agents do. It gets one JSON object on its standard
/// input. Exit code 2 blocks, with standard error as the reason; any other failure blocks nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCommand {
    /// When it runs.
    pub point: HookPoint,
    /// The command, for `/bin/sh -c` in the directory of the agent.
    pub command: String,
}

/// Makes hooks of shell commands, in their order. They share one owner among `processes`, and get
/// the harmless part of the environment.
pub fn shell_hooks(
    commands: impl IntoIterator<Item = HookCommand>,
    processes: Arc<Processes>,
    environment: &BTreeMap<OsString, OsString>,
) -> Vec<Arc<dyn Hook>> {
    let mut env = base_env(environment);
    drop_hooks(&mut env);
    let place = Arc::new(HookDirectory { processes, env, owner: Mutex::default() });
    let hook = |hook: HookCommand| -> Arc<dyn Hook> {
        Arc::new(ShellHook { hook, place: Arc::clone(&place) })
    };
    commands.into_iter().map(hook).collect()
}

impl Extension for HookCommand {
    fn change_session(&self, cx: &ExtensionContext<'_>, config: &mut SessionConfig) {
        let hooks = shell_hooks([self.clone()], Arc::clone(cx.processes), cx.env);
        config.hooks.hooks.extend(hooks);
    }
}

/// Where hooks run: who owns their processes, and what they are given of the environment.
struct HookDirectory {
    processes: Arc<Processes>,
    env: BTreeMap<OsString, OsString>,
    owner: Mutex<Option<Arc<Owner>>>,
}

impl HookDirectory {
    fn owner(&self) -> Result<Arc<Owner>, SupervisorError> {
        let mut held = self.owner.lock();
        if let Some(owner) = &*held {
            return Ok(Arc::clone(owner));
        }
        let owner = Arc::new(self.processes.shared()?.owner());
        *held = Some(Arc::clone(&owner));
        Ok(owner)
    }
}

struct ShellHook {
    hook: HookCommand,
    place: Arc<HookDirectory>,
}

#[derive(Debug, thiserror::Error)]
enum HookError {
    #[error("it cannot be started")]
    Supervisor(#[from] SupervisorError),
    #[error("it cannot be started")]
    Spawn(#[from] SpawnError),
}

impl Hook for ShellHook {
    fn name(&self) -> &str {
        &self.hook.command
    }

    fn wants(&self, point: HookPoint) -> bool {
        point == self.hook.point
    }

    fn run<'a>(
        &'a self,
        input: &'a HookInput<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, HookAnswer> {
        Box::pin(async move {
            match self.start(input).await {
                Ok(service) => converse(service, &document(input), cancel).await,
                Err(error) => HookAnswer::error(describe_error(&error)),
            }
        })
    }
}

impl ShellHook {
    async fn start(&self, input: &HookInput<'_>) -> Result<Service, HookError> {
        let mut command = Command::new("/bin/sh", &input.agent.cwd);
        command.args = vec!["-c".into(), self.hook.command.clone().into()];
        command.env.clone_from(&self.place.env);
        Ok(self.place.owner()?.open(&command).await?)
    }
}

/// Feeds a hook, reads what it says, and waits for its end. Nothing of it is left afterwards.
async fn converse(service: Service, document: &[u8], cancel: &Cancel) -> HookAnswer {
    let (stdin, stdout, stderr, mut life) = service.into_parts();
    let mut said = HookOutput::keeping(0);
    let mut reason = HookOutput::keeping(REASON_BYTES);
    let mut heard = Box::pin(async {
        tokio::join!(feed(stdin, document), said.read_all(stdout), reason.read_all(stderr));
    });
    let exit = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        // All that it has to say is heard first.
        exit = async {
            let mut all_heard = false;
            let exit = loop {
                tokio::select! {
                    biased;
                    () = &mut heard, if !all_heard => all_heard = true,
                    exit = life.wait_for_exit() => break exit,
                }
            };
            if !all_heard {
                // What it left in the background may hold its pipes; that ends below.
                let _cut = tokio::time::timeout(DRAIN_LIMIT, &mut heard).await;
            }
            exit
        } => Some(exit),
    };
    drop(heard);
    let ended = life.end().await;
    let mut answer =
        exit.map_or_else(|| HookAnswer::error("told to end"), |exit| judge(exit, &reason));
    if !ended.is_complete() {
        answer.reason.push_str(" (some of its processes could not be ended)");
    }
    HookAnswer { output_bytes: said.bytes + reason.bytes, ..answer }
}

fn judge(exit: Exit, reason: &HookOutput) -> HookAnswer {
    let said = reason.text();
    let decision = match exit {
        Exit::Code(0) => return HookAnswer::pass(),
        Exit::Code(BLOCKS) => HookDecision::Block,
        _ => HookDecision::Error,
    };
    let reason = match (decision, said.as_str()) {
        (HookDecision::Error, "") => exit.to_string(),
        (HookDecision::Error, said) => format!("{exit}: {said}"),
        (HookDecision::Pass | HookDecision::Block, _) => said,
    };
    HookAnswer { decision, reason, output_bytes: 0 }
}

/// Gives a hook its document. One that does not read it is not wrong.
async fn feed(stdin: Option<Sender>, document: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _unread: io::Result<()> = stdin.write_all(document).await;
    }
}

/// Output from a pipe.
struct HookOutput {
    kept: Vec<u8>,
    keep: usize,
    bytes: u64,
}

impl HookOutput {
    fn keeping(keep: usize) -> Self {
        Self { kept: Vec::new(), keep, bytes: 0 }
    }

    /// Returns the text, or the length of output that is not text.
    fn text(&self) -> String {
        let said = String::from_utf8_lossy(&self.kept);
        let strange = |c: &char| *c == char::REPLACEMENT_CHARACTER || c.is_ascii_control();
        let strange = said.trim().chars().filter(strange).count();
        if said.contains('\0') || strange * STRANGE_SHARE > said.chars().count() {
            return format!("[{} bytes that are no text]", self.bytes);
        }
        match self.bytes - self.kept.len() as u64 {
            0 => said.trim().to_owned(),
            cut => format!("{} [{cut} more bytes left out]", said.trim()),
        }
    }

    async fn read_all(&mut self, mut pipe: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
            self.bytes += read as u64;
            let room = self.keep - self.kept.len();
            self.kept.extend(chunk.iter().take(read.min(room)));
        }
    }
}

#[cfg(test)]
mod tests;
