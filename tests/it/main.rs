//! Integration tests, one module a topic. They run against the program as a person starts it
//! wherever they can.

#![cfg(test)]

mod layering;
mod providers;
