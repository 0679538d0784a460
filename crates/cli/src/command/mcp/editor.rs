//! Servers that editors named for a session. What they said is kept, and no more is known of them:
//! how they are started is the editor's.

use deputize_mcp::{ApprovalStore, ServerChange, ServerRecord};

use super::{ServerReview, ServerRow, approve, show};
use crate::compose::mcp::editor_approval_store;
use crate::config::Config;
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::{print, tell};

/// Those of one name: one for each way to start or reach it that an editor said.
pub(super) struct EditorServer {
    approvals: ApprovalStore,
    kept: Vec<ServerRecord>,
}

impl EditorServer {
    /// Nothing: no editor named one so. A configured one of that name takes its place.
    pub(super) fn of(
        env: &ProcessEnv,
        config: &Config,
        name: &str,
    ) -> Result<Option<Self>, CliError> {
        let approvals = editor_approval_store(env)?;
        let known = approvals.names().map_err(CliError::failed)?.iter().any(|known| known == name);
        if !known || config.mcp_servers.contains_key(name) {
            return Ok(None);
        }
        let kept = approvals.read_all(name).map_err(CliError::failed)?;
        Ok(Some(Self { approvals, kept }))
    }

    /// Shows what those said last that wait, and approves each; where none waits, the latest.
    pub(super) fn review(
        mut self,
        env: &ProcessEnv,
        name: &str,
        yes: bool,
    ) -> Result<(), CliError> {
        let waits =
            |record: &ServerRecord| record.changes(&record.start).iter().any(ServerChange::waits);
        let Some(latest) = self.kept.pop() else { return Ok(()) };
        let mut shown: Vec<ServerRecord> = self.kept.into_iter().filter(waits).collect();
        if shown.is_empty() || waits(&latest) {
            shown.push(latest);
        }
        for mut record in shown {
            let start = record.start.clone();
            let changes = record.changes(&start);
            let listed = record.listed.clone().unwrap_or_default();
            print(&show::whole(name, &start, &listed, &changes))?;
            let review = ServerReview { name, approvals: &self.approvals, record: &mut record };
            approve(env, review, &start, yes)?;
        }
        Ok(())
    }

    /// Forgets them. An editor that names one again is the first to do so.
    pub(super) fn forget(self, name: &str) -> Result<(), CliError> {
        self.approvals.forget(name).map_err(CliError::failed)?;
        tell(&format!("forgotten: mcp {name}, which an editor named; the editor has it still"));
        Ok(())
    }
}

/// How those stand that editors named.
pub(super) fn rows(env: &ProcessEnv, config: &Config) -> Result<Vec<ServerRow>, CliError> {
    let names = editor_approval_store(env)?.names().map_err(CliError::failed)?;
    let mut rows = Vec::new();
    for name in names {
        match EditorServer::of(env, config, &name) {
            Ok(Some(EditorServer { kept, .. })) => rows.extend(kept.iter().map(|record| {
                let row = ServerRow::of(&name, record.start.clone(), record);
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
