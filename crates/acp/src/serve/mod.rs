//! This agent for editors: sessions, turns and what happens in them, over ACP.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ClientRequest, CloseSessionResponse,
    DeleteSessionResponse, Implementation, InitializeResponse, ListSessionsResponse,
    LoadSessionResponse, McpCapabilities, McpServer, NewSessionResponse, PromptCapabilities,
    ResumeSessionResponse, SessionCapabilities, SessionCloseCapabilities,
    SessionDeleteCapabilities, SessionInfo, SessionListCapabilities, SessionResumeCapabilities,
    SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, Error, JsonRpcResponse, Lines, on_receive_notification, on_receive_request,
};
use deputize_core::sanitize::for_terminal_line;
use deputize_core::{Cancel, CancelReason, SessionId};
use tokio::io::{AsyncRead, AsyncWrite};

mod call_view;
mod child_view;
mod editor_approver;
mod hunk;
mod open_sessions;
mod pending_messages;
mod prompt;
mod session_host;
mod session_updates;

pub use prompt::words_of;
pub use session_host::{
    Conversation, EditorImage, HostError, McpServerSpec, McpTransport, SessionFacts, SessionHost,
    SessionListing, SessionRequest, TurnRequest,
};

use open_sessions::{OpenSessions, directory, none};
use pending_messages::{PendingMessages, incoming, outgoing};

/// Time limit for sending the last messages to the editor.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Number of sessions on one page of a list.
const PAGE: usize = 100;

/// Who serves, as editors show it.
#[derive(Debug, Clone, Copy)]
pub struct ServerIdentity {
    /// The program's name.
    pub name: &'static str,
    /// Version of the program.
    pub version: &'static str,
}

/// Serves sessions to one editor, until it closes its end, the output fails, or the signal says
/// so. When this returns, no turn is under way.
pub async fn serve(
    who: ServerIdentity,
    sessions: Arc<dyn SessionHost>,
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
    end: &Cancel,
) {
    let waiting = PendingMessages::default();
    let lines = Lines::new(outgoing(output, waiting.clone()), incoming(input));
    let open = Arc::new(OpenSessions::new(sessions, end.child(), waiting));
    // An editor that reads nothing more is not waited for.
    let stuck = async {
        open.end.cancelled().await;
        open.settled().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        biased;
        // How it ended makes no difference: nobody is there to be told.
        _ended = Box::pin(connect(who, &open, lines)) => {}
        () = stuck => {}
    }
    open.end.cancel(CancelReason::Interrupted);
    open.settled().await;
    open.close_all().await;
}

