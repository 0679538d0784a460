//! How the indentation of one text maps to that of another.

use std::collections::BTreeMap;

/// A mapping from the indentation that a caller wrote to that of a file.
#[derive(Debug)]
pub(crate) struct Indent {
    /// For each indentation that was seen, the file's.
    seen: BTreeMap<String, String>,
    /// One level of indentation, for the caller and for the file.
    level: Option<(String, String)>,
}

impl Indent {
    /// Returns the mapping between lines that are the same but for their indentation; `None` if one
    /// indentation stands for two.
    pub(crate) fn between<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> Option<Self> {
        let mut seen = BTreeMap::new();
        for (mine, files) in pairs.filter(|(mine, _)| !mine.trim().is_empty()) {
            let mine = leading(mine);
            let files = leading(files);
            if seen.insert(mine.to_owned(), files.to_owned()).is_some_and(|before| before != files)
            {
                return None;
            }
        }
        let level = one_level(&seen);
        Some(Self { seen, level })
    }

    /// A line with the file's indentation. Lines without text stay as they are.
    pub(crate) fn apply(&self, line: &str) -> String {
        let mine = leading(line);
        let text = line.get(mine.len()..).unwrap_or_default();
        if text.is_empty() {
            return line.to_owned();
        }
        format!("{}{text}", self.map(mine))
    }

    fn map(&self, mine: &str) -> String {
        if let Some(files) = self.seen.get(mine) {
            return files.clone();
        }
        let deeper = self.seen.iter().rfind(|(seen, _)| mine.starts_with(*seen));
        if let Some((seen, files)) = deeper {
            return format!("{files}{}", self.levels(mine.get(seen.len()..).unwrap_or_default()));
        }
        let shallower = self.seen.iter().find(|(seen, _)| seen.starts_with(mine));
        if let Some((seen, files)) = shallower {
            let fewer = self.levels(seen.get(mine.len()..).unwrap_or_default());
            if let Some(files) = files.strip_suffix(&fewer) {
                return files.to_owned();
            }
        }
        mine.to_owned()
    }

    /// Indentation in the file's way, where it is a number of whole levels.
    fn levels(&self, mine: &str) -> String {
        let Some((level, files)) = &self.level else { return mine.to_owned() };
        let times = mine.len() / level.len();
        if level.repeat(times) == mine { files.repeat(times) } else { mine.to_owned() }
    }
}

fn leading(line: &str) -> &str {
    line.get(..line.len() - line.trim_start().len()).unwrap_or_default()
}

/// One level of each side: the first difference between two depths that were seen, or, where
/// there is one depth only, spaces against tabs.
fn one_level(seen: &BTreeMap<String, String>) -> Option<(String, String)> {
    let pairs: Vec<_> = seen.iter().collect();
    for pair in pairs.windows(2) {
        let [(outer, outer_file), (inner, inner_file)] = pair else { continue };
        if let (Some(mine), Some(files)) =
            (inner.strip_prefix(outer.as_str()), inner_file.strip_prefix(outer_file.as_str()))
        {
            return Some((mine.to_owned(), files.to_owned()));
        }
    }
    let (mine, files) = pairs.first()?;
    let all = |text: &str, wanted| !text.is_empty() && text.chars().all(|c| c == wanted);
    if all(mine, ' ') && all(files, '\t') && mine.len() % files.len() == 0 {
        return Some((" ".repeat(mine.len() / files.len()), "\t".to_owned()));
    }
    if all(mine, '\t') && all(files, ' ') && files.len() % mine.len() == 0 {
        return Some(("\t".to_owned(), " ".repeat(files.len() / mine.len())));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `new` after a mapping learned from pairs `mine|file`.
    fn check(pairs: &[(&str, &str)], new: &[&str]) -> Option<Vec<String>> {
        let indent = Indent::between(pairs.iter().copied())?;
        Some(new.iter().map(|line| indent.apply(line)).collect())
    }

    #[test]
    fn a_constant_shift_is_kept() {
        let pairs = [("if x:", "    if x:"), ("  y", "      y")];
        let new = check(&pairs, &["if z:", "  if x:", "    y", "", "  "]).unwrap();
        assert_eq!(new, ["    if z:", "      if x:", "        y", "", "  "]);
    }

    #[test]
    fn spaces_become_the_files_tabs_level_by_level() {
        let pairs = [("a {", "a {"), ("    b", "\tb")];
        assert_eq!(
            check(&pairs, &["a {", "    if {", "        b"]).unwrap(),
            ["a {", "\tif {", "\t\tb"]
        );
        let one = [("        b", "\t\tb")];
        assert_eq!(
            check(&one, &["    a", "        b", "            c"]).unwrap(),
            ["\ta", "\t\tb", "\t\t\tc"]
        );
    }

    #[test]
    fn tabs_become_the_files_spaces() {
        let pairs = [("\tb", "  b")];
        assert_eq!(check(&pairs, &["\tb", "\t\tc", "d"]).unwrap(), ["  b", "    c", "d"]);
    }

    #[test]
    fn what_stands_for_two_depths_maps_nothing() {
        assert_eq!(check(&[("a", "a"), ("b", "  b")], &["a"]), None);
    }
}
