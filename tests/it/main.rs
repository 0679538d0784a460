//! Integration tests, one module a topic. They run against the program as a person starts it
//! wherever they can.

#![cfg(test)]

mod commands;
mod docs;
mod faults;
mod kill;
mod layering;
mod offline;
mod program;
mod prompt;
mod providers;
mod readme;
mod resume;
mod signals;
