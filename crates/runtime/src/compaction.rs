//! Compaction of an agent's conversation: when, how much, and the request for the summary.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::budget::Cost;
use deputize_core::compaction::{Compaction, CompactionLimits, ReplacedPart, SummaryRequest};
use deputize_core::cut_result::CutResult;
use deputize_core::event::{JournalError, LogLevel, RequestPurpose};
use deputize_core::message::UserMessage;
use deputize_core::model::{Delta, FailureKind, Finish, ModelError, Reply, Request, ToolChoice};
use deputize_core::rate_limit::{NextAttempt, Permit};
use deputize_core::source::Source;
use deputize_core::truncate::truncate_with_count;
use deputize_core::{Cancel, Event, Message};
use tokio::time::Instant;

use crate::agent_context::AgentContext;
use crate::models::ModelRoute;
use crate::prompt::summary_request;
use crate::readable_messages::readable_by;
use crate::request_budget::{ReplyCost, RequestBudget};
use crate::request_size::request_bytes;
use crate::retry_waits::RetryWaits;

mod notes;
mod record_list;

use notes::compacted_message;

/// After so many compactions in a row that won little, or that failed, no more are made.
pub(crate) const MOST_USELESS: u32 = 3;
/// Maximum number of attempts to get one summary from a model.
const MOST_ATTEMPTS: u32 = 6;
/// Tokens of the last messages, and of earlier requests, that stay as they are.
const KEPT_TOKENS: u64 = 20_000;
/// Of the room for messages, the last ones keep one part in so many.
const TAIL_PART: u64 = 4;
/// Of the room for messages, the step that no model has answered keeps one part in so many.
const STEP_PART: u64 = 2;
/// Of the room for messages, earlier requests keep one part in so many.
const REQUESTS_PART: u64 = 8;
/// A compaction replaces at least so many bytes: a summary is rarely shorter.
const LEAST_BYTES: u64 = 2_048;
/// Of the bytes that a summary replaces, it wins at least one part in so many: the rest of it is left
/// out.
const LEAST_WON_PART: u64 = 20;
/// Bytes of a summary that are never left out.
const LEAST_SUMMARY: usize = 1_024;
/// A compaction replaces at least one part in so many of the room for messages.
const LEAST_PART: u64 = 16;

/// Of a model's context, what the host has on record takes at most one part in so many.
const RECORD_PART: u64 = 8;
/// Bytes that it may take in any context.
const LEAST_RECORD: u64 = 1_024;
/// Percentage of a model's context that a request for a summary may fill; the summary takes the
/// rest.
const SUMMARY_PERCENT: u64 = 90;

/// What came of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactionResult {
    /// The conversation is shorter.
    Compacted,
    /// No model wrote a summary; the conversation is as it was.
    Failed,
    /// The agent must not go on as it is: it was cancelled, or the budget has no room.
    Interrupted,
}

/// A summary, and what it cost.
struct Summary {
    text: String,
    request: SummaryRequest,
}

/// An attempt to get a summary that failed, with its cost if that is known.
struct FailedSummary {
    error: ModelError,
    cost: Option<Cost>,
    next: NextAttempt,
}

/// What came of a request for a summary.
enum SummaryResult {
    Written(Box<Summary>),
    Failed(ModelError),
    Interrupted,
}

/// Compacts the conversation of one agent.
pub(crate) struct Compactor {
    cx: Arc<AgentContext>,
    /// Number of last compactions that failed.
    failed: u32,
}

impl Compactor {
    pub(crate) fn new(cx: &Arc<AgentContext>) -> Self {
        Self { cx: Arc::clone(cx), failed: 0 }
    }

    /// Returns whether the next request fills so much of a model's context that a compaction is due.
    pub(crate) fn is_due(&self, budget: &RequestBudget, route: &ModelRoute) -> bool {
        let Some(window) = route.context_window else { return false };
        let size = budget.request_size(route);
        #[expect(clippy::cast_precision_loss, reason = "windows are small numbers")]
        let filled = size.tokens as f64 / f64::from(window.max(1));
        filled >= self.cx.shared.config.requests.compaction.at
    }

    /// Returns the part of the conversation that a compaction would replace, if one is of use.
    /// The last step stays if it takes at most so many bytes.
    pub(crate) fn part(
        &self,
        step: u64,
        budget: &RequestBudget,
        route: &ModelRoute,
    ) -> Option<ReplacedPart> {
        if self.failed >= MOST_USELESS {
            return None;
        }
        let most = budget.request_size(route).bytes_of(KEPT_TOKENS);
        let room = self.room(budget, route);
        self.cx.state.read().run().replaceable_part(CompactionLimits {
            tail: (room / TAIL_PART).min(most),
            step,
            requests: (room / REQUESTS_PART).min(most),
            least: (room / LEAST_PART).max(LEAST_BYTES),
        })
    }

