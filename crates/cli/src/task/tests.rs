use std::cell::RefCell;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;

use super::*;

/// A file that holds this.
fn file(text: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text).unwrap();
    file.rewind().unwrap();
    file
}

/// A pipe that holds this, and its other end.
fn pipe(text: &[u8]) -> (File, io::PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(text).unwrap();
    (File::from(OwnedFd::from(reader)), writer)
}

/// Reads standard input with a silence limit of zero.
fn with<T>(file: &File, is_terminal: bool, read: impl Fn(&TaskInput<'_>) -> T) -> (T, String) {
    let collected = RefCell::new(String::new());
    let tell = |text: &str| collected.borrow_mut().push_str(text);
    let input = TaskInput { file, is_terminal, timeout: Duration::ZERO, tell: &tell };
    let done = read(&input);
    (done, collected.into_inner())
}

fn task(argument: Option<&str>, input: &[u8], terminal: bool) -> String {
    let (done, _) = with(&file(input), terminal, |input| words(argument, true, input));
    done.map_or_else(|error| error.to_string(), Option::unwrap)
}

#[test]
fn the_words_are_the_argument_or_a_pipe() {
    assert_eq!(task(Some("do it"), b"not read", false), "do it");
    assert_eq!(task(Some("-"), b"from\nthe pipe", false), "from\nthe pipe");
    assert_eq!(task(None, b"from the pipe", false), "from the pipe");
    assert_eq!(task(Some("-"), b"typed", true), "typed");
}

#[test]
fn what_is_no_task_is_said() {
    assert!(task(None, b"x", true).starts_with("there is no task"));
    for (argument, input) in [(None, &b" \n"[..]), (Some(""), b"x")] {
        let actual = task(argument, input, false);
        assert!(actual.starts_with("the task is empty: give it as an argument"), "{actual}");
    }
    assert_eq!(task(None, b"\xff", false), "the task is not UTF-8 text");
    assert!(task(None, &vec![b'x'; TASK_BYTES + 1], false).contains("more than 1048576 bytes"));
    assert!(task(Some(&"x".repeat(TASK_BYTES + 1)), b"", false).contains("more than 1048576"));
    assert_eq!(task(None, &vec![b'x'; TASK_BYTES], false).len(), TASK_BYTES);
}

#[test]
fn a_session_can_go_on_without_words() {
    for (argument, terminal) in [(None, true), (None, false), (Some(" "), false)] {
        let (done, _) = with(&file(b""), terminal, |input| words(argument, false, input));
        assert_eq!(done.unwrap(), None);
    }
}

#[test]
fn what_is_piped_in_beside_an_argument_comes_along() {
    let beside = |argument, text: &[u8], terminal| {
        with(&file(text), terminal, |input| piped(argument, input)).0.unwrap()
    };
    assert_eq!(beside(Some("do it"), b"a\xff\n", false), Some(b"a\xff\n".to_vec()));
    assert_eq!(beside(Some("do it"), b"", false), None);
    assert_eq!(beside(Some("do it"), b"typed", true), None);
    // There it is the task itself.
    assert_eq!(beside(Some("-"), b"x", false), None);
    assert_eq!(beside(None, b"x", false), None);
}

#[test]
fn more_than_a_run_can_carry_is_an_error_that_says_what_to_do() {
    let sparse = tempfile::tempfile().unwrap();
    sparse.set_len(MATERIAL_BYTES as u64 + 1).unwrap();
    let (done, _) = with(&sparse, false, |input| piped(Some("do it"), input));
    let error = done.unwrap_err().to_string();
    assert!(error.contains("more than 67108864 bytes; put it into a file"), "{error}");
}

#[test]
fn a_pipe_that_nobody_writes_to_holds_nothing_up_and_is_reported() {
    let (silent, _held) = pipe(b"");
    let (done, actual) = with(&silent, false, |input| piped(Some("do it"), input));
    assert_eq!(done.unwrap(), None);
    assert!(actual.starts_with("warning: standard input is a pipe, and nothing came"), "{actual}");
    assert!(actual.contains("`< /dev/null`"), "{actual}");
    let (done, actual) = with(&silent, false, |input| words(None, false, input));
    assert_eq!(done.unwrap(), None);
    assert!(actual.starts_with("warning: "), "{actual}");
}

#[test]
fn a_pipe_that_has_begun_is_read_to_its_end() {
    let (begun, held) = pipe(b"half");
    let held = RefCell::new(Some(held));
    // That it is waited for is told, and here ends it.
    let collected = RefCell::new(Vec::new());
    let tell = |text: &str| {
        collected.borrow_mut().push(text.to_owned());
        let mut held = held.borrow_mut().take().unwrap();
        held.write_all(b" and half").unwrap();
    };
    let input =
        TaskInput { file: &begun, is_terminal: false, timeout: Duration::ZERO, tell: &tell };
    assert_eq!(piped(Some("do it"), &input).unwrap(), Some(b"half and half".to_vec()));
    let waiting = "note: waiting for the end of standard input, 4 bytes so far";
    assert_eq!(collected.into_inner(), [waiting]);
}

#[test]
fn what_is_not_open_for_reading_has_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let closed = File::create(dir.path().join("out")).unwrap();
    let (done, actual) = with(&closed, false, |input| piped(Some("do it"), input));
    assert_eq!((done.unwrap(), actual.as_str()), (None, ""));
}
