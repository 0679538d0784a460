//! What every child may have at most, whoever its parent is and whenever it was made.

use deputize_core::authority::Grant;
use deputize_core::{Catalog, CatalogEntry};

use crate::config::DelegationConfig;
use crate::toolset::{is_never, under_ceiling};

/// Returns the upper bound on any child's rights under these settings. It also applies to children
/// of an earlier process, so tools that the operator removed since are gone.
#[must_use]
pub fn children_grant(catalog: &Catalog, config: &DelegationConfig) -> Grant {
    let may = |entry: &&CatalogEntry| {
        !is_never(entry)
            && under_ceiling(entry, catalog, config).is_ok()
            && !config.withholds(entry, config.approvals.mode)
    };
    Grant {
        tools: Some(catalog.iter().filter(may).map(|entry| entry.name().clone()).collect()),
        approver: Some(config.approvals.mode),
        spawn_depth: (!config.options.orchestrator_enabled || config.is_external()).then_some(0),
        ..Grant::default()
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::authority::ApproverMode;

    use super::*;
    use crate::config::{ChildApprovals, ChildToolsets, DelegationHost, DelegationOptions};
    use crate::fixture::{ParentFixture, tool_name, toolsets};

    const TOOLS: &str = "file/read_file terminal/terminal mcp-git/git_log core/todo \
        delegation/delegate_task";

    #[test]
    fn the_ceiling_cuts_mcp_too_and_what_no_child_has_is_out() {
        let family = ParentFixture::new(TOOLS);
        let tools = |config: &DelegationConfig| {
            let grant = children_grant(&family.catalog, config);
            let names: Vec<_> = grant.tools.iter().flatten().map(ToString::to_string).collect();
            names.join(" ")
        };
        assert_eq!(tools(&DelegationConfig::default()), "delegate_task git_log read_file terminal");
        let approval_effects = vec![deputize_core::Effects::Unknown];
        let denied = DelegationConfig {
            approvals: ChildApprovals { effects: approval_effects, ..ChildApprovals::default() },
            ..DelegationConfig::default()
        };
        assert_eq!(tools(&denied), "delegate_task git_log read_file");
        let external = DelegationConfig {
            host: DelegationHost { external_needs: vec![tool_name("terminal")], ..denied.host },
            ..denied
        };
        assert_eq!(tools(&external), "delegate_task git_log read_file terminal");
        let ceiling = DelegationConfig {
            toolsets: ChildToolsets { ceiling: Some(toolsets("file")), ..ChildToolsets::default() },
            ..DelegationConfig::default()
        };
        assert_eq!(tools(&ceiling), "read_file");
    }

    #[test]
    fn approvals_and_nesting_are_those_of_now() {
        let family = ParentFixture::new(TOOLS);
        let grant = |config: &DelegationConfig| children_grant(&family.catalog, config);
        let open = DelegationConfig {
            approvals: ChildApprovals { mode: ApproverMode::Auto, ..ChildApprovals::default() },
            ..DelegationConfig::default()
        };
        assert_eq!(grant(&open).approver, Some(ApproverMode::Auto));
        assert_eq!(grant(&open).spawn_depth, None);
        let shut = DelegationConfig {
            options: DelegationOptions {
                orchestrator_enabled: false,
                ..DelegationOptions::default()
            },
            ..DelegationConfig::default()
        };
        assert_eq!(grant(&shut).approver, Some(ApproverMode::Deny));
        assert_eq!(grant(&shut).spawn_depth, Some(0));
    }
}