    /// Records what makes the conversation shorter. The agent no longer has all that it read.
    pub(crate) async fn record(&self, event: Event) -> Result<(), JournalError> {
        self.cx.record(event).await?;
        self.cx.view.session.files.forget_contents(self.cx.view.id());
        Ok(())
    }

    /// Returns the bytes that the last step may take. Where the context is not known, all that is
    /// known is that the request was too long.
    pub(crate) fn step_room(&self, budget: &RequestBudget, route: &ModelRoute) -> u64 {
        self.room(budget, route) / route.context_window.map_or(TAIL_PART, |_| STEP_PART)
    }

    /// Cuts the results of the last step to so many bytes, if it is larger.
    pub(crate) fn cut_results(&self, room: u64) -> Vec<CutResult> {
        self.cx.state.read().run().cut_last_results(room, &self.cx.view.session.id)
    }

    /// Returns the bytes that a model's context has for messages.
    fn room(&self, budget: &RequestBudget, route: &ModelRoute) -> u64 {
        let size = budget.request_size(route);
        let window = size.window_bytes(route.context_window);
        let state = self.cx.state.read();
        let fixed = size.bytes.saturating_sub(messages_bytes(state.run().messages()));
        window.saturating_sub(fixed)
    }

    /// Replaces a part of the conversation by a summary.
    pub(crate) async fn compact(
        &mut self,
        part: ReplacedPart,
        budget: &mut RequestBudget,
        waits: &mut RetryWaits,
        route: &ModelRoute,
    ) -> Result<CompactionResult, JournalError> {
        let mut error = None;
        for writer in self.writers(route) {
            let work = SummaryWork { cx: &self.cx, part: &part, route: &writer };
            match work.write(budget, waits).await? {
                SummaryResult::Written(summary) => {
                    self.failed = 0;
                    let size = budget.request_size(route);
                    let window = size.window_bytes(route.context_window);
                    let room = (window / RECORD_PART).max(LEAST_RECORD);
                    let compaction = self.compaction(part, *summary, size.bytes, room);
                    self.record(Event::Compaction(Box::new(compaction))).await?;
                    return Ok(CompactionResult::Compacted);
                }
                SummaryResult::Failed(failure) => {
                    if writer.name != route.name {
                        self.cx.log(LogLevel::Warn, own_writes(&writer.name, &failure))?;
                    }
                    error = Some(failure);
                }
                SummaryResult::Interrupted => return Ok(CompactionResult::Interrupted),
            }
        }
        self.failed += 1;
        let why = error.map(|error| error.message).unwrap_or_default();
        self.cx.log(LogLevel::Warn, format!("the conversation could not be summarized: {why}"))?;
        Ok(CompactionResult::Failed)
    }

    /// Returns the models that may write a summary, in this order.
    fn writers(&self, own: &ModelRoute) -> Vec<ModelRoute> {
        let config = &self.cx.shared.config;
        let named = config.models.route(&config.requests.compaction.model);
        let is_child = self.cx.spec().depth > 0;
        let named = named.filter(|route| {
            route.name != own.name
                && self.cx.view.authority.may_use_model(&route.name)
                && (route.price.is_some() || !config.budgets.need_prices(is_child))
        });
        named.into_iter().chain([own]).cloned().collect()
    }

    fn compaction(
        &self,
        part: ReplacedPart,
        summary: Summary,
        bytes_before: u64,
        room: u64,
    ) -> Compaction {
        let Summary { text, request } = summary;
        let messages = self.cx.state.messages();
        let kept = part.kept.iter().filter_map(|at| messages.get(*at));
        let kept: u64 = kept.map(|message| message.text_bytes()).sum();
        let all = messages_bytes(messages.get(part.first..part.end).unwrap_or_default());
        let replaced = all.saturating_sub(kept);
        // Some models write more than they read: such a summary frees little, and so counts as useless.
        let message =
            |text: &str| compacted_message(&self.cx, part.count(), &request.model, text, room);
        let most = usize::try_from(replaced - replaced / LEAST_WON_PART).unwrap_or(usize::MAX);
        let most = most.saturating_sub(message("").len()).max(LEAST_SUMMARY);
        let text = message(&truncate_with_count(&text, most));
        let text = self.cx.shared.config.secrets.scrub(&text).into_owned();
        let bytes_after = (bytes_before + text.len() as u64).saturating_sub(replaced);
        Compaction {
            part,
            text,
            bytes_before,
            bytes_after,
            path: self.cx.shared.path.clone(),
            request,
        }
    }
}

/// Returns that the model for summaries wrote none, and what happens now.
fn own_writes(model: &str, failure: &ModelError) -> String {
    let why = &failure.message;
    format!("{model} wrote no summary of the conversation: {why}; the agent's own model writes it")
}

