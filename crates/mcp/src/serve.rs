//! This agent as an MCP server: what it offers is done by whoever implements [`AgentService`].

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{BoxFuture, Cancel, CancelReason};
use futures_util::FutureExt as _;
use futures_util::future::FusedFuture as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig, Tool,
    ToolsCapability,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{RwLock, Semaphore, mpsc};

mod http;
mod lines;

pub use http::{ServedAddress, bind};
#[cfg(feature = "fuzz")]
pub(crate) use lines::answered;

/// Limit on calls at once.
pub const CALLS: usize = 16;
/// Grace period for calls when the client is gone.
const SETTLE: Duration = Duration::from_millis(1500);
/// Time limit for sending the last notes of a call.
const LAST_NOTES: Duration = Duration::from_millis(500);
/// Limit on queued progress notes; further ones are dropped.
const NOTES: usize = 64;

/// A tool that is offered to other agents.
#[derive(Debug, Clone)]
pub struct ServedTool {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: String,
    /// Its arguments, as a JSON Schema of an object.
    pub parameters: Map<String, Value>,
}

/// The result of a call.
#[derive(Debug, Clone)]
pub struct ServedAnswer {
    /// For whoever asked.
    pub text: String,
    /// The same as data.
    pub data: Option<Value>,
    /// Whether it failed.
    pub failed: bool,
}

/// A call that cannot be made: of a tool that is not offered, or with wrong arguments; what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCall(pub String);

/// Takes notes of progress, of which the newest counts.
pub type ProgressSink = Arc<dyn Fn(String) + Send + Sync>;

/// Tools that a program offers to other agents.
pub trait AgentService: Send + Sync + 'static {
    /// Returns the tools offered now. Each listing and each call reads the settings again, so both
    /// follow a change.
    fn offers(&self) -> BoxFuture<'_, Vec<ServedTool>>;

    /// Does one call. When `cancel` is signalled it settles soon.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        notes: ProgressSink,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<ServedAnswer, InvalidCall>>;
}

/// Name and version of this server, for its clients.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// Name of the program.
    pub name: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// How what it offers is to be used.
    pub instructions: String,
}

/// State that all connections of a served program share.
#[derive(Clone)]
pub struct ServeState {
    who: Arc<ServerInfo>,
    work: Arc<dyn AgentService>,
    end: Cancel,
    places: Arc<Semaphore>,
    /// Held for reading by each call.
    busy: Arc<RwLock<()>>,
}

impl std::fmt::Debug for ServeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServeState({})", self.who.name)
    }
}

impl ServeState {
    /// Creates the state of a program that serves `work` until `end` is signalled.
    pub fn new(who: ServerInfo, work: Arc<dyn AgentService>, end: Cancel) -> Self {
        let places = Arc::new(Semaphore::new(CALLS));
        Self { who: Arc::new(who), work, end, places, busy: Arc::default() }
    }

