//! A running browser with its one page.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::ToolCx;
use deputize_core::sanitize::for_terminal_line;
use deputize_process::{Owner, ServiceProcess};
use deputize_tools::Processes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use crate::browser_error::{BrowserEnd, BrowserError};
use crate::chromium_program::{ChromiumProgram, write_preferences};
use crate::devtools::{DevTools, DevToolsError};
use crate::element_refs::ElementRefs;
use crate::page::Page;
use crate::page_watch::PageWatch;
use crate::profile_folder::ProfileFolder;
use crate::proxy::Proxy;

/// How long a browser may take to start.
const START: Duration = Duration::from_secs(30);
/// How long it may take to end by itself.
const END: Duration = Duration::from_secs(3);
/// Bytes of its messages that are kept, from the end.
const STDERR_BYTES: usize = 2000;

/// A browser. Ending its owner, which dropping it does too, ends its whole tree.
#[derive(Debug)]
pub(crate) struct Browser {
    page: Page,
    process: ServiceProcess,
    owner: Owner,
    proxy: Proxy,
    _messages: JoinSet<()>,
    _place: OwnedSemaphorePermit,
    // Removed last, when nothing writes there any more.
    profile: ProfileFolder,
}

/// The end of what a browser wrote beside its protocol.
type StderrTail = Arc<Mutex<Vec<u8>>>;

impl Browser {
    /// Starts a browser with an empty page.
    pub(crate) async fn start(
        program: &ChromiumProgram,
        place: OwnedSemaphorePermit,
        cx: &ToolCx,
    ) -> Result<Self, BrowserError> {
        let failed = |error: std::io::Error| BrowserError::Spawn(error.into());
        let settings = &cx.agent.session.settings;
        let web = settings.get_or_insert_with(deputize_web::Settings::default);
        let proxy = Proxy::start(web).await.map_err(failed)?;
        let temporary = program.temporary().to_owned();
        let create = move || {
            let profile = ProfileFolder::create(&temporary)?;
            write_preferences(profile.path()).map(|()| profile)
        };
        let profile = tokio::task::spawn_blocking(create).await;
        let profile =
            profile.map_err(|error| BrowserError::Spawn(error.into()))?.map_err(failed)?;
        let processes = settings.get_or_insert_with(Processes::default);
        let supervisor = processes.shared().map_err(|error| BrowserError::Spawn(error.into()))?;
        let owner = supervisor.owner();
        let command = program.command(profile.path(), proxy.port());
        let (input, output, errors, process) = owner.open(&command).await?.into_parts();
        let stderr = StderrTail::default();
        let mut messages = JoinSet::new();
        messages.spawn(keep_end(errors, Arc::clone(&stderr)));
        let watch = Arc::new(PageWatch::default());
        let input = input.ok_or(BrowserError::DevTools(DevToolsError::Closed))?;
        let devtools = DevTools::new(input, output, Arc::clone(&watch) as _);
        let opened = tokio::select! {
            () = cx.cancel.cancelled() => return Err(BrowserError::Cancelled),
            opened = tokio::time::timeout(START, open_page(&devtools, &watch)) => opened,
        };
        let session = match opened {
            Ok(Ok(session)) => session,
            Ok(Err(BrowserError::DevTools(DevToolsError::Closed))) => {
                while messages.join_next().await.is_some() {}
                return Err(BrowserEnd::AtStart { said: last_lines(&stderr.lock()) }.into());
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(BrowserEnd::NoAnswer(START.as_secs()).into()),
        };
        let page = Page { devtools, session, watch, refs: ElementRefs::default() };
        Ok(Self { page, process, owner, proxy, _messages: messages, _place: place, profile })
    }

    /// Its page.
    pub(crate) const fn page(&self) -> &Page {
        &self.page
    }

    /// Its page, and what its proxy refused.
    pub(crate) fn parts(&mut self) -> (&mut Page, &Proxy) {
        (&mut self.page, &self.proxy)
    }

    /// Ends it with everything that it started, and removes its profile.
    pub(crate) async fn end(mut self) {
        let none = json!({});
        let close = self.page.devtools.call::<Value>(None, "Browser.close", &none);
        let ends_itself = async {
            let _closed = close.await;
            self.process.wait_for_exit().await;
        };
        // One that does not is killed.
        let _late = tokio::time::timeout(END, ends_itself).await;
        let _what_could_not_be_ended_is_logged = self.owner.end().await;
        let Self { profile, .. } = self;
        let _lost = tokio::task::spawn_blocking(move || drop(profile)).await;
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Targets {
    target_infos: Vec<Target>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    target_id: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttachResult {
    session_id: String,
}

/// Takes the first page of a browser and turns on its events. Returns its session.
async fn open_page(devtools: &DevTools, watch: &PageWatch) -> Result<String, BrowserError> {
    let targets: Targets = devtools.call(None, "Target.getTargets", &json!({})).await?;
    let page = targets.target_infos.into_iter().find(|target| target.kind == "page");
    let target = match page {
        Some(page) => page.target_id,
        None => {
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct CreateResult {
                target_id: String,
            }
            let blank = json!({"url": "about:blank"});
            devtools.call::<CreateResult>(None, "Target.createTarget", &blank).await?.target_id
        }
    };
    let attach = json!({"targetId": target, "flatten": true});
    let attached: AttachResult = devtools.call(None, "Target.attachToTarget", &attach).await?;
    let session = attached.session_id;
    watch.follow(&target, &session);
    let of_browser = [
        ("Browser.setDownloadBehavior", json!({"behavior": "deny", "eventsEnabled": true})),
        ("Target.setDiscoverTargets", json!({"discover": true})),
    ];
    for (method, params) in of_browser {
        devtools.call::<Value>(None, method, &params).await?;
    }
    let of_page = [
        ("Page.enable", json!({})),
        ("Network.enable", json!({})),
        ("Inspector.enable", json!({})),
        ("DOM.enable", json!({})),
        ("Page.setInterceptFileChooserDialog", json!({"enabled": true})),
    ];
    for (method, params) in of_page {
        devtools.call::<Value>(Some(&session), method, &params).await?;
    }
    Ok(session)
}

/// Reads what a browser says, and keeps the end of it.
async fn keep_end(mut errors: Receiver, stderr: StderrTail) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut stderr = stderr.lock();
        stderr.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let excess = stderr.len().saturating_sub(STDERR_BYTES);
        stderr.drain(..excess);
    }
}

/// Returns the last lines that a browser wrote, on one line.
fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // The first of the last lines mostly names the cause.
    let from = lines.len().saturating_sub(3);
    match lines.get(from..).unwrap_or_default() {
        [] => "it said nothing".to_owned(),
        last => for_terminal_line(&last.join(" "), 600),
    }
}
