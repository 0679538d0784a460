//! What a page does, from the events of its browser.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::devtools::{CommandSender, DevToolsEvent, EventHandler};
use crate::page_event::PageEvent;

/// How long nothing may happen before a page counts as settled.
const QUIET: Duration = Duration::from_millis(250);
/// How long requests of a page that is loaded are waited for.
const REQUESTS: Duration = Duration::from_secs(3);
/// Events for the model that are kept.
const KEPT_EVENTS: usize = 20;
/// Requests and frames of a page that are watched at once.
const WATCHED: usize = 1000;
/// Requests that are waited for. Others, such as streams, may never end.
const AWAITED: [&str; 5] = ["Document", "Fetch", "Script", "Stylesheet", "XHR"];

/// Follows the one page of a browser.
#[derive(Debug, Default)]
pub(crate) struct PageWatch {
    state: Mutex<PageState>,
    changed: Notify,
}

/// A page as it is now.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageState {
    target: String,
    session: String,
    pub(crate) url: String,
    /// The address that could not be loaded, instead of which an error is shown.
    pub(crate) unreachable: Option<String>,
    /// The status of the answer that the page came with.
    pub(crate) status: Option<u16>,
    /// Counts the documents, so that elements of an earlier one are known.
    pub(crate) document: u64,
    /// Whether the page has ended by itself.
    pub(crate) is_gone: bool,
    loading: BTreeSet<String>,
    requests: BTreeSet<String>,
    events: Vec<PageEvent>,
}

/// How a wait for a page ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettleOutcome {
    /// Nothing more happens.
    Settled,
    /// It still loads.
    StillLoading,
}

impl PageWatch {
    /// Begins to follow a page.
    pub(crate) fn follow(&self, target: &str, session: &str) {
        let mut state = self.state.lock();
        target.clone_into(&mut state.target);
        session.clone_into(&mut state.session);
    }

    /// Forgets the status of the last document, because another one is opened.
    pub(crate) fn expect_document(&self) {
        self.state.lock().status = None;
    }

    /// The page as it is now.
    pub(crate) fn state(&self) -> PageState {
        self.state.lock().clone()
    }

    /// Takes out what happened since the last time.
    pub(crate) fn take_events(&self) -> Vec<PageEvent> {
        std::mem::take(&mut self.state.lock().events)
    }

    /// Waits until a page does nothing for a while, or the time is over.
    pub(crate) async fn settle(&self, limit: Duration) -> SettleOutcome {
        let end = Instant::now() + limit;
        let mut loaded_at: Option<Instant> = None;
        loop {
            let changed = self.changed.notified();
            let (is_loading, has_requests) = {
                let state = self.state.lock();
                if state.is_gone {
                    return SettleOutcome::Settled;
                }
                (!state.loading.is_empty(), !state.requests.is_empty())
            };
            let now = Instant::now();
            if is_loading {
                loaded_at = None;
            }
            let until = match (is_loading, has_requests) {
                (true, _) => end,
                (false, true) => end.min(*loaded_at.get_or_insert(now) + REQUESTS),
                (false, false) => end.min(now + QUIET),
            };
            if timeout_at(until, changed).await.is_err() {
                return if is_loading {
                    SettleOutcome::StillLoading
                } else {
                    SettleOutcome::Settled
                };
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut PageState)) {
        change(&mut self.state.lock());
        self.changed.notify_waiters();
    }
}

impl EventHandler for PageWatch {
    fn handle(&self, event: &DevToolsEvent<'_>, commands: &CommandSender) {
        self.change(|state| match event.session {
            None => state.apply_browser_event(event, commands),
            Some(session) if session == state.session => state.apply(event, commands),
            Some(_) => {}
        });
    }

