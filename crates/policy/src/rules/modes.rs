//! Rights and owners of files.

use crate::findings::Findings;
use crate::invocation::Invocation;
use crate::rule::{OPEN_MODES, OWNERSHIP, SYSTEM_MODES, SYSTEM_SETTINGS};

/// Directories of the system whose owners people set as a whole.
const MANAGED: [&str; 5] = ["/opt", "/srv", "/usr/local", "/var/log", "/var/cache"];

pub(super) fn judge(invocation: &Invocation<'_>, findings: &mut Findings) {
    let is_recursive = invocation.has(&["-R", "--recursive"]);
    match invocation.program {
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" | "chflags" => {}
        _ => return,
    }
    let operands = invocation.operands();
    let targets = operands.get(1..).unwrap_or_default();
    if is_recursive {
        for path in targets {
            let resolved = invocation.place.resolve(path);
            if let Some(what) =
                invocation.place.vital(path).filter(|_| !MANAGED.contains(&resolved.as_str()))
            {
                findings.hardline(
                    &SYSTEM_MODES,
                    format!("changes the rights of all of {what}: {path}"),
                );
            }
        }
    }
    match invocation.program {
        "chmod" => {
            // `chmod -x file`: the mode looks like an option.
            let mode = invocation.arguments.iter().find(|it| !it.starts_with("--") && !is_flag(it));
            if mode.is_some_and(|it| opens(it)) {
                findings.dangerous(&OPEN_MODES);
            }
            if targets.iter().any(|it| invocation.place.is_system(it)) {
                findings.dangerous(&SYSTEM_SETTINGS);
            }
        }
        "chattr" => findings.dangerous(&SYSTEM_SETTINGS),
        _ => findings.dangerous(&OWNERSHIP),
    }
}

fn is_flag(argument: &str) -> bool {
    argument
        .strip_prefix('-')
        .is_some_and(|it| !it.is_empty() && it.chars().all(|c| "RvfcHLP".contains(c)))
}

/// Whether a mode lets everybody write, nobody read, or runs with the owner's rights.
fn opens(mode: &str) -> bool {
    if !mode.is_empty() && mode.chars().all(|it| it.is_digit(8)) {
        let digits: Vec<u32> = mode.chars().filter_map(|it| it.to_digit(8)).collect();
        let others = digits.last().copied().unwrap_or(0);
        let special = if digits.len() > 3 { digits.first().copied().unwrap_or(0) } else { 0 };
        let nobody = digits.iter().all(|it| *it == 0);
        return others & 2 != 0 || special & 6 != 0 || nobody;
    }
    mode.split(',').any(|clause| {
        let Some(at) = clause.find(['+', '=', '-']) else { return false };
        let (who, what) = clause.split_at(at);
        let adds = !what.starts_with('-');
        let everybody = who.contains(['o', 'a']);
        adds && (everybody && what.contains('w') || what.contains('s'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_open_a_file_to_everybody() {
        for mode in
            ["777", "0777", "666", "o+w", "a+rw", "ugo+w", "u+s", "4755", "2755", "000", "a=rwx"]
        {
            assert!(opens(mode), "{mode}");
        }
        for mode in ["755", "644", "600", "u+w", "+x", "a+x", "go-w", "1755", "u=rwx,go=rx"] {
            assert!(!opens(mode), "{mode}");
        }
    }
}
