//! The tools.

use std::time::Duration;

use deputize_core::tool::{CallCheck, CallRisk, spec_of};
use deputize_core::{
    AgentView, ArgumentRole, Availability, Effects, Example, ResourceMap, Subject, ToolCallResult,
    ToolCx, ToolDecl, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::agent_browser::{AgentBrowser, PageAction};
use crate::browser_error::BrowserError;
use crate::chromium_program::ChromiumProgram;
use crate::settings::BrowserSettings;

/// The time limit of a call, which is more than a start and a page may take.
const CALL_LIMIT: Duration = Duration::from_secs(420);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenArgs {
    url: String,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotArgs {
    #[serde(default)]
    offset: usize,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClickArgs {
    element: u32,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypeArgs {
    element: u32,
    text: String,
    /// Press Enter.
    #[serde(default)]
    submit: bool,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloseArgs {}

/// Opens an address.
#[derive(Debug)]
pub(crate) struct BrowserOpen;

/// Reads the page.
#[derive(Debug)]
pub(crate) struct BrowserSnapshot;

/// Clicks an element.
#[derive(Debug)]
pub(crate) struct BrowserClick;

/// Types into an element.
#[derive(Debug)]
pub(crate) struct BrowserType;

/// Ends the browser.
#[derive(Debug)]
pub(crate) struct BrowserClose;

/// A tool that changes nothing by itself but the agent's own browser.
fn looking(decl: ToolDecl, title: &'static str, arguments: Value) -> ToolSpec {
    ToolSpec {
        repeatable: false,
        parallel: false,
        time_limit: Some(CALL_LIMIT),
        examples: vec![Example { title, arguments }],
        ..ToolSpec::read_only(decl)
    }
}

/// A tool that may do on a page whatever a person may.
fn acting(decl: ToolDecl, title: &'static str, arguments: Value) -> ToolSpec {
    ToolSpec {
        time_limit: Some(CALL_LIMIT),
        examples: vec![Example { title, arguments }],
        risk: Some(CallRisk::new(
            CallRisk::OUTGOING,
            "the website takes it as if you had done it yourself",
        )),
        ..ToolSpec::effectful(decl, Effects::Unknown)
    }
}

fn availability(settings: &ResourceMap) -> Availability {
    match ChromiumProgram::find(settings) {
        Ok(_) => Availability::Yes,
        Err(why) => Availability::No(why),
    }
}

async fn act(action: PageAction, offset: usize, cx: &ToolCx) -> ToolCallResult {
    if !cx.agent.authority.network() {
        return Err(ToolError::refused("this agent may not use the network"));
    }
    let browser = cx.agent.store.get_or_insert_with(AgentBrowser::default);
    Box::pin(browser.act(action, offset, cx)).await
}

/// Fails if a number names no element that could be used.
async fn check_element(number: u32, cx: &ToolCx) -> Result<CallCheck, ToolError> {
    let browser = cx.agent.store.get_or_insert_with(AgentBrowser::default);
    let names = &BrowserSettings::of(&cx.agent.session.settings).setting_names;
    let named = browser.element(number).await;
    named.map(|_| CallCheck::Accepted).map_err(|error| error.into_tool_error(names))
}

/// Names an element and its page: the number alone says nothing to a person.
async fn element_details(number: u32, agent: &AgentView) -> Map<String, Value> {
    let browser = agent.store.get_or_insert_with(AgentBrowser::default);
    // Of a number without an element the call will tell.
    let Ok(element) = browser.element(number).await else { return Map::new() };
    let details = [("element shown as", element.shown), ("page", element.page)];
    details.into_iter().map(|(name, text)| (name.to_owned(), Value::String(text))).collect()
}

impl TypedTool for BrowserOpen {
    type Args = OpenArgs;

    fn spec() -> ToolSpec {
        let description = "Open a page in your browser. Returns its text, with a \
            [number] before each element to use.";
        let decl = spec_of::<OpenArgs>("browser_open", description);
        looking(decl, "A page", json!({"url": "https://example.org/"}))
            .about(ToolKind::Fetch, "url")
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        availability(settings)
    }

    async fn run(&self, args: OpenArgs, cx: &ToolCx) -> ToolCallResult {
        let settings = &cx.agent.session.settings;
        let web = settings.get_or_insert_with(deputize_web::Settings::default);
        let url = web.check_url(&args.url).map_err(|denied| {
            let names = &BrowserSettings::of(settings).setting_names;
            BrowserError::from(denied).into_tool_error(names)
        })?;
        act(PageAction::Open(url), 0, cx).await
    }
}

deputize_core::register_tool!("browser", BrowserOpen);

impl TypedTool for BrowserSnapshot {
    type Args = SnapshotArgs;

    fn spec() -> ToolSpec {
        let decl = spec_of::<SnapshotArgs>("browser_snapshot", "Read your page as it is now.");
        let spec = looking(decl, "The page", json!({}));
        let subject = Subject::new(Some("read the page".into()), "offset", ArgumentRole::Text);
        ToolSpec { kind: ToolKind::Read, subject, ..spec }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        availability(settings)
    }

    async fn run(&self, args: SnapshotArgs, cx: &ToolCx) -> ToolCallResult {
        act(PageAction::Read, args.offset, cx).await
    }
}

deputize_core::register_tool!("browser", BrowserSnapshot);

impl TypedTool for BrowserClick {
    type Args = ClickArgs;

    fn spec() -> ToolSpec {
        let decl = spec_of::<ClickArgs>("browser_click", "Click an element of your page.");
        let spec = acting(decl, "An element", json!({"element": 3}));
        let subject = Subject::new(Some("click".into()), "element", ArgumentRole::Text);
        ToolSpec { subject, ..spec }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        availability(settings)
    }

    async fn check(&self, args: ClickArgs, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        check_element(args.element, cx).await
    }

    async fn question_details(&self, args: ClickArgs, agent: &AgentView) -> Map<String, Value> {
        element_details(args.element, agent).await
    }

    async fn run(&self, args: ClickArgs, cx: &ToolCx) -> ToolCallResult {
        act(PageAction::Click(args.element), 0, cx).await
    }
}

deputize_core::register_tool!("browser", BrowserClick);

impl TypedTool for BrowserType {
    type Args = TypeArgs;

    fn spec() -> ToolSpec {
        let description = "Fill a field of your page, or choose from a list.";
        let decl = spec_of::<TypeArgs>("browser_type", description);
        let arguments = json!({"element": 3, "text": "kites", "submit": true});
        let spec = acting(decl, "A search", arguments);
        let subject = Subject::new(Some("type".into()), "text", ArgumentRole::Text)
            .with("element", ArgumentRole::Text);
        ToolSpec { subject, ..spec }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        availability(settings)
    }

    async fn check(&self, args: TypeArgs, cx: &ToolCx) -> Result<CallCheck, ToolError> {
        check_element(args.element, cx).await
    }

    async fn question_details(&self, args: TypeArgs, agent: &AgentView) -> Map<String, Value> {
        element_details(args.element, agent).await
    }

    async fn run(&self, args: TypeArgs, cx: &ToolCx) -> ToolCallResult {
        let TypeArgs { element, text, submit } = args;
        act(PageAction::Type { element, text, submit }, 0, cx).await
    }
}

deputize_core::register_tool!("browser", BrowserType);

impl TypedTool for BrowserClose {
    type Args = CloseArgs;

    fn spec() -> ToolSpec {
        let decl = spec_of::<CloseArgs>("browser_close", "End your browser.");
        looking(decl, "The browser", json!({}))
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        availability(settings)
    }

    async fn run(&self, _: CloseArgs, cx: &ToolCx) -> ToolCallResult {
        let browser = cx.agent.store.get_or_insert_with(AgentBrowser::default);
        let text = if browser.end().await { "closed" } else { "no browser was open" };
        Ok(ToolOutput::text(text))
    }
}

deputize_core::register_tool!("browser", BrowserClose);
