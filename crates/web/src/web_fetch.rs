//! `web_fetch`: a page of the web as text.

use std::time::Duration;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::source::Source;
use deputize_core::tool::spec_of;
use deputize_core::{
    Example, ToolCallResult, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::convert::{Conversion, ConvertedText};
use crate::fetch_client::{FetchClient, FetchedPage, shown};
use crate::fetch_error::FetchError;
use crate::media_type::{DocumentKind, decode};
use crate::page_versions::PageVersions;
use crate::settings::Settings;
use deputize_http::host_of;

/// The time limit of a call, which is more than a fetch and a conversion may take.
const CALL_LIMIT: Duration = Duration::from_secs(600);

const DESCRIPTION: &str = "Fetch a web page as Markdown, or a JSON document or a PDF file as text.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    url: String,
    #[serde(default)]
    offset: usize,
    /// Not only the main text.
    #[serde(default)]
    whole: bool,
}

#[derive(Debug)]
pub(crate) struct WebFetch;

impl TypedTool for WebFetch {
    type Args = Args;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({"url": "https://example.org/"});
        ToolSpec {
            examples: vec![Example { title: "A page", arguments }],
            time_limit: Some(CALL_LIMIT),
            ..ToolSpec::read_only(spec_of::<Args>("web_fetch", DESCRIPTION))
                .about(ToolKind::Fetch, "url")
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        check_network(cx)?;
        let settings = Settings::of(cx);
        let document = fetch(&args, &settings, cx).await;
        let document = document.map_err(|error| error.into_tool_error(&settings.setting_names))?;
        let versions = cx.agent.store.get_or_insert_with(PageVersions::default);
        let has_changed = versions.record(&args.url, args.whole, &document.text.text).await;
        let part = document.part(args.offset, settings.fetch.page_bytes);
        if args.offset > 0 && has_changed { part_of_another(part) } else { part }
    }
}

deputize_core::register_tool!("web", WebFetch);

/// Fails if an agent may not use the network.
pub(crate) fn check_network(cx: &ToolCx) -> Result<(), ToolError> {
    match cx.agent.authority.network() {
        true => Ok(()),
        false => Err(ToolError::refused("this agent may not use the network")),
    }
}

/// A fetched document as text.
struct FetchedDocument {
    url: String,
    host: String,
    text: ConvertedText,
    notes: Vec<String>,
}

async fn fetch(
    args: &Args,
    settings: &Settings,
    cx: &ToolCx,
) -> Result<FetchedDocument, FetchError> {
    let page = FetchClient::new(settings, &settings.fetch.policy, cx).get(&args.url).await?;
    tokio::select! {
        () = cx.cancel.cancelled() => Err(FetchError::Cancelled),
        document = text_of(page, args.whole, settings) => document,
    }
}

async fn text_of(
    page: FetchedPage,
    whole: bool,
    settings: &Settings,
) -> Result<FetchedDocument, FetchError> {
    let FetchedPage { url, content_type, body, is_cut } = page;
    let address = shown(&url);
    let no_text = || FetchError::NoText { url: address.clone(), kind: media_name(&content_type) };
    let kind = DocumentKind::of(&content_type, &body).ok_or_else(no_text)?;
    let limit = settings.fetch.max_bytes;
    let mut notes = vec![format!("final address: {address}")];
    if is_cut {
        if kind == DocumentKind::Pdf {
            return Err(FetchError::TooLarge { url: address, limit, kind: "PDF file" });
        }
        notes.push(format!("only the first {limit} bytes of the document were read"));
    }
    let text = |text| ConvertedText { text, title: None, is_part: false, hidden: 0 };
    let converted = match kind {
        DocumentKind::Text => text(decode(kind, &content_type, &body)),
        DocumentKind::Json => text(json_text(decode(kind, &content_type, &body))),
        DocumentKind::Html | DocumentKind::Pdf => {
            let pdf = kind == DocumentKind::Pdf;
            let conversion = Conversion { pdf, url: url.to_string(), whole };
            let body = if pdf { body } else { decode(kind, &content_type, &body).into_bytes() };
            let kind = if pdf { "a PDF file" } else { "a web page" };
            let converted = settings.converter.convert(conversion, body).await;
            converted.map_err(|problem| FetchError::Unreadable {
                url: address.clone(),
                kind,
                problem: for_terminal_line(&problem, 300),
            })?
        }
    };
    if converted.text.trim().is_empty() {
        notes.push(no_text_note(kind).to_owned());
    }
    let host = host_of(&url).unwrap_or_default();
    Ok(FetchedDocument { url: address, host, text: converted, notes })
}

const fn no_text_note(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Html => "the page has no text: a script may be needed to show it",
        DocumentKind::Pdf => "the PDF file has no text: its pages may be images",
        DocumentKind::Text | DocumentKind::Json => "the document is empty",
    }
}

/// Returns a part with a note that the part before it was one of another text.
fn part_of_another(part: ToolCallResult) -> ToolCallResult {
    const NOTE: &str = "the page has changed since the part before: read it from its beginning";
    match part {
        Ok(mut output) => {
            output.notes.push(NOTE.to_owned());
            Ok(output)
        }
        Err(_) => Err(ToolError::refused(NOTE)),
    }
}

/// The media type of a header, without what has no place in one.
fn media_name(content_type: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "/+.-".contains(*c);
    let name: String = content_type.chars().take_while(is_plain).take(60).collect();
    if name.is_empty() { "a document of unknown kind".to_owned() } else { name }
}

/// JSON on one line is laid out, so that it can be read in parts.
fn json_text(text: String) -> String {
    if text.trim().lines().count() > 1 {
        return text;
    }
    let value = serde_json::from_str::<serde_json::Value>(&text);
    value.map_or(text, |value| format!("{value:#}"))
}

impl FetchedDocument {
    /// Returns the part of the text that begins at a byte.
    fn part(self, offset: usize, most: usize) -> ToolCallResult {
        let ConvertedText { text, title, is_part, hidden } = self.text;
        if offset > 0 && offset >= text.len() {
            return Err(ToolError::refused(format!(
                "{} has {} bytes of text: begin before that",
                self.url,
                text.len()
            )));
        }
        let start = text.floor_char_boundary(offset);
        let end = text.floor_char_boundary(start.saturating_add(most).max(start + 4));
        let content = text.get(start..end).unwrap_or_default();
        let mut notes = self.notes;
        // A title is a text of the page, so it goes where content goes.
        let title = title.filter(|_| start == 0).map(|title| format!("# {title}\n\n"));
        let content = match title {
            Some(title) if !content.trim_start().starts_with(title.trim_end()) => title + content,
            _ => content.to_owned(),
        };
        if is_part {
            notes.push("only the main text of the page; set whole for all of it".to_owned());
        }
        match hidden {
            0 => {}
            1 => notes.push("1 hidden text of the page was left out".to_owned()),
            _ => notes.push(format!("{hidden} hidden texts of the page were left out")),
        }
        if start > 0 || end < text.len() {
            let all = text.len();
            let mut note = format!("bytes {start} to {end} of {all}");
            if end < all {
                note.push_str(&format!("; to read on, set offset to {end}"));
            }
            notes.push(note);
        }
        Ok(ToolOutput {
            content,
            source: Some(Source::web(self.host)),
            notes,
            ..ToolOutput::default()
        })
    }
}
