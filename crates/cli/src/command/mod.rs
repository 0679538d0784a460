//! The commands, one a file.

pub(crate) mod acp;
pub(crate) mod agents;
pub(crate) mod config;
pub(crate) mod cron;
pub(crate) mod doctor;
mod editor;
mod first_listing;
pub(crate) mod mcp;
pub(crate) mod mcp_serve;
pub(crate) mod memory;
pub(crate) mod new;
pub(crate) mod pause;
pub(crate) mod plugin;
pub(crate) mod policy;
pub(crate) mod profiles;
pub(crate) mod prompt;
pub(crate) mod run;
mod serve;
pub(crate) mod sessions;
pub(crate) mod skills;
mod table;
pub(crate) mod tools;

pub(crate) use table::{Table, aligned, print_list, print_table};
