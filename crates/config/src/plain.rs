//! What is right beyond doubt, so that nothing need be made ready to look for mistakes in it.

use serde_json::Value as Json;

use super::schema::{self, SectionSchema};
use super::tree::{PlacedValue, Value};

/// Whether a whole layer certainly has no mistake.
pub(super) fn is_plain(layer: &PlacedValue) -> bool {
    let plain = |key: &str, node| schema::section(key).is_some_and(|it| is_plain_section(it, node));
    matches!(layer.value, Value::Map(_))
        && layer.entries().all(|(key, entry)| plain(key, &entry.node))
}

fn is_plain_section(schema: &SectionSchema, node: &PlacedValue) -> bool {
    is_plainly_right(schema.keywords(), node)
        && node.entries().all(|(key, entry)| {
            let wanted = schema.key(key).or_else(|| schema.other_keys());
            wanted.is_none_or(|wanted| is_plainly_right(wanted, &entry.node))
        })
}

/// Whether a value certainly agrees with a schema. This knows the few keywords that most keys
/// have; whatever else a schema says, it doubts.
fn is_plainly_right(schema: &Json, node: &PlacedValue) -> bool {
    let Some(keywords) = schema.as_object() else { return false };
    keywords.iter().all(|(keyword, wanted)| match keyword.as_str() {
        "$schema" | "title" | "description" | "default" => true,
        "type" => is_of_type(wanted, &node.value),
        "enum" => wanted.as_array().is_some_and(|choices| choices.contains(&node.to_json())),
        "minimum" => in_order(wanted, &node.value, |limit, found| limit <= found),
        "maximum" => in_order(wanted, &node.value, |limit, found| found <= limit),
        "properties" => node
            .entries()
            .all(|(key, entry)| wanted.get(key).is_none_or(|it| is_plainly_right(it, &entry.node))),
        "additionalProperties" => {
            let named = keywords.get("properties");
            let mut others = node
                .entries()
                .filter(|(key, _)| named.is_none_or(|named| named.get(key.as_str()).is_none()));
            others.all(|(_, entry)| is_plainly_right(wanted, &entry.node))
        }
        "items" => node.items().iter().all(|item| is_plainly_right(wanted, item)),
        _ => false,
    })
}

/// The type is one name or a list of them.
fn is_of_type(wanted: &Json, value: &Value) -> bool {
    let names: &[&str] = match value {
        Value::Null => &["null"],
        Value::Bool(_) => &["boolean"],
        Value::Number(number) if number.is_f64() => &["number"],
        Value::Number(_) => &["number", "integer"],
        Value::Text(_) => &["string"],
        Value::List(_) => &["array"],
        Value::Map(_) => &["object"],
    };
    let is_named = |wanted: &Json| wanted.as_str().is_some_and(|name| names.contains(&name));
    is_named(wanted) || wanted.as_array().is_some_and(|all| all.iter().any(is_named))
}

/// What is no number has no limits; fractions are doubted.
fn in_order(limit: &Json, value: &Value, order: impl Fn(i128, i128) -> bool) -> bool {
    let whole = |number: &serde_json::Number| {
        number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
    };
    let Value::Number(found) = value else { return true };
    let limit = limit.as_number().and_then(whole);
    limit.zip(whole(found)).is_some_and(|(limit, found)| order(limit, found))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::json_schema;
    use crate::place::{ConfigPlace, ConfigSource};

    fn is_plain(file: &Json) -> bool {
        let place = ConfigPlace::whole(&Arc::new(ConfigSource::Flag("test".to_owned())));
        super::is_plain(&PlacedValue::from_json(file, &place))
    }

    #[test]
    fn what_is_often_set_is_plain_and_nothing_wrong_is() {
        for file in [
            json!({}),
            json!({"model": "ollama/x", "max_iterations": 50, "delegation": null}),
            json!({"delegation": {"max_concurrent_children": 5, "max_spawn_depth": -3}}),
            json!({"approvals": {"mode": "auto"}, "toolsets": ["file"]}),
        ] {
            assert!(is_plain(&file), "{file}");
        }
        for file in [
            json!([]),
            json!({"max_iterations": "5"}),
            json!({"max_iterations": 0}),
            json!({"max_iterations": 5.5}),
            json!({"max_iteration": 5}),
            json!({"approvals": {"mode": "Auto"}}),
            json!({"delegation": {"budget": {"tokens": u64::MAX}}}),
            json!({"plugins": [{}]}),
        ] {
            assert!(!is_plain(&file), "{file}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_plainly_right_is_right(
            key in crate::tests::any_key(),
            value in crate::tests::any_value(),
        ) {
            let file = key.rsplit('.').fold(value, |value, key| json!({ key: value }));
            let right = jsonschema::validator_for(json_schema()).unwrap().is_valid(&file);
            proptest::prop_assert!(right || !is_plain(&file), "{}", file);
        }
    }
}
