//! Where this program, and git at another place than usual, keep what they obey: no agent writes
//! there, wherever it works.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::Sources;
use crate::surroundings::Surroundings;

/// Where they are by default.
const DEFAULTS: [&str; 2] = [".config/deputize", ".local/state/deputize"];
/// What a project's own settings lie in, wherever the project is. None is read yet: a project is
/// not trusted. What is planted today would be read by the version that trusts it.
const PROJECT: &str = ".deputize";
/// What is in them.
const OWN: [&str; 4] = ["config.yaml", "control", "mcp", "sessions"];
/// The variables that name a configuration file of git.
const GIT_CONFIGS: [&str; 2] = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"];

/// The folders of the configuration and of the state, also those that a run without
/// `DEPUTIZE_HOME` would have, and the configuration file: as they are named, and where links lead.
/// And the settings of any project, and the configuration files of git that variables name.
pub(super) fn of(around: &Surroundings, sources: &Sources) -> BTreeSet<PathBuf> {
    // A run with other variables reads those below the home directory.
    let home = around.var("HOME").map(|home| sources.cwd.join(home));
    let default = home.into_iter().flat_map(|home| DEFAULTS.map(|folder| home.join(folder)));
    let folders = sources.homes().chain(around.states()).chain(default);
    let cwd = without_links(&sources.cwd);
    let named = folders.flat_map(|folder| {
        // Whoever works in such a folder works on what else is there.
        if cwd.starts_with(without_links(&folder)) {
            OWN.map(|name| folder.join(name)).to_vec()
        } else {
            vec![folder.join("config.yaml"), folder]
        }
    });
    let named = named.chain(sources.config_file.clone()).chain(git_configs(around, &sources.cwd));
    let absolute = named.filter(|path| path.is_absolute());
    let all = absolute.flat_map(|path| [without_links(&path), path]);
    let inside = cwd.components().any(|part| part.as_os_str().eq_ignore_ascii_case(PROJECT));
    let project = match inside {
        true => Path::new(PROJECT).join("config.yaml"),
        false => PathBuf::from(PROJECT),
    };
    all.chain([project]).collect()
}

/// Returns the configuration files of git that variables name. Those at the usual places are
/// guarded by their names.
fn git_configs(around: &Surroundings, cwd: &Path) -> Vec<PathBuf> {
    let files = GIT_CONFIGS.into_iter().filter_map(|name| around.var(name)).map(PathBuf::from);
    let folder = around.var("XDG_CONFIG_HOME").map(|folder| Path::new(folder).join("git/config"));
    files.chain(folder).map(|file| cwd.join(file)).collect()
}

/// The path without links, as far as it is there.
fn without_links(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    match there.and_then(|(part, found)| Some((path.strip_prefix(part).ok()?, found))) {
        Some((rest, found)) if rest.as_os_str().is_empty() => found,
        Some((rest, found)) => found.join(rest),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_folders_are_kept_by_name_and_where_links_lead() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["dotfiles/deputize", "user/.config"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        symlink("../../dotfiles/deputize", base.join("user/.config/deputize")).unwrap();
        std::fs::write(base.join("shared.yaml"), "").unwrap();
        symlink("../../shared.yaml", base.join("dotfiles/deputize/config.yaml")).unwrap();
        let (user, own) = (base.join("user"), base.join("own"));
        let env = [("HOME", user.to_str().unwrap()), ("DEPUTIZE_HOME", own.to_str().unwrap())];
        let around = Surroundings::for_tests(&env);
        let sources = Sources {
            cwd: user,
            config_file: Some(base.join("given.yaml")),
            env: around.env.clone(),
            ..Sources::default()
        };
        let kept = of(&around, &sources);
        let names = [
            "dotfiles/deputize",
            "given.yaml",
            "own",
            "own/config.yaml",
            "shared.yaml",
            "user/.config/deputize",
            "user/.config/deputize/config.yaml",
            "user/.local/state/deputize",
            "user/.local/state/deputize/config.yaml",
        ];
        let mut all = BTreeSet::from(names.map(|name| base.join(name)));
        all.insert(PathBuf::from(".deputize"));
        assert_eq!(kept, all);
        // The files of git, wherever variables put them.
        let xdg = base.join("xdg");
        let env = [
            ("XDG_CONFIG_HOME", xdg.to_str().unwrap()),
            ("GIT_CONFIG_GLOBAL", "git/global"),
            ("GIT_CONFIG_SYSTEM", ""),
        ];
        let kept = of(&Surroundings::for_tests(&env), &sources);
        for file in ["xdg/git/config", "user/git/global"] {
            assert!(kept.contains(&base.join(file)), "{file}: {kept:?}");
        }
        // In such a folder other files are anybody's.
        let kept = of(&around, &Sources { cwd: base.join("own"), ..sources });
        assert!(!kept.contains(&base.join("own")) && kept.contains(&base.join("own/config.yaml")));
    }
}
