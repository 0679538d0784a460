use deputize_core::clock::FixedClock;
use deputize_core::event::LogLevel;
use deputize_core::hook::{HookDecision, HookPoint, HookRun};
use deputize_core::message::CallStatus;
use deputize_core::outcome::ExitReason;
use deputize_core::{Event, Status};

use std::io::{self, Write};
use std::path::PathBuf;

use super::super::frame::frame;
use super::super::surface::SizeFn;
use super::*;
use crate::fixture::{
    CALL, START, TestWriter, called, child, ended, outcome, returned, root, started, tools,
};
use crate::output::stdout_queue::tests::{stalled, wait};
use crate::screen::line::{Style, width};

/// A terminal of so many columns: what is on it after everything that was written.
struct EmulatedTerminal {
    columns: usize,
    rows: Vec<Vec<char>>,
    at: (usize, usize),
    wraps: bool,
}

impl EmulatedTerminal {
    fn show(columns: usize, bytes: &[u8]) -> String {
        let mut terminal = Self { columns, rows: vec![Vec::new()], at: (0, 0), wraps: true };
        terminal.take(std::str::from_utf8(bytes).unwrap());
        assert!(terminal.wraps, "line wrap is left off");
        assert_eq!(terminal.at.1, 0, "the cursor is left inside a line");
        let rows = terminal.rows.iter().map(|row| row.iter().collect::<String>());
        rows.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    fn take(&mut self, text: &str) {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' => self.down(),
                '\u{1b}' => {
                    assert_eq!(chars.next(), Some('['));
                    let body: String =
                        chars.by_ref().take_while(|c| !c.is_ascii_alphabetic()).collect();
                    let taken = text.len() - chars.as_str().len();
                    let last = text[..taken].chars().next_back().unwrap();
                    self.control(&body, last);
                }
                c => self.put(c),
            }
        }
    }

    fn down(&mut self) {
        self.at = (self.at.0 + 1, 0);
        if self.at.0 == self.rows.len() {
            self.rows.push(Vec::new());
        }
    }

    fn put(&mut self, c: char) {
        if self.at.1 == self.columns {
            assert!(self.wraps, "a line is too long: {:?}", self.rows[self.at.0]);
            self.down();
        }
        let row = &mut self.rows[self.at.0];
        while row.len() <= self.at.1 {
            row.push(' ');
        }
        row[self.at.1] = c;
        self.at.1 += width(&c.to_string()).max(1);
    }

    fn control(&mut self, body: &str, last: char) {
        let number = body.parse::<usize>().unwrap_or(1);
        match (body, last) {
            (_, 'G') => self.at.1 = number - 1,
            (_, 'A') => self.at.0 = self.at.0.checked_sub(number).expect("moved above the screen"),
            (_, 'K') => self.rows[self.at.0].truncate(self.at.1),
            (_, 'J') => {
                self.rows.truncate(self.at.0 + 1);
                self.rows[self.at.0].truncate(self.at.1);
            }
            ("?7", 'l') => self.wraps = false,
            ("?7", 'h') => self.wraps = true,
            (_, 'm') => {}
            other => panic!("not expected: {other:?}"),
        }
    }
}

fn lines(texts: &[&str]) -> Vec<ScreenLine> {
    texts.iter().map(|text| ScreenLine::default().with(Style::Plain, *text)).collect()
}

fn shown(frames: &[Vec<u8>], columns: usize) -> String {
    EmulatedTerminal::show(columns, &frames.concat())
}

#[test]
fn a_tree_is_replaced_in_place() {
    let one = lines(&["top", "├─ a", "└─ b"]);
    let two = lines(&["TOP", "└─ a"]);
    let first = frame(&[], &[], &one, 20, false);
    let second = frame(&one, &[], &two, 20, false);
    assert_eq!(shown(&[first.clone(), second.clone()], 20), "TOP\n└─ a\n");
    let above = frame(&two, &lines(&["warning: x", "second"]), &one, 20, true);
    let all = [first.clone(), second.clone(), above];
    assert_eq!(shown(&all, 20), "warning: x\nsecond\ntop\n├─ a\n└─ b\n");
    let gone = frame(&two, &[], &[], 20, false);
    assert_eq!(shown(&[first, second, gone], 20), "");
}

