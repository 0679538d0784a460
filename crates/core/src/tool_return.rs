//! Return types of tool functions.

use std::borrow::Cow;
use std::error::Error;

use serde::Serialize;

use crate::tool_output::{ToolCallResult, ToolError, ToolOutput};

/// A value that a model can read as the output of a call.
#[diagnostic::on_unimplemented(
    message = "a tool cannot give `{Self}`",
    label = "no model can read this",
    note = "give a `String`, a `ToolOutput`, a `Json<T>`, or a `Result` of one of them and an \
            error that becomes a `ToolError`"
)]
pub trait IntoToolOutput {
    /// Converts the value into output.
    ///
    /// # Errors
    /// If it cannot be written as text.
    fn into_output(self) -> ToolCallResult;
}

impl IntoToolOutput for ToolOutput {
    fn into_output(self) -> ToolCallResult {
        Ok(self)
    }
}

impl IntoToolOutput for String {
    fn into_output(self) -> ToolCallResult {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for &'static str {
    fn into_output(self) -> ToolCallResult {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for Cow<'static, str> {
    fn into_output(self) -> ToolCallResult {
        Ok(ToolOutput::text(self))
    }
}

/// Outputs `done`.
impl IntoToolOutput for () {
    fn into_output(self) -> ToolCallResult {
        Ok(ToolOutput::text("done"))
    }
}

/// A value that the model gets as JSON.
///
/// ```
/// use deputize_core::{Json, tool};
///
/// #[derive(serde::Serialize)]
/// struct Size {
///     lines: usize,
///     bytes: usize,
/// }
///
/// /// Measure a text.
/// #[tool(toolset = "words", effects = read_only)]
/// async fn measure(
///     /// The text.
///     text: String,
/// ) -> Json<Size> {
///     Json(Size { lines: text.lines().count(), bytes: text.len() })
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolOutput for Json<T> {
    fn into_output(self) -> ToolCallResult {
        serde_json::to_string(&self.0).map(ToolOutput::text).map_err(ToolError::failed)
    }
}

/// The result of a call: an output, or a `Result` of one. The attribute [`tool`](macro@crate::tool)
/// requires it of the return type of its function.
#[diagnostic::on_unimplemented(
    message = "a tool cannot give `{Self}`",
    label = "no model can read this",
    note = "give a `String`, a `ToolOutput`, a `Json<T>`, or a `Result` of one of them and an \
            error that becomes a `ToolError`"
)]
pub trait IntoToolCallResult {
    /// Converts the value into the result of a call.
    ///
    /// # Errors
    /// If the call failed.
    fn into_result(self) -> ToolCallResult;
}

impl<T: IntoToolOutput> IntoToolCallResult for T {
    fn into_result(self) -> ToolCallResult {
        self.into_output()
    }
}

impl<T: IntoToolOutput, E: Into<ToolError>> IntoToolCallResult for Result<T, E> {
    fn into_result(self) -> ToolCallResult {
        self.map_err(Into::into)?.into_output()
    }
}

/// Any error, for the operator. For mistakes that the model can act on, use [`ToolError::refused`].
impl From<Box<dyn Error + Send + Sync>> for ToolError {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::Failed(error)
    }
}

/// An error for the operator, like any fault of the machine.
impl From<std::io::Error> for ToolError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}

/// An error for the operator.
impl From<serde_json::Error> for ToolError {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(given: impl IntoToolCallResult) -> String {
        given.into_result().map_or_else(|error| format!("{error:?}"), |output| output.content)
    }

    #[test]
    fn what_a_function_gives_becomes_content_or_an_error() {
        assert_eq!(content("a"), "a");
        assert_eq!(content(()), "done");
        assert_eq!(content(Json([1, 2])), "[1,2]");
        assert_eq!(content(Ok::<_, ToolError>(String::from("b"))), "b");
        let refused: Result<String, _> = Err(ToolError::refused("no"));
        assert!(matches!(refused.into_result(), Err(ToolError::Refused(_))));
        let any: Result<String, Box<dyn Error + Send + Sync>> = Err("no disk".into());
        assert!(
            matches!(any.into_result(), Err(ToolError::Failed(why)) if why.to_string() == "no disk")
        );
        let map = Json(std::collections::BTreeMap::from([(vec![1], 1)]));
        assert!(matches!(map.into_result(), Err(ToolError::Failed(_))), "no key of JSON");
    }
}
