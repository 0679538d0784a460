//! The host's names of settings, for texts that say which setting to change.

use std::collections::BTreeMap;

/// The host's names of its settings, by the fields that they set. A library names a setting in a
/// refusal, a warning or an outcome only if it is listed here; by default none is.
///
/// ```
/// use deputize_core::setting_names::SettingNames;
///
/// let names = SettingNames::from_iter([("wrap_up_seconds", "agents.closing_time")]);
/// assert_eq!(names.note("wrap_up_seconds"), " (agents.closing_time)");
/// assert_eq!(names.note("max_iterations"), "");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SettingNames(BTreeMap<String, String>);

impl SettingNames {
    /// Returns the name of the setting of a field; empty if the host gave none.
    #[must_use]
    pub fn name(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }

    /// Returns the name of a setting in parentheses, after a space; empty if it has none.
    #[must_use]
    pub fn note(&self, field: &str) -> String {
        match self.name(field) {
            "" => String::new(),
            name => format!(" ({name})"),
        }
    }
}

impl<F: Into<String>, N: Into<String>> FromIterator<(F, N)> for SettingNames {
    fn from_iter<I: IntoIterator<Item = (F, N)>>(names: I) -> Self {
        Self(names.into_iter().map(|(field, name)| (field.into(), name.into())).collect())
    }
}
