//! Sessions as an embedder runs them: real files, real tasks, models by rule.

#![cfg(test)]

mod calls;
mod fixture;
mod kill;
mod laws;
mod limits;
mod stored;
