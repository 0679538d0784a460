//! The check of one tool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{Availability, Resource, ResourceMap, Tool};
use serde_json::Value;

use crate::calls::Calls;
use crate::declared::{Findings, look};
use crate::violation::{ContractRule, Violation, Violations};

/// How long a call may take that was told to end. It is much more than an agent waits, so that a
/// slow machine is no violation.
const GRACE: Duration = Duration::from_secs(10);
/// How long a call may take when its tool has no limit of its own.
const LIMIT: Duration = Duration::from_secs(120);

/// A tool that keeps its contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// How many calls were made. None were made of a tool without examples, or of one that
    /// cannot be used now.
    pub calls: usize,
    /// What would make it better.
    pub advice: Vec<Violation>,
}

/// Checks a tool by what it says of itself and by the calls that it has for examples, in a
/// directory of their own. See [`ToolCheck`] for calls of your own, another directory, or what the tool
/// is lent.
///
/// # Errors
/// All that the tool does not keep.
pub async fn check_tool(tool: &Arc<dyn Tool>) -> Result<CheckReport, Violations> {
    ToolCheck::new(tool).run().await
}

/// A check of one tool, and what it tries.
pub struct ToolCheck {
    tool: Arc<dyn Tool>,
    calls: Vec<Value>,
    dir: Option<PathBuf>,
    settings: ResourceMap,
    grace: Duration,
    limit: Option<Duration>,
}

impl std::fmt::Debug for ToolCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Check({})", self.tool.spec().decl.name)
    }
}

impl ToolCheck {
    /// A check with the tool's own examples.
    #[must_use]
    pub fn new(tool: &Arc<dyn Tool>) -> Self {
        let tool = Arc::clone(tool);
        let settings = ResourceMap::default();
        Self { tool, calls: Vec::new(), dir: None, settings, grace: GRACE, limit: None }
    }

    /// The same with a call more, which has to work as the examples have to.
    #[must_use]
    pub fn call(mut self, arguments: Value) -> Self {
        self.calls.push(arguments);
        self
    }

    /// The same in this directory, where calls may find what they need. Tools that write files
    /// write them here.
    #[must_use]
    pub fn inside(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// The same where the tool finds this among the settings of its session: what a program lends
    /// its tools, as `deputize_mcp::Servers` to those of MCP servers. It is not ended by the check.
    #[must_use]
    pub fn lend<T: Resource>(self, value: T) -> Self {
        self.settings.get_or_insert_with(|| value);
        self
    }

    /// The same with so much time for a call that was told to end, instead of 10 seconds.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The same with so much time for a call, instead of the tool's own limit.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Makes the check.
    ///
    /// # Errors
    /// All that the tool does not keep.
    pub async fn run(mut self) -> Result<CheckReport, Violations> {
        let name = self.tool.spec().decl.name.to_string();
        let mut found = Findings::default();
        let fits = look(&*self.tool, &mut found);
        let calls = match (fits, &self.tool.spec().usable) {
            (Some(fits), Availability::Yes) => {
                let settings = std::mem::take(&mut self.settings);
                self.make_calls(&fits, settings, &mut found).await
            }
            _ => 0,
        };
        let told = |(rule, found)| Violation { tool: name.clone(), rule, found };
        if found.broken.is_empty() {
            return Ok(CheckReport { calls, advice: found.advice.into_iter().map(told).collect() });
        }
        Err(Violations(found.broken.into_iter().map(told).collect()))
    }

    async fn make_calls(
        &self,
        fits: &jsonschema::Validator,
        settings: ResourceMap,
        found: &mut Findings,
    ) -> usize {
        let spec = self.tool.spec();
        let own = spec.examples.iter().map(|example| &example.arguments);
        let mut tried: Vec<&Value> = own.filter(|arguments| fits.is_valid(arguments)).collect();
        for call in &self.calls {
            match fits.iter_errors(call).next() {
                Some(error) => {
                    found.broken(ContractRule::Schema, format!("it does not take {call}: {error}"))
                }
                None => tried.push(call),
            }
        }
        if tried.is_empty() {
            return 0;
        }
        // Kept until the end, since it goes when it is dropped.
        let (dir, _kept) = match &self.dir {
            Some(dir) => (dir.clone(), None),
            None => match tempfile::tempdir() {
                Ok(dir) => (dir.path().to_owned(), Some(dir)),
                Err(error) => {
                    found.broken(
                        ContractRule::Works,
                        format!("there is no directory to try it in: {error}"),
                    );
                    return 0;
                }
            },
        };
        let limit = self.limit.or(spec.time_limit).unwrap_or(LIMIT);
        let mut calls = Calls::new(&self.tool, &dir, settings, (limit, self.grace));
        for arguments in tried {
            calls.try_with(arguments, found).await;
        }
        calls.made()
    }
}

#[cfg(test)]
mod tests;
