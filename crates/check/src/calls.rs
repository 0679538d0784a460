//! Runs the calls of a check.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{
    Cancel, CancelReason, Effects, ResourceMap, Tool, ToolCallResult, ToolCx, ToolEffect,
    ToolError, ToolOutput, describe_error,
};
use futures_util::FutureExt as _;
use futures_util::future::join;
use serde_json::Value;
use tokio::time::timeout;

use crate::declared::Findings;
use crate::tool_harness::ToolHarness;
use crate::violation::CallRule;

/// The result of one call.
enum CallEnd {
    Settled(Box<ToolCallResult>),
    Panicked,
    /// It did not settle in time.
    Late,
}

pub(crate) struct Calls<'t> {
    tool: &'t Arc<dyn Tool>,
    dir: &'t Path,
    bench: ToolHarness,
    limits: CallLimits,
    made: usize,
}

/// Time limits of the calls of a check.
#[derive(Clone, Copy)]
pub(crate) struct CallLimits {
    /// That of a call.
    pub(crate) call: Duration,
    /// That of a cancelled call.
    pub(crate) grace: Duration,
}

impl<'t> Calls<'t> {
    /// Creates the calls of a tool in a directory, with session settings, and with the network or
    /// without it.
    pub(crate) fn new(
        tool: &'t Arc<dyn Tool>,
        dir: &'t Path,
        settings: ResourceMap,
        limits: CallLimits,
        network: bool,
    ) -> Self {
        let bench = ToolHarness::of_one(dir, tool, settings, network);
        Self { tool, dir, bench, limits, made: 0 }
    }

    pub(crate) fn made(&self) -> usize {
        self.made
    }

    /// Tries a call in every way that the spec allows.
    pub(crate) async fn try_with(&mut self, arguments: &Value, found: &mut Findings) {
        let spec = self.tool.spec();
        let before = files(self.dir);
        let alone = self.one(arguments, &Cancel::new(), self.limits.call).await;
        if let CallEnd::Settled(result) = &alone
            && let Err(ToolError::Refused(text)) = &**result
            && let Some(file) = missing(arguments, text.as_str(), self.dir)
        {
            found
                .broken(CallRule::Files, format!("{arguments} needs `{file}`, which is not there"));
            return;
        }
        if !works(&alone, arguments, self.limits.call, found) {
            return;
        }
        if spec.repeatable {
            let again = self.one(arguments, &Cancel::new(), self.limits.call).await;
            if !is_ok(&again) {
                found.broken(CallRule::Repeats, format!("{arguments} works once and not again"));
            }
        }
        if spec.parallel {
            self.made += 2;
            let cancel = Cancel::new();
            let call = || one(self.tool, &self.bench, arguments, &cancel, self.limits.call);
            let (first, second) = join(call(), call()).await;
            if !(is_ok(&first) && is_ok(&second)) {
                let violation = format!("{arguments} works alone and not beside another such call");
                found.broken(CallRule::Repeats, violation);
            }
        }
        self.try_cancelled(arguments, found).await;
        if spec.effects == Effects::ReadOnly
            && let Some(changed) = difference(&before, &files(self.dir))
        {
            let path = changed.display();
            found.broken(
                CallRule::OnlyLooks,
                format!("{arguments} changed `{path}`; give the tool its true effects"),
            );
        }
    }

    /// Cancels a call before it begins, and right after.
    async fn try_cancelled(&mut self, arguments: &Value, found: &mut Findings) {
        let cancel = Cancel::new();
        cancel.cancel(CancelReason::Interrupted);
        let before = self.one(arguments, &cancel, self.limits.grace).await;
        self.check_settled(&before, arguments, "was cancelled before it began", found);
        let cancel = Cancel::new();
        let call = self.one(arguments, &cancel, self.limits.grace);
        let signal = async {
            // The call is polled first, so it has begun.
            cancel.cancel(CancelReason::Interrupted);
        };
        let (after, ()) = join(call, signal).await;
        self.check_settled(&after, arguments, "was cancelled while it ran", found);
    }

