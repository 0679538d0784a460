//! Programs that run on and are talked to.

use std::sync::Arc;

use deputize_process::{Exit, SpawnError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::process_table::{Marker, bash, no_zombie_stays, supervisor, until};

const ECHO: &str = "setsid -f {S}; echo ready >&2; while read -r x; do echo got $x; done; exit 4";

#[tokio::test]
async fn a_service_answers_and_ends_with_its_input() {
    let supervisor = supervisor();
    let owner = Arc::new(supervisor.owner());
    let marker = Marker::new();
    let mut service = owner.open(&bash(&marker.fill(ECHO))).await.unwrap();
    let mut stdin = service.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\n").await.unwrap();
    let mut lines = BufReader::new(&mut service.stdout).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "got one");
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "got two");
    let mut messages = BufReader::new(&mut service.stderr).lines();
    assert_eq!(messages.next_line().await.unwrap().unwrap(), "ready");
    drop(stdin);
    assert_eq!(service.wait_for_exit().await, Exit::Code(4));
    until("its daemon runs", || marker.sleeping() == 1).await;
    assert!(service.end().await.is_complete());
    assert_eq!(marker.alive(), [0; 0]);
}

#[tokio::test]
async fn a_service_ends_with_its_drop_and_with_its_owner() {
    let supervisor = supervisor();
    let owner = Arc::new(supervisor.owner());
    let marker = Marker::new();
    let service = owner.open(&bash(&marker.fill(ECHO))).await.unwrap();
    until("its daemon runs", || marker.sleeping() == 1).await;
    drop(service);
    until("it is gone", || marker.alive().is_empty()).await;

    let mut service = owner.open(&bash(&marker.fill(ECHO))).await.unwrap();
    until("its daemon runs", || marker.sleeping() == 1).await;
    assert!(owner.end().await.is_complete());
    assert_eq!(marker.alive(), [0; 0]);
    assert!(matches!(service.wait_for_exit().await, Exit::Signal(_)));
    drop(service);
    no_zombie_stays().await;
    assert!(matches!(owner.open(&bash(":")).await, Err(SpawnError::OwnerEnded)));
}
