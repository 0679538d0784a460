//! The rules until there is a sandbox and a classifier of commands.

use std::path::PathBuf;

use deputize_core::{AgentView, Effects, Policy, ToolSpec, Verdict};
use serde_json::Value;

use crate::hardline::hardline;

/// Judges by what a tool may do, as its spec says: what only looks runs, what writes files runs
/// because the agent's authority bounds the paths, everything else asks; but a few commands never
/// run.
#[derive(Debug, Clone)]
pub(crate) struct ByEffects {
    /// The person's home directory.
    pub(crate) home: Option<PathBuf>,
}

/// The class of a call that may do anything.
const DANGEROUS: &str = "dangerous";
/// The rule that asks.
const REASON: &str = "nothing on this system bounds what it does, so each call needs a yes";

impl ByEffects {
    /// What tools do each of whose calls somebody must approve.
    pub(crate) fn approval_effects() -> Vec<Effects> {
        let all = [Effects::ReadOnly, Effects::WritesFiles, Effects::Unknown];
        let asks = |effects: &Effects| matches!(by_effects(*effects), Verdict::Ask { .. });
        all.into_iter().filter(asks).collect()
    }
}

impl Policy for ByEffects {
    fn judge(&self, tool: &ToolSpec, arguments: &Value, _: &AgentView) -> Verdict {
        let command = arguments.get("command").and_then(Value::as_str);
        let never = command.filter(|_| tool.effects == Effects::Unknown);
        match never.and_then(|command| self.never(command)) {
            Some(reason) => Verdict::Deny { reason },
            None => by_effects(tool.effects),
        }
    }

    fn never(&self, command: &str) -> Option<String> {
        let what = hardline(command, self.home.as_deref())?;
        Some(format!(
            "hardline: {what} never runs here, whatever the setting; the person can do it \
             themselves, outside"
        ))
    }
}

fn by_effects(effects: Effects) -> Verdict {
    match effects {
        Effects::ReadOnly | Effects::WritesFiles => Verdict::Allow,
        Effects::Unknown => Verdict::Ask { class: DANGEROUS.to_owned(), reason: REASON.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_bounds_is_asked_for() {
        assert_eq!(by_effects(Effects::ReadOnly), Verdict::Allow);
        assert_eq!(by_effects(Effects::WritesFiles), Verdict::Allow);
        assert_eq!(ByEffects::approval_effects(), [Effects::Unknown]);
        assert!(
            matches!(by_effects(Effects::Unknown), Verdict::Ask { class, .. } if class == "dangerous")
        );
    }
}
