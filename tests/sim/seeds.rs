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
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref() != Some(&"on purpose") {
                told(info);
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
        // A law that was never put to a fault proves nothing.
        for (fault, count) in [
            ("kills", figures.kills),
            ("power cuts", figures.power_cuts),
            ("cancels", figures.cancels),
            ("disk faults", figures.disk_troubles),
            ("resumes", figures.resumes),
            ("clock jumps", figures.clock_jumps),
        ] {
            assert!(count > 0, "no {fault} in {seeds} seeds");
        }
    }
}
