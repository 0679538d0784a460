//! Children that are runs of another program, over ACP.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use deputize_acp::{AcpAgents, AcpProgram, NEEDS};
use deputize_core::external_agent::ExternalAgents;
use deputize_core::source_set::SourceSet;
use deputize_delegate::{DelegationConfig, ToolSchemas};
use deputize_runtime::SessionConfig;
use deputize_tools::Processes;

use crate::extension::{Extension, ExtensionContext};

/// Returns what specs of children that are runs of a program have in the place of a model.
#[must_use]
pub fn external_agent_name(command: &str) -> String {
    let file = Path::new(command).file_name().map(|name| name.to_string_lossy().into_owned());
    format!("acp/{}", file.unwrap_or_else(|| command.to_owned()))
}

/// Makes children runs of a program. They have none of our tools and no children of their own, and
/// the program chooses its model.
pub fn use_external_agent(config: &mut DelegationConfig, name: &str) {
    config.models.model = Some(name.to_owned());
    config.models.choices = Vec::new();
    config.models.unreachable = BTreeMap::new();
    config.host.external_needs = NEEDS.to_vec();
    config.options.tool_schemas = ToolSchemas::Narrowed;
    config.host.child_base = Vec::new();
    config.host.child_base_sources = SourceSet::new();
}

/// Returns the way to children that are runs of a program, by the name that specs have.
#[must_use]
pub fn external_agents(
    name: String,
    program: AcpProgram,
    processes: &Arc<Processes>,
) -> BTreeMap<String, Arc<dyn ExternalAgents>> {
    let processes = Arc::clone(processes);
    let agents = AcpAgents::new(program, move || processes.shared());
    BTreeMap::from([(name, Arc::new(agents) as Arc<dyn ExternalAgents>)])
}

impl Extension for AcpProgram {
    fn change_delegation(&self, config: &mut DelegationConfig) {
        use_external_agent(config, &external_agent_name(&self.path().to_string_lossy()));
    }

    fn change_session(&self, cx: &ExtensionContext<'_>, config: &mut SessionConfig) {
        let name = external_agent_name(&self.path().to_string_lossy());
        config.external.extend(external_agents(name, self.clone(), cx.processes));
    }
}
