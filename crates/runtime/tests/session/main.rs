//! Sessions as an embedder runs them: real files, real tasks, models by rule.

#![cfg(test)]

mod answers;
mod asking;
mod attach;
mod authority;
mod background;
mod budget_edge;
mod budget_simulation;
mod budgets;
mod call_checks;
mod calls;
mod child_ends;
mod compaction;
mod external;
mod fixture;
mod hooks;
mod kill;
mod late_message;
mod laws;
mod limits;
mod nested;
mod rate_limiter_waiters;
mod snapshot;
mod sources;
mod stored;
