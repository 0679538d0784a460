//! The end of a run: its answer, why an answer is missing or partial, the exit code.

use std::cell::OnceCell;
use std::time::Duration;

use deputize_core::outcome::ExitReason;
use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_core::wording::count;
use deputize_core::{Outcome, Status};
use tokio::time::{Instant, sleep_until};

use super::run_harness::RunHarness;
use crate::args::OutputFormat;
use crate::exit::{CliError, Exit};
use crate::output::json::run_object;
use crate::output::to_json_line;
use crate::stdio::PrintError;

/// How models write calls that their server should have read.
const CALL_MARKS: [&str; 5] =
    ["<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=", "<function_calls>"];
/// A warning about such an answer.
const CALL_AS_TEXT: &str = "warning: the answer is a call of a tool as text, and nothing ran: turn on the \
                            server's parser for calls of this model, or set `tools: constrained` for the \
                            provider";

/// Time limit for a reader that does not read, after an interrupt.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum time for each part of the report, even if an earlier one used up the limit.
const LEAST: Duration = Duration::from_millis(100);

/// Limit on the shown part of a reply that broke off, in characters.
const PART: usize = 400;

/// Writes the end of a run to both streams.
pub(super) struct RunReport<'s> {
    stage: &'s RunHarness,
    /// The run's limit on model requests.
    limit: u32,
    /// The profile's bound on them, if it has one.
    most: Option<u32>,
    /// Deadline for readers; set by an interrupt.
    until: OnceCell<Instant>,
    whole: bool,
}

impl<'s> RunReport<'s> {
    pub(super) const fn new(stage: &'s RunHarness, limit: u32, most: Option<u32>) -> Self {
        Self { stage, limit, most, until: OnceCell::new(), whole: true }
    }

    /// Prints the answer, and to standard error why it is missing or partial.
    pub(super) async fn print(mut self, ended: Result<Outcome, CliError>) -> u8 {
        let stage = self.stage;
        stage.screen.finish();
        self.shown(stage.screen.settled()).await;
        let code = match ended {
            Ok(outcome) => self.outcome(&outcome).await,
            Err(error) => Err(error),
        };
        let code = code.unwrap_or_else(|error| {
            stage.print_line(&error.to_string());
            error.exit().code()
        });
        self.shown(stage.screen.settled()).await;
        // What was interrupted before all of it was told did not end well.
        if self.whole || code != 0 { code } else { Exit::Interrupted.code() }
    }

    async fn outcome(&mut self, outcome: &Outcome) -> Result<u8, CliError> {
        let stage = self.stage;
        if let Some(text) = self.answer(outcome)? {
            stage.out.push(text.into_bytes());
        }
        self.shown(stage.out.written()).await;
        if let Some(error) = stage.out.failure() {
            return Err(CliError::failed(PrintError(error)));
        }
        let left = stage.out.left();
        if left > 0 {
            stage.print_line(&format!("warning: {left} bytes of standard output were not read"));
        }
        let code = outcome.exit_code();
        // Who closed the stream of events knows why there is no more of it.
        if stage.output == OutputFormat::Events && stage.out.is_gone() {
            return Ok(code);
        }
        if let Some(text) = outcome.text.as_ref().filter(|_| outcome.partial) {
            let bytes = text.len();
            stage.print_line(&format!(
                "the last reply broke off after {bytes} bytes: {}",
                for_terminal_line(text, PART)
            ));
        }
        if outcome.status == Status::Completed && outcome.text.as_deref().is_some_and(is_call) {
            stage.print_line(CALL_AS_TEXT);
        }
        if let Some(remark) = remark(outcome, self.limit, self.most) {
            stage.print_line(&remark);
            if outcome.status == Status::Interrupted {
                stage.hint_of_answers();
            }
            stage.hint_to_go_on(outcome);
        }
        Ok(code)
    }

    /// Returns the text for standard output.
    fn answer(&self, outcome: &Outcome) -> Result<Option<String>, CliError> {
        let stage = self.stage;
        Ok(match stage.output {
            OutputFormat::Events => None,
            OutputFormat::Json => {
                let results = stage.results.clone().unwrap_or_default();
                let line = to_json_line(&run_object(&results.read(), outcome));
                Some(line.map_err(CliError::failed)? + "\n")
            }
            // The part of a reply that broke off is no answer.
            OutputFormat::Text if outcome.partial => None,
            OutputFormat::Text => outcome.text.as_ref().map(|text| {
                let text = if stage.out_is_terminal { for_terminal(text) } else { text.clone() };
                let end = if text.ends_with('\n') { "" } else { "\n" };
                text + end
            }),
        })
    }

    /// Waits until output is written; after an interrupt only for a limited time.
    async fn shown(&mut self, output: impl Future<Output = ()>) {
        let late = async {
            self.stage.cancel.cancelled().await;
            let now = Instant::now();
            let until = *self.until.get_or_init(|| now + PRINT_TIMEOUT);
            sleep_until(until.max(now + LEAST)).await;
        };
        let whole = tokio::select! {
            biased;
            () = output => true,
            () = late => false,
        };
        self.whole &= whole;
    }
}

/// Explains why an answer is missing or partial; `None` if it is complete.
fn remark(outcome: &Outcome, limit: u32, most: Option<u32>) -> Option<String> {
    use ExitReason::{Budget, MaxIterations, MaxOutputTokens};
    let more = match outcome.profile.as_deref().filter(|_| most == Some(limit)) {
        None => "--max-iterations allows more".to_owned(),
        Some(profile) => format!(
            "the profile `{profile}` allows no more: a resume has as many again, and a new session \
             what the profile says then"
        ),
    };
    match (outcome.status, outcome.exit_reason) {
        (Status::Completed, MaxIterations) => Some(format!(
            "warning: the limit of {} (max_iterations) was reached: one more asked for a closing \
             answer, which may be incomplete; {more}",
            count(limit as usize, "model request")
        )),
        (Status::Completed, MaxOutputTokens) => {
            Some("warning: the model's output limit cut the answer".to_owned())
        }
        (Status::Completed, Budget) => Some(
            "warning: the budget was reached: this is a closing answer, which may be incomplete"
                .to_owned(),
        ),
        (Status::Completed, _) => None,
        (Status::Interrupted, _) => Some("interrupted".to_owned()),
        (Status::Failed | Status::Error | Status::Timeout, reason) => {
            let error = outcome.error.as_deref().unwrap_or("it failed without a word");
            Some(match reason {
                MaxIterations => format!("error: {error}; {more}"),
                _ => format!("error: {error}"),
            })
        }
    }
}

/// Returns whether an answer is a call that a model wrote as text.
fn is_call(answer: &str) -> bool {
    let answer = answer.trim_start();
    CALL_MARKS.iter().any(|mark| answer.starts_with(mark))
}
