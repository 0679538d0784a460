//! Asks before an external agent starts.

use deputize_core::authority::ApproverMode;
use deputize_core::event::JournalError;
use deputize_core::policy::{Question, effective_mode};
use deputize_core::{CallId, CancelReason, Status, ToolName};
use serde_json::Map;

use crate::agent_context::AgentContext;
use crate::hook::StartRefusal;

/// Call id of the question before an external agent starts. No call of such an agent has this id.
const START: CallId = CallId::new(0, 0);

/// Asks whether a program of its own may start, which then does what it wants: what it does not ask
/// for nobody decides. Returns how it ends if it may not.
pub(crate) async fn denied_start(cx: &AgentContext) -> Result<Option<StartRefusal>, JournalError> {
    if effective_mode(&cx.view) == ApproverMode::Auto {
        return Ok(None);
    }
    let spec = &cx.view.spec;
    let question = Question {
        agent: spec.id.clone(),
        goal: spec.goal.clone(),
        call: START,
        tool: ToolName::literal("external"),
        command: spec.model.clone(),
        arguments: Map::new(),
        cwd: spec.cwd.clone(),
        class: "external".to_owned(),
        reason: "a program that acts on its own; what it does it asks you only if it chooses to"
            .to_owned(),
        needs_person: false,
        saved: None,
    };
    let work = cx.cancel.child();
    let asked = cx.shared.approvals.decide(&cx.view, &question, &work);
    let answer = cx.time.bound(&work, asked).await?;
    if answer.allowed {
        return Ok(None);
    }
    let (status, why) = match work.reason() {
        None => {
            let more = Some(answer.reason).filter(|more| !more.is_empty());
            let more = more.map(|more| format!(": {more}")).unwrap_or_default();
            (Status::Failed, format!("denied by {}{more}", answer.by))
        }
        Some(_) if cx.time.is_up() => (Status::Timeout, CancelReason::TimeLimit.as_text().into()),
        Some(reason) => (Status::Interrupted, cx.own_reason(reason).as_text().into()),
    };
    let setting = match cx.shared.config.children.setting_names.name("approvals") {
        "" => String::new(),
        name => format!("; {name} says who may allow that"),
    };
    let reason = format!(
        "not started ({why}): it is a program of its own, which does what it wants with all \
         the rights of the user{setting}"
    );
    Ok(Some(StartRefusal { status, reason }))
}
