//! The conformance check of one tool.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::{Availability, Resource, ResourceMap, Tool};
use serde_json::Value;

use crate::calls::{CallLimits, Calls};
use crate::declared::{Findings, look};
use crate::violation::{CallRule, SpecRule, Violation, Violations};

/// Time limit of a cancelled call. Much longer than an agent waits, so that a slow machine causes
/// no violation.
const GRACE: Duration = Duration::from_secs(10);
/// Time limit of a call if the tool has none of its own.
const LIMIT: Duration = Duration::from_secs(120);

/// The result of checking a tool that keeps its contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of calls made; 0 for a tool without examples or one that cannot be used at present.
    pub calls: usize,
    /// Suggested improvements.
    pub advice: Vec<Violation>,
}

/// Checks a tool's specification and runs its examples in a temporary directory. Use [`ToolCheck`]
/// for further calls, another directory or session settings.
///
/// # Errors
/// All violations of the contract.
pub async fn check_tool(tool: &Arc<dyn Tool>) -> Result<CheckReport, Violations> {
    ToolCheck::new(tool).run().await
}

/// A check of one tool, with its calls.
pub struct ToolCheck {
    tool: Arc<dyn Tool>,
    calls: Vec<Value>,
    dir: Option<PathBuf>,
    settings: ResourceMap,
    network: bool,
    grace: Duration,
    limit: Option<Duration>,
}

impl std::fmt::Debug for ToolCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ToolCheck({})", self.tool.spec().decl.name)
    }
}

impl ToolCheck {
    /// Creates a check that runs the tool's own examples.
    #[must_use]
    pub fn new(tool: &Arc<dyn Tool>) -> Self {
        let tool = Arc::clone(tool);
        let settings = ResourceMap::default();
        let (calls, dir, limit) = (Vec::new(), None, None);
        Self { tool, calls, dir, settings, network: false, grace: GRACE, limit }
    }

    /// Adds a call, which must work like the examples.
    #[must_use]
    pub fn call(mut self, arguments: Value) -> Self {
        self.calls.push(arguments);
        self
    }

    /// Runs the check in this directory, which may hold files that calls need. Tools that write
    /// files write them here.
    #[must_use]
    pub fn inside(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Adds a value to the session settings, as a program provides it to its tools, such as
    /// `deputize_mcp::Servers` for tools of MCP servers. The check does not close it.
    #[must_use]
    pub fn lend<T: Resource>(self, value: T) -> Self {
        self.settings.get_or_insert_with(|| value);
        self
    }

    /// Lets the calls use the network.
    #[must_use]
    pub fn with_network(mut self) -> Self {
        self.network = true;
        self
    }

    /// Sets the time limit of a cancelled call, instead of 10 seconds.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the time limit of a call, instead of the tool's own.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Runs the check.
    ///
    /// # Errors
    /// All violations of the contract.
    pub async fn run(mut self) -> Result<CheckReport, Violations> {
        let name = self.tool.spec().decl.name.to_string();
        let mut found = Findings::default();
        let fits = look(&*self.tool, &mut found);
        let calls = match (fits, self.tool.availability(&self.settings)) {
            (Some(fits), Availability::Yes) => {
                let settings = std::mem::take(&mut self.settings);
                self.make_calls(&fits, settings, &mut found).await
            }
            _ => 0,
        };
        let violation = |(rule, found)| Violation { tool: name.clone(), rule, found };
        if found.broken.is_empty() {
            return Ok(CheckReport {
                calls,
                advice: found.advice.into_iter().map(violation).collect(),
            });
        }
        Err(Violations(found.broken.into_iter().map(violation).collect()))
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
                    found.broken(SpecRule::Schema, format!("it does not take {call}: {error}"))
                }
                None => tried.push(call),
            }
        }
        if tried.is_empty() {
            return 0;
        }
        // Kept until the end, because dropping it deletes the directory.
        let (dir, _kept) = match &self.dir {
            Some(dir) => (dir.clone(), None),
            None => match tempfile::tempdir() {
                Ok(dir) => (dir.path().to_owned(), Some(dir)),
                Err(error) => {
                    found.broken(
                        CallRule::Works,
                        format!("there is no directory to try it in: {error}"),
                    );
                    return 0;
                }
            },
        };
        let limit = self.limit.or(spec.time_limit).unwrap_or(LIMIT);
        let limits = CallLimits { call: limit, grace: self.grace };
        let mut calls = Calls::new(&self.tool, &dir, settings, limits, self.network);
        for arguments in tried {
            calls.try_with(arguments, found).await;
        }
        calls.made()
    }
}

#[cfg(test)]
mod tests;
