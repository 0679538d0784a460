//! The table that is printed.

use serde::Serialize;

use crate::spread::Spread;

/// What is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    /// At most so many times the floor.
    Times(f64),
    /// At most so much.
    AtMost(f64),
    /// Told without a goal.
    None,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) figure: String,
    pub(crate) unit: &'static str,
    pub(crate) floor: Option<Spread>,
    pub(crate) ours: Spread,
    pub(crate) goal: Goal,
}

/// All figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
}

impl Row {
    /// The ratio of the medians, and of the minima.
    fn ratios(&self) -> Option<(f64, f64)> {
        let floor = self.floor.as_ref()?;
        Some((self.ours.median / floor.median, self.ours.min / floor.min))
    }

    /// By the median, and by the minimum.
    pub(crate) fn is_reached(&self) -> Option<(bool, bool)> {
        let (most, (median, min)) = match self.goal {
            Goal::Times(most) => (most, self.ratios()?),
            Goal::AtMost(most) => (most, (self.ours.median, self.ours.min)),
            Goal::None => return None,
        };
        Some((median <= most, min <= most))
    }

    fn cells(&self) -> [String; 6] {
        let spread =
            |spread: &Spread| format!("{} ({})", number(spread.median), number(spread.min));
        let goal = match self.goal {
            Goal::Times(most) => format!("{most} x floor"),
            Goal::AtMost(most) => format!("{most} {}", self.unit),
            Goal::None => String::new(),
        };
        let reached = match self.is_reached() {
            Some((true, true)) => "yes",
            Some((true, false)) => "by the median",
            Some((false, true)) => "by the minimum",
            Some((false, false)) => "no",
            None => "",
        };
        let ratios = self.ratios();
        [
            format!("{}, {}", self.figure, self.unit),
            self.floor.as_ref().map(spread).unwrap_or_default(),
            spread(&self.ours),
            ratios.map(|(median, min)| format!("{median:.2} ({min:.2})")).unwrap_or_default(),
            goal,
            reached.to_owned(),
        ]
    }
}

/// Three digits are enough.
fn number(value: f64) -> String {
    match value {
        value if value.abs() < 1.0 => format!("{value:.3}"),
        value if value.abs() < 10.0 => format!("{value:.2}"),
        value if value.abs() < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

impl Report {
    /// Every value, as JSON.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// A Markdown table: medians, with minima in brackets.
    pub(crate) fn to_table(&self) -> String {
        let head = ["figure", "floor", "ours", "ratio", "goal", "reached"].map(str::to_owned);
        let mut lines = vec![head];
        lines.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..6).map(width).collect();
        let line = |cells: &[String; 6]| {
            let cells = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} "));
            format!("|{}|", cells.collect::<Vec<_>>().join("|"))
        };
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
        let mut rows: Vec<String> = lines.iter().map(line).collect();
        rows.insert(1, format!("|{}|", rule.join("|")));
        rows.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_whether_its_goal_is_reached() {
        let row = Row {
            figure: "start".into(),
            unit: "ms",
            floor: Some(Spread::of([4.0])),
            ours: Spread::of([9.0, 10.0, 12.0]),
            goal: Goal::Times(2.5),
        };
        let reached = |goal| Row { goal, ..row.clone() }.cells()[5].clone();
        assert_eq!(reached(Goal::Times(2.5)), "yes");
        assert_eq!(reached(Goal::Times(2.4)), "by the minimum");
        assert_eq!(reached(Goal::Times(2.2)), "no");
        assert_eq!(reached(Goal::AtMost(9.9)), "by the minimum");
        assert_eq!(reached(Goal::None), "");
        let slow_floor = Row { floor: Some(Spread::of([3.0, 5.0, 5.0])), ..row.clone() };
        assert_eq!(slow_floor.cells()[5], "by the median");
        let table = Report { rows: vec![row] }.to_table();
        let last = table.lines().last().unwrap();
        assert_eq!(
            last,
            "| start, ms | 4.00 (4.00) | 10.0 (9.00) | 2.50 (2.25) | 2.5 x floor | yes     |"
        );
    }
}
