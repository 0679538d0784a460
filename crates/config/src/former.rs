//! Keys that earlier versions accepted and did not obey.

use serde_json::Value;

/// Paths of such keys; `*` stands for any key.
const FORMER_KEYS: [&[&str]; 7] = [
    &["approvals", "allow"],
    &["approvals", "deny"],
    &["chat"],
    &["delegation", "workflow"],
    &["fetch"],
    &["providers", "*", "tools"],
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
