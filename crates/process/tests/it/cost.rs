//! What a command costs.

use std::fs;
use std::time::{Duration, Instant};

use deputize_process::{Command, Exit, Owner};
use deputize_requirements::{require, root};
use tokio_util::sync::CancellationToken;

use crate::process_table::{HelperMark, Mode};

const COMMANDS: usize = 300;

async fn one(owner: &Owner) -> Duration {
    let began = Instant::now();
    let finished =
        owner.run(Command::new("/bin/true", "/"), &CancellationToken::new()).await.unwrap();
    assert_eq!(finished.exit, Exit::Code(0));
    began.elapsed()
}

async fn median(owner: &Owner) -> Duration {
    let mut times = Vec::new();
    for _ in 0..COMMANDS {
        times.push(one(owner).await);
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// What is in memory of the helper, in bytes: all of it, and its own part.
fn memory(helper: &HelperMark) -> (u64, u64) {
    let pid = helper.find().unwrap().as_raw_nonzero();
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let sum = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    (sum("Rss:"), sum("Private_Dirty:"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_of_a_command_and_the_helper() {
    // Nobody else may look into the helper.
    require!(root());
    let mut medians = Vec::new();
    for mode in [Mode::Thread, Mode::TreeKill, Mode::Namespace] {
        let (supervisor, helper) = mode.watched();
        let owner = supervisor.owner();
        let first = one(&owner).await;
        let median = median(&owner).await;
        println!("{mode:?}: the first command {first:?}, then {median:?}");
        medians.push(median);
        if mode != Mode::Thread {
            let (resident, own) = memory(&helper);
            println!("{mode:?}: the helper has {resident} bytes in memory, {own} of its own");
            assert!(own < 4 << 20, "{own}");
        }
    }
    for (mode, median) in ["walk", "namespace"].iter().zip(&medians[1..]) {
        println!("{mode}: {:.2} times the thread", median.as_secs_f64() / medians[0].as_secs_f64());
    }
}
