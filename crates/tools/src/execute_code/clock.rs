//! The time of a script, which stands still while one of its calls waits for an answer.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::nested_call::QuestionListener;
use tokio::sync::watch;
use tokio::time::Instant;

/// The time limit of a script.
#[derive(Debug)]
pub(crate) struct ScriptClock {
    limit: Duration,
    /// Number of calls that wait for the answer to a question.
    questions: watch::Sender<usize>,
}

impl ScriptClock {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, questions: watch::Sender::new(0) }
    }

    /// Returns a function to call when a question begins and ends.
    pub(crate) fn question_listener(&self) -> QuestionListener {
        let questions = self.questions.clone();
        Arc::new(move |begins| {
            questions.send_modify(|count| {
                *count = if begins { *count + 1 } else { count.saturating_sub(1) };
            });
        })
    }

    /// Waits until the time is up.
    pub(crate) async fn run_out(&self) {
        let mut questions = self.questions.subscribe();
        let mut left = self.limit;
        loop {
            // The sender is in `self`, so this cannot fail.
            drop(questions.wait_for(|count| *count == 0).await);
            let since = Instant::now();
            tokio::select! {
                biased;
                _ = questions.wait_for(|count| *count > 0) => {
                    left = left.saturating_sub(since.elapsed());
                }
                () = tokio::time::sleep(left) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_stands_still_while_a_question_is_open() {
        let seconds = Duration::from_secs;
        let clock = ScriptClock::new(seconds(10));
        let began = Instant::now();
        let listener = clock.question_listener();
        let questions = async {
            tokio::time::sleep(seconds(4)).await;
            listener(true);
            tokio::time::sleep(seconds(1)).await;
            listener(true);
            tokio::time::sleep(seconds(1000)).await;
            listener(false);
            tokio::time::sleep(seconds(100)).await;
            listener(false);
        };
        let run_out = async {
            clock.run_out().await;
            began.elapsed()
        };
        let (took, ()) = tokio::join!(run_out, questions);
        assert_eq!(took, seconds(10 + 1 + 1000 + 100));
    }
}
