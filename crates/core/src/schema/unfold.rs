//! Bounds the work of validating a value against a schema, before anything is compiled.
//!
//! A schema of a few lines can refer to the next definition twice, sixty times over. Following
//! these references one by one never ends, so they are counted first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::SchemaError;
use super::references::{REFERENCE_KEYS, References, address, references};

/// Maximum number of parts in a schema with each reference replaced by its target; a reference that
/// leads back counts as one part.
pub const SCHEMA_PARTS: u64 = 100_000;
/// Maximum number of nested parts of a schema that apply to the same value.
pub const SCHEMA_LAYERS: u64 = 32;
/// Maximum nesting of a schema as written: in the whole, plus the definitions that are compiled
/// inside each other.
pub const SCHEMA_NESTING: u64 = 160;
/// Maximum nesting of a schema with references followed.
const DEPTH: u64 = 1_000;
/// Number of definitions that are compiled inside each other; the others wait.
const COMPILED_INSIDE: usize = 8;
/// Maximum nesting of evaluations. A stack has room for them in any build.
const LOOKS_DEEP: u64 = 1_000;
/// Keywords of a schema that depends on which members its parts evaluated.
const ASKING_KEYS: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
/// How often its parts are evaluated.
const AGAIN: u64 = 3;

/// Checks that any value can be validated against a schema in bounded time and stack. A schema may
/// refer to itself from within a property or an item, such as that of a tree.
///
/// # Errors
/// If it unfolds to too many parts, is nested too deeply, refers back to itself at the same value,
/// or refers to something that it does not contain.
pub fn bounded_schema(schema: &Value) -> Result<(), SchemaError> {
    if plain_parts(schema, 1).is_some_and(|parts| parts <= SCHEMA_PARTS) {
        return Ok(());
    }
    let parts = SchemaParts::of(schema)?;
    let at_one_value = largest(&parts.sizes(WalkScope::OneValue)?);
    let in_all = largest(&parts.sizes(WalkScope::All)?);
    if at_one_value.parts.max(in_all.parts) > SCHEMA_PARTS {
        return Err(SchemaError::Unfolds);
    }
    let nesting = parts.nesting(&parts.sizes(WalkScope::Written)?);
    if at_one_value.depth > SCHEMA_LAYERS || nesting > SCHEMA_NESTING || in_all.depth > DEPTH {
        return Err(SchemaError::Deep);
    }
    Ok(())
}

/// Returns the number of values in a schema in which each part is written where it applies and is
/// evaluated once, and that nests at most [`SCHEMA_LAYERS`] values: it has no more parts and layers
/// than values. Most schemas are such, and are made at each start.
fn plain_parts(schema: &Value, depth: u64) -> Option<u64> {
    if depth > SCHEMA_LAYERS {
        return None;
    }
    let inner = |parts: u64, part: &Value| Some(parts + plain_parts(part, depth + 1)?);
    match schema {
        Value::Object(map) => map.iter().try_fold(1, |parts, (key, part)| {
            let is_plain =
                !REFERENCE_KEYS.contains(&key.as_str()) && !ASKING_KEYS.contains(&key.as_str());
            if is_plain { inner(parts, part) } else { None }
        }),
        Value::Array(items) => items.iter().try_fold(1, inner),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(1),
    }
}

/// Returns whether `most` evaluations, not nested too deeply, suffice to check a value against each
/// part of a schema that applies to it. Reporting every mistake takes all of them; finding one
/// takes fewer.
#[must_use]
pub fn looks_within(schema: &Value, value: &Value, most: u64) -> bool {
    SchemaParts::of(schema).is_ok_and(|parts| parts.looks_within(value, most))
}

/// Where a part of a schema applies, relative to the value of the enclosing part.
#[derive(Debug, Clone, Copy)]
enum Applicator<'s> {
    Same,
    /// At the same value, but written elsewhere.
    Named,
    Member(&'s str),
    Members,
    Names,
    Item(usize),
    Items,
}

impl Applicator<'_> {
    const fn is_same(self) -> bool {
        matches!(self, Self::Same | Self::Named)
    }
}

/// Which inner parts are followed.
#[derive(Clone, Copy, PartialEq)]
enum WalkScope {
    /// Those that apply to the same value.
    OneValue,
    /// Those that are written inside it.
    Written,
    All,
}

/// The reachable parts of a schema. The first one is the whole schema.
struct SchemaParts<'s>(Vec<SchemaPart<'s>>);

#[derive(Default)]
struct SchemaPart<'s> {
    inner: Vec<(Applicator<'s>, usize)>,
    /// How often its parts at the same value are evaluated.
    times: u64,
}

