//! Toolsets that are made of others.

#![cfg(test)]

use deputize_core::tool::ToolsetParts;
use deputize_core::{Catalog, ToolError, ToolName, ToolsetName, tool};

deputize_core::tool_crate!();
deputize_core::register_toolset!("linked", includes["words"]);

/// Turn a text around.
#[tool(toolset = "words", effects = read_only)]
async fn reverse(
    /// The text.
    text: String,
) -> Result<String, ToolError> {
    Ok(text.chars().rev().collect())
}

fn parts(tools: &[&str], includes: &[&str]) -> ToolsetParts {
    ToolsetParts {
        tools: tools.iter().map(|name| ToolName::new(*name).unwrap()).collect(),
        includes: includes.iter().map(|name| ToolsetName::new(*name).unwrap()).collect(),
    }
}

#[test]
fn a_toolset_has_what_it_includes_over_any_way_and_circles_end() {
    let mut catalog = Catalog::linked(&[LINK]).unwrap();
    let set = |name: &str| ToolsetName::new(name).unwrap();
    catalog.insert_composite(set("far"), parts(&[], &["near"]));
    catalog.insert_composite(set("near"), parts(&["reverse"], &["far"]));
    catalog.insert_composite(set("round"), parts(&[], &["about"]));
    catalog.insert_composite(set("about"), parts(&["other"], &["round"]));
    let entry = catalog.get("reverse").unwrap();
    let has = |name: &str| catalog.includes(&set(name), entry);
    assert!(has("linked") && has("far") && has("near") && has("words"));
    assert!(!has("round") && !has("about"));
    let composites: Vec<&str> = catalog.composites().map(|name| name.as_str()).collect();
    assert_eq!(composites, ["far", "linked", "near"]);
    // Parts of a name that is there are added.
    catalog.insert_composite(set("round"), parts(&[], &["words"]));
    let entry = catalog.get("reverse").unwrap();
    assert!(catalog.includes(&set("about"), entry));
}