/// Talks to the editor until it is gone, or all is to end and has.
async fn connect<O, I>(
    who: ServerIdentity,
    open: &Arc<OpenSessions>,
    lines: Lines<O, I>,
) -> Result<(), Error>
where
    Lines<O, I>: agent_client_protocol::ConnectTo<Agent> + 'static,
{
    let [asked, canceller, until] = std::array::from_fn(|_| Arc::clone(open));
    Agent
        .v1()
        .name(who.name)
        .on_receive_request(
            async move |request: ClientRequest, responder, connection: ConnectionTo<Client>| {
                answer(who, &asked, request, responder, connection)
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _: ConnectionTo<Client>| {
                canceller.cancel(&cancel.session_id.0);
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_with(lines, async move |connection: ConnectionTo<Client>| {
            tokio::select! {
                () = connection.incoming_closed() => {}
                () = until.end.cancelled() => {}
            }
            until.end.cancel(CancelReason::Interrupted);
            until.settled().await;
            Ok(())
        })
        .await
}

/// Answers a request, at once or later: while one is worked on, others come.
fn answer(
    who: ServerIdentity,
    open: &Arc<OpenSessions>,
    request: ClientRequest,
    responder: Responder,
    connection: ConnectionTo<Client>,
) -> Result<(), Error> {
    let sessions = Arc::clone(open);
    match request {
        ClientRequest::InitializeRequest(_) => {
            later(
                open,
                responder,
                async move { Ok(hello(who, sessions.sessions.takes_images().await)) },
            )
        }
        ClientRequest::NewSessionRequest(new) => later(open, responder, async move {
            let cwd = directory(&new.cwd, &new.additional_directories)?;
            let place = SessionRequest { cwd, stored: None, servers: servers(new.mcp_servers)? };
            let (id, modes) = sessions.open(place).await?;
            Ok(NewSessionResponse::new(id).modes(modes))
        }),
        ClientRequest::LoadSessionRequest(load) => later(open, responder, async move {
            let cwd = directory(&load.cwd, &load.additional_directories)?;
            let place = stored(&load.session_id.0, cwd, load.mcp_servers)?;
            let modes = sessions.resume(place, &connection, true).await?;
            Ok(LoadSessionResponse::new().modes(modes))
        }),
        ClientRequest::ResumeSessionRequest(resume) => later(open, responder, async move {
            let cwd = directory(&resume.cwd, &resume.additional_directories)?;
            let place = stored(&resume.session_id.0, cwd, resume.mcp_servers)?;
            let modes = sessions.resume(place, &connection, false).await?;
            Ok(ResumeSessionResponse::new().modes(modes))
        }),
        ClientRequest::ListSessionsRequest(list) => later(open, responder, async move {
            let all = sessions.sessions.list(list.cwd).await?;
            Ok(page(all, list.cursor.as_deref()))
        }),
        ClientRequest::CloseSessionRequest(close) => later(open, responder, async move {
            sessions.close(&close.session_id.0).await?;
            Ok(CloseSessionResponse::new())
        }),
        ClientRequest::DeleteSessionRequest(delete) => later(open, responder, async move {
            sessions.delete(&delete.session_id.0).await?;
            Ok(DeleteSessionResponse::new())
        }),
        ClientRequest::SetSessionModeRequest(set) => {
            let chosen = open.choose(&set.session_id.0, &set.mode_id.0);
            responder.cast().respond_with_result(chosen.map(|()| SetSessionModeResponse::new()))
        }
        ClientRequest::PromptRequest(prompt) => open.prompt(&prompt, responder.cast(), connection),
        _ => responder.respond_with_error(Error::method_not_found()),
    }
}

fn later<T: JsonRpcResponse + Send>(
    open: &OpenSessions,
    responder: Responder,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<(), Error> {
    open.work.spawn(async move { responder.cast().respond_with_result(work.await) });
    Ok(())
}

fn hello(who: ServerIdentity, takes_images: bool) -> InitializeResponse {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .delete(SessionDeleteCapabilities::new());
    let prompts = PromptCapabilities::new().embedded_context(true).image(takes_images);
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(prompts)
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(sessions);
    // There is one version; whoever wants another is told of it.
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new(who.name, who.version))
}

fn stored(id: &str, cwd: PathBuf, named: Vec<McpServer>) -> Result<SessionRequest, Error> {
    let stored = SessionId::new(id).map_err(|_| none(id))?;
    Ok(SessionRequest { cwd, stored: Some(stored), servers: servers(named)? })
}

fn servers(named: Vec<McpServer>) -> Result<Vec<McpServerSpec>, Error> {
    let server = |named| match named {
        McpServer::Stdio(server) => {
            let env = server.env.into_iter().map(|variable| (variable.name, variable.value));
            let command = server.command;
            let args = server.args;
            let env = env.collect();
            Ok(McpServerSpec { name: server.name, way: McpTransport::Stdio { command, args, env } })
        }
        McpServer::Http(server) => {
            let headers = server.headers.into_iter().map(|header| (header.name, header.value));
            let url = server.url;
            let headers = headers.collect();
            Ok(McpServerSpec { name: server.name, way: McpTransport::Http { url, headers } })
        }
        // Editors were told that there are no others.
        McpServer::Sse(server) => Err(unreachable(&server.name)),
        _ => Err(unreachable("")),
    };
    named.into_iter().map(server).collect()
}

fn unreachable(name: &str) -> Error {
    let name = for_terminal_line(name, 60);
    let why = format!(
        "MCP server `{name}` cannot be reached: this agent starts a command, or speaks streamable \
         HTTP (`http`); name it one of these ways, or leave it out"
    );
    HostError::Asked(why).into()
}

/// A page of sessions: those after the one that the cursor names.
fn page(all: Vec<SessionListing>, cursor: Option<&str>) -> ListSessionsResponse {
    let after = cursor.and_then(|id| all.iter().position(|one| one.id.as_str() == id));
    let begin = after.map_or(0, |at| at + 1);
    let left = all.len().saturating_sub(begin);
    let page: Vec<SessionListing> = all.into_iter().skip(begin).take(PAGE).collect();
    let next = page.last().filter(|_| left > PAGE).map(|last| last.id.to_string());
    let info = |one: SessionListing| {
        SessionInfo::new(one.id.to_string(), one.cwd).title(one.title).updated_at(one.updated)
    };
    ListSessionsResponse::new(page.into_iter().map(info).collect()).next_cursor(next)
}