/// The size of a part, including everything inside it.
#[derive(Clone, Copy)]
struct Size {
    parts: u64,
    depth: u64,
}

impl Size {
    const ONE: Self = Self { parts: 1, depth: 1 };

    fn take_in(&mut self, inner: Self, times: u64) {
        self.parts = self.parts.saturating_add(inner.parts.saturating_mul(times));
        self.depth = self.depth.max(inner.depth.saturating_add(1));
    }
}

/// Returns the maximum of each dimension.
fn largest(sizes: &[Size]) -> Size {
    sizes.iter().fold(Size::ONE, |most, size| Size {
        parts: most.parts.max(size.parts),
        depth: most.depth.max(size.depth),
    })
}

/// A part on the path from the first one to the current one.
struct WalkStep {
    part: usize,
    /// How often the enclosing part evaluates it.
    times: u64,
    next: usize,
    size: Size,
}

#[derive(Clone, Copy)]
enum PartSize {
    Nothing,
    OnTheWay,
    Size(Size),
}

impl<'s> SchemaParts<'s> {
    fn of(schema: &'s Value) -> Result<Self, SchemaError> {
        let names = References::of(schema);
        let mut parts = vec![SchemaPart::default()];
        let mut numbers = BTreeMap::from([(address(schema), 0)]);
        let mut waiting = vec![(0, schema)];
        let mut count = 0;
        while let Some((number, schema)) = waiting.pop() {
            let mut found = inner(schema);
            for reference in references(schema) {
                let targets = names.find(reference)?;
                found.extend(targets.into_iter().map(|target| (Applicator::Named, target)));
            }
            count += found.len() as u64;
            if count > SCHEMA_PARTS {
                return Err(SchemaError::Unfolds);
            }
            let mut numbered = Vec::with_capacity(found.len());
            for (place, schema) in found {
                let fresh = parts.len();
                let number = *numbers.entry(address(schema)).or_insert(fresh);
                if number == fresh {
                    parts.push(SchemaPart::default());
                    waiting.push((number, schema));
                }
                numbered.push((place, number));
            }
            if let Some(part) = parts.get_mut(number) {
                *part = SchemaPart { inner: numbered, times: times(schema) };
            }
        }
        Ok(Self(parts))
    }

    /// Returns the size of each part, including the inner parts that are followed.
    fn sizes(&self, follow: WalkScope) -> Result<Vec<Size>, SchemaError> {
        let mut known = vec![PartSize::Nothing; self.0.len()];
        for start in 0..self.0.len() {
            let mut way = Vec::new();
            enter(&mut way, &mut known, start, 1);
            while let Some(step) = way.last_mut() {
                let Some(part) = self.0.get(step.part) else { break };
                let Some(&(place, inner)) = part.inner.get(step.next) else {
                    leave(&mut way, &mut known);
                    continue;
                };
                step.next += 1;
                let goes_into = match follow {
                    WalkScope::OneValue => place.is_same(),
                    WalkScope::Written => !matches!(place, Applicator::Named),
                    WalkScope::All => true,
                };
                if !goes_into {
                    continue;
                }
                let times = if place.is_same() { part.times } else { 1 };
                match known.get(inner).copied() {
                    Some(PartSize::Size(size)) => step.size.take_in(size, times),
                    Some(PartSize::OnTheWay) if follow == WalkScope::OneValue => {
                        return Err(SchemaError::Circle);
                    }
                    Some(PartSize::OnTheWay) => step.size.take_in(Size::ONE, times),
                    Some(PartSize::Nothing) | None => enter(&mut way, &mut known, inner, times),
                }
            }
        }
        let size = |known| if let PartSize::Size(size) = known { size } else { Size::ONE };
        Ok(known.into_iter().map(size).collect())
    }

    /// Returns how deeply a compiler that follows references nests, given the sizes as written.
    fn nesting(&self, written: &[Size]) -> u64 {
        let depth = |part: usize| written.get(part).map_or(0, |size| size.depth);
        let inner = self.0.iter().flat_map(|part| &part.inner);
        let named =
            inner.filter(|(place, _)| matches!(place, Applicator::Named)).map(|(_, part)| *part);
        let named: BTreeSet<usize> = named.collect();
        let mut depths: Vec<u64> = named.into_iter().map(depth).collect();
        depths.sort_unstable_by(|a, b| b.cmp(a));
        depth(0) + depths.iter().take(COMPILED_INSIDE).sum::<u64>()
    }

