//! Servers that editors named for a session. What they said is kept, and no more is known of them:
//! how they are started is the editor's.

use deputize_mcp::{ApprovalStore, ServerChange, ServerRecord};

use super::{ServerReview, ServerRow, approve, show};
use crate::compose::mcp::cards_of_editors;
use crate::config::Config;
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};

/// Those of one name: one for each way to start or reach it that an editor said.
pub(super) struct EditorServer {
    cards: ApprovalStore,
    kept: Vec<ServerRecord>,
}

impl EditorServer {
    /// Nothing: no editor named one so. A configured one of that name takes its place.
    pub(super) fn of(
        around: &ProcessEnv,
        config: &Config,
        name: &str,
    ) -> Result<Option<Self>, CliError> {
        let cards = cards_of_editors(around)?;
        let known = cards.names().map_err(CliError::failed)?.iter().any(|known| known == name);
        if !known || config.mcp_servers.contains_key(name) {
            return Ok(None);
        }
        let kept = cards.read_all(name).map_err(CliError::failed)?;
        Ok(Some(Self { cards, kept }))
    }

    /// Shows what those said last that wait, and approves each; where none waits, the latest.
    pub(super) fn review(
        mut self,
        around: &ProcessEnv,
        name: &str,
        yes: bool,
    ) -> Result<(), CliError> {
        let waits = |card: &ServerRecord| card.changes(&card.start).iter().any(ServerChange::waits);
        let Some(latest) = self.kept.pop() else { return Ok(()) };
        let mut shown: Vec<ServerRecord> = self.kept.into_iter().filter(waits).collect();
        if shown.is_empty() || waits(&latest) {
            shown.push(latest);
        }
        for mut card in shown {
            let start = card.start.clone();
            let changes = card.changes(&start);
            let listed = card.listed.clone().unwrap_or_default();
            print(&show::whole(name, &start, &listed, &changes))?;
            let review = ServerReview { name, cards: &self.cards, card: &mut card };
            approve(around, review, &start, yes)?;
        }
        Ok(())
    }

    /// Forgets them. An editor that names one again is the first to do so.
    pub(super) fn forget(self, name: &str) -> Result<(), CliError> {
        self.cards.forget(name).map_err(CliError::failed)?;
        tell(&format!("forgotten: mcp {name}, which an editor named; the editor has it still"));
        Ok(())
    }
}

/// How those stand that editors named.
pub(super) fn rows(around: &ProcessEnv, config: &Config) -> Result<Vec<ServerRow>, CliError> {
    let names = cards_of_editors(around)?.names().map_err(CliError::failed)?;
    let mut rows = Vec::new();
    for name in names {
        match EditorServer::of(around, config, &name) {
            Ok(Some(EditorServer { kept, .. })) => rows.extend(kept.iter().map(|card| {
                let row = ServerRow::of(&name, card.start.clone(), card);
                ServerRow { state: format!("named by an editor; {}", row.state), ..row }
            })),
            Ok(None) => {}
            Err(error) => {
                rows.push(ServerRow { state: error.chain(), name, ..ServerRow::default() })
            }
        }
    }
    Ok(rows)
}
