//! One conversation with a program: begin, prompt, listen, end.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, InitializeRequest, NewSessionRequest, PermissionOption,
    PermissionOptionKind, PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, SessionId, SessionNotification,
    StopReason, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, SentRequest};
use agent_client_protocol::{
    Agent, Client, ErrorCode, JsonRpcResponse, Lines, is_incoming_transport_closed,
    on_receive_notification, on_receive_request,
};
use deputize_core::agent::AgentSpec;
use deputize_core::external_agent::ExternalAgentHost;
use deputize_core::policy::ApprovalAnswer;
use deputize_core::{Cancel, CancelReason};
use deputize_process::{Command, DRAIN_LIMIT, Owner, ServiceProcess};

use crate::call_details::PermissionRequest;
use crate::error::AcpError;
use crate::line_reader::{SharedFault, StderrTail, incoming, outgoing};
use crate::program::AcpProgram;
use crate::transcript::Transcript;

/// Time limit for the program to initialize and to open a session.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Grace period for the program to end its turn after a cancel.
const CANCEL_GRACE: Duration = Duration::from_millis(300);

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptEnd {
    /// The turn completed.
    Turn,
    /// The output limit of its model cut the turn.
    Tokens,
    /// The program reached its limit of requests.
    Requests,
    /// The program refused.
    Refused,
    /// The turn was cancelled.
    Interrupted,
}

/// The result of a conversation.
pub(crate) struct ConversationResult {
    pub(crate) end: Result<PromptEnd, AcpError>,
    /// The answer, possibly partial.
    pub(crate) text: Option<String>,
    /// The last lines of its standard error.
    pub(crate) last_words: String,
}

/// Starts the program, sends it the task, and returns the result.
pub(crate) async fn converse(
    spec: &AgentSpec,
    program: &AcpProgram,
    owner: &Arc<Owner>,
    host: Arc<dyn ExternalAgentHost>,
    cancel: &Cancel,
) -> ConversationResult {
    let mut command = Command::new(program.path.clone(), &spec.cwd);
    command.args.clone_from(&program.args);
    command.env.clone_from(&program.env);
    let service = match owner.open(&command).await {
        Ok(service) => service,
        Err(error) => {
            return ConversationResult {
                end: Err(error.into()),
                text: None,
                last_words: String::new(),
            };
        }
    };
    let (stdin, stdout, stderr, life) = service.into_parts();
    let transcript = Arc::new(Transcript::new(Arc::clone(&host)));
    let fault = SharedFault::default();
    let mut words = StderrTail::default();
    let end = {
        let mut hearing = Box::pin(words.push(stderr));
        let talk = async {
            let stdin = stdin.ok_or(AcpError::Closed)?;
            let lines = Lines::new(outgoing(stdin), incoming(stdout, Arc::clone(&fault)));
            let talking = Exchange { spec, transcript: &transcript, host: &host, cancel };
            Box::pin(talking.over(lines)).await
        };
        let mut talk = Box::pin(until_it_ends(talk, life));
        let mut all_heard = false;
        let end = loop {
            tokio::select! {
                biased;
                end = &mut talk => break end,
                // Standard error may be closed long before the end.
                () = &mut hearing, if !all_heard => all_heard = true,
            }
        };
        if !all_heard {
            // What it said before it ended may still be in the pipe.
            let _rest = tokio::time::timeout(DRAIN_LIMIT, &mut hearing).await;
        }
        end
    };
    transcript.end();
    match &end {
        Ok(end) => tracing::info!(agent = %spec.id, ?end, "external agent ended"),
        Err(error) => {
            tracing::warn!(agent = %spec.id, error = error.label(), "external agent failed")
        }
    }
    let garbage = fault.lock().take();
    let end = garbage.map_or(end, |garbage| Err(garbage.into()));
    ConversationResult { end, text: transcript.answer(), last_words: words.text() }
}

/// Runs the conversation until the program exits; after that, only output already sent is read.
async fn until_it_ends(
    talk: impl Future<Output = Result<PromptEnd, AcpError>>,
    mut life: ServiceProcess,
) -> Result<PromptEnd, AcpError> {
    let mut talk = std::pin::pin!(talk);
    let exit = tokio::select! {
        biased;
        end = &mut talk => {
            let end = match end {
                // Why it is closed is known in a moment.
                Err(AcpError::Closed) => match tokio::time::timeout(DRAIN_LIMIT, life.wait_for_exit()).await
                {
                    Ok(exit) => Err(AcpError::Ended { exit }),
                    Err(_) => Err(AcpError::Closed),
                },
                end => end,
            };
            drop(life);
            return end;
        }
        exit = life.wait_for_exit() => exit,
    };
    match tokio::time::timeout(DRAIN_LIMIT, talk).await {
        Ok(Err(AcpError::Closed)) | Err(_) => Err(AcpError::Ended { exit }),
        Ok(end) => end,
    }
}

