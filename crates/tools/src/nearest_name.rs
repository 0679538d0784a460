//! A hint for a path that leads to nothing.

use std::path::Path;

use cap_std::fs::Dir;

use crate::display_name::display_name;

/// Names of one directory that are looked at for a hint.
const NAMES: usize = 5_000;
/// How alike two names must be, from 0 to 1, to be offered as a hint.
const ALIKE: f64 = 0.6;

/// Returns a hint for the missing `rel`, which the caller wrote as `asked`: the most similar name
/// in its directory, or the first missing directory of the path. Empty if there is none.
pub(crate) fn hint(dir: &Dir, rel: &Path, asked: &Path) -> String {
    let (Some(name), Some(parent)) = (rel.file_name(), rel.parent()) else {
        return String::new();
    };
    let above = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let Ok(entries) = dir.read_dir(above) else {
        let gone = missing(dir, rel).and_then(|levels| asked.ancestors().nth(levels));
        return gone.map_or_else(String::new, |gone| {
            format!("; there is no directory {}", gone.display())
        });
    };
    let wanted = name.to_string_lossy().to_lowercase();
    let alike = |entry: cap_std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let score = strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase());
        (score >= ALIKE).then_some((score, name))
    };
    let best = entries
        .take(NAMES)
        .flatten()
        .filter_map(alike)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
    match best {
        Some((_, name)) => {
            format!("; did you mean {}?", asked.with_file_name(display_name(&name)).display())
        }
        None => String::new(),
    }
}

/// Returns how many levels above `rel` the first missing part is.
fn missing(dir: &Dir, rel: &Path) -> Option<usize> {
    let parts: Vec<_> = rel.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    parts.iter().rposition(|part| !dir.try_exists(part).unwrap_or(true))
}
