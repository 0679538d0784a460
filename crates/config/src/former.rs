//! Keys that earlier versions accepted and did not obey.

use serde_json::Value;

/// Paths of such keys; `*` stands for any key.
const FORMER_KEYS: [&[&str]; 5] = [
    &["approvals", "allow"],
    &["approvals", "deny"],
    &["chat"],
    &["delegation", "workflow"],
    &["sandbox"],
];

/// Removes the keys that earlier versions wrote into recordings and that never had an effect.
///
/// ```
/// use deputize_config::remove_former_keys;
///
/// let mut recorded = serde_json::json!({"chat": {"busy": "queue"}, "control": true});
/// remove_former_keys(&mut recorded);
/// assert_eq!(recorded, serde_json::json!({"control": true}));
/// ```
pub fn remove_former_keys(config: &mut Value) {
    for path in FORMER_KEYS {
        remove(config, path);
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    let (Some(map), Some((first, rest))) = (value.as_object_mut(), path.split_first()) else {
        return;
    };
    if rest.is_empty() {
        map.remove(*first);
    } else if *first == "*" {
        map.values_mut().for_each(|below| remove(below, rest));
    } else if let Some(below) = map.get_mut(*first) {
        remove(below, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_schema;

    /// Returns the schema of the key at a path.
    fn find<'s>(schema: &'s Value, path: &[&str]) -> Option<&'s Value> {
        let Some((first, rest)) = path.split_first() else { return Some(schema) };
        let below = match *first {
            "*" => schema.get("additionalProperties")?,
            key => schema.get("properties")?.get(key)?,
        };
        find(below, rest)
    }

    #[test]
    fn no_former_key_is_a_key_of_today() {
        let schema = json_schema();
        assert!(find(schema, &["providers", "*", "tools"]).is_some());
        for path in FORMER_KEYS {
            assert_eq!(find(schema, path), None, "{path:?} would be lost from recordings");
        }
    }
}
