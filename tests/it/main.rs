//! Integration tests, one module a topic. They run against the program as a person starts it
//! wherever they can.

#![cfg(test)]

mod acp;
mod acp_serve;
mod agents;
mod approval;
mod background;
mod cli;
mod commands;
mod compaction;
mod constrained;
mod contract;
mod control;
mod delegation;
mod delegation_page;
mod docs;
mod embedder;
mod faults;
mod hooks;
mod images;
mod kill;
mod layering;
mod log;
mod mcp;
mod messages;
mod modules;
mod offline;
mod plugin;
mod policy;
mod prices;
mod program;
mod prompt;
mod providers;
mod readme;
mod real_model;
mod replay;
mod responses;
mod resume;
mod rights;
mod screens;
mod setting_names;
mod signals;
mod simulated;
mod tool_names;
mod tools;
mod type_names;
