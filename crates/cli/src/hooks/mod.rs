//! Hooks of the person: shell commands of the configuration.

mod document;
mod shell;

pub(crate) use shell::configured;
