//! The page of a browser: opening, reading, clicking and typing.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use crate::ax_node::AxTree;
use crate::browser_error::BrowserError;
use crate::devtools::{DevTools, DevToolsError};
use crate::element_refs::{ElementRef, ElementRefs, RefError};
use crate::element_script::{CLICK, PREPARE_CLICK, PREPARE_TYPE};
use crate::page_text::{PageFrames, page_text};
use crate::page_watch::{PageWatch, SettleOutcome};

/// Frames inside a page that are read.
const FRAMES: usize = 20;
/// How long what an action began is waited for.
const AFTER_ACTION: Duration = Duration::from_secs(10);

/// The page of a browser.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) devtools: DevTools,
    /// The page's session with the browser.
    pub(crate) session: String,
    pub(crate) watch: Arc<PageWatch>,
    pub(crate) refs: ElementRefs,
}

/// The answer of a function in a page.
#[derive(Debug, Default, Deserialize)]
struct PrepareResult {
    state: String,
    /// What the page says beside it.
    #[serde(default)]
    by: String,
}

#[derive(Deserialize)]
struct CallResult {
    result: CallValue,
}

#[derive(Deserialize)]
struct CallValue {
    #[serde(default)]
    value: Value,
}

impl Page {
    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: &'static str,
        params: &Value,
    ) -> Result<T, DevToolsError> {
        self.devtools.call(Some(&self.session), method, params).await
    }

    async fn send_command(
        &self,
        method: &'static str,
        params: &Value,
    ) -> Result<(), DevToolsError> {
        self.call::<Value>(method, params).await.map(drop)
    }

    /// Opens an address that was checked, and waits until it is loaded.
    pub(crate) async fn open(
        &self,
        url: &Url,
        limit: Duration,
    ) -> Result<SettleOutcome, BrowserError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct NavigateResult {
            error_text: Option<String>,
        }
        self.watch.expect_document();
        let to = json!({"url": url.as_str()});
        let Ok(navigated) = timeout(limit, self.call("Page.navigate", &to)).await else {
            self.send_command("Page.stopLoading", &json!({})).await?;
            let problem = format!("no answer within {} s", limit.as_secs());
            return Err(BrowserError::not_loaded(url.as_str(), &problem));
        };
        let NavigateResult { error_text } = navigated?;
        let settling = self.watch.settle(limit).await;
        match error_text {
            Some(problem) => Err(BrowserError::not_loaded(url.as_str(), &problem)),
            None => Ok(settling),
        }
    }

    /// Reads the page as a text, and numbers its elements.
    pub(crate) async fn read(&mut self) -> Result<String, BrowserError> {
        let document = self.watch.state().document;
        let main = self.call::<AxTree>("Accessibility.getFullAXTree", &json!({})).await?;
        let mut frames = PageFrames { main, ..PageFrames::default() };
        for frame in self.inner_frames().await? {
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Owner {
                backend_node_id: i64,
            }
            let of = json!({"frameId": frame});
            // A frame may be gone by now, or be of another process, which is not read.
            let owner = self.call::<Owner>("DOM.getFrameOwner", &of).await;
            let tree = self.call::<AxTree>("Accessibility.getFullAXTree", &of).await;
            match (owner, tree) {
                (Ok(owner), Ok(tree)) => frames.inner.insert(owner.backend_node_id, tree),
                (Err(DevToolsError::Closed), _) | (_, Err(DevToolsError::Closed)) => {
                    return Err(DevToolsError::Closed.into());
                }
                _ => None,
            };
        }
        self.refs.begin(document);
        Ok(page_text(&frames, &mut self.refs))
    }

    /// Returns the frames inside the page, outer ones first.
    async fn inner_frames(&self) -> Result<Vec<String>, DevToolsError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Frames {
            frame_tree: FrameTree,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct FrameTree {
            frame: Frame,
            #[serde(default)]
            child_frames: Vec<FrameTree>,
        }
        #[derive(Deserialize)]
        struct Frame {
            id: String,
        }
        let frames: Frames = self.call("Page.getFrameTree", &json!({})).await?;
        let mut found = Vec::new();
        let mut trees = std::collections::VecDeque::from(frames.frame_tree.child_frames);
        while let Some(tree) = trees.pop_front() {
            if found.len() == FRAMES {
                break;
            }
            found.push(tree.frame.id);
            trees.extend(tree.child_frames);
        }
        Ok(found)
    }

    /// Returns the element of a number on the page that is open.
    pub(crate) fn element(&self, number: u32) -> Result<ElementRef, RefError> {
        self.refs.get(number, self.watch.state().document).cloned()
    }

    /// Clicks an element, and waits for what that began.
    pub(crate) async fn click(
        &self,
        number: u32,
        limit: Duration,
    ) -> Result<SettleOutcome, BrowserError> {
        let element = self.element(number)?;
        let object = self.object(number, &element).await?;
        let prepared = self.prepare(&object, PREPARE_CLICK, None).await?;
        let refuse = |problem: String| Err(BrowserError::element(&element.shown, problem));
        match prepared.state.as_str() {
            "click" => match self.center(&object).await? {
                Some(point) => self.press(point).await?,
                None => self.click_by_script(&object).await?,
            },
            "script" => self.click_by_script(&object).await?,
            "gone" => return Err(RefError::Gone(number).into()),
            "disabled" => return refuse("it is disabled".to_owned()),
            "covered" => {
                let by = deputize_core::sanitize::for_terminal_line(&prepared.by, 120);
                return refuse(format!("it is covered by {by}: deal with that first"));
            }
            _ => return refuse("it cannot be clicked".to_owned()),
        }
        Ok(self.watch.settle(limit.min(AFTER_ACTION)).await)
    }

    /// Replaces the text of a field, or chooses an entry of a list, and presses Enter if asked.
    pub(crate) async fn type_text(
        &self,
        number: u32,
        text: &str,
        submit: bool,
        limit: Duration,
    ) -> Result<SettleOutcome, BrowserError> {
        let element = self.element(number)?;
        let object = self.object(number, &element).await?;
        let prepared = self.prepare(&object, PREPARE_TYPE, Some(text)).await?;
        let refuse = |problem: String| Err(BrowserError::element(&element.shown, problem));
        let shown = |text: &str| deputize_core::sanitize::for_terminal_line(text, 600);
        match prepared.state.as_str() {
            "insert" if text.is_empty() => self.press_key("Delete", "").await?,
            "insert" => self.send_command("Input.insertText", &json!({"text": text})).await?,
            "done" => {}
            "gone" => return Err(RefError::Gone(number).into()),
            "disabled" => return refuse("it is disabled or cannot be changed".to_owned()),
            "no_option" => {
                return refuse(format!(
                    "it has no entry of this name; it has: {}",
                    shown(&prepared.by)
                ));
            }
            "file" => return refuse("files cannot be given to pages".to_owned()),
            "click" => return refuse("it takes no text: click it".to_owned()),
            "bad_value" => {
                let kind = shown(&prepared.by);
                return refuse(format!(
                    "it takes no such {kind}; a date is like 2030-01-31, a time like 13:45, a color like #ff8800"
                ));
            }
            _ => return refuse("it takes no text".to_owned()),
        }
        if submit {
            self.press_key("Enter", "\r").await?;
        }
        Ok(self.watch.settle(limit.min(AFTER_ACTION)).await)
    }

    /// Returns the object of an element in the page.
    async fn object(&self, number: u32, element: &ElementRef) -> Result<String, BrowserError> {
        #[derive(Deserialize)]
        struct ResolveResult {
            object: Object,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Object {
            object_id: Option<String>,
        }
        let node = json!({"backendNodeId": element.node, "objectGroup": "tools"});
        match self.call::<ResolveResult>("DOM.resolveNode", &node).await {
            Ok(ResolveResult { object: Object { object_id: Some(id) } }) => Ok(id),
            Ok(_) | Err(DevToolsError::Refused { .. }) => Err(RefError::Gone(number).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a function with an element.
    async fn run(
        &self,
        object: &str,
        function: &str,
        argument: Option<&str>,
    ) -> Result<Value, DevToolsError> {
        let arguments: Vec<Value> = argument.iter().map(|text| json!({"value": text})).collect();
        let call = json!({
            "objectId": object,
            "functionDeclaration": function,
            "arguments": arguments,
            "returnByValue": true,
            "userGesture": true,
        });
        let called: CallResult = self.call("Runtime.callFunctionOn", &call).await?;
        Ok(called.result.value)
    }

    async fn prepare(
        &self,
        object: &str,
        function: &str,
        argument: Option<&str>,
    ) -> Result<PrepareResult, DevToolsError> {
        let value = self.run(object, function, argument).await?;
        // A page may have changed what the function uses: it then says nothing.
        Ok(serde_json::from_value(value).unwrap_or_default())
    }

    async fn click_by_script(&self, object: &str) -> Result<(), DevToolsError> {
        self.run(object, CLICK, None).await.map(drop)
    }

    /// Returns the middle of an element's first box; `None` if it has none.
    async fn center(&self, object: &str) -> Result<Option<(f64, f64)>, DevToolsError> {
        #[derive(Deserialize)]
        struct Quads {
            quads: Vec<Vec<f64>>,
        }
        let quads = self.call::<Quads>("DOM.getContentQuads", &json!({"objectId": object})).await;
        match quads {
            Ok(Quads { quads }) => Ok(quads.first().and_then(|quad| middle(quad))),
            Err(DevToolsError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Presses and releases the mouse at a point.
    async fn press(&self, (x, y): (f64, f64)) -> Result<(), DevToolsError> {
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({
                "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1,
            });
            self.send_command("Input.dispatchMouseEvent", &event).await?;
        }
        Ok(())
    }

    async fn press_key(&self, key: &str, text: &str) -> Result<(), DevToolsError> {
        let code = if key == "Enter" { 13 } else { 46 };
        let mut down = json!({
            "type": if text.is_empty() { "rawKeyDown" } else { "keyDown" },
            "key": key, "code": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code,
        });
        if let (Some(down), false) = (down.as_object_mut(), text.is_empty()) {
            down.insert("text".to_owned(), text.into());
        }
        self.send_command("Input.dispatchKeyEvent", &down).await?;
        let up = json!({"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code});
        self.send_command("Input.dispatchKeyEvent", &up).await
    }
}

/// The middle of four points, each as x and y.
fn middle(quad: &[f64]) -> Option<(f64, f64)> {
    let [x1, y1, x2, y2, x3, y3, x4, y4] = *quad else { return None };
    Some(((x1 + x2 + x3 + x4) / 4.0, (y1 + y2 + y3 + y4) / 4.0))
}
