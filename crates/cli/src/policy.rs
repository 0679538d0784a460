//! The rules until there is a sandbox and a classifier of commands.

use deputize_core::{AgentView, Effects, Policy, ToolSpec, Verdict};
use serde_json::Value;

/// Judges by what a tool may do, as its spec says: what only looks runs, what writes files runs
/// because the agent's authority bounds the paths, everything else asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByEffects;

/// The class of a call that may do anything.
const DANGEROUS: &str = "dangerous";
/// The rule that asks.
const REASON: &str = "nothing on this system bounds what it does, so each call is asked for";

impl Policy for ByEffects {
    fn judge(&self, tool: &ToolSpec, _: &Value, _: &AgentView) -> Verdict {
        by_effects(tool.effects)
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
        assert!(
            matches!(by_effects(Effects::Unknown), Verdict::Ask { class, .. } if class == "dangerous")
        );
    }
}
