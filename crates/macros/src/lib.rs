//! Two attributes for the authors of tools: [`macro@tool`] makes a tool of an async function,
//! [`macro@arguments`] makes a type one that its arguments may have.
//!
//! Use them as `deputize_core::tool` and `deputize_core::arguments`; what they write down refers
//! to that crate, so a tool crate depends on it alone.
//!
//! ```
//! use deputize_core::{ToolError, tool};
//!
//! /// Count the words of a text.
//! #[tool(toolset = "words", effects = read_only, example("Three words", {"text": "a b c"}))]
//! async fn count_words(
//!     /// The text.
//!     text: String,
//!     /// Count words of so many letters and more; all without it.
//!     at_least: Option<usize>,
//! ) -> Result<String, ToolError> {
//!     let least = at_least.unwrap_or(0);
//!     let words = text.split_whitespace().filter(|word| word.chars().count() >= least);
//!     Ok(words.count().to_string())
//! }
//!
//! let tool = deputize_core::erase(CountWords);
//! assert_eq!(tool.spec().decl.description, "Count the words of a text.");
//! ```
//!
//! A tool that says its kind and its subject is shown as `get https://…` while it runs, and editors
//! give it a picture:
//!
//! ```
//! use deputize_core::{ToolKind, tool};
//!
//! /// Get a web page as text.
//! #[tool(toolset = "pages", effects = read_only, kind = fetch, subject = "address", verb = "get")]
//! async fn get_page(
//!     /// The address of the page.
//!     address: String,
//! ) -> String {
//!     format!("the page {address}")
//! }
//!
//! let tool = deputize_core::erase(GetPage);
//! assert_eq!(tool.spec().kind, ToolKind::Fetch);
//! assert_eq!(tool.spec().subject.verb(), Some("get"));
//! ```
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: to build on. A change that breaks a program waits for the next minor version,
//! after a version in which the old form is deprecated where that is possible. What the
//! attributes write down is not for others to rely on.

mod arguments;
mod expand;
mod options;
mod signature;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;

/// Makes a tool of an async function, and registers it.
///
/// - **The function's doc comment** is the tool's description for the model, and the doc comments
///   of its arguments are their descriptions. All are required.
/// - **Arguments** are owned and of types that [`macro@arguments`] was put on, or that are
///   `Deserialize` and `JsonSchema` by themselves. `Option<T>` may be left out. `#[serde(…)]`,
///   `#[schemars(…)]` and `#[deprecated]` work on them as on the fields of a struct: rename,
///   default, range. One argument may be `&ToolCx`: the call, its agent, its cancel signal.
/// - **It gives** a `String`, a `ToolOutput`, a `Json<T>`, or a `Result` of one of them and an
///   error that becomes a `ToolError`: for other errors write `Box<dyn Error + Send + Sync>`.
/// - **The function stays** as it was, for tests to call. Beside it stands a type of its name in
///   camel case, which is the tool: `deputize_core::erase(CountWords)`.
///
/// `#[deprecated]` on the function is passed to the model too. The options are
///
/// | option | means | without it |
/// | --- | --- | --- |
/// | `toolset = "words"` | the set it is given or withheld with | an error |
/// | `name = "count_words"` | its name for the model | that of the function |
/// | `type = CountWords` | its type's name | that of the function, in camel case |
/// | `effects = read_only` | `read_only`, `writes_files` or `unknown`: what a call may do | `unknown`, which asks a person |
/// | `kind = fetch` | the sort of work, for people and editors: `read`, `edit`, `delete`, `move`, `search`, `execute`, `fetch`, `delegate`, `think` or `other` | `other` |
/// | `subject = "address"` | the argument that a call is about: people read `fetch https://…` | people read the name and all arguments |
/// | `verb = "get"` | the first word of that line | that of the kind |
/// | `parent_only = "it outlives the turn"` | why no child of an agent has it | children may have it |
/// | `repeatable = true` | a call that a crash cut off may be made again | true for `read_only` |
/// | `parallel = true` | calls of one step may run side by side | true for `read_only` |
/// | `time_limit_seconds = 120` | time limit after which a call is cancelled; 0: the tool limits itself | 120 |
/// | `usable = path` | a function that says whether it can be used now: `fn() -> Usable` | it can |
/// | `example("Title", {"text": "a"})` | a call that shows its use and that `check_tool` makes; may be repeated | none |
/// | `crate = path` | where `deputize-core` is | `::deputize_core` |
///
/// ```compile_fail
/// # use deputize_core::tool;
/// #[tool(toolset = "words")]
/// async fn without_a_word_for_the_model() -> String {
///     String::new()
/// }
/// ```
#[proc_macro_attribute]
pub fn tool(options: TokenStream, function: TokenStream) -> TokenStream {
    or_errors(expand::tool(options.into(), function.into()))
}

/// Makes a struct or enum one that a tool's arguments may have: `Deserialize` and `JsonSchema`,
/// by way of `deputize-core`. A struct takes no fields that it does not know.
///
/// ```
/// use deputize_core::{arguments, tool};
///
/// /// How words are separated.
/// #[arguments]
/// #[serde(rename_all = "snake_case")]
/// enum Split {
///     /// At every space.
///     Spaces,
///     /// At every line's end.
///     Lines,
/// }
///
/// /// Count the parts of a text.
/// #[tool(toolset = "words", effects = read_only)]
/// async fn count_parts(
///     /// The text.
///     text: String,
///     /// Where it is split.
///     split: Split,
/// ) -> String {
///     match split {
///         Split::Spaces => text.split(' ').count().to_string(),
///         Split::Lines => text.lines().count().to_string(),
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn arguments(options: TokenStream, item: TokenStream) -> TokenStream {
    or_errors(arguments::arguments(options.into(), item.into()))
}

fn or_errors(done: syn::Result<Tokens>) -> TokenStream {
    done.unwrap_or_else(|error| error.into_compile_error()).into()
}
