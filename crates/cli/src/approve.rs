//! Asks the person at the terminal whether a call may run.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deputize_core::excerpt::Excerpt;
use deputize_core::person::{AskPerson, PersonAnswer, PersonQuestion};
use deputize_core::policy::{ApprovalAnswer, Question};
use deputize_core::sanitize::{for_question, for_terminal_line};
use deputize_core::{Approver, BoxFuture, Cancel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::screen::live::Screen;
use crate::screen::refused_calls::NO_TERMINAL;

/// Time after a question appears during which typed keys do not count: they were meant for
/// something else.
const GUARD: Duration = Duration::from_millis(300);
/// A question that nobody answers is a no after this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// Interval at which a cancelled question is noticed.
const LOOK: Duration = Duration::from_millis(50);
/// Limit on a typed answer, in bytes.
const ANSWER_BYTES: usize = 1024;
/// The terminal that controls this process.
const TERMINAL: &str = "/dev/tty";
const RUN_IT: &str = "Run it?";
/// Limit on a goal in a question, in characters.
const GOAL_CHARS: usize = 160;

/// A person at the controlling terminal. Questions come one after the other; the progress on
/// the screen waits meanwhile.
pub(crate) struct TerminalApprover {
    /// What is drawn on the terminal meanwhile; `None` if nothing is.
    screen: Option<Arc<Screen>>,
    terminal: PathBuf,
    /// How long an answer is waited for.
    timeout: Duration,
    turn: Mutex<()>,
}

impl TerminalApprover {
    /// Asks on the terminal that controls this process.
    pub(crate) fn new(screen: Arc<Screen>) -> Self {
        Self { screen: Some(screen), ..Self::without_screen() }
    }

    /// The same while nothing is drawn on it.
    pub(crate) fn without_screen() -> Self {
        Self {
            screen: None,
            terminal: PathBuf::from(TERMINAL),
            timeout: ANSWER_TIMEOUT,
            turn: Mutex::new(()),
        }
    }

    async fn answer(&self, question: &Question, cancel: &Cancel) -> ApprovalAnswer {
        let text = words(question);
        let timeout = self.timeout;
        let work = move |terminal: &Path, stop: &AtomicBool| {
            converse(terminal, &text, RUN_IT, timeout, stop)
        };
        match self.in_turn(work, cancel).await {
            Ok(answer) => answer,
            Err(AskError::Cancelled) => ApprovalAnswer::no(CANCELLED),
            Err(AskError::Terminal) => ApprovalAnswer::no(NO_TERMINAL),
        }
    }

    /// Talks to the person when all questions before this one are answered, while the screen waits.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path, &AtomicBool) -> io::Result<T> + Send + 'static,
        cancel: &Cancel,
    ) -> Result<T, AskError> {
        let _turn = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(AskError::Cancelled),
            turn = self.turn.lock() => turn,
        };
        let paused = self.screen.as_ref().map(|screen| screen.pause());
        let stop = StopOnDrop::default();
        let terminal = self.terminal.clone();
        let seen = stop.0.clone();
        let mut asked = spawn_blocking(move || {
            if !paused.as_ref().is_none_or(|paused| paused.wait(&seen)) {
                return Err(AskError::Cancelled);
            }
            let answer = work(&terminal, &seen);
            // Nothing is drawn over the question before it is answered.
            drop(paused);
            answer.map_err(|error| {
                tracing::debug!(error = error.to_string(), "the terminal cannot be asked");
                AskError::Terminal
            })
        });
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                stop.0.store(true, Ordering::Release);
                let _late = asked.await;
                Err(AskError::Cancelled)
            }
            answer = &mut asked => answer.unwrap_or(Err(AskError::Terminal)),
        }
    }

    async fn answer_in_words(&self, question: &PersonQuestion, cancel: &Cancel) -> PersonAnswer {
        let text = question_words(question);
        let prompt = question_prompt(question);
        let asked = question.clone();
        let timeout = self.timeout;
        let work = move |terminal: &Path, stop: &AtomicBool| {
            let mut terminal = OpenOptions::new().read(true).write(true).open(terminal)?;
            if is_background(&terminal) {
                return Ok(None);
            }
            let typed = talk(&mut terminal, &text, &prompt, timeout, stop)?;
            let again = match &typed {
                TypedInput::Line(line) => unknown_number(line, &asked),
                TypedInput::Closed | TypedInput::Nothing => None,
            };
            again
                .map_or(Ok(typed), |text| talk(&mut terminal, &text, &prompt, timeout, stop))
                .map(Some)
        };
        match self.in_turn(work, cancel).await {
            Ok(Some(TypedInput::Line(line))) => PersonAnswer::Text(meant(&line, question)),
            Ok(Some(TypedInput::Nothing)) => {
                PersonAnswer::TimedOut { seconds: self.timeout.as_secs() }
            }
            Ok(Some(TypedInput::Closed)) => {
                PersonAnswer::Nobody("the terminal is closed".to_owned())
            }
            Ok(None) => PersonAnswer::Nobody("this program is in the background".to_owned()),
            Err(AskError::Cancelled) => PersonAnswer::Nobody(CANCELLED.to_owned()),
            Err(AskError::Terminal) => PersonAnswer::Nobody(NO_TERMINAL.to_owned()),
        }
    }
}

