//! What the options must be.
use deputize_core::{arguments, tool};

/// None.
#[tool]
async fn no_toolset() -> String {
    String::new()
}

/// Unknown.
#[tool(toolset = "words", effect = read_only)]
async fn unknown_option() -> String {
    String::new()
}

/// Unknown too.
#[tool(toolset = "words", effects = readonly)]
async fn unknown_effects() -> String {
    String::new()
}

/// A bad name.
#[tool(toolset = "words", name = "count words")]
async fn bad_name() -> String {
    String::new()
}

/// A bad toolset.
#[tool(toolset = "")]
async fn bad_toolset() -> String {
    String::new()
}

/// Twice.
#[tool(toolset = "words", name = "a", name = "b")]
async fn twice() -> String {
    String::new()
}

/// A wrong example.
#[tool(toolset = "words", example("Nothing"))]
async fn wrong_example() -> String {
    String::new()
}

/// An unknown kind.
#[tool(toolset = "words", kind = paint)]
async fn unknown_kind() -> String {
    String::new()
}

/// A subject that is no argument.
#[tool(toolset = "words", kind = fetch, subject = "url")]
async fn no_subject(
    /// The address.
    address: String,
) -> String {
    address
}

/// A name that no model may write.
#[tool(toolset = "words")]
async fn zähle() -> String {
    String::new()
}

#[arguments(krate = deputize_core)]
struct WrongOption {}

#[arguments]
fn no_type() {}

fn main() {}