    fn looks_within(&self, value: &Value, most: u64) -> bool {
        let mut looks = 0;
        let mut waiting = vec![(0, value, 1)];
        while let Some((number, value, deep)) = waiting.pop() {
            looks += 1;
            let Some(part) = self.0.get(number) else { continue };
            for (place, inner) in &part.inner {
                let mut look = |value| waiting.push((*inner, value, deep + 1));
                match (place, value) {
                    (Applicator::Same | Applicator::Named, value) => {
                        (0..part.times).for_each(|_| look(value))
                    }
                    (Applicator::Member(name), Value::Object(map)) => {
                        map.get(*name).into_iter().for_each(look);
                    }
                    (Applicator::Members, Value::Object(map)) => map.values().for_each(look),
                    (Applicator::Names, Value::Object(map)) => {
                        map.iter().for_each(|_| look(&Value::Null));
                    }
                    (Applicator::Item(index), Value::Array(items)) => {
                        items.get(*index).into_iter().for_each(look);
                    }
                    (Applicator::Items, Value::Array(items)) => items.iter().for_each(look),
                    _ => {}
                }
            }
            if deep > LOOKS_DEEP || looks + waiting.len() as u64 > most {
                return false;
            }
        }
        true
    }
}

/// Enters a part of unknown size.
fn enter(way: &mut Vec<WalkStep>, known: &mut [PartSize], part: usize, times: u64) {
    if let Some(known) = known.get_mut(part)
        && let PartSize::Nothing = known
    {
        *known = PartSize::OnTheWay;
        way.push(WalkStep { part, times, next: 0, size: Size::ONE });
    }
}

/// Leaves the part that was entered last, and adds its size to the enclosing one.
fn leave(way: &mut Vec<WalkStep>, known: &mut [PartSize]) {
    let Some(WalkStep { part, times, size, .. }) = way.pop() else { return };
    if let Some(known) = known.get_mut(part) {
        *known = PartSize::Size(size);
    }
    if let Some(above) = way.last_mut() {
        above.size.take_in(size, times);
    }
}

/// Returns the parts of a schema without following references. A definition under `$defs` counts
/// where it is referred to.
fn inner(schema: &Value) -> Vec<(Applicator<'_>, &Value)> {
    let mut found = Vec::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                found.extend(all.iter().map(|part| (Applicator::Same, part)));
            }
            ("not" | "if" | "then" | "else", part) => found.push((Applicator::Same, part)),
            ("dependentSchemas" | "dependencies", Value::Object(map)) => {
                found.extend(map.values().map(|part| (Applicator::Same, part)));
            }
            ("properties", Value::Object(map)) => {
                found.extend(map.iter().map(|(name, part)| (Applicator::Member(name), part)));
            }
            ("patternProperties", Value::Object(map)) => {
                found.extend(map.values().map(|part| (Applicator::Members, part)));
            }
            ("additionalProperties" | "unevaluatedProperties", part) => {
                found.push((Applicator::Members, part));
            }
            ("propertyNames", part) => found.push((Applicator::Names, part)),
            ("items" | "prefixItems", Value::Array(all)) => {
                let all = all.iter().enumerate();
                found.extend(all.map(|(index, part)| (Applicator::Item(index), part)));
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", part) => {
                found.push((Applicator::Items, part));
            }
            _ => {}
        }
    }
    found
}

