//! Children that are external programs: their updates go on record, their questions go to the
//! child's approver.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use deputize_core::event::JournalError;
use deputize_core::external_agent::ExternalAgents;
use deputize_core::hook::{HookEvent, HookPoint};
use deputize_core::outcome::ExitReason;
use deputize_core::run::WrapUpReason;
use deputize_core::{Agent, AgentView, Cancel, CancelReason, Message, Outcome, Status};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;

use crate::agent_context::AgentContext;
use crate::external_reporter::{ExternalReporter, FinishedCall};
use crate::inbox::Inbox;
use crate::session_inner::SessionInner;
use crate::settle::{GRACE, settle};
use crate::structured_output::value_of;
use crate::time_limit::TimeShortage;

/// Runs a program as this agent, to its end.
pub(crate) async fn run_program(
    cx: &AgentContext,
    inbox: &Inbox,
    program: Arc<dyn ExternalAgents>,
) -> Result<Outcome, JournalError> {
    let work = cx.cancel.child();
    let (record_sender, records) = mpsc::unbounded_channel();
    let wanted = cx.shared.hooks.has_any(HookPoint::PostToolUse);
    let reporter =
        Arc::new(ExternalReporter::new(cx, work.clone(), wanted.then_some(record_sender)));
    let spec = Arc::clone(&cx.view.spec);
    let host = Arc::clone(&reporter);
    let agent = program.start(spec, host, work.clone());
    let hooked = on_record(Arc::clone(&cx.shared), Arc::clone(&cx.view), records, work.clone());
    let heard = async {
        let ended = await_program(cx, inbox, agent, &work, &reporter).await;
        // No more calls are told of; those that were are shown to the hooks.
        reporter.close_hooks();
        let reason = work.reason().map(|reason| cx.own_reason(reason));
        ended.map(|outcome| program_outcome(cx, outcome, &reporter, reason))
    };
    let heard = async {
        tokio::select! {
            biased;
            ended = heard => ended,
            never = reporter.record_words() => match never {},
        }
    };
    let (heard, hooked) = tokio::join!(heard, hooked);
    let fault = reporter.take_fault();
    if let Some(error) = fault {
        return Err(error);
    }
    hooked?;
    Ok(check_answer(cx, heard?))
}

/// Waits for a program to end. At its time limit, sends a closing request; after that, cancels it.
async fn await_program(
    cx: &AgentContext,
    inbox: &Inbox,
    agent: Box<dyn Agent>,
    work: &Cancel,
    reporter: &ExternalReporter,
) -> Result<Outcome, JournalError> {
    let run = AssertUnwindSafe(async { agent.outcome().await }).catch_unwind();
    let run = pin!(run);
    let mut run = pin!(settle(run, work, None, GRACE));
    let mut ended = cx.time.before_deadline(run.as_mut()).await;
    if ended.is_none() && cx.view.spec.limits.wrap_up_ms > 0 {
        reporter.record_last_words();
        inbox.end_time().await?;
        reporter.ask_to_close(last_message(cx));
        ended = cx.time.before_deadline(run.as_mut()).await;
    }
    let ended = match ended {
        Some(ended) => ended,
        None => {
            work.cancel(CancelReason::TimeLimit);
            run.await
        }
    };
    let spec = &cx.view.spec;
    Ok(match ended {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => {
            let why = "the way to the external agent panicked: this is a bug in deputize";
            Outcome::without_run(spec, Status::Error, why.to_owned())
        }
        None => {
            let why = "the external agent was told to end and did not; what it did is unknown";
            Outcome::without_run(spec, Status::Interrupted, why.to_owned())
        }
    })
}

/// The last message that it was given.
fn last_message(cx: &AgentContext) -> Option<String> {
    match &**cx.state.read().run().messages().last()? {
        Message::User(message) => Some(message.text.clone()),
        Message::Assistant(_) | Message::Tool(_) => None,
    }
}

