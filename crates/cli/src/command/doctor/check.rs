//! What a check finds.

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    /// It works in part.
    Less,
    Bad,
}

impl Health {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Less => "warn",
            Self::Bad => "fail",
        }
    }
}

/// One line of the report.
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) health: Health,
    pub(super) found: String,
}

impl Check {
    pub(super) fn new(what: &'static str, found: Result<String, String>) -> Self {
        match found {
            Ok(found) => Self { what, health: Health::Good, found },
            Err(found) => Self { what, health: Health::Bad, found },
        }
    }

    pub(super) fn at_worst_less(self) -> Self {
        let health = if self.health == Health::Bad { Health::Less } else { self.health };
        Self { health, ..self }
    }

    /// Returns a row, and one more for each further line of the finding.
    pub(super) fn rows(&self) -> Vec<[String; 3]> {
        let row = |(at, line): (usize, &str)| {
            let [health, what] = if at == 0 { [self.health.word(), self.what] } else { [""; 2] };
            [format!("{health:<4}"), format!("{what:<15}"), line.to_owned()]
        };
        self.found.split('\n').enumerate().map(row).collect()
    }

    pub(super) const fn less(what: &'static str, found: String) -> Self {
        Self { what, health: Health::Less, found }
    }
}
