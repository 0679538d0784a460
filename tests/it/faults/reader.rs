//! Readers that do not close and do not read, as a pager that is stopped.

use std::io::{PipeReader, pipe};
use std::process::Stdio;

use deputize_core::model::Reply;
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::json;
use tokio::process::Command;
use tokio::task::spawn_blocking;

use crate::program::{Lab, RunningProgram, events, hang, model, soon};
use crate::signals::{ended_by, in_time, stubborn};

/// More than a pipe holds.
const MUCH: usize = 80_000;

/// What nobody reads.
#[derive(Clone, Copy, PartialEq)]
enum UnreadStream {
    Out,
    Err,
    Both,
}

/// A pipe in place of what nobody reads.
fn stalled(command: &mut Command, what: UnreadStream) -> PipeReader {
    let (reader, writer) = pipe().unwrap();
    let read = |of: UnreadStream| what != of && what != UnreadStream::Both;
    let stream = |read: bool| match read {
        true => Stdio::piped(),
        false => Stdio::from(writer.try_clone().unwrap()),
    };
    command.stdout(stream(read(UnreadStream::Out))).stderr(stream(read(UnreadStream::Err)));
    reader
}

async fn read(mut reader: PipeReader) -> String {
    let all = spawn_blocking(move || std::io::read_to_string(&mut reader).unwrap());
    soon("all of a pipe", all).await.unwrap()
}

/// Three long replies, each with a call; then what `last` gives.
async fn wordy(last: impl Fn() -> MockAnswer + Send + Sync + 'static) -> MockServer {
    let server = model(move |asked| match asked.replies() {
        replies @ 0..3 => {
            let path = json!({"path": format!("d{replies}")});
            let mut reply = Reply::calls("mock", [("list_dir", path)]);
            reply.text = "many words\n".repeat(MUCH / 11);
            MockAnswer::reply(&reply)
        }
        _ => last(),
    });
    server.await
}

#[tokio::test]
async fn a_stalled_reader_neither_holds_the_run_up_nor_keeps_it_from_ending() {
    for what in [UnreadStream::Out, UnreadStream::Err, UnreadStream::Both] {
        in_time(async || {
            let lab = Lab::new();
            let server = wordy(hang).await;
            let mut command = lab.run_command(&server, &["--output", "events", "-v", "Talk"]);
            let reader = stalled(&mut command, what);
            let running = RunningProgram::with_streams(command);
            server.until_requests(4).await;
            let (ended, took) = ended_by(Signal::INT, &lab, running).await;
            if what == UnreadStream::Out {
                let expected = "bytes of standard output were not read";
                assert!(
                    ended.err.contains(expected) && ended.err.contains("hint: "),
                    "{}",
                    ended.err
                );
            }
            if what == UnreadStream::Err {
                assert_eq!(events(&ended.out).last().unwrap()["type"], "session.end");
            }
            drop(reader);
            took
        })
        .await;
    }
}

#[tokio::test]
async fn a_second_interrupt_waits_neither_for_a_command_nor_for_a_reader() {
    in_time(async || {
        let lab = Lab::new();
        let command = stubborn(&lab);
        let work = json!({ "command": command });
        let last = move || MockAnswer::reply(&Reply::calls("mock", [("terminal", work.clone())]));
        let server = wordy(last).await;
        let mut begun = lab.pipe("begun");
        let args = ["--approve", "auto", "--output", "events", "Talk"];
        let mut command = lab.run_command(&server, &args);
        let _reader = stalled(&mut command, UnreadStream::Out);
        let running = RunningProgram::with_streams(command);
        begun.lines(2).await;
        running.signal(Signal::INT);
        running.says("once more leaves at once").await;
        let (ended, took) = ended_by(Signal::INT, &lab, running).await;
        assert!(!ended.err.contains("were not read"), "it waited: {}", ended.err);
        let hint = format!("continue with `deputize run --resume {}`", lab.session());
        assert!(ended.err.contains(&hint), "{}", ended.err);
        took
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_can_be_left_and_had_later() {
    in_time(async || {
        let lab = Lab::new();
        let answer = "answer\n".repeat(MUCH / 7);
        let given = answer.clone();
        let server = model(move |_| MockAnswer::reply(&Reply::text("mock", &given))).await;
        let mut command = lab.run_command(&server, &["Ask"]);
        let reader = stalled(&mut command, UnreadStream::Out);
        let running = RunningProgram::with_streams(command);
        running.says("✓").await;
        let (ended, took) = ended_by(Signal::INT, &lab, running).await;
        assert!(ended.err.contains("bytes of standard output were not read"), "{}", ended.err);
        drop(reader);
        let again = lab.run(&server, &["--resume", &lab.session()]).end().await.with_code(0);
        assert_eq!(again.out, answer);
        assert_eq!(server.requests().len(), 1, "what is complete is not asked again");
        took
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_goes_on_gets_all_of_it() {
    let lab = Lab::new();
    let server = wordy(|| MockAnswer::reply(&Reply::text("mock", "Done."))).await;
    let mut command = lab.run_command(&server, &["--output", "events", "-v", "Talk"]);
    let (out, stdout) = pipe().unwrap();
    let (err, stderr) = pipe().unwrap();
    command.stdout(stdout).stderr(stderr);
    let running = RunningProgram::with_streams(command);
    // It has everything to say, and nothing was read yet.
    server.until_requests(4).await;
    server.until_idle().await;
    let (out, err, ended) = tokio::join!(read(out), read(err), running.end());
    ended.with_code(0);
    let all = events(&out);
    assert_eq!(all.last().unwrap()["exit_code"], 0);
    let numbers: Vec<u64> = all.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    assert_eq!(err.matches("| many words").count(), 3 * (MUCH / 11));
}
