//! Which processes exist below this one, and to which command each belongs.

use std::collections::BTreeMap;

use crate::process_tag::ProcessTag;

/// One line of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// Clock ticks since the machine started: with the number, it names a process for good.
    pub(crate) started: u64,
    /// Ended, and waiting for its parent to take note.
    pub(crate) zombie: bool,
    /// Stopped by a signal or a debugger.
    pub(crate) stopped: bool,
}

/// The process table by number.
pub(crate) type Table = BTreeMap<i32, Process>;

/// Reads the content of `/proc/PID/stat`. The program's name in it may hold anything, brackets,
/// blanks and newlines too.
#[cfg(any(target_os = "linux", test))]
pub(crate) fn parse_stat(stat: &[u8]) -> Option<Process> {
    let pid = number(stat.split(|byte| *byte == b' ').next()?)?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields =
        stat.get(name_end + 1..)?.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let state = fields.next()?;
    let parent = number(fields.next()?)?;
    let session = number(fields.nth(1)?)?;
    let started = number(fields.nth(15)?)?;
    let zombie = matches!(state, b"Z" | b"X");
    let stopped = matches!(state, b"T" | b"t");
    Some(Process { pid, parent, session, started, zombie, stopped })
}

/// Reads the hard limit out of `/proc/PID/limits` that can carry a tag.
#[cfg(any(target_os = "linux", test))]
pub(crate) fn parse_limit(limits: &[u8]) -> Option<u64> {
    let line = limits
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Max realtime timeout"))?;
    number(line.split(|byte| *byte == b' ').filter(|field| !field.is_empty()).nth(1)?)
}

#[cfg(any(target_os = "linux", test))]
fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[derive(Clone, Copy)]
enum TreePosition {
    Below(Option<ProcessTag>),
    Elsewhere,
}

/// Returns the tag of each process below `me`. A process is judged by its own evidence,
/// else it belongs where its parent does, and to `adopted` if that is `me`. One whose parent is
/// not in the table is left alone, whatever its evidence: it may belong to another runtime beside
/// this one.
pub(crate) fn attribute(
    table: &Table,
    me: i32,
    adopted: Option<ProcessTag>,
    mut evidence: impl FnMut(&Process) -> Option<ProcessTag>,
) -> BTreeMap<i32, ProcessTag> {
    // Number 0 stands for a parent outside of what can be seen.
    let mut places =
        BTreeMap::from([(0, TreePosition::Elsewhere), (me, TreePosition::Below(adopted))]);
    for start in table.keys() {
        let mut path = Vec::new();
        let mut at = *start;
        let mut place = loop {
            if let Some(place) = places.get(&at) {
                break *place;
            }
            let Some(process) = table.get(&at) else { break TreePosition::Elsewhere };
            // Numbers used anew while the table was read can close a circle.
            if path.len() > table.len() {
                break TreePosition::Elsewhere;
            }
            path.push(process);
            at = process.parent;
        };
        for process in path.into_iter().rev() {
            if let TreePosition::Below(inherited) = place {
                place = TreePosition::Below(evidence(process).or(inherited));
            }
            places.insert(process.pid, place);
        }
    }
    places
        .into_iter()
        .filter_map(|(pid, place)| match place {
            TreePosition::Below(tag) if pid != me => tag.map(|tag| (pid, tag)),
            TreePosition::Below(_) | TreePosition::Elsewhere => None,
        })
        .collect()
}

/// Reading the kernel's tables.
#[cfg(target_os = "linux")]
mod kernel {
    use std::{fs, io};

    use super::{Process, Table, parse_limit, parse_stat};

    /// Numbers of all processes, the highest first.
    pub(crate) fn list() -> io::Result<Vec<i32>> {
        let mut pids = Vec::new();
        for entry in fs::read_dir("/proc")? {
            pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
        }
        pids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(pids)
    }

    /// Reads the process table. Fails if `/proc` is not there, or shows another process
    /// namespace than ours.
    pub(crate) fn read_table() -> io::Result<Table> {
        let me = std::process::id();
        if fs::read_link("/proc/self")?.as_os_str() != me.to_string().as_str() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "/proc shows other processes"));
        }
        let mut table = Table::new();
        for pid in list()? {
            match read_process(pid) {
                Ok(Some(process)) => _ = table.insert(pid, process),
                Ok(None) => {}
                // No descriptor left: what was read so far is not the table.
                Err(error) if is_exhausted(&error) => return Err(error),
                Err(_gone) => {}
            }
        }
        adopt_orphans(&mut table);
        Ok(table)
    }

    /// Reads those again whose parent vanished while the table was read: they have a new parent.
    fn adopt_orphans(table: &mut Table) {
        let is_orphan =
            |process: &&Process| process.parent != 0 && !table.contains_key(&process.parent);
        let orphans: Vec<Process> = table.values().filter(is_orphan).copied().collect();
        for orphan in orphans {
            match read_process(orphan.pid) {
                Ok(Some(now)) if now.started == orphan.started => _ = table.insert(now.pid, now),
                _ => _ = table.remove(&orphan.pid),
            }
        }
    }

    /// Reads one process; an error if it is gone.
    pub(crate) fn read_process(pid: i32) -> io::Result<Option<Process>> {
        Ok(parse_stat(&fs::read(format!("/proc/{pid}/stat"))?))
    }

    /// The hard limit that can carry a tag.
    pub(crate) fn read_limit(pid: i32) -> Option<u64> {
        parse_limit(&fs::read(format!("/proc/{pid}/limits")).ok()?)
    }

    /// The environment that the process was started with; empty if it cannot be read.
    pub(crate) fn read_environ(pid: i32) -> Vec<u8> {
        fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
    }

    fn is_exhausted(error: &io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
    }
}

