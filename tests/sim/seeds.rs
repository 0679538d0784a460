//! Histories by chance.

use std::panic::AssertUnwindSafe;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use deputize_testkit::Seed;

use crate::history::of_seed;
use crate::world::Figures;

/// How many seeds the tests run.
const SEEDS: u64 = 500;
/// Of so many, one runs twice, to see that it is the same again.
const TWICE: u64 = 5;

/// What tools do on purpose is not worth a line each.
pub(crate) fn quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref() != Some(&"on purpose") {
                default_hook(info);
            }
        }));
    });
}

pub(crate) fn wanted(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test reads how it was started")]
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs a seed; says how to repeat it when something is wrong.
fn run(seed: u64, twice: bool) -> Figures {
    let once = || std::panic::catch_unwind(AssertUnwindSafe(|| of_seed(Seed(seed))));
    let (figures, bytes) = match once() {
        Ok(Ok(done)) => done,
        Ok(Err(wrong)) => panic!(
            "seed {seed}: {wrong}\n\nDEPUTIZE_SIM_SEED={seed} cargo test -p deputize-tests --test sim"
        ),
        Err(panic) => {
            println!("DEPUTIZE_SIM_SEED={seed} cargo test -p deputize-tests --test sim");
            std::panic::resume_unwind(panic)
        }
    };
    if twice {
        let (again, same) = once().unwrap().unwrap();
        assert_eq!(figures, again, "seed {seed} is not the same again");
        assert!(bytes == same, "seed {seed} does not leave the same bytes again");
    }
    figures
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.processes += other.processes;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.cancels += other.cancels;
        self.disk_troubles += other.disk_troubles;
        self.resumes += other.resumes;
        self.records += other.records;
        self.requests += other.requests;
        self.calls += other.calls;
        self.agents += other.agents;
        self.steps += other.steps;
        self.virtual_ms += other.virtual_ms;
        self.clock_jumps += other.clock_jumps;
        self.background_agents += other.background_agents;
        self.typed_agents += other.typed_agents;
        self.control_calls += other.control_calls;
        self.continued_agents += other.continued_agents;
        self.hook_runs += other.hook_runs;
        self.hook_blocks += other.hook_blocks;
        self.ceilings += other.ceilings;
        self.cache_first += other.cache_first;
        self.cache_preserving += other.cache_preserving;
    }
}

/// Runs the seeds of a range on so many threads.
fn all(seeds: std::ops::Range<u64>, threads: usize) -> Figures {
    quietly();
    let next = AtomicU64::new(seeds.start);
    let started = Instant::now();
    let work = || {
        let mut sum = Figures::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return sum;
            }
            sum += run(seed, seed.is_multiple_of(TWICE));
            if seed % 1000 == 999 {
                println!("{} seeds, {:?}", seed + 1 - seeds.start, started.elapsed());
            }
        }
    };
    let mut sum = Figures::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            sum += thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    println!("{sum:#?} in {:?}", started.elapsed());
    sum
}

/// A law that is never put to a fault, or to a feature, proves nothing.
fn has_its_shares(figures: &Figures) {
    let Figures { seeds, processes, records, agents, calls, hook_runs, .. } = *figures;
    for (what, count, all, percent) in [
        ("processes are killed", figures.kills, processes, 10),
        ("processes end with the power", figures.power_cuts, processes, 10),
        ("processes are interrupted", figures.cancels, processes, 10),
        ("processes meet a fault of the disk", figures.disk_troubles, processes, 5),
        ("processes resume a session", figures.resumes, processes, 50),
        ("records meet a jump of the clock", figures.clock_jumps, records, 1),
        ("agents are in the background", figures.background_agents, agents, 10),
        ("agents have a typed answer", figures.typed_agents, agents, 5),
        ("calls are of `delegate_control`", figures.control_calls, calls, 5),
        ("agents get a further task", figures.continued_agents * 100, agents, 10),
        ("hooks block", figures.hook_blocks, hook_runs, 5),
        ("seeds have a ceiling", figures.ceilings, seeds, 20),
        ("seeds have the shared prompt first", figures.cache_first, seeds, 20),
        ("seeds keep the parent's tools", figures.cache_preserving, seeds, 20),
    ] {
        assert!(count * 100 > all * percent, "{count} of {all} {what}, less than {percent} %");
    }
}

#[test]
fn whatever_happens_a_session_keeps_its_promises() {
    if let Some(seed) = wanted("DEPUTIZE_SIM_SEED") {
        println!("{:#?}", run(seed, true));
        return;
    }
    let seeds = wanted("DEPUTIZE_SIM_SEEDS").unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let figures = all(0..seeds, threads);
    assert_eq!(figures.seeds, seeds);
    if seeds >= SEEDS {
        has_its_shares(&figures);
    }
}
