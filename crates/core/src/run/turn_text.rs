//! The text of a turn that belongs to its result.

/// Separates a report from what the agent said after it.
const LATER_ANSWER: &str = include_str!("../../prompts/later_answer.md");

/// The answers of a turn, and the last text of the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TurnText {
    /// Answers that a message followed. They remain part of the turn's result.
    reports: Vec<String>,
    last: Option<String>,
    /// Text of a broken attempt, until a reply arrives.
    broken: Option<String>,
    /// Whether the last text is only a part of a reply.
    partial: bool,
}

impl TurnText {
    /// Records the text of a reply, which may be empty.
    pub(super) fn record_reply(&mut self, text: &str) {
        self.broken = None;
        if !text.trim().is_empty() {
            self.last = Some(text.to_owned());
            self.partial = false;
        }
    }

    /// Records the text of an attempt that broke off.
    pub(super) fn record_broken(&mut self, text: &str) {
        self.broken = Some(text.to_owned());
    }

    pub(super) fn forget_broken(&mut self) {
        self.broken = None;
    }

    /// Makes the text of the broken attempt, if any, the end of the last text: no reply follows.
    pub(super) fn keep_broken(&mut self) {
        if let Some(partial) = self.broken.take() {
            // The complete text precedes the part that broke off, so that neither is lost.
            let said = self.last.take().map(|said| format!("{said}\n\n"));
            self.last = Some(said.unwrap_or_default() + &partial);
            self.partial = true;
        }
    }

    /// Makes the last text a report.
    pub(super) fn report(&mut self) {
        let answer = self.last.take();
        self.reports.extend(answer.filter(|answer| !self.reports.contains(answer)));
    }

    pub(super) fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Forgets all text: it belongs to the previous turn.
    pub(super) fn clear(&mut self) {
        self.last = None;
        self.reports.clear();
    }

    /// Returns whether the last text is only a part of a reply.
    pub(super) const fn is_partial(&self) -> bool {
        self.partial && self.last.is_some()
    }

    /// Returns the reports and then the last text, as one; `None` if there is no text.
    pub(super) fn join(&self) -> Option<String> {
        let last = self.last.as_ref().filter(|last| !self.reports.contains(last));
        let texts: Vec<&str> = self.reports.iter().chain(last).map(String::as_str).collect();
        (!texts.is_empty()).then(|| texts.join(&format!("\n\n{}\n\n", LATER_ANSWER.trim_end())))
    }

    /// Returns the reports, and the last text if that is an answer too.
    pub(super) fn answers(&self, last_is_answer: bool) -> Vec<&str> {
        let last = self.last.as_ref().filter(|_| last_is_answer);
        self.reports.iter().chain(last).map(String::as_str).collect()
    }
}