    /// Serves one client on two streams, until it is gone; its calls are ended then.
    ///
    /// # Errors
    /// When the client does not speak the protocol.
    pub async fn streams(
        &self,
        input: impl AsyncRead + Send + Sync + Unpin + 'static,
        output: impl AsyncWrite + Send + Sync + Unpin + 'static,
    ) -> io::Result<()> {
        let client = Self { end: self.end.child(), ..self.clone() };
        // The library cancels the signal when the client has gone: that ends nobody else.
        let lines = lines::ClientLines::new(input, output, client.end.clone());
        let begun = client.clone().serve_with_ct(lines, client.end.token().clone());
        let served = match Box::pin(begun).await {
            Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
            // Who leaves before the first word has asked for nothing.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(_) if self.end.is_cancelled() => Ok(()),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        client.settled().await;
        served
    }

    /// Serves clients by HTTP until the end is signalled.
    pub async fn http(&self, address: ServedAddress) {
        http::serve(self, address).await;
    }

    /// Ends the calls, and waits for them, not for ever.
    async fn settled(&self) {
        self.end.cancel(CancelReason::Interrupted);
        let _all = tokio::time::timeout(SETTLE, self.busy.write()).await;
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let Ok(_place) = Arc::clone(&self.places).try_acquire_owned() else {
            let text =
                format!("{CALLS} calls go on already, which is the limit; wait for one to end");
            return Ok(CallToolResult::error(vec![ContentBlock::text(text)]));
        };
        let _busy = self.busy.read().await;
        let cancel = self.end.child();
        let (notes, waiting) = mpsc::channel(NOTES);
        let note: ProgressSink = Arc::new(move |text| {
            let _left_out_where_too_many = notes.try_send(text);
        });
        let arguments = request.arguments.unwrap_or_default();
        let work = self.work.call(&request.name, arguments, note, cancel.clone());
        let cancelled = async {
            context.ct.cancelled().await;
            cancel.cancel(CancelReason::Interrupted);
            std::future::pending::<()>().await;
        };
        let token = context.meta.get_progress_token();
        let mut telling = pin!(send_progress(&context, token, waiting).fuse());
        let answer = beside(work, async { tokio::join!(cancelled, &mut telling) }).await;
        // What the work said last is told before its answer, if the client takes it. Work that
        // let its notes go early has said all by then.
        if !telling.is_terminated() {
            let _told = tokio::time::timeout(LAST_NOTES, telling).await;
        }
        match answer {
            Err(InvalidCall(why)) => Err(ErrorData::invalid_params(why, None)),
            Ok(answer) => {
                let content = vec![ContentBlock::text(answer.text)];
                let mut result = if answer.failed {
                    CallToolResult::error(content)
                } else {
                    CallToolResult::success(content)
                };
                result.structured_content = answer.data;
                Ok(result)
            }
        }
    }
}

/// Does the work; what goes on beside it ends with it.
async fn beside<T, U>(work: impl Future<Output = T>, other: impl Future<Output = U>) -> T {
    let never = async {
        other.await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        done = work => done,
        never = never => match never {},
    }
}

/// Sends notes as progress of a request, if its sender wants to know.
async fn send_progress(
    context: &RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    mut waiting: mpsc::Receiver<String>,
) {
    let mut count = 0_u32;
    while let Some(text) = waiting.recv().await {
        let Some(token) = &token else { continue };
        count += 1;
        let progress = ProgressNotificationParam::new(token.clone(), count.into());
        let _client_may_be_gone = context.peer.notify_progress(progress.with_message(text)).await;
    }
}

impl ServerHandler for ServeState {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(ToolsCapability::default());
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(self.who.name, self.who.version))
            .with_instructions(self.who.instructions.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |offered: ServedTool| {
            Tool::new(offered.name, offered.description, Arc::new(offered.parameters))
        };
        let offers = self.work.offers().await;
        Ok(ListToolsResult::with_all_items(offers.into_iter().map(tool).collect()))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = deputize_core::sanitize::for_terminal_line(&request.method, 60);
        let text = format!(
            "there is no method \"{method}\" here; what this server does is asked for by \
             \"tools/list\" and \"tools/call\""
        );
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResponse::Complete(self.call(request, context).await?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;

    /// Has nothing to tell while it works, and counts how often it was asked what it offers.
    #[derive(Default)]
    struct SilentService(AtomicUsize);

    impl AgentService for SilentService {
        fn offers(&self) -> BoxFuture<'_, Vec<ServedTool>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let description = String::new();
            let parameters = Map::new();
            let silent = ServedTool { name: "silent", description, parameters };
            Box::pin(std::future::ready(vec![silent]))
        }

        fn call<'a>(
            &'a self,
            _: &'a str,
            _: Map<String, Value>,
            notes: ProgressSink,
            _: Cancel,
        ) -> BoxFuture<'a, Result<ServedAnswer, InvalidCall>> {
            drop(notes);
            Box::pin(async {
                tokio::task::yield_now().await;
                Ok(ServedAnswer { text: "done".to_owned(), data: None, failed: false })
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_does_not_wait_for_notes_that_cannot_come() {
        let who = ServerInfo { name: "t", version: "1", instructions: String::new() };
        let silent = Arc::new(SilentService::default());
        let state =
            ServeState::new(who, Arc::clone(&silent) as Arc<dyn AgentService>, Cancel::new());
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let mut served = JoinSet::new();
        served.spawn(async move { state.streams(input, output).await });
        let mut client = BufReader::new(ours);
        let begun = Instant::now();
        let asked = [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"silent"}}"#,
        ];
        client.write_all(format!("{}\n", asked.join("\n")).as_bytes()).await.unwrap();
        let mut line = String::new();
        while !line.contains("\"id\":2") {
            line.clear();
            assert_ne!(client.read_line(&mut line).await.unwrap(), 0);
        }
        assert!(line.contains("done"), "{line}");
        // To find out what it offers costs it as much as to begin: a call does that once, itself.
        assert_eq!(silent.0.load(Ordering::Relaxed), 0);
        // The clock moves only when all wait.
        assert_eq!(begun.elapsed(), Duration::ZERO);
        drop(client);
        served.join_next().await.unwrap().unwrap().unwrap();
    }
}