/// Stands in where the kernel has no `/proc`: the caller falls back to process groups.
#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::io;

    use super::{Process, Table};

    pub(crate) fn list() -> io::Result<Vec<i32>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn read_table() -> io::Result<Table> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn read_process(_pid: i32) -> io::Result<Option<Process>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn read_limit(_pid: i32) -> Option<u64> {
        None
    }

    pub(crate) fn read_environ(_pid: i32) -> Vec<u8> {
        Vec::new()
    }
}

pub(crate) use kernel::{list, read_environ, read_limit, read_process, read_table};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stat(name: &str, state: &str) -> Option<Process> {
        let zeros = "0 ".repeat(15);
        parse_stat(format!("42 ({name}) {state} 7 42 40 {zeros}9001 0 0\n").as_bytes())
    }

    #[test]
    fn a_program_name_can_hold_anything() {
        let zombie = false;
        let stopped = false;
        let expected = Process { pid: 42, parent: 7, session: 40, started: 9001, zombie, stopped };
        for name in ["sh", "a b", ") R 1 1 1", "((", "", "x\ny"] {
            assert_eq!(stat(name, "S"), Some(expected), "{name:?}");
        }
        assert!(stat("sh", "Z").unwrap().zombie);
        assert!(stat("sh", "T").unwrap().stopped);
    }

    #[test]
    fn our_own_line_is_read() {
        if cfg!(target_os = "linux") {
            let me = i32::try_from(std::process::id()).unwrap();
            let process = read_process(me).unwrap().unwrap();
            assert_eq!(process.pid, me);
            assert!(process.started > 0);
            assert_eq!(read_table().unwrap().get(&me), Some(&process));
        }
    }

    #[test]
    fn the_hard_limit_is_read() {
        let limits = b"Limit  Soft  Hard\nMax realtime priority     0   0   \n\
            Max realtime timeout      7                    4611686018427387905  us        \n";
        assert_eq!(parse_limit(limits), Some(4_611_686_018_427_387_905));
        assert_eq!(parse_limit(b"Max realtime timeout      unlimited   unlimited   us"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(bytes: Vec<u8>) {
            let _ = parse_stat(&bytes);
            let _ = parse_limit(&bytes);
        }

        #[test]
        fn a_process_has_the_nearest_tag_on_its_way_up_to_us(
            parents in prop::collection::vec(0..30_i32, 1..30),
            adopted in prop::option::of(Just(B)),
        ) {
            let table = table(&(1..).zip(parents).collect::<Vec<_>>());
            let evidence = |process: &Process| [Some(A), None, None][process.pid as usize % 3];
            let found = attribute(&table, ME, adopted, evidence);
            for pid in table.keys().copied().filter(|pid| *pid != ME) {
                let expected = nearest_tag(&table, pid, adopted, evidence);
                prop_assert_eq!(found.get(&pid).copied(), expected, "process {}", pid);
            }
            prop_assert!(!found.contains_key(&ME));
        }
    }

    const A: ProcessTag = ProcessTag { owner: 1, command: 1 };
    const B: ProcessTag = ProcessTag { owner: 2, command: 1 };
    const ME: i32 = 5;

    /// Walks up from a process; `None` if the way ends elsewhere, in a circle or without a tag.
    fn nearest_tag(
        table: &Table,
        pid: i32,
        adopted: Option<ProcessTag>,
        evidence: impl Fn(&Process) -> Option<ProcessTag>,
    ) -> Option<ProcessTag> {
        let mut at = pid;
        let mut tag = None;
        for _ in 0..=table.len() {
            if at == ME {
                return tag.or(adopted);
            }
            let process = table.get(&at)?;
            tag = tag.or_else(|| evidence(process));
            at = process.parent;
        }
        None
    }

    fn table(pairs: &[(i32, i32)]) -> Table {
        let process = |pid, parent| {
            let zombie = false;
            let stopped = false;
            Process { pid, parent, session: 0, started: 1, zombie, stopped }
        };
        pairs.iter().map(|&(pid, parent)| (pid, process(pid, parent))).collect()
    }

    #[test]
    fn children_belong_where_their_parent_does() {
        // 10 is us; 20 and 30 are commands; 21, 22 and 31 lost their tags; 40 is foreign.
        let table = table(&[
            (1, 0),
            (10, 1),
            (20, 10),
            (21, 20),
            (22, 21),
            (30, 10),
            (31, 30),
            (40, 10),
            (41, 1),
        ]);
        let tags = attribute(&table, 10, None, |process| match process.pid {
            20 => Some(A),
            30 => Some(B),
            41 => Some(A),
            _ => None,
        });
        assert_eq!(tags, BTreeMap::from([(20, A), (21, A), (22, A), (30, B), (31, B)]));
    }

    #[test]
    fn who_has_no_mark_and_no_parent_belongs_to_whom_it_is_adopted_by() {
        let table = table(&[(1, 0), (10, 1), (20, 10), (21, 20), (30, 10), (40, 1)]);
        let tags = attribute(&table, 10, Some(B), |it| (it.pid == 20).then_some(A));
        assert_eq!(tags, BTreeMap::from([(20, A), (21, A), (30, B)]));
    }

    #[test]
    fn a_process_that_is_not_known_to_be_below_us_is_left_alone() {
        let table = table(&[(1, 0), (10, 1), (50, 49), (51, 50), (60, 1)]);
        assert_eq!(attribute(&table, 10, None, |_| Some(A)), BTreeMap::new());
    }

    #[test]
    fn as_the_first_process_everything_is_below_us() {
        let table = table(&[(1, 0), (7, 1)]);
        let tags = attribute(&table, 1, None, |process| (process.pid == 7).then_some(A));
        assert_eq!(tags, BTreeMap::from([(7, A)]));
    }
}
