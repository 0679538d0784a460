//! A runtime that runs one task at a time, so that a test can act between any two steps.

use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::{Builder, Handle, Runtime};

/// Consecutive polls of the probe, with nothing between them, that show that all tasks wait.
const ROUNDS: u32 = 3;
/// Number of internal tasks: the probe.
const OURS: usize = 1;

/// How the work ended.
#[derive(Debug, PartialEq, Eq)]
pub enum StepsEnd<T> {
    /// It finished with this result.
    Done(T),
    /// The test stopped it; its tasks are dropped with the runtime.
    Stopped,
    /// Its virtual time limit passed.
    Hung,
}

/// A runtime on this thread whose clock stands still while any task can run, and then jumps to the
/// next timer. The test is called between any two polls of tasks: a crash is a stop there, and any
/// other outside event happens there too.
///
/// ```
/// use std::ops::ControlFlow;
/// use std::time::Duration;
/// use deputize_testkit::{StepsEnd, Steps};
///
/// let hour = Duration::from_secs(3600);
/// let work = || async move { tokio::time::sleep(hour).await };
/// assert_eq!(Steps::new()?.run(work(), hour * 2, |_| ControlFlow::Continue(())), StepsEnd::Done(()));
/// assert_eq!(Steps::new()?.run(work(), hour / 2, |_| ControlFlow::Continue(())), StepsEnd::Hung);
/// assert_eq!(Steps::new()?.run(work(), hour * 2, |_| ControlFlow::Break(())), StepsEnd::Stopped);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Steps {
    runtime: Runtime,
    probe: Arc<Probe>,
    /// Waker of the task that waits for the clock to jump.
    jumped: Arc<Mutex<Option<Waker>>>,
}

/// A task that is always ready, whose turns show when no other task is.
#[derive(Debug, Default)]
struct Probe {
    polls: AtomicU64,
    rests: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Steps {
    /// Creates a runtime.
    ///
    /// # Errors
    /// If the system provides none.
    pub fn new() -> io::Result<Self> {
        let jumped: Arc<Mutex<Option<Waker>>> = Arc::default();
        let wake = Arc::clone(&jumped);
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .event_interval(1)
            .on_thread_unpark(move || lock(&wake).take().into_iter().for_each(Waker::wake))
            .build()?;
        let probe: Arc<Probe> = Arc::default();
        let turns = Arc::clone(&probe);
        runtime.spawn(poll_fn(move |cx| {
            turns.polls.fetch_add(1, Ordering::Relaxed);
            if turns.rests.load(Ordering::Relaxed) {
                *lock(&turns.waker) = Some(cx.waker().clone());
            } else {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        Ok(Self { runtime, probe, jumped })
    }

    /// Runs some work, which may spawn tasks. `before` is called before each step with the number
    /// of steps so far, and may stop the work.
    ///
    /// # Panics
    /// If the work panics.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        longest: Duration,
        mut before: impl FnMut(u64) -> ControlFlow<()>,
    ) -> StepsEnd<T> {
        // Spawned inside, so that they are queued behind each other like woken tasks.
        let (mut work, mut hung) = self.inside(|| {
            let runtime = Handle::current();
            (runtime.spawn(work), runtime.spawn(tokio::time::sleep(longest)))
        });
        let mut steps = 0;
        let mut rounds = 0;
        let mut last_step = None;
        loop {
            let turns = self.probe.polls.load(Ordering::Relaxed);
            let asked = self.inside(|| match last_step.replace(steps) {
                Some(before) if before == steps => ControlFlow::Continue(()),
                _ => before(steps),
            });
            if asked.is_break() {
                return StepsEnd::Stopped;
            }
            if self.probe.polls.load(Ordering::Relaxed) > turns {
                rounds += 1;
                if rounds >= ROUNDS {
                    rounds = 0;
                    self.jump();
                }
                continue;
            }
            rounds = 0;
            if work.is_finished() {
                hung.abort();
                let _aborted = self.runtime.block_on(&mut hung);
                return match self.runtime.block_on(&mut work) {
                    Ok(done) => StepsEnd::Done(done),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                };
            }
            if hung.is_finished() {
                return StepsEnd::Hung;
            }
            steps += 1;
        }
    }

    /// Runs something inside the runtime, and then lets one task run.
    fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut work = Some(work);
        let mut done = None;
        self.runtime.block_on(poll_fn(|cx| match work.take() {
            Some(work) => {
                done = Some(work());
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => done.take().map_or(Poll::Pending, Poll::Ready),
        }))
    }

    /// Returns the number of tasks that have not ended after the work.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks().saturating_sub(OURS)
    }

    /// Lets the clock jump to the next timer.
    fn jump(&self) {
        self.probe.rests.store(true, Ordering::Relaxed);
        let mut asked = false;
        self.runtime.block_on(poll_fn(|cx| {
            if std::mem::replace(&mut asked, true) {
                return Poll::Ready(());
            }
            *lock(&self.jumped) = Some(cx.waker().clone());
            Poll::Pending
        }));
        self.probe.rests.store(false, Ordering::Relaxed);
        lock(&self.probe.waker).take().into_iter().for_each(Waker::wake);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what two tasks do in turn, each word with the step before which it was recorded.
    fn words() -> Vec<(u64, String)> {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut seen = Vec::new();
        let ours = Arc::clone(&said);
        let theirs = Arc::clone(&said);
        let work = async move {
            let mut set = tokio::task::JoinSet::new();
            for name in ["a", "b"] {
                let said = Arc::clone(&theirs);
                set.spawn(async move {
                    for n in 0..3 {
                        lock(&said).push(format!("{name}{n}"));
                        tokio::task::yield_now().await;
                    }
                    tokio::time::sleep(Duration::from_secs(9)).await;
                    lock(&said).push(name.to_owned());
                });
            }
            while set.join_next().await.is_some() {}
        };
        let steps = Steps::new().unwrap();
        let ended = steps.run(work, Duration::from_secs(60), |step| {
            seen.extend(lock(&ours).drain(..).map(|word| (step, word)));
            ControlFlow::Continue(())
        });
        assert_eq!(ended, StepsEnd::Done(()));
        assert_eq!(steps.tasks(), 0);
        seen
    }

    #[test]
    fn one_task_runs_at_a_time_and_always_in_the_same_order() {
        let words = words();
        let order: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
        assert_eq!(order, ["a0", "b0", "a1", "b1", "a2", "b2", "a", "b"]);
        assert!(words.windows(2).all(|pair| pair[0].0 < pair[1].0), "{words:?}");
        assert_eq!(words, self::words());
    }

    #[test]
    fn what_never_ends_is_hung_and_a_panic_is_passed_on() {
        let steps = Steps::new().unwrap();
        let never = std::future::pending::<()>();
        let ended = steps.run(never, Duration::from_secs(1), |_| ControlFlow::Continue(()));
        assert_eq!(ended, StepsEnd::Hung);
        let caught = std::panic::catch_unwind(|| {
            let panics = async { panic!("on purpose") };
            let go_on = |_| ControlFlow::Continue(());
            Steps::new().unwrap().run::<()>(panics, Duration::from_secs(1), go_on)
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"on purpose"));
    }
}