    fn check_settled(&self, end: &CallEnd, arguments: &Value, when: &str, found: &mut Findings) {
        match end {
            CallEnd::Settled(_) => {}
            CallEnd::Panicked => {
                found.broken(CallRule::NoPanic, format!("{arguments}, which {when}, panicked"))
            }
            CallEnd::Late => {
                let grace = self.limits.grace;
                let advice = "watch `cx.cancel` and settle with `ToolError::Cancelled`";
                found.broken(
                    CallRule::Cancels,
                    format!("{arguments}, which {when}, did not end within {grace:?}; {advice}"),
                );
            }
        }
    }

    async fn one(&mut self, arguments: &Value, cancel: &Cancel, limit: Duration) -> CallEnd {
        self.made += 1;
        one(self.tool, &self.bench, arguments, cancel, limit).await
    }
}

async fn one(
    tool: &Arc<dyn Tool>,
    bench: &ToolHarness,
    arguments: &Value,
    cancel: &Cancel,
    limit: Duration,
) -> CallEnd {
    let cx = ToolCx { cancel: cancel.child(), ..bench.cx() };
    let call = AssertUnwindSafe(async { tool.call(arguments.clone(), &cx).await }).catch_unwind();
    match timeout(limit, call).await {
        Ok(Ok(result)) => CallEnd::Settled(Box::new(result)),
        Ok(Err(_panic)) => CallEnd::Panicked,
        Err(_late) => CallEnd::Late,
    }
}

fn is_ok(end: &CallEnd) -> bool {
    matches!(end, CallEnd::Settled(result) if result.is_ok())
}

/// Returns whether a call worked as the example claims; records a violation if not.
fn works(end: &CallEnd, arguments: &Value, limit: Duration, found: &mut Findings) -> bool {
    match end {
        CallEnd::Panicked => found.broken(CallRule::NoPanic, format!("{arguments} panicked")),
        CallEnd::Late => {
            found.broken(CallRule::Ends, format!("{arguments} did not end within {limit:?}"));
        }
        CallEnd::Settled(result) => match &**result {
            Ok(output) => {
                facts(output, found);
                return true;
            }
            Err(error) => failed(error, arguments, found),
        },
    }
    false
}

/// Records that an example failed.
fn failed(error: &ToolError, arguments: &Value, found: &mut Findings) {
    if let ToolError::Refused(text) | ToolError::Partly { text, .. } = error
        && text.as_str().trim().is_empty()
    {
        found.broken(CallRule::Refusal, format!("{arguments} is refused without a word"));
    }
    let why = describe_error(error);
    // A missing file is refused, or is an error of the system.
    let of_machine = matches!(error, ToolError::Failed(_)) && !why.contains("o such file");
    let advice = match of_machine {
        true => "it failed by itself and refused nothing: look at what its code does in this call",
        false => "an example has to work in an empty directory; else give the check one",
    };
    found.broken(CallRule::Works, format!("{arguments} does not work: {why}; {advice}"));
}

/// Returns a file that a call names, that its refusal mentions, and that does not exist.
fn missing<'a>(arguments: &'a Value, refused: &str, dir: &Path) -> Option<&'a str> {
    let texts = arguments.as_object()?.values().filter_map(Value::as_str);
    let is_path = |text: &&str| text.contains(['.', '/']) && !text.contains(char::is_whitespace);
    let mut paths = texts.filter(is_path).filter(|path| refused.contains(*path));
    paths.find(|path| dir.join(path).symlink_metadata().is_err())
}

fn facts(output: &ToolOutput, found: &mut Findings) {
    for fact in &output.facts {
        if let ToolEffect::FileRead { path, .. }
        | ToolEffect::FileWritten { path, .. }
        | ToolEffect::FileRemoved { path } = fact
            && !path.is_absolute()
        {
            let path = path.display();
            found.broken(
                CallRule::Facts,
                format!("it tells of `{path}`, which is no absolute path"),
            );
        }
    }
}

/// Returns the files below a directory and their content, without those of the host.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut folders = vec![dir.to_owned()];
    let mut files = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.file_name().is_some_and(|name| name == ".spill") {
                continue;
            }
            // Links are not followed.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path.clone());
            }
            let content = std::fs::read(&path).unwrap_or_default();
            files.insert(path, content);
        }
    }
    files
}

fn difference(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Option<PathBuf> {
    let changed = |(path, content): &(&PathBuf, &Vec<u8>)| before.get(*path) != Some(*content);
    let gone = before.keys().find(|path| !after.contains_key(*path));
    after.iter().find(changed).map(|(path, _)| path).or(gone).cloned()
}
