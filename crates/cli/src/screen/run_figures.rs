//! What a run took. Of a resumed session, the figures of this run are told from those of all.

use deputize_core::Outcome;
use deputize_core::budget::Cost;
use deputize_runtime::snapshot::TreeTotals;
use deputize_runtime::{AgentSnapshot, SessionSnapshot};

use super::line::width;
use super::summary::{count, dollars, running, seconds, tokens};

/// Steps of an agent, with tokens, dollars and time of it and all below it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RunFigures {
    replies: u32,
    tokens: u64,
    cost: Cost,
    ms: u64,
}

impl RunFigures {
    pub(super) const fn new(agent: &AgentSnapshot, total: &TreeTotals, ms: u64) -> Self {
        let tokens = total.tokens.input.saturating_add(total.tokens.output);
        Self { replies: agent.usage.replies, tokens, cost: total.cost, ms }
    }

    /// Returns those of a session until this Unix time in milliseconds; `None` if it has not begun.
    pub(super) fn of_session(snapshot: &SessionSnapshot, at: u64) -> Option<Self> {
        let top = snapshot.top()?;
        Some(Self::new(top, &snapshot.totals(), top.elapsed_ms(at)))
    }

    /// Returns what came after those of earlier runs.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            replies: self.replies.saturating_sub(earlier.replies),
            tokens: self.tokens.saturating_sub(earlier.tokens),
            cost: self.cost.saturating_sub(earlier.cost),
            ms: self.ms.saturating_sub(earlier.ms),
        }
    }

    /// Returns as many of them as fit into so many columns.
    pub(super) fn text(&self, columns: usize) -> String {
        let time = running(self.ms);
        // A model that works by rule uses no tokens.
        let spent = Some(self.tokens).filter(|it| *it > 0);
        let spent = |unit| spent.map(|count| format!("{}{unit}", tokens(count)));
        let steps = count(self.replies as usize, "step");
        let cost = dollars(self.cost.known_usd());
        let joined = |figures: &[Option<String>]| {
            figures.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" · ")
        };
        [
            joined(&[Some(steps), spent(" tok"), cost.clone(), Some(time.clone())]),
            joined(&[spent(""), cost, Some(time.clone())]),
            joined(&[spent(""), Some(time.clone())]),
            time,
        ]
        .into_iter()
        .find(|figures| width(figures) <= columns)
        .unwrap_or_default()
    }
}

/// Returns time and dollars of a run that has ended so; of a resumed session, those of this run and
/// of the session.
pub(super) fn end_figures(outcome: &Outcome, earlier: Option<&RunFigures>) -> String {
    let figures = |ms, usd| {
        let cost = dollars(usd).map(|usd| format!(" · {usd}")).unwrap_or_default();
        format!("{}{cost}", seconds(ms))
    };
    let whole = figures(outcome.duration_ms, outcome.cost_usd);
    let Some(earlier) = earlier else { return whole };
    let before = earlier.cost.known_usd().unwrap_or_default();
    let usd = outcome.cost_usd.map(|usd| (usd - before).max(0.0));
    let own = figures(outcome.duration_ms.saturating_sub(earlier.ms), usd);
    format!("{own}; session {whole}")
}
