//! Values that are brought into their range, with a warning.

use deputize_delegate::{CHILD_TIMEOUT_FLOOR_SECONDS, MAX_SPAWN_DEPTH_CEILING};

use super::place::Problem;
use super::tree::{PlacedValue, Value};

/// Number of parallel children above which a warning explains the consequences.
const MANY_CHILDREN: i64 = 10;

/// Brings the clamped keys of `delegation` into their ranges and says so.
pub(super) fn apply(config: &mut PlacedValue, warnings: &mut Vec<Problem>) {
    let deepest = MAX_SPAWN_DEPTH_CEILING;
    let shortest = CHILD_TIMEOUT_FLOOR_SECONDS;
    clamp(config, "max_spawn_depth", warnings, |depth| {
        (depth.clamp(1, i64::from(deepest)), format!("it goes from 1 to {deepest}"))
    });
    clamp(config, "child_timeout_seconds", warnings, |seconds| {
        if (1..i64::from(shortest)).contains(&seconds) {
            let why = format!("the shortest is {shortest}, and 0 sets no limit");
            return (i64::from(shortest), why);
        }
        (seconds.min(i64::from(u32::MAX)), "that is the longest".to_owned())
    });
    clamp(config, "max_concurrent_children", warnings, |children| {
        (children.clamp(1, i64::from(u32::MAX)), "at least one must run".to_owned())
    });
    many_children(config, warnings);
    nothing_to_spend(config, warnings);
}

/// A limit of 0 is no limit elsewhere; of what may be spent it leaves nothing.
fn nothing_to_spend(config: &PlacedValue, warnings: &mut Vec<Problem>) {
    let of_children = ["usd", "tokens", "seconds"].map(|key| vec!["delegation", "budget", key]);
    let of_run = ["usd", "tokens"].map(|key| vec!["budget", key]);
    for path in of_children.into_iter().chain(of_run) {
        let Some(node) = config.at(&path) else { continue };
        let Value::Number(number) = &node.value else { continue };
        if number.as_f64() == Some(0.0) {
            let who = if path.len() == 3 { "children" } else { "agents" };
            let message = format!(
                "`{}` is 0: {who} may ask nothing of a model; leave it out for no limit",
                path.join(".")
            );
            warnings.push(Problem::new(&node.place, message));
        }
    }
}

fn clamp(
    config: &mut PlacedValue,
    key: &str,
    warnings: &mut Vec<Problem>,
    range: impl FnOnce(i64) -> (i64, String),
) {
    let Some(node) = config.at_mut(&["delegation", key]) else { return };
    let Value::Number(number) = &node.value else { return };
    let Some(said) = number.as_i64() else { return };
    let (used, why) = range(said);
    if used != said {
        let message = format!("`delegation.{key}` is {said}; {why}, so {used} is used");
        warnings.push(Problem::new(&node.place, message));
    }
    // A negative time limit means none, as 0 does; that is no mistake.
    node.value = Value::Number(used.max(0).into());
}

fn many_children(config: &PlacedValue, warnings: &mut Vec<Problem>) {
    let Some(node) = config.at(&["delegation", "max_concurrent_children"]) else { return };
    let Value::Number(number) = &node.value else { return };
    if number.as_i64().is_some_and(|children| children > MANY_CHILDREN) {
        let message = format!(
            "`delegation.max_concurrent_children` is {number}; cost grows with every child that \
             runs"
        );
        warnings.push(Problem::new(&node.place, message));
    }
}
