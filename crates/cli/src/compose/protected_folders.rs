//! The folders where this program, and git at another place than usual, keep what they obey: no
//! agent writes there, wherever it works.

use std::collections::BTreeSet;
use std::path::PathBuf;

use deputize_agent::protected_paths;

use crate::config::Sources;
use crate::process_env::ProcessEnv;

/// Returns the folders of the configuration and of the state, and the configuration file.
pub(super) fn protected_folders(env: &ProcessEnv, sources: &Sources) -> BTreeSet<PathBuf> {
    let folders = sources.homes().chain(env.states());
    protected_paths(&env.variables, &sources.cwd, folders, sources.config_file.clone())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_folders_are_protected_by_name_and_where_links_lead() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["dotfiles/deputize", "user/.config"] {
            std::fs::create_dir_all(base.join(name)).unwrap();
        }
        symlink("../../dotfiles/deputize", base.join("user/.config/deputize")).unwrap();
        std::fs::write(base.join("shared.yaml"), "").unwrap();
        symlink("../../shared.yaml", base.join("dotfiles/deputize/config.yaml")).unwrap();
        let user = base.join("user");
        let own = base.join("own");
        let pairs = [("HOME", user.to_str().unwrap()), ("DEPUTIZE_HOME", own.to_str().unwrap())];
        let env = ProcessEnv::for_tests(&pairs);
        let sources = Sources {
            cwd: user,
            config_file: Some(base.join("given.yaml")),
            env: env.variables.clone(),
            ..Sources::default()
        };
        let protected = protected_folders(&env, &sources);
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
        assert_eq!(protected, all);
        // The files of git, wherever variables put them.
        let xdg = base.join("xdg");
        let pairs = [
            ("XDG_CONFIG_HOME", xdg.to_str().unwrap()),
            ("GIT_CONFIG_GLOBAL", "git/global"),
            ("GIT_CONFIG_SYSTEM", ""),
        ];
        let protected = protected_folders(&ProcessEnv::for_tests(&pairs), &sources);
        for file in ["xdg/git/config", "user/git/global"] {
            assert!(protected.contains(&base.join(file)), "{file}: {protected:?}");
        }
        // In such a folder other files are anybody's.
        let protected = protected_folders(&env, &Sources { cwd: base.join("own"), ..sources });
        assert!(
            !protected.contains(&base.join("own"))
                && protected.contains(&base.join("own/config.yaml"))
        );
    }
}
