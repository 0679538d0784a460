//! Collects mistakes and warnings.

use super::place::{ConfigPlace, Problem, shown};

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

    /// Checks a name that becomes a part of other names, such as those of models, tools and
    /// variables.
    pub(super) fn check_name(&mut self, kind: &str, name: &str, key: &ConfigPlace) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(is_plain) {
            let name = shown(name);
            let rule = format!("the name of a {kind} is made of letters, digits, `-` and `_`");
            self.error(key, format!("{rule}, not `{name}`"));
        }
    }
}
