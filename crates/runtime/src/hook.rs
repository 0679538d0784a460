//! Events for hooks, and the end of an agent that a hook blocked.

use std::borrow::Cow;

use deputize_core::event::JournalError;
use deputize_core::hook::{HookEvent, HookPoint};
use deputize_core::sanitize::Secrets;
use deputize_core::{Outcome, Status};
use serde_json::Value;

use crate::agent_context::AgentContext;

/// Why an agent was not let begin, and how it ends.
#[derive(Debug)]
pub(crate) struct StartRefusal {
    pub(crate) status: Status,
    pub(crate) reason: String,
}

/// Runs the hooks that may keep an agent from starting. Returns how it ends if one does.
pub(crate) async fn blocked_start(cx: &AgentContext) -> Result<Option<StartRefusal>, JournalError> {
    let spec = cx.spec();
    let prompt = cx.shared.config.secrets.scrub(spec.request());
    let event = match spec.depth {
        0 => HookEvent::UserPromptSubmit { prompt: &prompt },
        _ => HookEvent::SubagentStart,
    };
    let work = cx.cancel.child();
    let blocked = cx.time.bound(&work, cx.shared.hooks.run(spec, event, &work)).await?;
    let blocked = blocked.map(|reason| match event.point() {
        HookPoint::UserPromptSubmit => message_blocked(&reason),
        _ => format!("a hook did not let this child begin: {reason}"),
    });
    Ok(blocked.map(|reason| StartRefusal { status: Status::Failed, reason }))
}

/// Beginning of a turn's error when a hook blocked its message. Another message continues the
/// session.
pub const MESSAGE_BLOCKED: &str = "a hook blocked the message";

/// Returns the error of a message that a hook blocked.
pub(crate) fn message_blocked(reason: &str) -> String {
    format!("{MESSAGE_BLOCKED}: {reason}")
}

/// The outcome of an agent that was not let begin.
pub(crate) fn blocked(outcome: Outcome, refusal: StartRefusal) -> Outcome {
    let agent = outcome.agent.clone();
    let Outcome { status, exit_reason, error, .. } =
        Outcome::not_started(agent, String::new(), refusal.status, refusal.reason);
    Outcome { status, exit_reason, error, ..outcome }
}

/// A value without secrets.
pub(crate) fn scrubbed<'v>(secrets: &Secrets, value: &'v Value) -> Cow<'v, Value> {
    match value {
        Value::String(text) => match secrets.scrub(text) {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(clean) => Cow::Owned(Value::String(clean)),
        },
        Value::Array(items) => {
            let clean: Vec<_> = items.iter().map(|item| scrubbed(secrets, item)).collect();
            if clean.iter().all(|item| matches!(item, Cow::Borrowed(_))) {
                return Cow::Borrowed(value);
            }
            Cow::Owned(Value::Array(clean.into_iter().map(Cow::into_owned).collect()))
        }
        Value::Object(map) => {
            let clean: Vec<_> = map
                .iter()
                .map(|(key, item)| (secrets.scrub(key), scrubbed(secrets, item)))
                .collect();
            let same = |(key, item): &(Cow<'_, str>, Cow<'_, Value>)| {
                matches!((key, item), (Cow::Borrowed(_), Cow::Borrowed(_)))
            };
            if clean.iter().all(same) {
                return Cow::Borrowed(value);
            }
            let owned = clean.into_iter().map(|(key, item)| (key.into_owned(), item.into_owned()));
            Cow::Owned(Value::Object(owned.collect()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Cow::Borrowed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_loses_its_secrets_wherever_they_are() {
        let mut secrets = Secrets::default();
        secrets.add("KEY", "sk-12345678");
        let plain = json!({"a": [1, "x", null]});
        assert!(matches!(scrubbed(&secrets, &plain), Cow::Borrowed(_)));
        let hidden = json!({"sk-12345678": [{"b": "-sk-12345678-"}], "c": 1});
        assert_eq!(
            *scrubbed(&secrets, &hidden),
            json!({"[redacted:KEY]": [{"b": "-[redacted:KEY]-"}], "c": 1})
        );
    }
}
