//! One command that was asked for, and all that it started.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::outbox::Outbox;
use crate::outcome::Exit;
use crate::process_tag::ProcessTag;
use crate::protocol::ReaperRequest;
use crate::scope::Scope;

/// Ticket of a request without a waiter.
const NOBODY: u64 = 0;

/// The processes of one command. Dropping it ends them, unless they may stay.
#[derive(Debug)]
pub(crate) struct Tree {
    tag: ProcessTag,
    waiting: oneshot::Receiver<Exit>,
    exit: Option<Exit>,
    outbox: Arc<Outbox>,
    kept: bool,
}

impl Tree {
    pub(crate) fn new(
        tag: ProcessTag,
        waiting: oneshot::Receiver<Exit>,
        outbox: Arc<Outbox>,
    ) -> Self {
        Self { tag, waiting, exit: None, outbox, kept: false }
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::Command(self.tag)
    }

    /// Waits for the end of the first process. Nothing is lost if the future is dropped.
    pub(crate) async fn ended(&mut self) -> Exit {
        if let Some(exit) = self.exit {
            return exit;
        }
        let exit = (&mut self.waiting).await.unwrap_or(Exit::Unknown);
        self.exit = Some(exit);
        exit
    }

    /// Keeps the rest of the tree until its owner ends.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.kept {
            abandon(&self.outbox, self.scope());
        }
    }
}

/// Asks to end a scope; nobody waits.
pub(crate) fn abandon(outbox: &Outbox, scope: Scope) {
    outbox.put(ReaperRequest::End { ticket: NOBODY, scope }, Vec::new());
}
