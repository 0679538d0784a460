//! Collects mistakes and warnings.

use super::place::{ConfigPlace, Problem};

/// What the checks of a configuration found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    /// Certificate files that providers name: the provider, the file, and its place.
    pub(super) ca_files: Vec<(String, String, ConfigPlace)>,
}

impl Findings {
    pub(super) fn error(&mut self, place: &ConfigPlace, message: impl Into<String>) {
        self.errors.push(Problem::new(place, message));
    }

    pub(super) fn warn(&mut self, place: &ConfigPlace, message: impl Into<String>) {
        self.warnings.push(Problem::new(place, message));
    }
}
