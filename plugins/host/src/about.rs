//! The context of a call, for the plugin.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use deputize_core::ToolCx;
use serde::Serialize;

#[derive(Serialize)]
struct CallInfo<'a> {
    session: &'a str,
    agent: &'a str,
    call: String,
    cwd: &'a Path,
    spill: &'a Path,
    read: &'a BTreeSet<PathBuf>,
    write: &'a BTreeSet<PathBuf>,
    kept: &'a BTreeSet<PathBuf>,
    network: bool,
}

/// Returns the JSON text of [`HostV1::about`](deputize_plugin::HostV1::about).
pub(crate) fn about(cx: &ToolCx) -> String {
    let agent = &cx.agent;
    let about = CallInfo {
        session: agent.session.id.as_str(),
        agent: agent.id().as_str(),
        call: cx.call.to_string(),
        cwd: &agent.spec.cwd,
        spill: &agent.session.spill,
        read: agent.authority.read_roots(),
        write: agent.authority.write_roots(),
        kept: agent.authority.protected_paths(),
        network: agent.authority.network(),
    };
    // A path that is not UTF-8 has no JSON: what cannot be said is not permitted.
    serde_json::to_string(&about).unwrap_or_default()
}
