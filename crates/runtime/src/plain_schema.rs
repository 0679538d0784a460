//! Schemas of the few keywords that most tools have. Arguments that plainly fit one need no
//! validator, which takes milliseconds to make.

use serde_json::{Map, Number, Value};

/// The types of JSON values, each a bit.
const TYPES: [(&str, u8); 7] = [
    ("null", 1),
    ("boolean", 2),
    ("integer", 4),
    // Integers are numbers too.
    ("number", 4 | 8),
    ("string", 16),
    ("array", 32),
    ("object", 64),
];
const ANY_TYPE: u8 = u8::MAX;

/// A schema without any other keyword than these. What it doubts may fit all the same.
#[derive(Debug)]
pub(crate) struct PlainSchema {
    types: u8,
    choices: Option<Vec<Value>>,
    minimum: Option<i64>,
    maximum: Option<i64>,
    items: Option<Box<Self>>,
    properties: Vec<(String, Self)>,
    required: Vec<String>,
}

impl PlainSchema {
    /// Reads a schema; `None` if a keyword is not known here, or has a value that it may not have.
    pub(crate) fn read(schema: &Value) -> Option<Self> {
        let mut plain = Self {
            types: ANY_TYPE,
            choices: None,
            minimum: None,
            maximum: None,
            items: None,
            properties: Vec::new(),
            required: Vec::new(),
        };
        for (keyword, value) in schema.as_object()? {
            match keyword.as_str() {
                "description" if value.is_string() => {}
                "type" => plain.types = type_bits(value.as_str()?)?,
                "enum" => plain.choices = Some(value.as_array()?.clone()),
                "minimum" => plain.minimum = Some(value.as_i64()?),
                "maximum" => plain.maximum = Some(value.as_i64()?),
                "items" => plain.items = Some(Box::new(Self::read(value)?)),
                "properties" => plain.properties = read_properties(value.as_object()?)?,
                "required" => plain.required = read_names(value.as_array()?)?,
                _ => return None,
            }
        }
        Some(plain)
    }

    /// Returns whether a value fits beyond doubt.
    pub(crate) fn fits(&self, value: &Value) -> bool {
        self.types & bits_of(value) != 0
            && self.choices.as_ref().is_none_or(|choices| choices.contains(value))
            && match value {
                Value::Number(number) => self.holds(number),
                Value::Array(items) => {
                    self.items.as_ref().is_none_or(|item| items.iter().all(|it| item.fits(it)))
                }
                Value::Object(members) => self.fits_members(members),
                Value::Null | Value::Bool(_) | Value::String(_) => true,
            }
    }

    /// Returns whether a number is within the limits; of a fraction that is doubted.
    fn holds(&self, number: &Number) -> bool {
        let within = |number| {
            self.minimum.is_none_or(|least| least <= number)
                && self.maximum.is_none_or(|most| number <= most)
        };
        (self.minimum.is_none() && self.maximum.is_none()) || number.as_i64().is_some_and(within)
    }

    fn fits_members(&self, members: &Map<String, Value>) -> bool {
        let schema_of = |name: &String| {
            let known = self.properties.iter().find(|(known, _)| known == name);
            known.map(|(_, schema)| schema)
        };
        let mut required = self.required.iter();
        required.all(|name| members.keys().any(|given| given == name))
            && members.iter().all(|(name, value)| schema_of(name).is_none_or(|it| it.fits(value)))
    }
}

fn read_properties(properties: &Map<String, Value>) -> Option<Vec<(String, PlainSchema)>> {
    let mut plain = Vec::with_capacity(properties.len());
    for (name, schema) in properties {
        plain.push((name.clone(), PlainSchema::read(schema)?));
    }
    Some(plain)
}

/// Reads a list of names, of which none may be there twice.
fn read_names(names: &[Value]) -> Option<Vec<String>> {
    let mut read: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let name = name.as_str()?;
        if read.iter().any(|known| known == name) {
            return None;
        }
        read.push(name.to_owned());
    }
    Some(read)
}

fn type_bits(name: &str) -> Option<u8> {
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, bits)| *bits)
}

/// Returns the bit of a value's type. A number with a fraction may be an integer (`1.0`), which is
/// doubted.
fn bits_of(value: &Value) -> u8 {
    match value {
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Number(number) if number.is_f64() => 8,
        Value::Number(_) => 4,
        Value::String(_) => 16,
        Value::Array(_) => 32,
        Value::Object(_) => 64,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_most_calls_have_fits_and_nothing_wrong_does() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "A file."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"enum": ["a", "b"]},
                "tasks": {"type": "array", "items": {"type": "number"}},
            },
            "required": ["path"],
        });
        let plain = PlainSchema::read(&schema).unwrap();
        let fits = |value: &Value| plain.fits(value);
        for value in [
            json!({"path": "f"}),
            json!({"path": "f", "limit": 9, "mode": "b", "tasks": [1, 1.5], "other": null}),
        ] {
            assert!(fits(&value), "{value}");
        }
        for value in [
            json!([]),
            json!({}),
            json!({"path": 1}),
            json!({"path": "f", "limit": 0}),
            json!({"path": "f", "limit": 10}),
            json!({"path": "f", "limit": u64::MAX}),
            json!({"path": "f", "limit": 1.0}),
            json!({"path": "f", "mode": "c"}),
            json!({"path": "f", "tasks": ["1"]}),
        ] {
            assert!(!fits(&value), "{value}");
        }
    }

    #[test]
    fn a_schema_with_other_keywords_or_a_mistake_is_not_plain() {
        for schema in [
            json!(true),
            json!({"additionalProperties": false}),
            json!({"$ref": "#/$defs/a"}),
            json!({"type": ["string", "null"]}),
            json!({"type": "text"}),
            json!({"description": 1}),
            json!({"minimum": 0.5}),
            json!({"required": ["a", "a"]}),
            json!({"properties": {"a": {"type": "text"}}}),
            json!({"items": [{}]}),
        ] {
            assert!(PlainSchema::read(&schema).is_none(), "{schema}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2..3_i64).prop_map(Value::from),
            (-2..3_i64).prop_map(|half| json!(half as f64 / 2.0)),
            "[ab]{0,1}".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 12, 3, |inner| {
            let member = ("[ab]", inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Value::from),
                prop::collection::vec(member, 0..3).prop_map(|all| all.into_iter().collect()),
            ]
        })
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let keyword = prop_oneof![
            prop::sample::select(&TYPES[..]).prop_map(|(name, _)| json!({ "type": name })),
            (-2..3_i64).prop_map(|least| json!({ "minimum": least })),
            (-2..3_i64).prop_map(|most| json!({ "maximum": most })),
            prop::collection::vec(any_value(), 1..3).prop_map(|all| json!({ "enum": all })),
            prop::collection::vec("[ab]", 0..3).prop_map(|all| json!({ "required": all })),
        ];
        keyword.prop_recursive(3, 8, 2, |inner| {
            prop_oneof![
                inner.clone().prop_map(|item| json!({ "items": item })),
                inner.clone().prop_map(|of| json!({ "properties": { "a": of } })),
                (inner.clone(), inner).prop_map(|(mut one, other)| {
                    one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
                    one
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_plainly_fits_is_valid(schema in any_schema(), value in any_value()) {
            if let Some(plain) = PlainSchema::read(&schema) {
                let validator = jsonschema::validator_for(&schema).unwrap();
                prop_assert!(validator.is_valid(&value) || !plain.fits(&value), "{schema} {value}");
            }
        }
    }
}
