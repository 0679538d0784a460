//! What a function must be.
use deputize_core::tool;

/// Not async.
#[tool(toolset = "words")]
fn not_async() -> String {
    String::new()
}

/// Generic.
#[tool(toolset = "words")]
async fn generic<T: Default>() -> String {
    String::new()
}

#[tool(toolset = "words")]
async fn without_a_word() -> String {
    String::new()
}

struct State;

impl State {
    /// A method.
    #[tool(toolset = "words")]
    async fn method(&self) -> String {
        String::new()
    }
}

/// No function at all.
#[tool(toolset = "words")]
struct NoFunction;

fn main() {}
