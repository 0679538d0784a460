//! MCP: servers as tools of agents, and the program as a server.

mod approval;
mod changes;
mod commands;
mod contract;
mod doctor;
mod far;
mod faults;
mod fixture;
mod index;
mod installed;
mod login;
mod once;
mod real;
mod runs;
mod serve;
mod sign_in_server;
mod sign_out;
mod start;

pub(crate) use fixture::set as set_server;
pub(crate) use installed::{install, node, npm};
pub(crate) use real::{blocking, remote as everything_by_http};
