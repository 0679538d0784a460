//! Reasons that were shown whole, so that none stands once for each agent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use deputize_core::sanitize::for_terminal_line;
use deputize_core::{AgentId, Outcome};

use crate::agent_name::short;

/// Reasons, each with the agent with which it was shown.
#[derive(Debug, Default)]
pub(super) struct ShownReasons {
    first: BTreeMap<String, String>,
    /// Number of the top agent's turn.
    turn: u32,
}

impl ShownReasons {
    /// Starts a turn, if it is a new one; each turn shows its reasons again.
    pub(super) fn begin_turn(&mut self, turn: u32) {
        if turn != self.turn {
            *self = Self { turn, ..Self::default() };
        }
    }

    /// Returns why an agent failed: whole, or where the same reason was shown. `None` if it did
    /// not fail or is the top agent, whose reason stands at the very end.
    pub(super) fn words_of_end(&mut self, agent: &AgentId, outcome: &Outcome) -> Option<String> {
        let error = outcome.error.as_deref()?;
        let child = child_name(agent)?;
        let reason = outcome.cause.as_deref().unwrap_or(error);
        Some(match self.first_other(reason, child) {
            Some(first) => format!("the same reason as {first}"),
            None => for_terminal_line(error, error.len()),
        })
    }

    /// Returns the text of a log entry. Entries of children that have the same cause are shown whole
    /// for one child alone, which is named.
    pub(super) fn words_of_log<'m>(
        &mut self,
        agent: &AgentId,
        message: &'m str,
        cause: Option<&str>,
    ) -> Cow<'m, str> {
        let Some((child, cause)) = child_name(agent).zip(cause) else { return message.into() };
        match self.first_other(cause, child) {
            Some(first) => format!("{cause}, as for {first}").into(),
            None => format!("{child}: {message}").into(),
        }
    }

    /// Returns the other child with which a reason was shown, if it was.
    fn first_other(&mut self, reason: &str, child: &str) -> Option<String> {
        let first = self.first.entry(reason.to_owned()).or_insert_with(|| child.to_owned());
        (first != child).then(|| first.clone())
    }
}

/// Returns the short id of a child. `None` for the top agent.
fn child_name(agent: &AgentId) -> Option<&str> {
    Some(short(agent)).filter(|_| agent.as_str().contains('/'))
}

#[cfg(test)]
mod tests {
    use deputize_core::Status;
    use deputize_core::outcome::ExitReason;

    use super::*;
    use crate::fixture::{child, outcome, root};

    fn words_of_error(
        reasons: &mut ShownReasons,
        agent: &AgentId,
        exit_reason: ExitReason,
        (error, cause): (&str, Option<&str>),
    ) -> Option<String> {
        let mut outcome = outcome(agent, Status::Failed, exit_reason);
        outcome.error = Some(error.to_owned());
        outcome.cause = cause.map(str::to_owned);
        reasons.words_of_end(agent, &outcome)
    }

    #[test]
    fn a_reason_is_shown_whole_with_the_first_agent() {
        let mut reasons = ShownReasons::default();
        let mut words = |agent: &AgentId, error: &str, cause: Option<&str>| {
            words_of_error(&mut reasons, agent, ExitReason::Budget, (error, cause))
        };
        let tokens = Some("no room (tokens)");
        let whole = "no room: 5 of 9 tokens are left";
        assert_eq!(words(&child(0), whole, tokens).as_deref(), Some(whole));
        let same = Some("the same reason as 1.0.0".to_owned());
        assert_eq!(words(&child(1), "no room: 7 of 9 tokens are left", tokens), same);
        let dollars = "no room: $1 are left";
        assert_eq!(words(&child(1), dollars, Some("no room (dollars)")).as_deref(), Some(dollars));
        // What is written in a reason makes no difference.
        assert_eq!(words(&child(2), whole, None).as_deref(), Some(whole));
        assert_eq!(words(&root(), "no room", None), None, "the top agent's is elsewhere");
    }

    #[test]
    fn agents_of_two_calls_are_distinguished() {
        let mut reasons = ShownReasons::default();
        let call = deputize_core::CallId::new(1, 1);
        for agent in [root().child(call, 0), child(0)] {
            let words =
                words_of_error(&mut reasons, &agent, ExitReason::Error, ("no such model", None));
            let expected =
                if agent == child(0) { "the same reason as 1.1.0" } else { "no such model" };
            assert_eq!(words.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_new_task_shows_its_reasons_anew() {
        let mut reasons = ShownReasons::default();
        let error = ExitReason::Error;
        assert_eq!(
            words_of_error(&mut reasons, &child(0), error, ("no", None)).as_deref(),
            Some("no")
        );
        reasons.begin_turn(0);
        assert_eq!(
            words_of_error(&mut reasons, &child(1), error, ("no", None)).as_deref(),
            Some("the same reason as 1.0.0")
        );
        reasons.begin_turn(1);
        assert_eq!(
            words_of_error(&mut reasons, &child(1), error, ("no", None)).as_deref(),
            Some("no")
        );
    }

    #[test]
    fn a_warning_about_the_budget_is_shown_whole_with_the_first_child() {
        let mut reasons = ShownReasons::default();
        let short = |left: u32| format!("the next request may take 9 tokens: {left} are left");
        let cause = "the budget has no room for the next request (tokens)";
        let mut words = |agent: &AgentId, left: u32, cause: Option<&str>| {
            reasons.words_of_log(agent, &short(left), cause).into_owned()
        };
        assert_eq!(words(&child(0), 3, Some(cause)), format!("1.0.0: {}", short(3)));
        assert_eq!(words(&child(1), 4, Some(cause)), format!("{cause}, as for 1.0.0"));
        // Without a cause, and for the top agent, a text stands as it is.
        assert_eq!(words(&child(1), 5, None), short(5));
        assert_eq!(words(&root(), 6, Some(cause)), short(6));
    }
}
