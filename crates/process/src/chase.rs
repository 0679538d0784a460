//! Catching a process that starts its successor and ends before the table is read.

use crate::census::{Table, list, read_limit, read_process};
use crate::mark::{Mark, Seal};
use crate::signal::send;
use crate::walk::Order;

/// Quick looks at the list of numbers, without a pause in between.
const LOOKS: u32 = 40;

/// Stops processes that are not in `table` and whose mark is `wanted`, the newest first, as soon
/// as each is seen. A full look at the table takes longer than such a process lives; a stopped
/// one waits for the next full look.
pub(crate) fn chase(table: &Table, seal: &Seal, wanted: impl Fn(Mark) -> bool) {
    for _ in 0..LOOKS {
        let Ok(pids) = list() else { return };
        for pid in pids.into_iter().filter(|pid| !table.contains_key(pid)) {
            let mark = read_limit(pid).and_then(|limit| seal.mark_in_limit(limit));
            if mark.is_some_and(&wanted)
                && let Ok(Some(process)) = read_process(pid)
            {
                send(&process, Order::Stop);
            }
        }
    }
}
