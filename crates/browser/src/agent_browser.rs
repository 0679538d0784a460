//! The browser of an agent: started by its first page, ended with it.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::source::Source;
use deputize_core::{BoxFuture, Resource, ToolCallResult, ToolCx, ToolError, ToolOutput};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use url::Url;

use crate::browser::Browser;
use crate::browser_error::{BrowserEnd, BrowserError};
use crate::chromium_program::ChromiumProgram;
use crate::page::Page;
use crate::page_event::PageEvent;
use crate::page_watch::{PageState, SettleOutcome};
use crate::refusals::Refusal;
use crate::settings::BrowserSettings;

/// Characters of an address.
const ADDRESS_CHARS: usize = 500;
/// Characters of an element in a question.
const ELEMENT_CHARS: usize = 500;
/// Reasons of the proxy in one result.
const SHOWN_REFUSALS: usize = 5;

/// What is to be done with a page.
#[derive(Debug)]
pub(crate) enum PageAction {
    /// Open an address.
    Open(Url),
    /// Nothing: it is only read.
    Read,
    /// Click the element with this number.
    Click(u32),
    /// Type a text into the element with this number.
    Type {
        element: u32,
        text: String,
        /// Whether Enter is pressed after it.
        submit: bool,
    },
}

/// An agent's browser.
#[derive(Debug, Default)]
pub(crate) struct AgentBrowser {
    running: Mutex<Option<Browser>>,
}

impl Resource for AgentBrowser {
    fn close<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(async {
            self.end().await;
        })
    }
}

/// An element of the page that is open, as a person is shown it.
#[derive(Debug)]
pub(crate) struct ShownElement {
    /// Its role, name and state, as the page said them last.
    pub(crate) shown: String,
    /// The address of its page.
    pub(crate) page: String,
}

/// The places of a session's browsers.
#[derive(Debug)]
struct BrowserPlaces(Arc<Semaphore>);

impl Resource for BrowserPlaces {}

/// A page after an action.
struct PageView {
    text: String,
    state: PageState,
    events: Vec<PageEvent>,
    refusals: Vec<Refusal>,
    settling: SettleOutcome,
}

impl AgentBrowser {
    /// Ends the browser. Returns whether there was one.
    pub(crate) async fn end(&self) -> bool {
        match self.running.lock().await.take() {
            Some(browser) => {
                browser.end().await;
                true
            }
            None => false,
        }
    }

    /// Returns the element of a number on the agent's page.
    pub(crate) async fn element(&self, number: u32) -> Result<ShownElement, BrowserError> {
        let running = self.running.lock().await;
        let page = running.as_ref().ok_or(BrowserError::NoPage)?.page();
        let element = page.element(number)?;
        Ok(ShownElement {
            shown: for_terminal_line(&element.shown, ELEMENT_CHARS),
            page: for_terminal_line(&page.watch.state().url, ADDRESS_CHARS),
        })
    }

    /// Does something with the agent's page, and returns the page from a byte of its text on.
    pub(crate) async fn act(
        &self,
        action: PageAction,
        offset: usize,
        cx: &ToolCx,
    ) -> ToolCallResult {
        let settings = BrowserSettings::of(&cx.agent.session.settings);
        let mut running = self.running.lock().await;
        let acted = Self::view(&mut running, action, &settings, cx).await;
        if acted.as_ref().is_err_and(BrowserError::ends_browser)
            && let Some(browser) = running.take()
        {
            browser.end().await;
        }
        match acted {
            Ok(view) => view.part(offset, settings.limits.page_bytes),
            Err(error) => Err(error.into_tool_error(&settings.setting_names)),
        }
    }

    async fn view(
        running: &mut Option<Browser>,
        action: PageAction,
        settings: &BrowserSettings,
        cx: &ToolCx,
    ) -> Result<PageView, BrowserError> {
        let browser = match (&mut *running, &action) {
            (Some(browser), _) => browser,
            (empty, PageAction::Open(_)) => {
                let program = ChromiumProgram::find(&cx.agent.session.settings);
                let program = program.map_err(BrowserError::Missing)?;
                let place = place(settings, cx)?;
                empty.insert(Browser::start(&program, place, cx).await?)
            }
            (None, _) => return Err(BrowserError::NoPage),
        };
        // Half of it for loading, and half for all that the browser is asked beside.
        let limit = settings.limits.timeout * 2;
        let (page, proxy) = browser.parts();
        let view = async {
            let settling = perform(page, &action, settings.limits.timeout).await;
            let events = page.watch.take_events();
            let refusals = proxy.refusals().take();
            let state = page.watch.state();
            let settling = settling.map_err(|error| explain(error, &state, &events, &refusals))?;
            if state.is_gone {
                return Err(BrowserEnd::Page.into());
            }
            check_loaded(&state, &refusals)?;
            let text = page.read().await?;
            Ok(PageView { text, state, events, refusals, settling })
        };
        tokio::select! {
            () = cx.cancel.cancelled() => Err(BrowserError::Cancelled),
            view = tokio::time::timeout(limit, view) => {
                view.unwrap_or(Err(BrowserEnd::NoAnswer(limit.as_secs()).into()))
            }
        }
    }
}

