//! The `deputize` command as a library: configuration and commands.
//!
//! Only this crate reads the environment, the clock and the working directory;
//! everything below it is given values.

pub mod config;

mod approve;
mod args;
mod exit;
#[cfg(test)]
mod fixture;
mod output;
mod policy;
mod screen;