impl AskPerson for TerminalApprover {
    fn ask_person<'a>(
        &'a self,
        question: &'a PersonQuestion,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, PersonAnswer> {
        Box::pin(self.answer_in_words(question, cancel))
    }
}

/// Why a person was not asked.
enum AskError {
    /// The turn ended first.
    Cancelled,
    /// The terminal does not work.
    Terminal,
}

/// What the person is shown of a question in words. Every line of the agent's is marked, so that
/// none of it can pass for a part of what this program says.
fn question_words(question: &PersonQuestion) -> String {
    let mut text = format!("\nThe agent asks:\n{}", mark_command(&for_question(&question.text)));
    for (index, option) in question.options.iter().enumerate() {
        text.push_str(&format!("  {}) {}\n", index + 1, on_one_line(option)));
    }
    text
}

fn question_prompt(question: &PersonQuestion) -> String {
    let how = if question.options.is_empty() { "" } else { " (a number, or your words)" };
    let default = question.default.as_deref().map(|default| {
        let default = on_one_line(default);
        format!(" [Enter: {default}]")
    });
    format!("Your answer{how}{}: ", default.unwrap_or_default())
}

/// Returns a text on one line, with what a terminal would obey written out.
fn on_one_line(text: &str) -> String {
    for_question(text).replace('\n', "\\n")
}

/// Returns what a typed line means: an option by its number, the default if it is empty, or its
/// words.
fn meant(line: &[u8], question: &PersonQuestion) -> String {
    let line = String::from_utf8_lossy(line.trim_ascii()).into_owned();
    let option = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    match option.and_then(|index| question.options.get(index)) {
        Some(option) => option.clone(),
        None if line.is_empty() => question.default.clone().unwrap_or_default(),
        None => line,
    }
}

/// Returns what is said to a typed number that stands for no option; `None` to anything else.
fn unknown_number(line: &[u8], question: &PersonQuestion) -> Option<String> {
    let meant = meant(line, question);
    let options = &question.options;
    let is_known = options.is_empty()
        || options.iter().chain(&question.default).any(|known| *known == meant)
        || !meant.bytes().all(|byte| byte.is_ascii_digit());
    (!is_known && !meant.is_empty()).then(|| {
        let most = options.len();
        format!(
            "There is no option {meant}, only 1 to {most}. Type it again if you mean it as words.\n"
        )
    })
}

impl Approver for TerminalApprover {
    fn ask<'a>(
        &'a self,
        question: &'a Question,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(self.answer(question, cancel))
    }
}

const CANCELLED: &str = "the end of the turn";

/// Ends the conversation when its question is dropped.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Returns the question as shown. Every line of the command is marked, so that none of it can pass
/// for a part of the question.
fn words(question: &Question) -> String {
    let id = question.agent.as_str();
    let who = match id.split_once('/') {
        None => "The agent".to_owned(),
        Some((_, path)) => {
            format!("Child {path} (\"{}\")", for_terminal_line(&question.goal, GOAL_CHARS))
        }
    };
    let mut text = format!("\n{who} wants to use {}:\n", question.tool);
    match &question.saved {
        None => text.push_str(&mark_command(&for_question(&question.command))),
        Some(saved) => {
            let Excerpt { head, omitted, tail } = Excerpt::new(&question.command);
            text.push_str(&format!(
                "{}{omitted}\n{}",
                mark_command(head.strip_suffix('\n').unwrap_or(&head)),
                mark_command(&tail)
            ));
            text.push_str(&format!("{}\n", saved.describe()));
        }
    }
    for argument in question.argument_lines() {
        let (line, more) = argument.split_once('\n').unwrap_or((&argument, ""));
        text.push_str(&format!("with {line}\n"));
        if !more.is_empty() {
            text.push_str(&mark_command(more));
        }
    }
    let cwd = on_one_line(&question.cwd.to_string_lossy());
    let reason = for_terminal_line(&question.reason, GOAL_CHARS);
    text.push_str(&format!("in {cwd}\n"));
    text.push_str(&format!("{}: {reason}.\n", question.class));
    text
}