/// A request for a summary of a part of the conversation.
struct SummaryWork<'w> {
    cx: &'w Arc<AgentContext>,
    part: &'w ReplacedPart,
    route: &'w ModelRoute,
}

impl SummaryWork<'_> {
    /// Requests the summary. If the conversation is too long even for that, as the provider counts,
    /// the oldest half of it is left out, and again.
    async fn write(
        &self,
        budget: &mut RequestBudget,
        waits: &mut RetryWaits,
    ) -> Result<SummaryResult, JournalError> {
        let conversation = self.cx.state.messages();
        let mut from = self.fitting_start(&conversation, self.room(&conversation, budget));
        let mut attempt = 1;
        loop {
            if !budget.reserve(ToolChoice::Auto, self.route).await? {
                return Ok(SummaryResult::Interrupted);
            }
            let begun = Instant::now();
            let failed = match self.attempt(&conversation, from, budget).await? {
                Ok((reply, cost)) => {
                    return Ok(SummaryResult::Written(Box::new(self.summary(reply, cost, begun))));
                }
                Err(failed) => failed,
            };
            let FailedSummary { error, cost, next } = *failed;
            let is_overflow = error.kind == FailureKind::ContextOverflow;
            let is_cancelled = error.kind == FailureKind::Cancelled;
            self.cx.record(Event::ModelError { error: error.clone(), retried: true, cost }).await?;
            if is_cancelled {
                return Ok(SummaryResult::Interrupted);
            }
            let rest =
                is_overflow.then(|| later_half(&conversation, from, self.part.end)).flatten();
            let wait = match rest {
                Some(later) => {
                    from = later;
                    Some(Duration::ZERO)
                }
                None => waits.wait_for(attempt, &error, next),
            };
            let Some(wait) = wait.filter(|_| attempt < MOST_ATTEMPTS) else {
                return Ok(SummaryResult::Failed(error));
            };
            if waits.rest(wait).await {
                return Ok(SummaryResult::Interrupted);
            }
            attempt += 1;
        }
    }

    fn summary(&self, reply: Reply, cost: ReplyCost, begun: Instant) -> Summary {
        let request = SummaryRequest {
            model: self.route.name.clone(),
            usage: reply.usage,
            estimated: cost.estimated,
            cost_usd: cost.cost.known_usd(),
            ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        Summary { text: reply.text, request }
    }

    /// Makes one attempt with the messages from a position on. The messages before it in the
    /// request are the same as in the agent's own requests, so that a provider's cache serves them.
    async fn attempt(
        &self,
        conversation: &[Arc<Message>],
        from: usize,
        budget: &mut RequestBudget,
    ) -> Result<Result<(Reply, ReplyCost), Box<FailedSummary>>, JournalError> {
        let work = self.cx.cancel.child();
        let mut pass = match self.permit(&work).await {
            Ok(pass) => pass,
            Err(error) => {
                let next = NextAttempt::GiveUp;
                return Ok(Err(Box::new(FailedSummary { error, cost: None, next })));
            }
        };
        let messages = self.messages(conversation, from, self.room(conversation, budget));
        let messages = readable_by(&messages, &self.route.name);
        let options = budget.limited_options().into_owned();
        let spec = &self.cx.view.spec;
        let request = Request {
            model: &self.route.at_provider,
            system: &spec.system,
            tools: &self.cx.view.declared,
            messages: &messages,
            tool_choice: ToolChoice::None,
            options: &options,
        };
        let bytes = request_bytes(&request);
        budget.begin_summary(bytes);
        self.cx.shared.bus.record(spec, self.request_event(&request, bytes))?;
        let mut arrived: Option<u64> = None;
        let mut live = |delta: Delta<'_>| self.cx.count_delta(delta, &mut *pass, &mut arrived);
        let reply = self.route.model.reply(&request, &mut live, &work);
        let reply = self.cx.time.bound(&work, reply).await.and_then(with_text);
        let next = pass.finish(reply.as_ref().map(|_| ()));
        let settled = match reply {
            Ok(mut reply) => {
                let cost = budget.settle(ToolChoice::Auto, &mut reply, self.route);
                Ok((reply, cost))
            }
            Err(error) => {
                // No part of a summary is of use to anybody.
                let mut error = ModelError { partial: String::new(), ..error.limit_text() };
                error.message = self.cx.shared.config.secrets.scrub(&error.message).into_owned();
                let cost = budget.settle_broken(&mut error, arrived, self.route);
                Err(Box::new(FailedSummary { error, cost, next }))
            }
        };
        budget.end_summary();
        Ok(settled)
    }

    /// Waits until the request may be sent.
    async fn permit(&self, work: &Cancel) -> Result<Box<dyn Permit>, ModelError> {
        self.cx.check_model(&self.route.name)?;
        let pass = self.cx.shared.config.requests.rate_limiter.acquire(&self.route.name, work);
        self.cx.time.bound(work, pass).await
    }

    fn request_event(&self, request: &Request<'_>, bytes: u64) -> Event {
        Event::ModelRequest {
            iteration: self.cx.state.read().run().iterations() + 1,
            messages: request.messages.len() as u64,
            bytes,
            model: self.route.name.clone(),
            purpose: RequestPurpose::Summary,
        }
    }

    /// Returns the bytes that the messages of the request may take; `None` if the context is not
    /// known.
    fn room(&self, conversation: &[Arc<Message>], budget: &RequestBudget) -> Option<u64> {
        let window = u64::from(self.route.context_window?);
        let size = budget.request_size(self.route);
        let fixed = size.bytes.saturating_sub(messages_bytes(conversation));
        Some(size.bytes_of(window * SUMMARY_PERCENT / 100).saturating_sub(fixed))
    }

    /// Returns from where on the messages fit into the request. The oldest half is left out where
    /// they do not, and again.
    fn fitting_start(&self, conversation: &[Arc<Message>], room: Option<u64>) -> usize {
        let mut from = self.part.first;
        let is_large = |from| {
            let bytes = || messages_bytes(&self.messages(conversation, from, room));
            room.is_some_and(|room| bytes() > room)
        };
        while is_large(from)
            && let Some(later) = later_half(conversation, from, self.part.end)
        {
            from = later;
        }
        from
    }

    /// Returns the messages of the request from a position on. Of results for which there is no
    /// room, it has the beginning and the end.
    fn messages(
        &self,
        conversation: &[Arc<Message>],
        from: usize,
        room: Option<u64>,
    ) -> Vec<Arc<Message>> {
        let prefill = conversation.iter().take(self.part.first);
        let part = conversation.iter().take(self.part.end).skip(from);
        let text = summary_request().to_owned();
        let request =
            Arc::new(Message::User(UserMessage::new(text).with_sources([Source::host()])));
        let mut messages: Vec<_> = prefill.chain(part).cloned().chain([request]).collect();
        let room = room.unwrap_or(u64::MAX);
        for cut in CutResult::fit(&messages, room, &self.cx.view.session.id) {
            cut.replace_in(&mut messages);
        }
        messages
    }
}

