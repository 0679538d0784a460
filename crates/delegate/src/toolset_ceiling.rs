//! What every child may have at most, whoever its parent is and whenever it was made.

use deputize_core::authority::Grant;
use deputize_core::{Catalog, CatalogEntry};

use crate::policy::Policy;
use crate::toolset::{is_never, under_ceiling};

/// The most that any child may have under these settings. A child that an earlier process made
/// is met with it too, so that what the operator took away since is gone.
#[must_use]
pub fn children_grant(catalog: &Catalog, policy: &Policy) -> Grant {
    let may = |entry: &&CatalogEntry| {
        !is_never(entry.name())
            && under_ceiling(&entry.toolset, policy).is_ok()
            && !policy.withholds(entry, policy.approvals)
    };
    Grant {
        tools: Some(catalog.iter().filter(may).map(|entry| entry.name().clone()).collect()),
        approver: Some(policy.approvals),
        spawn_depth: (!policy.orchestrator_enabled || policy.is_external()).then_some(0),
        ..Grant::default()
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::authority::ApproverMode;

    use super::*;
    use crate::fixture::{ParentFixture, tool_name, toolsets};

    const TOOLS: &str = "file/read_file terminal/terminal mcp-git/git_log core/todo \
        delegation/delegate_task";

    #[test]
    fn the_ceiling_cuts_mcp_too_and_what_no_child_has_is_out() {
        let family = ParentFixture::new(TOOLS);
        let tools = |policy: &Policy| {
            let grant = children_grant(&family.catalog, policy);
            let names: Vec<_> = grant.tools.iter().flatten().map(ToString::to_string).collect();
            names.join(" ")
        };
        assert_eq!(tools(&Policy::default()), "delegate_task git_log read_file terminal");
        let approval_effects = vec![deputize_core::Effects::Unknown];
        let denied = Policy { approval_effects, ..Policy::default() };
        assert_eq!(tools(&denied), "delegate_task git_log read_file");
        let external = Policy { external_needs: vec![tool_name("terminal")], ..denied };
        assert_eq!(tools(&external), "delegate_task git_log read_file terminal");
        let ceiling = Policy { toolset_ceiling: Some(toolsets("file")), ..Policy::default() };
        assert_eq!(tools(&ceiling), "read_file");
    }

    #[test]
    fn approvals_and_nesting_are_those_of_now() {
        let family = ParentFixture::new(TOOLS);
        let grant = |policy: &Policy| children_grant(&family.catalog, policy);
        let open = Policy { approvals: ApproverMode::Auto, ..Policy::default() };
        assert_eq!(grant(&open).approver, Some(ApproverMode::Auto));
        assert_eq!(grant(&open).spawn_depth, None);
        let shut = Policy { orchestrator_enabled: false, ..Policy::default() };
        assert_eq!(grant(&shut).approver, Some(ApproverMode::Deny));
        assert_eq!(grant(&shut).spawn_depth, Some(0));
    }
}
