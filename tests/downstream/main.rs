//! What people build on Deputize, built as they build it: by cargo, in workspaces of their own.
//!
//! All of it goes to one folder below this workspace's target, so that dependencies are built once,
//! and never to the network: the versions are those of this workspace's lock file.

#![cfg(test)]

mod front_pages;
mod linking;
mod nested;
mod new_tool;
mod plugins;
