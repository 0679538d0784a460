//! Servers that editors named for a session. What they said is kept, and no more is known of them:
//! how they are started is the editor's.

use deputize_mcp::{Card, Cards};

use super::{Row, approve, show};
use crate::compose::mcp::cards_of_editors;
use crate::config::Config;
use crate::exit::CliError;
use crate::surroundings::{Surroundings, print, tell};

/// One of them, by its name.
pub(super) struct Named {
    cards: Cards,
    card: Card,
}

impl Named {
    /// Nothing: no editor named one so. A configured one of that name takes its place.
    pub(super) fn of(
        around: &Surroundings,
        config: &Config,
        name: &str,
    ) -> Result<Option<Self>, CliError> {
        let cards = cards_of_editors(around)?;
        let known = cards.names().map_err(CliError::failed)?.iter().any(|known| known == name);
        if !known || config.mcp_servers.contains_key(name) {
            return Ok(None);
        }
        let card = cards.read(name).map_err(CliError::failed)?;
        Ok(Some(Self { cards, card }))
    }

    /// Shows what it said last, and approves that.
    pub(super) fn review(
        mut self,
        around: &Surroundings,
        name: &str,
        yes: bool,
    ) -> Result<(), CliError> {
        let start = self.card.start.clone();
        let changes = self.card.changes(&start);
        let listed = self.card.listed.clone().unwrap_or_default();
        print(&show::whole(name, &start, &listed, &changes))?;
        approve(around, (name, &self.cards, &mut self.card), start, yes)
    }

    /// Forgets it. An editor that names it again is the first to do so.
    pub(super) fn forget(self, name: &str) -> Result<(), CliError> {
        self.cards.remove(name).map_err(CliError::failed)?;
        tell(&format!("forgotten: mcp {name}, which an editor named; the editor has it still"));
        Ok(())
    }
}

/// How those stand that editors named.
pub(super) fn rows(around: &Surroundings, config: &Config) -> Result<Vec<Row>, CliError> {
    let names = cards_of_editors(around)?.names().map_err(CliError::failed)?;
    let mut rows = Vec::new();
    for name in names {
        rows.extend(match Named::of(around, config, &name) {
            Ok(Some(Named { card, .. })) => {
                let row = Row::of(&name, card.start.clone(), &card);
                Some(Row { state: format!("named by an editor; {}", row.state), ..row })
            }
            Ok(None) => None,
            Err(error) => Some(Row { state: error.chain(), name, ..Row::default() }),
        });
    }
    Ok(rows)
}