/// A place for one more browser in a session.
fn place(settings: &BrowserSettings, cx: &ToolCx) -> Result<OwnedSemaphorePermit, BrowserError> {
    let most = settings.limits.browsers;
    let make = || BrowserPlaces(Arc::new(Semaphore::new(most)));
    let places = cx.agent.session.settings.get_or_insert_with(make);
    Arc::clone(&places.0).try_acquire_owned().map_err(|_| BrowserError::TooMany(most))
}

async fn perform(
    page: &Page,
    action: &PageAction,
    timeout: Duration,
) -> Result<SettleOutcome, BrowserError> {
    match action {
        PageAction::Open(url) => page.open(url, timeout).await,
        PageAction::Read => Ok(page.watch.settle(timeout).await),
        PageAction::Click(element) => page.click(*element, timeout).await,
        PageAction::Type { element, text, submit } => {
            page.type_text(*element, text, *submit, timeout).await
        }
    }
}

/// Says why an address was not loaded, if the proxy or the browser itself refused it.
fn explain(
    error: BrowserError,
    state: &PageState,
    events: &[PageEvent],
    refusals: &[Refusal],
) -> BrowserError {
    let BrowserError::NotLoaded { url, problem } = error else { return error };
    // A redirect may have led elsewhere.
    let at = state.unreachable.as_deref().unwrap_or(&url);
    let refusal = refusals.iter().find(|refusal| refusal.is_about(at));
    let download = events.iter().find(|event| matches!(event, PageEvent::Download(_)));
    let problem = match (refusal, download) {
        (Some(refusal), _) => refusal.reason.clone(),
        (None, Some(_)) => "it is a download, which is refused".to_owned(),
        (None, None) => problem,
    };
    BrowserError::NotLoaded { url, problem }
}

/// Fails if the page is only the browser's or the proxy's word that there is none.
fn check_loaded(state: &PageState, refusals: &[Refusal]) -> Result<(), BrowserError> {
    let url = state.unreachable.as_deref().unwrap_or(&state.url);
    let refusal = refusals.iter().find(|refusal| refusal.is_about(url));
    let by_proxy = matches!(state.status, Some(403 | 502)).then_some(refusal).flatten();
    match (state.unreachable.is_some(), refusal, by_proxy) {
        (true, Some(refusal), _) | (_, _, Some(refusal)) => {
            Err(BrowserError::not_loaded(url, &refusal.reason))
        }
        (true, None, _) => Err(BrowserError::not_loaded(url, "the browser could not reach it")),
        (false, _, None) => check_scheme(url),
    }
}

/// Fails if a page is none of the web. The browser lets no page of the web lead there.
fn check_scheme(url: &str) -> Result<(), BrowserError> {
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme {
        "" | "http" | "https" | "about" | "blob" | "data" => Ok(()),
        _ => Err(BrowserError::not_loaded(url, "only pages of the web are shown")),
    }
}

impl PageView {
    /// Returns the page as a result, from a byte of its text on.
    fn part(self, offset: usize, most: usize) -> ToolCallResult {
        let text = self.text;
        if offset > 0 && offset >= text.len() {
            let all = text.len();
            return Err(ToolError::refused(format!(
                "the page has {all} bytes of text: begin before that"
            )));
        }
        let start = text.floor_char_boundary(offset);
        let end = end_of_part(&text, start, most);
        let mut content = String::new();
        for event in &self.events {
            content.push_str(&format!("({event})\n"));
        }
        // The rest of a line must not look like an element.
        if text.get(..start).is_some_and(|before| !before.is_empty() && !before.ends_with('\n')) {
            content.push('…');
        }
        content.push_str(text.get(start..end).unwrap_or_default());
        let mut notes =
            vec![format!("address: {}", for_terminal_line(&self.state.url, ADDRESS_CHARS))];
        if let Some(status @ 400..) = self.state.status {
            notes.push(format!("the server answered {status}"));
        }
        if self.settling == SettleOutcome::StillLoading {
            notes.push("the page is still loading".to_owned());
        }
        notes.extend(refusal_notes(&self.refusals));
        if start > 0 || end < text.len() {
            let all = text.len();
            let mut note = format!("bytes {start} to {end} of {all}");
            if end < all {
                note.push_str(&format!("; to read on, take a snapshot with offset {end}"));
            }
            notes.push(note);
        }
        let host =
            Url::parse(&self.state.url).ok().and_then(|url| url.host_str().map(str::to_owned));
        let source = Some(Source::web(host.unwrap_or_else(|| "page".to_owned())));
        Ok(ToolOutput { content, source, notes, ..ToolOutput::default() })
    }
}

/// The end of a part of at most so many bytes: of a line, if one ends in its second half.
fn end_of_part(text: &str, start: usize, most: usize) -> usize {
    let end = text.floor_char_boundary(start.saturating_add(most).max(start + 4));
    let part = text.get(start..end).unwrap_or_default();
    match part.rfind('\n') {
        Some(last) if end < text.len() && last >= part.len() / 2 => start + last + 1,
        _ => end,
    }
}

/// Says what the page was refused.
fn refusal_notes(refusals: &[Refusal]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for refusal in refusals.iter().filter(|refusal| !refusal.is_own) {
        let note = format!("refused to the page: {}", for_terminal_line(&refusal.reason, 300));
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    if notes.len() > SHOWN_REFUSALS {
        let more = notes.len() - SHOWN_REFUSALS;
        notes.truncate(SHOWN_REFUSALS);
        notes.push(format!("{more} more were refused to the page"));
    }
    notes
}
