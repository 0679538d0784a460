//! Real processes: every test starts programs of the machine and looks at its process table.

#![cfg(target_os = "linux")]

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod cost;
#[cfg(test)]
mod durable;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod helper;
#[cfg(test)]
mod interactive;
#[cfg(test)]
mod output;
#[cfg(test)]
mod process_table;
#[cfg(test)]
mod service;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod trees;
