//! The sources of results.

use deputize_core::source::Source;
use deputize_core::source_set::SourceSet;
use deputize_core::{CatalogEntry, Origin, ToolOutput};

/// Returns the sources of what a tool returned. A server and a plugin are named whatever they say
/// themselves.
pub(super) fn output_sources(entry: &CatalogEntry, output: &ToolOutput) -> SourceSet {
    let own = match &entry.origin {
        Origin::Mcp { server } => Some(Source::mcp(server)),
        Origin::Plugin { path } => {
            Some(Source::plugin(path.file_stem().unwrap_or_default().to_string_lossy()))
        }
        _ if output.source.is_none() => Some(Source::tool(entry.name().as_str())),
        _ => None,
    };
    own.into_iter().chain(output.source.clone()).chain(output.sources.iter().cloned()).collect()
}