/// Returns how often the parts of a schema at the same value are evaluated.
fn times(schema: &Value) -> u64 {
    if ASKING_KEYS.iter().any(|key| schema.get(key).is_some()) { AGAIN } else { 1 }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// Returns a schema in which each of `levels` definitions names the next one twice, in this
    /// way.
    fn doubling(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
        let level =
            |n: usize| (format!("d{n}"), twice(json!({"$ref": format!("#/$defs/d{}", n + 1)})));
        let mut all: Map<String, Value> = (0..levels).map(level).collect();
        all.insert(format!("d{levels}"), json!({"type": "object", "required": ["a"]}));
        json!({"type": "object", "$ref": "#/$defs/d0", "$defs": all})
    }

    fn tree() -> Value {
        json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "left": {"$ref": "#/$defs/node"},
                               "right": {"$ref": "#/$defs/node"}},
            }},
        })
    }

    /// Returns a value with this many levels.
    fn deep(levels: usize, name: &str, innermost: Value) -> Value {
        (0..levels).fold(innermost, |inner, _| json!({ name: inner }))
    }

    #[test]
    fn what_names_the_next_one_twice_is_refused_before_it_is_too_much() {
        let ways: [fn(Value) -> Value; 5] = [
            |next| json!({"allOf": [next, next]}),
            |next| json!({"properties": {"a": next, "b": next}}),
            |next| json!({"items": {"anyOf": [next, next]}}),
            |next| json!({"if": next, "then": next}),
            |next| json!({"additionalProperties": next, "propertyNames": next}),
        ];
        for twice in ways {
            assert_eq!(bounded_schema(&doubling(10, twice)), Ok(()));
            for levels in [17, 60, 1_000] {
                assert_eq!(bounded_schema(&doubling(levels, twice)), Err(SchemaError::Unfolds));
            }
        }
        // A schema that depends on which members were evaluated evaluates its parts more than once.
        let asks = |next| json!({"anyOf": [next], "unevaluatedProperties": false});
        assert_eq!(bounded_schema(&doubling(20, asks)), Err(SchemaError::Unfolds));
    }

    #[test]
    fn a_schema_may_refer_to_itself_from_within() {
        assert_eq!(bounded_schema(&tree()), Ok(()));
        let whole = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert_eq!(bounded_schema(&whole), Ok(()));
        let two = json!({"$ref": "#/$defs/a", "$defs": {
            "a": {"anyOf": [{"type": "null"}, {"properties": {"b": {"$ref": "#/$defs/b"}}}]},
            "b": {"items": {"$ref": "#/$defs/a"}, "not": {"$ref": "#/$defs/c"}}, "c": false,
        }});
        assert_eq!(bounded_schema(&two), Ok(()));
    }

    #[test]
    fn a_schema_that_never_leaves_a_value_is_refused() {
        let circles = [
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {
                "a": {"properties": {"x": {"$ref": "#/$defs/b"}}, "anyOf": [{"$ref": "#/$defs/b"}]},
                "b": {"not": {"$ref": "#/$defs/a"}},
            }}),
        ];
        for circle in circles {
            assert_eq!(bounded_schema(&circle), Err(SchemaError::Circle), "{circle}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_on_any_stack() {
        let layers = usize::try_from(SCHEMA_LAYERS).unwrap();
        // A definition and its reference are two parts; the whole and the last one are two more.
        for (levels, key, fits) in [
            (layers / 2 - 1, "not", true),
            (layers / 2, "not", false),
            (400, "items", true),
            (600, "items", false),
            (10_000, "items", false),
        ] {
            let found = bounded_schema(&doubling(levels, |next| json!({ key: next })));
            let expected = if fits { Ok(()) } else { Err(SchemaError::Deep) };
            assert_eq!(found, expected, "{levels} {key}");
        }
        let nested = |levels: usize, innermost| {
            (0..levels).fold(innermost, |inner, _| json!({"properties": {"a": inner}}))
        };
        assert_eq!(bounded_schema(&nested(100, json!({}))), Ok(()));
        for (levels, fits) in [(10, true), (40, false)] {
            let found = bounded_schema(&doubling(20, |next| nested(levels, next)));
            assert_eq!(found.is_ok(), fits, "twenty definitions of {levels} levels");
        }
    }

    #[test]
    fn names_are_found_in_every_way_that_they_are_written() {
        let found = |reference: &str| {
            bounded_schema(&json!({
                "$id": "https://example.com/all.json",
                "properties": {"it": {"$ref": reference}},
                "$defs": {
                    "a b": {"$anchor": "here"}, "old": {"$id": "#before"}, "c/d": {"$id": "./part.json"},
                },
            }))
        };
        for reference in [
            "#/$defs/a%20b",
            "#/$defs/c~1d",
            "#here",
            "#before",
            "#",
            "all.json#/$defs/old",
            "https://example.com/part.json",
            "https://json-schema.org/draft/2020-12/schema",
        ] {
            assert_eq!(found(reference), Ok(()), "{reference}");
        }
        for reference in ["#/$defs/none", "#none", "https://localhost/x.json", "all.json#/x"] {
            let elsewhere = SchemaError::Elsewhere(reference.to_owned());
            assert_eq!(found(reference), Err(elsewhere), "{reference}");
        }
    }

    #[test]
    fn looks_are_counted_as_deep_as_the_value_is() {
        assert!(looks_within(&tree(), &deep(100, "left", json!({})), 1_000));
        let back = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        assert!(looks_within(&back, &deep(5, "a", json!({})), 1_000));
        assert!(!looks_within(&back, &deep(100, "a", json!({})), 1_000_000));
        let wide = json!({"items": {"type": "integer"}, "prefixItems": [{}], "contains": {}});
        assert!(looks_within(&wide, &json!([1, 2, 3]), 8));
        assert!(!looks_within(&wide, &json!([1, 2, 3]), 7));
        // Each level of the value is evaluated by ten parts, each inside another.
        let layers = (0..10).fold(json!({"$ref": "#"}), |inner, _| json!({"allOf": [inner]}));
        let layers = json!({"properties": {"a": layers}});
        assert!(looks_within(&layers, &deep(50, "a", json!({})), 10_000));
        assert!(!looks_within(&layers, &deep(120, "a", json!({})), 10_000));
    }
}
