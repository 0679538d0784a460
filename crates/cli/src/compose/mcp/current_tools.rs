//! The tools that children begin with, while servers change theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use deputize_core::{BoxFuture, Catalog, ToolSource};
use deputize_mcp::{ServerTarget, Servers};
use futures_util::future::join_all;

use super::{KnownServer, add, unasked};
use crate::config::Config;
use crate::exit::CliError;

/// The tools of a program that has some of servers: of these what was approved, and they have now.
pub(crate) struct CurrentTools {
    pub(crate) config: Config,
    /// The tools that no server brings.
    pub(crate) others: Catalog,
    pub(crate) servers: Servers,
    /// How each server is started or reached that could have tools.
    pub(crate) starts: BTreeMap<String, ServerTarget>,
    /// What was told.
    pub(crate) told: Mutex<BTreeSet<String>>,
}

impl ToolSource for CurrentTools {
    fn now(&self) -> BoxFuture<'_, (Arc<Catalog>, Vec<String>)> {
        Box::pin(async {
            let (mut known, mut notes) = (BTreeMap::new(), Vec::new());
            let asked = self.starts.keys().map(|name| self.servers.now(name));
            for ((name, start), now) in self.starts.iter().zip(join_all(asked).await) {
                match now {
                    Ok(Some(card)) => {
                        let start = start.clone();
                        let card = if card.is_stale(&start) { unasked(card) } else { card };
                        known.insert(name.clone(), KnownServer { start, card });
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let why = CliError::failed(error).chain();
                        notes.push(format!("{why}. Agents that begin now do not get its tools"));
                    }
                }
            }
            let mut catalog = self.others.clone();
            notes.extend(add(&self.config, &known, &mut catalog).into_iter().map(|note| note.text));
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            notes.retain(|note| told.insert(note.clone()));
            drop(told);
            (Arc::new(catalog), notes)
        })
    }
}