/// Returns a reply with text, or else the error that there is none.
fn with_text(reply: Reply) -> Result<Reply, ModelError> {
    let is_unwilling = matches!(reply.finish, Finish::Refused | Finish::Undone);
    if !is_unwilling && !reply.text.trim().is_empty() {
        return Ok(reply);
    }
    let message = "the model wrote no summary";
    Err(ModelError {
        usage: Some(Box::new(reply.usage)),
        model_mistake: true,
        ..ModelError::new(FailureKind::Fatal, message)
    })
}

fn messages_bytes(messages: &[Arc<Message>]) -> u64 {
    messages.iter().map(|message| message.text_bytes()).sum()
}

/// Returns where the later half of some messages begins, if they are more than one: with no result
/// of a call.
fn later_half(conversation: &[Arc<Message>], from: usize, end: usize) -> Option<usize> {
    let part = conversation.get(from..end)?;
    let half = messages_bytes(part) / 2;
    let mut before = 0;
    for (at, message) in (from..end).zip(part) {
        if at > from && before >= half && !matches!(**message, Message::Tool(_)) {
            return Some(at);
        }
        before += message.text_bytes();
    }
    None
}

#[cfg(test)]
mod tests {

    use deputize_core::message::{AssistantMessage, CallStatus, ModelText};
    use deputize_core::source_set::SourceSet;
    use deputize_core::{CallId, ToolResult};

    use super::*;

    #[test]
    fn the_later_half_begins_with_no_result() {
        let asked = |bytes: usize| Message::User(UserMessage::new("x".repeat(bytes)));
        let called = Message::Assistant(AssistantMessage::default());
        let result = |bytes: usize| {
            Message::Tool(ToolResult {
                call: CallId::new(1, 0),
                status: CallStatus::Ok,
                text: ModelText::own("x".repeat(bytes)),
                fingerprint: String::new(),
                images: Vec::new(),
                sources: SourceSet::new(),
            })
        };
        let messages: Vec<_> =
            [asked(9), asked(60), called.clone(), result(10), result(40), called, result(20)]
                .into_iter()
                .map(Arc::new)
                .collect();
        assert_eq!(later_half(&messages, 1, 7), Some(5));
        assert_eq!(later_half(&messages, 5, 7), None);
        assert_eq!(later_half(&messages, 0, 2), None);
    }
}
