//! Resolves the references of a schema.

use serde_json::Value;

use super::SchemaError;
use crate::sanitize::for_terminal_line;

/// Part of the URIs of JSON Schema's own meta-schemas, which every compiler knows.
const META: &str = "://json-schema.org/";
/// Keywords that refer to another part.
pub(super) const REFERENCE_KEYS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Maximum characters shown of a reference.
const REFERENCE_CHARS: usize = 100;

/// Identifies a part of a schema, as distinct from an equal one.
pub(super) fn address(part: &Value) -> usize {
    std::ptr::from_ref(part).addr()
}

/// The targets of a schema's references. If a name can be read in more than one way, all targets
/// are found, so that nothing is undercounted.
pub(super) struct References<'s> {
    /// The whole schema, and parts with a name of their own; paths begin at these.
    roots: Vec<(&'s str, &'s Value)>,
    anchors: Vec<(&'s str, &'s Value)>,
}

/// Returns the references of a schema itself, not of its parts.
pub(super) fn references(schema: &Value) -> impl Iterator<Item = &str> {
    REFERENCE_KEYS.into_iter().filter_map(|key| schema.get(key)?.as_str())
}

impl<'s> References<'s> {
    pub(super) fn of(schema: &'s Value) -> Self {
        let mut found = Self { roots: vec![("", schema)], anchors: Vec::new() };
        let mut waiting = vec![schema];
        while let Some(part) = waiting.pop() {
            match part {
                Value::Object(map) => waiting.extend(map.values()),
                Value::Array(items) => waiting.extend(items),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
            }
            for key in ["$id", "id"] {
                let Some(name) = part.get(key).and_then(Value::as_str) else { continue };
                match name.split_once('#') {
                    Some(("", anchor)) => found.anchors.push((anchor, part)),
                    Some((name, _)) => found.roots.push((name, part)),
                    None => found.roots.push((name, part)),
                }
            }
            for key in ["$anchor", "$dynamicAnchor"] {
                let anchor = part.get(key).and_then(Value::as_str);
                found.anchors.extend(anchor.map(|anchor| (anchor, part)));
            }
        }
        found
    }

    /// Returns the parts that a reference may name; empty for the meta-schemas of JSON Schema.
    ///
    /// # Errors
    /// If there is no such part.
    pub(super) fn find(&self, reference: &str) -> Result<Vec<&'s Value>, SchemaError> {
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = percent_decoded(fragment);
        let roots =
            self.roots.iter().filter(|(root, _)| name.is_empty() || last(root) == last(name));
        let mut roots = roots.map(|(_, part)| *part).peekable();
        let mut found: Vec<&Value> = if roots.peek().is_none() {
            if name.contains(META) {
                return Ok(Vec::new());
            }
            Vec::new()
        } else if fragment.is_empty() || fragment.starts_with('/') {
            roots.filter_map(|root| root.pointer(&fragment)).collect()
        } else {
            self.anchors.iter().filter(|(it, _)| *it == fragment).map(|(_, part)| *part).collect()
        };
        // The whole may have a name too, and one part two names.
        found.sort_by_key(|part| address(part));
        found.dedup_by_key(|part| address(part));
        if found.is_empty() {
            return Err(SchemaError::Elsewhere(for_terminal_line(reference, REFERENCE_CHARS)));
        }
        Ok(found)
    }
}

/// Returns the end of a URI, which is the same however the rest of it is written.
fn last(address: &str) -> &str {
    address.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default()
}

/// Decodes the percent encoding of a fragment.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