/// Marks each line as one of the command.
fn mark_command(command: &str) -> String {
    command.split('\n').map(|line| format!("  | {line}\n")).collect()
}

/// Returns whether there is a terminal to ask somebody on, with this program in its foreground.
pub(crate) fn can_ask() -> bool {
    let terminal = OpenOptions::new().read(true).write(true).open(TERMINAL);
    terminal.is_ok_and(|terminal| !is_background(&terminal))
}

/// Returns whether another process group than this program's is in front at its terminal.
fn is_background(terminal: &File) -> bool {
    tcgetpgrp(terminal).is_ok_and(|front| front != getpgrp())
}

/// Asks the person something before anything is on the screen. Who cannot be asked says no.
pub(crate) fn confirmed(text: &str, question: &str) -> bool {
    let answer =
        converse(Path::new(TERMINAL), text, question, ANSWER_TIMEOUT, &AtomicBool::new(false));
    answer.is_ok_and(|answer| answer.allowed)
}

/// Shows the text, waits, asks the question, reads one line.
fn converse(
    terminal: &Path,
    text: &str,
    question: &str,
    timeout: Duration,
    stop: &AtomicBool,
) -> io::Result<ApprovalAnswer> {
    let mut terminal = OpenOptions::new().read(true).write(true).open(terminal)?;
    if is_background(&terminal) {
        return Ok(ApprovalAnswer::no("no user in front: this program is in the background"));
    }
    let line = talk(&mut terminal, text, &format!("{question} [y/N] "), timeout, stop)?;
    if !matches!(line, TypedInput::Line(_)) {
        terminal.write_all(b"no\n")?;
    }
    Ok(match line {
        TypedInput::Line(line) if means_yes(&line) => ApprovalAnswer::yes("user"),
        TypedInput::Line(_) => ApprovalAnswer::no("user"),
        TypedInput::Closed => ApprovalAnswer::no("a closed terminal"),
        TypedInput::Nothing => ApprovalAnswer::no("no answer in time"),
    })
}

/// Shows a text, waits, shows the prompt, reads one line.
fn talk(
    terminal: &mut File,
    text: &str,
    prompt: &str,
    timeout: Duration,
    stop: &AtomicBool,
) -> io::Result<TypedInput> {
    terminal.write_all(text.as_bytes())?;
    let guarded = Instant::now() + GUARD;
    while Instant::now() < guarded && !stop.load(Ordering::Acquire) {
        std::thread::sleep(LOOK);
    }
    tcflush(&*terminal, QueueSelector::IFlush)?;
    terminal.write_all(prompt.as_bytes())?;
    read_line(terminal, timeout, stop)
}

/// Only a plain yes is one.
fn means_yes(line: &[u8]) -> bool {
    let line = line.trim_ascii().to_ascii_lowercase();
    line == b"y" || line == b"yes"
}

enum TypedInput {
    Line(Vec<u8>),
    Closed,
    Nothing,
}

fn read_line(terminal: &mut File, timeout: Duration, stop: &AtomicBool) -> io::Result<TypedInput> {
    let end = Instant::now() + timeout;
    let mut line = Vec::new();
    while Instant::now() < end && !stop.load(Ordering::Acquire) {
        if !is_readable(terminal)? {
            continue;
        }
        let mut bytes = [0; 256];
        let count = match terminal.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // What a terminal says whose other side is gone.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => 0,
            Err(error) => return Err(error),
        };
        if count == 0 {
            return Ok(TypedInput::Closed);
        }
        line.extend_from_slice(bytes.get(..count).unwrap_or_default());
        if line.contains(&b'\n') || line.len() > ANSWER_BYTES {
            return Ok(TypedInput::Line(line));
        }
    }
    Ok(TypedInput::Nothing)
}

fn is_readable(terminal: &File) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    let mut polled = [PollFd::new(terminal, PollFlags::IN)];
    match poll(&mut polled, Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
