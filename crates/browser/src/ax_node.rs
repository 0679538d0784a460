//! Nodes of an accessibility tree, as the browser sends them.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A node. What is missing is empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AxNode {
    pub(crate) node_id: String,
    pub(crate) ignored: bool,
    #[serde(deserialize_with = "text_value")]
    pub(crate) role: String,
    #[serde(deserialize_with = "text_value")]
    pub(crate) name: String,
    #[serde(deserialize_with = "text_value")]
    pub(crate) value: String,
    #[serde(deserialize_with = "text_value")]
    pub(crate) description: String,
    pub(crate) child_ids: Vec<String>,
    pub(crate) parent_id: Option<String>,
    #[serde(rename = "backendDOMNodeId")]
    pub(crate) backend_id: Option<i64>,
    properties: Vec<AxProperty>,
}

/// The answer with the nodes of a frame.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AxTree {
    pub(crate) nodes: Vec<AxNode>,
}

#[derive(Debug, Clone, Deserialize)]
struct AxProperty {
    name: String,
    #[serde(default)]
    value: AxValue,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct AxValue {
    #[serde(default)]
    value: Value,
}

impl AxNode {
    /// Returns a property as text; empty if it has none.
    pub(crate) fn property(&self, name: &str) -> String {
        let property = self.properties.iter().find(|property| property.name == name);
        property.map(|property| text(&property.value.value)).unwrap_or_default()
    }

    /// Returns whether a property is true.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.property(name) == "true"
    }
}

fn text_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = Option::<AxValue>::deserialize(deserializer)?;
    Ok(value.map(|value| text(&value.value)).unwrap_or_default())
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
