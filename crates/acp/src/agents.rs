//! Children that are ACP programs.

use std::fmt;
use std::sync::Arc;

use deputize_core::agent::AgentSpec;
use deputize_core::external_agent::{ExternalAgentHost, ExternalAgents};
use deputize_core::outcome::ExitReason;
use deputize_core::{
    Agent, AgentId, Authority, BoxFuture, Cancel, Outcome, Status, ToolName, describe_error,
};
use deputize_process::{Owner, Supervisor, SupervisorError};

use crate::conversation::{PromptEnd, converse};
use crate::error::AcpError;
use crate::program::AcpProgram;

/// The tools that such a child must be due: nothing bounds what the program does.
pub static NEEDS: [ToolName; 2] = [ToolName::literal("terminal"), ToolName::literal("write_file")];

type SupervisorFn = dyn Fn() -> Result<Arc<Supervisor>, SupervisorError> + Send + Sync;

/// Agents that are runs of one program; each child starts its own.
pub struct AcpAgents {
    program: Arc<AcpProgram>,
    supervisor: Arc<SupervisorFn>,
}

impl fmt::Debug for AcpAgents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AcpAgents({})", self.program.path.display())
    }
}

impl AcpAgents {
    /// Creates the agents of a program, whose processes the supervisor owns. `supervisor` is
    /// called at each child; if it fails, that child fails.
    #[must_use]
    pub fn new(
        program: AcpProgram,
        supervisor: impl Fn() -> Result<Arc<Supervisor>, SupervisorError> + Send + Sync + 'static,
    ) -> Self {
        Self { program: Arc::new(program), supervisor: Arc::new(supervisor) }
    }
}

impl ExternalAgents for AcpAgents {
    fn refusal(&self, child: &AgentSpec, may: &Authority) -> Option<String> {
        let missing = NEEDS.iter().find(|tool| !may.has(tool.as_str()));
        let missing = missing.map(|tool| format!("have `{tool}`"));
        let missing = missing.or_else(|| {
            let why = || format!("write in {}", child.cwd.display());
            (!may.may_write(&child.cwd)).then(why)
        });
        let missing = missing?;
        Some(format!(
            "children are external programs here, which may do all that a command may; this child \
             may not {missing}: do the work yourself"
        ))
    }

    fn start(
        &self,
        spec: Arc<AgentSpec>,
        host: Arc<dyn ExternalAgentHost>,
        cancel: Cancel,
    ) -> Box<dyn Agent> {
        let program = Arc::clone(&self.program);
        let supervisor = Arc::clone(&self.supervisor);
        Box::new(AcpChild { spec, program, supervisor, host, cancel })
    }
}

struct AcpChild {
    spec: Arc<AgentSpec>,
    program: Arc<AcpProgram>,
    supervisor: Arc<SupervisorFn>,
    host: Arc<dyn ExternalAgentHost>,
    cancel: Cancel,
}

impl Agent for AcpChild {
    fn id(&self) -> &AgentId {
        &self.spec.id
    }

    fn outcome(self: Box<Self>) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            let Self { spec, program, supervisor, host, cancel } = *self;
            let owner = match supervisor() {
                Ok(supervisor) => Arc::new(supervisor.owner()),
                Err(error) => return failed_outcome(&spec, None, &AcpError::from(error), ""),
            };
            let run_outcome = run(&spec, &program, &owner, host, &cancel).await;
            // Nothing of it is left, whatever it started.
            let ended = owner.end().await;
            let mut outcome = run_outcome;
            if !ended.is_complete() {
                let note = "some of its processes could not be ended";
                outcome.error = Some(match outcome.error.take() {
                    Some(error) => format!("{error} ({note})"),
                    None => note.to_owned(),
                });
            }
            outcome
        })
    }
}

async fn run(
    spec: &AgentSpec,
    program: &AcpProgram,
    owner: &Arc<Owner>,
    host: Arc<dyn ExternalAgentHost>,
    cancel: &Cancel,
) -> Outcome {
    if cancel.is_cancelled() {
        let why = "interrupted before it was started".to_owned();
        return Outcome::without_run(spec, Status::Interrupted, why);
    }
    let conversation = converse(spec, program, owner, host, cancel).await;
    match conversation.end {
        Ok(PromptEnd::Interrupted) => {
            let outcome = Outcome::without_run(spec, Status::Interrupted, "interrupted".to_owned());
            Outcome { text: conversation.text, ..outcome }
        }
        Ok(end) => completed_outcome(spec, conversation.text, end),
        Err(error) => failed_outcome(spec, conversation.text, &error, &conversation.last_words),
    }
}

/// The outcome of a program that came to an end of its own.
fn completed_outcome(spec: &AgentSpec, text: Option<String>, end: PromptEnd) -> Outcome {
    let (status, exit_reason, error) = match (end, &text) {
        (PromptEnd::Refused, _) => {
            (Status::Failed, ExitReason::Error, Some("the external agent declined the task"))
        }
        (_, None) => {
            (Status::Failed, ExitReason::Error, Some("the external agent gave an empty answer"))
        }
        (PromptEnd::Tokens, _) => (Status::Completed, ExitReason::MaxOutputTokens, None),
        (PromptEnd::Requests, _) => (Status::Completed, ExitReason::MaxIterations, None),
        (PromptEnd::Turn | PromptEnd::Interrupted, _) => {
            (Status::Completed, ExitReason::Completed, None)
        }
    };
    let outcome = Outcome::without_run(spec, status, String::new());
    Outcome { exit_reason, text, error: error.map(str::to_owned), ..outcome }
}

fn failed_outcome(
    spec: &AgentSpec,
    text: Option<String>,
    error: &AcpError,
    last_words: &str,
) -> Outcome {
    let mut why = describe_error(error);
    if !last_words.is_empty() {
        why.push_str("; its last words on standard error: ");
        why.push_str(last_words);
    }
    let status = match error {
        AcpError::Supervisor(_) | AcpError::Spawn(_) => Status::Error,
        _ => Status::Failed,
    };
    Outcome { text, ..Outcome::without_run(spec, status, why) }
}