struct Exchange<'a> {
    spec: &'a AgentSpec,
    transcript: &'a Arc<Transcript>,
    host: &'a Arc<dyn ExternalAgentHost>,
    cancel: &'a Cancel,
}

impl Exchange<'_> {
    /// Runs the conversation over a connection, until the last turn ends.
    async fn over<O, I>(&self, lines: Lines<O, I>) -> Result<PromptEnd, AcpError>
    where
        Lines<O, I>: agent_client_protocol::ConnectTo<Client> + 'static,
    {
        let heard = Arc::clone(self.transcript);
        let asked = (Arc::clone(self.transcript), Arc::clone(self.host), self.cancel.clone());
        let mut end = Err(AcpError::Closed);
        let place = &mut end;
        let connection = Client
            .v1()
            .name("deputize")
            .on_receive_notification(
                async move |notification: SessionNotification, _: ConnectionTo<Agent>| {
                    heard.apply_update(notification.update);
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest,
                            responder,
                            connection: ConnectionTo<Agent>| {
                    let (transcript, host, cancel) = asked.clone();
                    // What is asked now, whatever is told while somebody thinks of it.
                    let about = transcript.record_question(&request.tool_call);
                    connection.spawn(async move {
                        let outcome = permission(&*host, &about, &request.options, &cancel).await;
                        responder.respond(RequestPermissionResponse::new(outcome))
                    })
                },
                on_receive_request!(),
            )
            .connect_with(lines, async move |connection: ConnectionTo<Agent>| {
                *place = self.turns(&connection).await;
                Ok(())
            });
        // Why it broke off is told by the streams and the program's end.
        let _broken: Result<(), agent_client_protocol::Error> = connection.await;
        end
    }

    async fn turns(&self, connection: &ConnectionTo<Agent>) -> Result<PromptEnd, AcpError> {
        let began = async {
            let hello = connection.send_request(InitializeRequest::new(ProtocolVersion::V1));
            let hello = soon("initialize", hello).await?;
            if hello.protocol_version != ProtocolVersion::V1 {
                return Err(AcpError::Version(hello.protocol_version.to_string()));
            }
            let session = connection.send_request(NewSessionRequest::new(&self.spec.cwd));
            soon("session/new", session).await
        };
        let session = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Ok(PromptEnd::Interrupted),
            () = connection.incoming_closed() => return Err(AcpError::Closed),
            began = began => began?.session_id,
        };
        let mut prompt = self.prompt();
        loop {
            self.transcript.begin();
            let end = match self.turn(connection, &session, prompt).await? {
                PromptResult::Ended(end) => end,
                PromptResult::Closing(closing) => {
                    self.transcript.close();
                    return match self.turn(connection, &session, closing).await? {
                        PromptResult::Ended(end) => Ok(end),
                        PromptResult::Closing(_) => Ok(PromptEnd::Interrupted),
                    };
                }
            };
            let answer = self.transcript.answer().unwrap_or_default();
            match self.host.rejection(&answer).filter(|_| end == PromptEnd::Turn) {
                Some(rejection) => prompt = rejection,
                None => return Ok(end),
            }
        }
    }

    /// Returns the prompt: the system text that a child's model would get, and the task.
    fn prompt(&self) -> String {
        let mut parts: Vec<&str> = self.spec.system.iter().map(|block| &**block).collect();
        parts.push(&self.spec.task);
        parts.join("\n\n")
    }

    /// Sends one prompt and waits for its answer. Past the time limit, cancels the turn and returns
    /// the closing prompt.
    async fn turn(
        &self,
        connection: &ConnectionTo<Agent>,
        session: &SessionId,
        prompt: String,
    ) -> Result<PromptResult, AcpError> {
        let text = ContentBlock::Text(TextContent::new(prompt));
        let request = connection.send_request(PromptRequest::new(session.clone(), vec![text]));
        let mut answer = std::pin::pin!(answer_of("session/prompt", request));
        let closing = async {
            if self.transcript.is_closing() {
                std::future::pending::<()>().await;
            }
            self.host.closing().await
        };
        let closing = tokio::select! {
            biased;
            answered = &mut answer => {
                return answered.map(|reply| PromptResult::Ended(end_of(reply.stop_reason)));
            }
            () = connection.incoming_closed() => return Err(AcpError::Closed),
            () = self.cancel.cancelled() => None,
            text = closing => Some(text),
        };
        let sent = connection.send_notification(CancelNotification::new(session.clone()));
        let Some(closing) = closing else {
            if sent.is_ok() {
                let _settled = tokio::time::timeout(CANCEL_GRACE, answer).await;
            }
            return Ok(PromptResult::Ended(PromptEnd::Interrupted));
        };
        // It may still say what it has; one that does not stop is cut off when that time is up.
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Ok(PromptResult::Ended(PromptEnd::Interrupted)),
            () = connection.incoming_closed() => Err(AcpError::Closed),
            settled = answer => settled.map(|_| PromptResult::Closing(closing)),
        }
    }
}

