//! What the fuzz targets reach beside the public interface.

use deputize_core::ToolSpec;
use serde_json::Value;

use crate::validate::Checker;

/// Checks the arguments of calls as a session does.
#[derive(Debug, Default)]
pub struct Arguments(Checker);

impl Arguments {
    /// The arguments, if they are JSON that fits the tool's schema.
    ///
    /// # Errors
    /// With what the model is told.
    pub fn check(&self, spec: &ToolSpec, text: &str) -> Result<Value, String> {
        self.0.check(spec, text)
    }
}