    fn close(&self) {
        self.change(|state| state.is_gone = true);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameParams {
    frame_id: String,
}

#[derive(Deserialize)]
struct NavigationParams {
    frame: Frame,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    id: String,
    parent_id: Option<String>,
    url: String,
    unreachable_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithinDocumentParams {
    frame_id: String,
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestParams {
    request_id: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseParams {
    #[serde(rename = "type")]
    kind: String,
    frame_id: Option<String>,
    response: Response,
}

#[derive(Deserialize)]
struct Response {
    status: u16,
}

#[derive(Deserialize)]
struct Dialog {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

#[derive(Deserialize)]
struct UrlParams {
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetParams {
    target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetInfo {
    target_id: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionParams {
    session_id: String,
}

impl PageState {
    /// Whether a frame is that of the page itself: its id is that of the target.
    fn is_main(&self, frame: &str) -> bool {
        frame == self.target
    }

    fn note(&mut self, event: PageEvent) {
        if self.events.len() < KEPT_EVENTS {
            self.events.push(event);
        }
    }

    fn apply_browser_event(&mut self, event: &DevToolsEvent<'_>, commands: &CommandSender) {
        match event.method {
            "Target.targetCreated" => {
                let Some(TargetParams { target_info: created }) = event.params() else { return };
                if created.kind == "page" && created.target_id != self.target {
                    let close = json!({"targetId": created.target_id});
                    commands.send(None, "Target.closeTarget", &close);
                }
            }
            "Target.detachedFromTarget" => {
                if let Some(SessionParams { session_id }) = event.params()
                    && session_id == self.session
                {
                    self.is_gone = true;
                }
            }
            "Browser.downloadWillBegin" => {
                if let Some(UrlParams { url }) = event.params() {
                    self.note(PageEvent::Download(url));
                }
            }
            _ => {}
        }
    }

    fn apply(&mut self, event: &DevToolsEvent<'_>, commands: &CommandSender) {
        match event.method {
            "Page.frameNavigated" => self.navigated(event),
            "Page.navigatedWithinDocument" => {
                if let Some(WithinDocumentParams { frame_id, url }) = event.params()
                    && self.is_main(&frame_id)
                {
                    self.url = url;
                }
            }
            "Page.frameStartedLoading" => {
                if let Some(FrameParams { frame_id }) = event.params()
                    && self.loading.len() < WATCHED
                {
                    self.loading.insert(frame_id);
                }
            }
            "Page.frameStoppedLoading" | "Page.frameDetached" => {
                if let Some(FrameParams { frame_id }) = event.params() {
                    self.loading.remove(&frame_id);
                }
            }
            "Page.javascriptDialogOpening" => self.dismiss_dialog(event, commands),
            "Page.windowOpen" => {
                if let Some(UrlParams { url }) = event.params() {
                    self.note(PageEvent::Window(url));
                }
            }
            "Page.fileChooserOpened" => self.note(PageEvent::FileChooser),
            "Inspector.targetCrashed" => self.is_gone = true,
            method if method.starts_with("Network.") => self.apply_request(event),
            _ => {}
        }
    }

    fn navigated(&mut self, event: &DevToolsEvent<'_>) {
        let Some(NavigationParams { frame }) = event.params() else { return };
        if frame.parent_id.is_some() || !self.is_main(&frame.id) {
            return;
        }
        self.url = frame.url;
        self.unreachable = frame.unreachable_url;
        self.document += 1;
        self.requests.clear();
    }

    /// A dialog stops its page until it is answered: with no, or with leaving the page.
    fn dismiss_dialog(&mut self, event: &DevToolsEvent<'_>, commands: &CommandSender) {
        let Some(Dialog { kind, message }) = event.params() else { return };
        let accept = kind == "beforeunload";
        let answer = json!({"accept": accept});
        commands.send(event.session, "Page.handleJavaScriptDialog", &answer);
        if !accept {
            self.note(PageEvent::Dialog { kind, message });
        }
    }

    fn apply_request(&mut self, event: &DevToolsEvent<'_>) {
        match event.method {
            "Network.requestWillBeSent" => {
                let Some(RequestParams { request_id, kind }) = event.params() else { return };
                let is_awaited = kind.is_some_and(|kind| AWAITED.contains(&kind.as_str()));
                if is_awaited && self.requests.len() < WATCHED {
                    self.requests.insert(request_id);
                }
            }
            "Network.responseReceived" => {
                let Some(ResponseParams { kind, frame_id, response }) = event.params() else {
                    return;
                };
                if kind == "Document" && frame_id.is_some_and(|frame| self.is_main(&frame)) {
                    self.status = Some(response.status);
                }
            }
            "Network.loadingFinished" | "Network.loadingFailed" => {
                if let Some(RequestParams { request_id, .. }) = event.params() {
                    self.requests.remove(&request_id);
                }
            }
            _ => {}
        }
    }
}
