//! MCP: servers as tools of agents, and the program as a server.

mod commands;
mod faults;
mod installed;
mod real;
mod serve;
