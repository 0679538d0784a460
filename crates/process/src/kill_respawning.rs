//! Catching a process that starts its successor and ends before the table is read.

use crate::process_table::{Table, list, read_limit, read_process};
use crate::process_tag::{ProcessTag, TagCodec};
use crate::signal::send;
use crate::tree_signal::TreeSignal;

/// Quick looks at the list of numbers, without a pause in between.
const LOOKS: u32 = 40;

/// Stops processes that are not in `table` and whose tag is `wanted`, the newest first, as soon
/// as each is seen. A full look at the table takes longer than such a process lives; a stopped
/// one waits for the next full look.
pub(crate) fn kill_respawning(
    table: &Table,
    codec: &TagCodec,
    wanted: impl Fn(ProcessTag) -> bool,
) {
    for _ in 0..LOOKS {
        let Ok(pids) = list() else { return };
        for pid in pids.into_iter().filter(|pid| !table.contains_key(pid)) {
            let tag = read_limit(pid).and_then(|limit| codec.tag_in_limit(limit));
            if tag.is_some_and(&wanted)
                && let Ok(Some(process)) = read_process(pid)
            {
                send(&process, TreeSignal::Stop);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::protocol::StartCommand;
    use crate::start::{SpawnAttributes, start};
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
    use std::time::{Duration, Instant};

    fn state(pid: i32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.chars().next()
    }

    #[test]
    fn who_is_new_and_wanted_is_stopped_at_once() {
        let codec = TagCodec::of_this_process();
        let wanted = ProcessTag { owner: 7, command: 1 };
        let other = ProcessTag { owner: 7, command: 2 };
        let children = [wanted, other].map(|tag| {
            let null = || std::fs::File::open("/dev/null").unwrap().into();
            let what = StartCommand {
                tag,
                program: "/bin/sleep".into(),
                args: vec!["31536".into()],
                cwd: "/".into(),
                env: Vec::new(),
                terminal: false,
            };
            let attributes = SpawnAttributes {
                codec: &codec,
                namespace: None,
                open_files: None,
                dies_with: None,
            };
            start(&what, [null(), null(), null()], attributes).unwrap()
        });
        kill_respawning(&Table::new(), &codec, |tag| tag == wanted);
        // It stops when the kernel runs it next.
        let deadline = Instant::now() + Duration::from_secs(60);
        while state(children[0]) != Some('T') && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let states = children.map(state);
        for child in children.map(|child| Pid::from_raw(child).unwrap()) {
            kill_process(child, Signal::KILL).unwrap();
            waitpid(Some(child), WaitOptions::empty()).unwrap();
        }
        assert_eq!(states[0], Some('T'));
        assert_ne!(states[1], Some('T'));
    }
}
