//! Simulation: whole sessions on one thread, on a clock of their own, over a disk in memory that
//! fails, with models and tools that err; see docs/reference/simulation.md. What happens follows from a
//! seed; `DEPUTIZE_SIM_SEED=123 cargo test -p deputize-tests --test sim` repeats one,
//! `DEPUTIZE_SIM_SEEDS=100000` runs so many.

#![cfg(test)]

mod cancel;
mod check;
mod every;
mod history;
mod life;
mod mind;
mod model;
mod order;
mod rules;
mod seeds;
mod tools;
mod world;
