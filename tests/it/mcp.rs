//! MCP: servers as tools of agents, and the program as a server.

mod changes;
mod commands;
mod contract;
mod doctor;
mod faults;
mod installed;
mod real;
mod serve;

pub(crate) use installed::{node, npm};
pub(crate) use real::remote as everything_by_http;
