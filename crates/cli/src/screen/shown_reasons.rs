//! Reasons that were shown whole, so that none stands once for each agent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use deputize_core::Outcome;
use deputize_core::door::to_line;
use deputize_runtime::is_budget_shortage;

use super::failures::shared_reason;

/// The reason of all warnings that a request does not fit into a budget.
const NO_ROOM: &str = "no room for a request";

/// Reasons, each with the tag of the agent with which it was shown.
#[derive(Debug, Default)]
pub(super) struct ShownReasons(BTreeMap<String, String>);

impl ShownReasons {
    /// Returns why an agent failed: whole, or where the same reason was shown. `None` if it did
    /// not fail or is the top agent, whose reason stands at the very end.
    pub(super) fn words_of_end(&mut self, tag: &str, outcome: &Outcome) -> Option<String> {
        let error = outcome.error.as_deref().filter(|_| !tag.is_empty())?;
        let first = self.first(shared_reason(outcome.exit_reason, error), tag);
        Some(match first {
            Some(first) => format!("the same reason as [{first}]"),
            None => to_line(error, error.len()),
        })
    }

    /// Returns the text of a log entry; the figures of a budget are shown for one agent alone.
    pub(super) fn words_of_log<'m>(&mut self, tag: &str, message: &'m str) -> Cow<'m, str> {
        let first = is_budget_shortage(message).then(|| self.first(NO_ROOM, tag)).flatten();
        match first {
            Some(first) => {
                format!("the budget has no room for its next request, as for [{first}]").into()
            }
            None => message.into(),
        }
    }

    /// Returns the tag of the other child with which a reason was shown, if it was.
    fn first(&mut self, reason: &str, tag: &str) -> Option<String> {
        if tag.is_empty() {
            return None;
        }
        let first = self.0.entry(reason.to_owned()).or_insert_with(|| tag.to_owned());
        (first != tag).then(|| first.clone())
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::{ExitReason, Status};

    use super::*;
    use crate::fixture::{child, outcome};

    #[test]
    fn a_reason_is_shown_whole_with_the_first_agent() {
        let mut reasons = ShownReasons::default();
        let mut words = |tag: &str, exit_reason, error: &str| {
            let mut outcome = outcome(&child(0), Status::Failed, exit_reason);
            outcome.error = Some(error.to_owned());
            reasons.words_of_end(tag, &outcome)
        };
        let budget = ExitReason::Budget;
        let whole = Some("no room: 5 are left".to_owned());
        assert_eq!(words("1/3", budget, "no room: 5 are left"), whole);
        let same = Some("the same reason as [1/3]".to_owned());
        assert_eq!(words("2/3", budget, "no room: 7 are left"), same);
        let error = ExitReason::Error;
        assert_eq!(words("3/3", error, "no room: 5 are left"), whole, "it is about no budget");
        assert_eq!(words("", error, "no room: 5 are left"), None, "the top agent's is elsewhere");
    }

    #[test]
    fn a_warning_about_the_budget_is_shown_whole_with_the_first_child() {
        let mut reasons = ShownReasons::default();
        let short = |left: u32| {
            format!("the next request may take 9 tokens, and 9 must stay: {left} are left")
        };
        assert_eq!(reasons.words_of_log("1/3", &short(3)), short(3));
        assert_eq!(
            reasons.words_of_log("2/3", &short(4)),
            "the budget has no room for its next request, as for [1/3]"
        );
        for (tag, other) in [("", short(5)), ("2/3", "going on with p/m: gone".to_owned())] {
            assert_eq!(reasons.words_of_log(tag, &other), other);
        }
    }
}