/// How a program ended, with its calls, and the limit that it came to.
fn program_outcome(
    cx: &AgentContext,
    mut outcome: Outcome,
    reporter: &ExternalReporter,
    reason: Option<CancelReason>,
) -> Outcome {
    let stopped_for = reason.filter(|reason| *reason != CancelReason::Interrupted);
    if let (Some(reason), Status::Interrupted) = (stopped_for, outcome.status) {
        let error = outcome.error.take().unwrap_or_default();
        outcome.error = Some(format!("{}: {error}", reason.as_text()));
    }
    outcome.trace = reporter.take_trace();
    if let (Some(message), Some(error)) = (reporter.log_uncounted(), &mut outcome.error) {
        error.push_str(&format!("; {message}"));
    }
    let closed = reporter.is_closing() && reason.is_none();
    if !closed && reason != Some(CancelReason::TimeLimit) {
        return outcome;
    }
    let (status, exit_reason, error) = match (cx.time.limit(), outcome.status) {
        (WrapUpReason::Time, _) => {
            let why = "the time limit was reached".to_owned();
            (Status::Timeout, ExitReason::Timeout, Some(why))
        }
        (WrapUpReason::Budget, Status::Completed) => (Status::Completed, ExitReason::Budget, None),
        // It did not answer what it was asked last. Nobody sees what it spends: that is the time.
        (WrapUpReason::Budget, _) => {
            let wrap_up = cx.view.spec.limits.wrap_up_ms;
            let why = if wrap_up == 0 {
                TimeShortage::NoneLeft
            } else {
                TimeShortage::NoClosingAnswer(wrap_up)
            };
            let why = why.describe(&cx.shared.config.children.setting_names);
            (Status::Failed, ExitReason::Budget, Some(why))
        }
    };
    Outcome { status, exit_reason, error, ..outcome }
}

/// The outcome of a program that ran when an earlier process ended: it is not started again.
pub(crate) fn program_lost_outcome(cx: &AgentContext) -> Outcome {
    let why = "the program ended while this external agent ran: what it did is unknown. It was \
               not started again; look at what it left before you repeat it.";
    let spec = &cx.view.spec;
    let text = cx.state.read().external_text().map(str::to_owned);
    let lost = Outcome::without_run(spec, Status::Interrupted, why.to_owned());
    Outcome { text, ..lost }
}

/// The same outcome, without secrets and with the value that was asked for.
fn check_answer(cx: &AgentContext, mut outcome: Outcome) -> Outcome {
    let secrets = &cx.shared.config.secrets;
    for text in [&mut outcome.text, &mut outcome.error].into_iter().flatten() {
        *text = secrets.scrub(text).into_owned();
    }
    let Some(schema) = cx.view.spec.output_schema.as_ref() else { return outcome };
    if outcome.status != Status::Completed {
        return outcome;
    }
    match value_of(schema, outcome.text.as_deref().unwrap_or_default()) {
        Ok(value) => outcome.output = Some(value),
        Err(mistakes) => {
            let error = format!("the answer misses its schema: {mistakes}");
            (outcome.status, outcome.error) = (Status::Failed, Some(error));
            outcome.exit_reason = ExitReason::SchemaInvalid;
        }
    }
    outcome
}

/// Merges the agent's outcome with the program's own account. The host saw nothing of its work.
pub(crate) fn merged(own: Outcome, reported: Outcome) -> Outcome {
    Outcome {
        agent: own.agent,
        external: true,
        model: own.model,
        profile: own.profile,
        iterations: 0,
        usage: own.usage,
        children_usage: own.children_usage,
        cost_usd: None,
        duration_ms: own.duration_ms,
        receipts: own.receipts,
        ..reported
    }
}

/// Runs the hooks for the calls of a program, in order. Their answers only go on record, since the
/// program cannot receive them.
async fn on_record(
    shared: Arc<SessionInner>,
    view: Arc<AgentView>,
    mut finished: mpsc::UnboundedReceiver<FinishedCall>,
    work: Cancel,
) -> Result<(), JournalError> {
    while let Some(FinishedCall { call, status, output }) = finished.recv().await {
        let tool = &*call.tool;
        let arguments = &call.arguments;
        let call = call.call;
        let output = &*output;
        let event = HookEvent::PostToolUse { call, tool, arguments, status, output };
        let _undelivered = Box::pin(shared.hooks.run(&view.spec, event, &work)).await?;
    }
    Ok(())
}