#[test]
fn a_terminal_that_became_narrower_is_cleared_to_the_first_row() {
    let tree = lines(&["0123456789", "abc"]);
    let broken = b"0123\n4567\n89\nabc\n".to_vec();
    let next = frame(&tree, &[], &lines(&["x"]), 4, false);
    assert_eq!(shown(&[broken, next], 4), "x\n");
}

/// A sink that can be read while the screen still owns it.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn surface(out: Box<dyn Write + Send>, detail: Detail, live: bool) -> Surface {
    let size: SizeFn = Box::new(|| (60, 10));
    Surface {
        out,
        size: live.then_some(size),
        live,
        colour: false,
        tools: tools(),
        detail,
        cwd: PathBuf::from("/repo/project"),
        unasked: false,
        prints_answer: false,
        clock: Arc::new(FixedClock(START + 5000)),
    }
}

fn screen(detail: Detail, live: bool) -> (Screen, Sink) {
    let sink = Sink::default();
    (Screen::new(surface(Box::new(sink.clone()), detail, live)), sink)
}

fn end(screen: &Screen) {
    screen.finish();
    wait(screen.settled());
}

fn session() -> TestWriter {
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Tidy up"));
    writer.add(&root(), called(CALL, "delegate_task", r#"{"goal":"a"}"#));
    writer.add(&child(0), started(&child(0), "Sort"));
    let message = "the project configuration is ignored".to_owned();
    writer.add(&root(), Event::Log { level: LogLevel::Warn, message, cause: None });
    writer.add(&child(0), ended(&child(0), Status::Completed, ExitReason::Completed));
    writer.add(&root(), ended(&root(), Status::Completed, ExitReason::Completed));
    writer
}

#[test]
fn a_live_run_leaves_its_remarks_and_the_last_tree() {
    let (screen, sink) = screen(Detail::Normal, true);
    session().records.iter().for_each(|record| screen.on_record(record));
    end(&screen);
    screen.say(ScreenLine::default().with(Style::Plain, "hint: go on"));
    end(&screen);
    insta::assert_snapshot!(EmulatedTerminal::show(60, &sink.0.lock()), @"
    warning: the project configuration is ignored
    ✓ Tidy up                                     0 steps · 0 s
    └─ ✓ [1/3] Sort                               0 steps · 0 s
    hint: go on
    ");
}

#[test]
fn a_resume_in_which_nothing_happens_shows_no_tree_of_the_earlier_run() {
    let (screen, sink) = screen(Detail::Normal, true);
    session().records.iter().for_each(|record| screen.prime(record));
    screen.say(ScreenLine::default().with(Style::Plain, "note: nothing is asked"));
    end(&screen);
    assert_eq!(EmulatedTerminal::show(60, &sink.0.lock()), "note: nothing is asked\n");
}

#[test]
fn why_a_child_failed_stands_above_the_tree_and_whole_at_the_end() {
    let reason =
        "the provider does not know the model `m-9`: it was taken out of service last week";
    let failed = |agent: &AgentId| {
        let mut outcome = outcome(agent, Status::Failed, ExitReason::Error);
        outcome.error = Some(reason.to_owned());
        Event::AgentEnd(Box::new(outcome))
    };
    let below = child(1).child(CALL, 0);
    let mut writer = TestWriter::default();
    writer.add(&root(), started(&root(), "Tidy up"));
    writer.add(&child(1), started(&child(1), "Sort the imports"));
    writer.add(&below, started(&below, "Check that they are sorted"));
    writer.add(&below, failed(&below));
    writer.add(&child(1), ended(&child(1), Status::Completed, ExitReason::Completed));
    writer.add(&root(), ended(&root(), Status::Completed, ExitReason::Completed));
    let (live, sink) = screen(Detail::Normal, true);
    writer.records.iter().for_each(|record| live.on_record(record));
    end(&live);
    insta::assert_snapshot!(EmulatedTerminal::show(60, &sink.0.lock()));
    // What fails is told also where little is.
    let (quiet, sink) = screen(Detail::Quiet, true);
    writer.records.iter().for_each(|record| quiet.on_record(record));
    end(&quiet);
    insta::assert_snapshot!(EmulatedTerminal::show(60, &sink.0.lock()));
}

#[test]
fn above_a_live_tree_it_is_shown_once_why_a_model_is_waited_for() {
    let mut state = ScreenState::new(tools(), Detail::Normal, true);
    let mut writer = TestWriter::default();
    let retry = |attempt, reason: &str| {
        let of = 5;
        let wait_ms = 1400;
        let reason = reason.to_owned();
        Event::ModelRetry { attempt, of, reason, wait_ms }
    };
    writer.add(&root(), started(&root(), "a"));
    writer.add(&child(0), started(&child(0), "b"));
    writer.add(&root(), retry(2, "provider local: 503"));
    writer.add(&child(0), retry(2, "provider local: 503"));
    writer.add(&root(), retry(3, "provider local: 429"));
    writer.records.iter().for_each(|record| state.see(record));
    let lines: Vec<String> = state.lines.take().iter().map(|line| line.render(false)).collect();
    assert_eq!(
        lines,
        [
            "attempt 2 of 5 in 1.4 s: provider local: 503",
            "attempt 3 of 5 in 1.4 s: provider local: 429"
        ]
    );
}

#[test]
fn above_a_live_tree_stands_what_it_has_no_place_for() {
    let mut state = ScreenState::new(tools(), Detail::Normal, true);
    let mut writer = TestWriter::default();
    let hook = |decision, reason: &str| {
        Event::Hook(Box::new(HookRun {
            name: HookPoint::PreToolUse,
            by: "/bin/guard".to_owned(),
            call: Some(CALL),
            tool: Some("terminal".to_owned()),
            child: None,
            decision,
            reason: reason.to_owned(),
            ms: 0,
            output_bytes: 0,
        }))
    };
    writer.add(&root(), started(&root(), "a"));
    writer.add(&root(), hook(HookDecision::Error, "not found"));
    writer.add(&root(), hook(HookDecision::Block, "not here"));
    writer.add(&root(), hook(HookDecision::Pass, ""));
    let mut denied = returned(CALL, "terminal", CallStatus::Denied, "for the model", Vec::new());
    if let Event::ToolEnd(end) = &mut denied {
        end.error = Some("make: a hook blocked it: not here".to_owned());
    }
    writer.add(&root(), denied);
    writer.add(&root(), Event::SpawnPaused { by: "user".to_owned(), paused: true });
    let refused = r#"{"error":"no child was started","errors":[{"remedy":"say a goal"}]}"#;
    for (tool, text) in [("delegate_task", refused), ("read_file", "not found")] {
        writer.add(&root(), returned(CALL, tool, CallStatus::Error, text, Vec::new()));
    }
    writer.records.iter().for_each(|record| state.see(record));
    let lines: Vec<String> = state.lines.take().iter().map(|line| line.render(false)).collect();
    assert_eq!(
        lines,
        [
            "hook PreToolUse of terminal (`/bin/guard`) failed: not found",
            "terminal refused: make: a hook blocked it: not here (`/bin/guard`)",
            "new children: paused by user",
            "delegate_task refused: say a goal",
        ]
    );
}

#[test]
fn plain_lines_are_printed_at_once() {
    let (screen, sink) = screen(Detail::Normal, false);
    let writer = session();
    writer.records.iter().take(2).for_each(|record| screen.on_record(record));
    wait(screen.settled());
    assert_eq!(sink.0.lock().as_slice(), b"delegate: a\n");
}

#[test]
fn lines_that_follow_fast_are_written_together_and_wake_nobody() {
    let mut drawer = ScreenWriter::new(surface(Box::new(io::sink()), Detail::Normal, false));
    let mut state = ScreenState::new(tools(), Detail::Normal, false);
    let writer = session();
    writer.records.iter().take(2).for_each(|record| state.see(record));
    assert_eq!(drawer.next(&mut state), WriterStep::Write(b"delegate: a\n".to_vec()));
    assert!(matches!(drawer.next(&mut state), WriterStep::Wait(Some(_))));
    assert!(state.drawing.dirty, "as if the drawer knew of news");
    writer.records.iter().skip(2).for_each(|record| state.see(record));
    assert!(matches!(drawer.next(&mut state), WriterStep::Wait(Some(_))));
    let minute = Duration::from_secs(60);
    drawer.drawn_at = drawer.drawn_at.and_then(|at| at.checked_sub(minute));
    let WriterStep::Write(rest) = drawer.next(&mut state) else { panic!("nothing to write") };
    assert!(rest.split(|byte| *byte == b'\n').count() > 2, "{}", String::from_utf8_lossy(&rest));
    drawer.drawn_at = drawer.drawn_at.and_then(|at| at.checked_sub(minute));
    assert_eq!(drawer.next(&mut state), WriterStep::Wait(None));
    assert!(!state.drawing.dirty);
}

#[test]
fn nothing_is_written_while_a_question_is_open_and_all_of_it_afterwards() {
    for live in [false, true] {
        let sink = Sink::default();
        let mut drawer = ScreenWriter::new(surface(Box::new(sink.clone()), Detail::Normal, live));
        let mut state = ScreenState::new(tools(), Detail::Normal, live);
        let mut draw = |state: &mut ScreenState| {
            while let WriterStep::Write(frame) = drawer.next(state) {
                drawer.write(&frame);
            }
            EmulatedTerminal::show(60, &sink.0.lock())
        };
        let writer = session();
        writer.records.iter().take(3).for_each(|record| state.see(record));
        let before = draw(&mut state);
        assert_eq!(before.contains("Tidy up"), live, "{before}");
        state.drawing.pauses = 1;
        let paused = draw(&mut state);
        assert!(state.is_held());
        assert_eq!(paused, if live { "" } else { &before }, "only the tree is taken off");
        writer.records.iter().skip(3).for_each(|record| state.see(record));
        assert_eq!(draw(&mut state), paused, "live: {live}");
        state.drawing.pauses = 0;
        state.drawing.end = DrawState::Asked;
        let end = draw(&mut state);
        assert!(end.contains("warning: the project"), "{end}");
    }
}

#[test]
fn a_pause_comes_when_all_is_off_the_terminal_and_another_one_prints_what_waits() {
    let (screen, sink) = screen(Detail::Normal, true);
    let go_on = AtomicBool::new(false);
    session().records.iter().take(3).for_each(|record| screen.on_record(record));
    for said in ["first", "second"] {
        screen.say(ScreenLine::default().with(Style::Plain, said));
        let paused = screen.pause();
        assert!(paused.wait(&go_on));
        let shown = EmulatedTerminal::show(60, &sink.0.lock());
        assert!(shown.ends_with(&format!("{said}\n")), "{shown}");
    }
}

#[test]
fn quiet_shows_errors_only_on_a_terminal_too() {
    let (screen, sink) = screen(Detail::Quiet, true);
    session().records.iter().for_each(|record| screen.on_record(record));
    let mut writer = TestWriter::default();
    writer.add(
        &root(),
        Event::Log { level: LogLevel::Error, message: "disk full".to_owned(), cause: None },
    );
    screen.on_record(&writer.records[0]);
    end(&screen);
    assert_eq!(String::from_utf8(sink.0.lock().clone()).unwrap(), "error: disk full\n");
}

#[test]
fn a_screen_whose_terminal_is_gone_ends_all_the_same() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let screen = Screen::new(surface(Box::new(writer), Detail::Verbose, true));
    session().records.iter().for_each(|record| screen.on_record(record));
    end(&screen);
}

#[test]
fn a_terminal_that_is_stopped_holds_nobody_up() {
    for live in [false, true] {
        let (_reader, writer) = stalled();
        let screen = Screen::new(surface(writer, Detail::Normal, live));
        session().records.iter().for_each(|record| screen.on_record(record));
        let paused = screen.pause();
        assert!(!paused.wait(&AtomicBool::new(true)), "the tree is still there");
        screen.finish();
        drop(screen);
    }
}
