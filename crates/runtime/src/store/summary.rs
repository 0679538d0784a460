//! Summary of a session for lists, read in one pass without conversations.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use deputize_core::budget::Cost;
use deputize_core::compaction::SummaryRequest;
use deputize_core::event::{RequestPurpose, SessionStart};
use deputize_core::model::Usage;
use deputize_core::{Outcome, SessionId, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::disk::Disk;
use super::read::{ReadError, SessionScan, scan};

/// A session as a list shows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionSummary {
    /// ID of the session.
    pub session: SessionId,
    /// When it was made, in milliseconds since 1970-01-01T00:00:00Z.
    pub created: u64,
    /// The first task of the top agent.
    pub goal: String,
    /// The model that the top agent asked last, or was to ask.
    pub model: String,
    /// Where its last run worked.
    pub cwd: PathBuf,
    /// Agents below the top one.
    pub children: usize,
    /// Cost of all agents.
    pub cost: Cost,
    /// How its last run ended; `None` while it runs, or where it broke off.
    pub ended: Option<Status>,
    /// Whether its last run ended at a limit.
    pub is_at_limit: bool,
    /// Bytes of its file that were read.
    pub bytes: u64,
}

/// Reads what a list shows of a session.
pub(super) fn summarize(disk: &dyn Disk, path: &Path) -> Result<SessionSummary, ReadError> {
    let mut fold = SummaryFold::default();
    let SessionScan { header, bytes, .. } = scan(disk, path, |record| fold.apply(record))?;
    let SummaryFold { goal, model, cwd, children, cost, ended, is_at_limit } = fold;
    let session = header.session;
    let created = header.created;
    Ok(SessionSummary {
        session,
        created,
        goal,
        model,
        cwd,
        children,
        cost,
        ended,
        is_at_limit,
        bytes,
    })
}

#[derive(Default)]
struct SummaryFold {
    goal: String,
    model: String,
    cwd: PathBuf,
    children: usize,
    cost: Cost,
    ended: Option<Status>,
    is_at_limit: bool,
}

/// A record, with of its event only what `E` names.
#[derive(Deserialize)]
struct SummaryRecord<E> {
    depth: u32,
    event: E,
}

#[derive(Deserialize)]
struct EventKind<'r> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'r, str>,
}

#[derive(Deserialize)]
struct AgentStart {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    goal: String,
}

#[derive(Deserialize)]
struct ModelRequest {
    #[serde(default)]
    model: String,
    #[serde(default)]
    purpose: RequestPurpose,
}

#[derive(Deserialize)]
struct ModelResponse {
    reply: Reply,
    #[serde(default)]
    cost_usd: Option<f64>,
}

#[derive(Deserialize)]
struct Reply {
    usage: Usage,
}

#[derive(Deserialize)]
struct Compaction {
    request: SummaryRequest,
}

#[derive(Deserialize)]
struct ModelError {
    #[serde(default)]
    cost: Option<Cost>,
}

#[derive(Deserialize)]
struct AgentEnd {
    #[serde(default)]
    external: bool,
}

#[derive(Deserialize)]
struct SessionEnd {
    status: Status,
    exit_code: u8,
}

fn event<'r, E: Deserialize<'r>>(record: &'r RawValue) -> serde_json::Result<E> {
    serde_json::from_str::<SummaryRecord<E>>(record.get()).map(|entry| entry.event)
}

impl SummaryFold {
    fn apply(&mut self, record: &RawValue) -> serde_json::Result<()> {
        let SummaryRecord { depth, event: EventKind { kind } } =
            serde_json::from_str(record.get())?;
        match kind.as_ref() {
            "session.start" => {
                let start: SessionStart = event(record)?;
                (self.model, self.cwd, self.ended) = (start.model, start.cwd, None);
                self.is_at_limit = false;
            }
            "agent.start" if depth > 0 => self.children += 1,
            "agent.start" => self.goal = event::<AgentStart>(record)?.spec.goal,
            "model.request" if depth == 0 => {
                let ModelRequest { model, purpose } = event(record)?;
                if !model.is_empty() && purpose == RequestPurpose::Turn {
                    self.model = model;
                }
            }
            "model.response" => {
                let ModelResponse { reply: Reply { usage }, cost_usd } = event(record)?;
                self.cost += Cost {
                    tokens: usage.input.saturating_add(usage.output),
                    usd: cost_usd.unwrap_or_default(),
                    unpriced: cost_usd.is_none(),
                };
            }
            "compaction" => self.cost += event::<Compaction>(record)?.request.cost(),
            "model.error" => {
                self.cost += event::<ModelError>(record)?.cost.unwrap_or_default();
            }
            "agent.end" => self.cost.unpriced |= event::<AgentEnd>(record)?.external,
            "session.end" => {
                let SessionEnd { status, exit_code } = event(record)?;
                (self.ended, self.is_at_limit) =
                    (Some(status), exit_code == Outcome::LIMIT_EXIT_CODE);
            }
            _ => {}
        }
        Ok(())
    }
}
