//! Commands that are talked to while they run, through pipes and through a terminal.

use deputize_process::{
    Command, CommandInput, CommandIo, CommandOutput, Exit, InteractiveCommand, Owner, SpawnError,
};

use crate::process_table::{Marker, bash, supervisor, until};

/// Starts a script with a shell that, unlike `bash`, does not make its input its terminal by itself.
async fn start(owner: &Owner, script: &str, io: CommandIo) -> InteractiveCommand {
    let command = Command { program: "/bin/sh".into(), ..bash(script) };
    owner.interact(&command, io).await.unwrap()
}

/// Reads until the output has this text, or ends.
async fn read_until(output: &mut CommandOutput, text: &str) -> String {
    let mut all = Vec::new();
    loop {
        let mut buffer = [0; 1024];
        let read = output.read(&mut buffer).await;
        all.extend_from_slice(&buffer[..read]);
        let words = String::from_utf8_lossy(&all).into_owned();
        if read == 0 || words.contains(text) {
            return words;
        }
    }
}

async fn write(input: &mut CommandInput, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let written = input.write(rest).await.unwrap();
        rest = &rest[written..];
    }
}

#[tokio::test]
async fn a_command_reads_what_is_written_until_its_input_is_closed() {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    let mut running = start(&owner, "cat; echo over >&2; exit 3", CommandIo::Pipes).await;
    write(&mut running.input, "one\n").await;
    assert_eq!(read_until(&mut running.output, "one\n").await, "one\n");
    running.input.close().await.unwrap();
    assert_eq!(read_until(&mut running.output, "over\n").await, "over\n");
    assert_eq!(running.process.wait_for_exit().await, Exit::Code(3));
}

#[tokio::test]
async fn a_terminal_is_one_and_belongs_to_the_command() {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size </dev/tty; \
                  stty -echo; echo ready; read -r line; echo \"got $line\"; cat; echo over";
    let mut running = start(&owner, script, CommandIo::Terminal).await;
    assert_eq!(read_until(&mut running.output, "ready").await.trim(), "50 200\r\nready");
    write(&mut running.input, "a b\n").await;
    assert!(read_until(&mut running.output, "got a b").await.contains("got a b"));
    running.input.close().await.unwrap();
    assert!(read_until(&mut running.output, "over").await.contains("over"));
    assert_eq!(running.process.wait_for_exit().await, Exit::Code(0));
    assert_eq!(read_until(&mut running.output, "no such text").await.trim(), "");
}

#[tokio::test]
async fn the_interrupt_character_of_a_terminal_is_a_signal() {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    let script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.01; done";
    let mut running = start(&owner, script, CommandIo::Terminal).await;
    read_until(&mut running.output, "ready").await;
    write(&mut running.input, "\u{3}").await;
    assert!(read_until(&mut running.output, "caught").await.contains("caught"));
    assert_eq!(running.process.wait_for_exit().await, Exit::Code(7));
}

#[tokio::test]
async fn a_command_ends_with_its_drop_and_with_its_owner_whatever_it_ignores() {
    let supervisor = supervisor();
    let owner = supervisor.owner();
    for io in [CommandIo::Pipes, CommandIo::Terminal] {
        let marker = Marker::new();
        let script = marker.fill("trap '' TERM HUP INT; setsid -f {S}; {S}");
        let running = start(&owner, &script, io).await;
        until("both run", || marker.sleeping() == 2).await;
        drop(running);
        until("they are gone", || marker.alive().is_empty()).await;
    }
    let marker = Marker::new();
    let mut running = start(&owner, &marker.fill("trap '' TERM; {S}"), CommandIo::Terminal).await;
    until("it runs", || marker.sleeping() == 1).await;
    assert!(owner.end().await.is_complete());
    assert_eq!(marker.alive(), [0; 0]);
    assert!(matches!(running.process.wait_for_exit().await, Exit::Signal(_)));
    let refused = owner.interact(&bash(":"), CommandIo::Terminal).await;
    assert!(matches!(refused, Err(SpawnError::OwnerEnded)));
}