/// How a prompt ended.
enum PromptResult {
    /// It was answered, or the turn was cancelled from outside.
    Ended(PromptEnd),
    /// The time limit cancelled it. The text is the closing prompt to send.
    Closing(String),
}

fn end_of(reason: StopReason) -> PromptEnd {
    match reason {
        StopReason::MaxTokens => PromptEnd::Tokens,
        StopReason::MaxTurnRequests => PromptEnd::Requests,
        StopReason::Refusal => PromptEnd::Refused,
        // Nobody here told it to end, so it has ended by itself.
        _ => PromptEnd::Turn,
    }
}

/// Waits for the answer to a request, within a time limit.
async fn soon<T: JsonRpcResponse + Send>(
    method: &'static str,
    request: SentRequest<T>,
) -> Result<T, AcpError> {
    let answered = tokio::time::timeout(START_LIMIT, answer_of(method, request)).await;
    answered.unwrap_or(Err(AcpError::Slow { method, limit: START_LIMIT }))
}

async fn answer_of<T: JsonRpcResponse + Send>(
    method: &'static str,
    request: SentRequest<T>,
) -> Result<T, AcpError> {
    request.block_task().await.map_err(|error| match error.code {
        ErrorCode::AUTH_REQUIRED => AcpError::Login,
        _ if is_incoming_transport_closed(&error) => AcpError::Closed,
        _ => {
            let data = error.data.map(|data| format!(" {data}")).unwrap_or_default();
            AcpError::Refused { method, message: format!("{}{data}", error.message) }
        }
    })
}

/// Passes a permission request to the approver and answers it.
async fn permission(
    host: &dyn ExternalAgentHost,
    about: &PermissionRequest,
    options: &[PermissionOption],
    cancel: &Cancel,
) -> RequestPermissionOutcome {
    let PermissionRequest { call, command, details } = about;
    let own = cancel.child();
    // Whoever is to close begins nothing any more.
    let asked = async {
        tokio::select! {
            biased;
            _ = host.closing() => own.cancel(CancelReason::TimeLimit),
            () = std::future::ready(()) => {}
        }
        if own.is_cancelled() {
            None
        } else {
            Some(host.approve(call, command, details, &own).await)
        }
    };
    let mut asked = std::pin::pin!(asked);
    let answer = tokio::select! {
        biased;
        answer = &mut asked => answer,
        _ = host.closing() => {
            own.cancel(CancelReason::TimeLimit);
            asked.await
        }
    };
    let Some(answer) = answer.filter(|_| !own.is_cancelled()) else {
        return RequestPermissionOutcome::Cancelled;
    };
    match choose_option(options, &answer) {
        Some(option) => {
            let id = option.option_id.clone();
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id))
        }
        None => RequestPermissionOutcome::Cancelled,
    }
}

/// Returns the option that allows or rejects this one request only, never later ones.
fn choose_option<'o>(
    options: &'o [PermissionOption],
    answer: &ApprovalAnswer,
) -> Option<&'o PermissionOption> {
    let of = |kind: PermissionOptionKind| options.iter().find(|option| option.kind == kind);
    if answer.allowed {
        return of(PermissionOptionKind::AllowOnce)
            .or_else(|| of(PermissionOptionKind::RejectOnce));
    }
    of(PermissionOptionKind::RejectOnce).or_else(|| of(PermissionOptionKind::RejectAlways))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_one_request_is_allowed() {
        use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
        let choose = |kinds: &[PermissionOptionKind], allowed: bool| {
            let option = |kind: &PermissionOptionKind| {
                PermissionOption::new(format!("{kind:?}"), "x", *kind)
            };
            let options: Vec<_> = kinds.iter().map(option).collect();
            let answer = ApprovalAnswer { allowed, ..ApprovalAnswer::no("test") };
            choose_option(&options, &answer).map(|option| option.kind)
        };
        let all = [AllowAlways, AllowOnce, RejectAlways, RejectOnce];
        assert_eq!(choose(&all, true), Some(AllowOnce));
        assert_eq!(choose(&all, false), Some(RejectOnce));
        assert_eq!(choose(&[AllowAlways, RejectOnce], true), Some(RejectOnce));
        assert_eq!(choose(&[AllowAlways], true), None);
        assert_eq!(choose(&[AllowAlways, RejectAlways], false), Some(RejectAlways));
        assert_eq!(choose(&[], false), None);
    }
}
