//! Kinds of paths.

use crate::field::{HOLE, base_name};
use crate::glob;

/// Directories below `/` whose loss is the loss of the system.
const SYSTEM: [&str; 25] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
    "Applications",
    "Library",
    "System",
    "Users",
    "Volumes",
    "private",
    "nix",
];
/// Directories one level below, of the same weight.
const SYSTEM_INNER: [&str; 14] = [
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "usr/libexec",
    "usr/local",
    "usr/sbin",
    "usr/share",
    "usr/include",
    "var/lib",
    "var/log",
    "var/cache",
    "boot/efi",
    "boot/grub",
    "etc/ssl",
];
/// How names of disks and memory begin, below `/dev/`.
const DEVICES: [&str; 19] = [
    "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mapper/", "loop",
    "nbd", "sr", "zd", "zvol", "pmem", "bcache", "block/",
];
/// Parts of paths that hold keys and passwords.
const CREDENTIALS: [&str; 27] = [
    "/.ssh",
    "/.gnupg",
    "/.aws",
    "/.azure",
    "/.config/gcloud",
    "/.kube/config",
    "/.docker/config.json",
    "/.netrc",
    "/.npmrc",
    "/.pypirc",
    "/.git-credentials",
    "/.pgpass",
    "/.my.cnf",
    "/.config/gh/hosts.yml",
    "/.cargo/credentials",
    "/.gem/credentials",
    "/.vault-token",
    "/.password-store",
    "/.m2/settings.xml",
    "/.terraform.d/credentials",
    "/.config/git/credentials",
    "/.config/rclone",
    "/.s3cfg",
    "/.mozilla/firefox",
    "/.config/google-chrome",
    "/.config/chromium",
    "/Library/Keychains",
];
/// Files of the system with passwords.
const SYSTEM_CREDENTIALS: [&str; 7] = [
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/ssl/private",
    "/proc/1/environ",
    "/proc/self/environ",
    "/proc/kcore",
];
/// Files below the home directory that a shell or desktop runs.
const START_FILES: [&str; 20] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".gitconfig",
    ".vimrc",
    ".tmux.conf",
    ".pam_environment",
    ".xinitrc",
    ".xprofile",
    ".emacs",
];
/// Parts of paths whose files other programs run or obey.
const OBEYED: [&str; 13] = [
    "/.git/hooks/",
    "/.git/config",
    "/.envrc",
    "/.mcp.json",
    "/.vscode/settings.json",
    "/.vscode/tasks.json",
    "/.config/autostart/",
    "/.config/systemd/",
    "/.config/fish/",
    "/LaunchAgents/",
    "/LaunchDaemons/",
    "/.config/git/config",
    "/.husky/_/",
];
/// Files that agents of later sessions obey.
const INSTRUCTIONS: [&str; 6] = [
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".cursorrules",
    ".windsurfrules",
    "copilot-instructions.md",
];

/// A directory as the rules see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) home: &'a str,
    /// The working directory, if known.
    pub(crate) directory: Option<&'a str>,
}

impl Place<'_> {
    /// Returns a path without `.`, `..` and doubled slashes, absolute if that can be known.
    pub(crate) fn resolve(&self, path: &str) -> String {
        let path = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", self.home)
            }
            _ => path.to_owned(),
        };
        let whole = match self.directory {
            Some(directory) if !path.starts_with('/') && !path.starts_with('~') => {
                format!("{directory}/{path}")
            }
            _ => path,
        };
        let mut parts: Vec<&str> = Vec::new();
        let is_absolute = whole.starts_with('/');
        for part in whole.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.last().is_some_and(|it| *it != "..") => {
                    parts.pop();
                }
                ".." if is_absolute => {}
                part => parts.push(part),
            }
        }
        let joined = parts.join("/");
        if is_absolute { format!("/{joined}") } else { joined }
    }

    /// Returns what of the system a path is, if its loss is the loss of the system or of the home
    /// directory. A pattern counts as all that it matches there.
    pub(crate) fn vital(&self, path: &str) -> Option<&'static str> {
        if path.is_empty() || path.contains(HOLE) {
            return None;
        }
        let resolved = self.resolve(path);
        let mut path = resolved.as_str();
        // All that is in a directory is the directory.
        while let Some((parent, last)) = path.rsplit_once('/') {
            if !is_everything(last) {
                break;
            }
            path = if parent.is_empty() { "/" } else { parent };
            if path == "/" {
                break;
            }
        }
        if path == "/" || path.is_empty() && resolved.starts_with('/') {
            return Some("/");
        }
        let home = self.home.trim_end_matches('/');
        if path == "~" || (!home.is_empty() && (path == home || is_parent(path, home))) {
            return Some("the home directory");
        }
        let below = path.strip_prefix('/')?;
        if below.starts_with("home/") && !below.strip_prefix("home/")?.contains('/')
            || below.starts_with("Users/") && !below.strip_prefix("Users/")?.contains('/')
        {
            return Some("a home directory");
        }
        let matches = |name: &str| {
            name == below || (has_glob_only_start(below) && glob::matches(below, name))
        };
        if SYSTEM.iter().any(|name| matches(name)) || SYSTEM_INNER.contains(&below) {
            return Some("a system directory");
        }
        None
    }

    /// Whether a path lies in a directory of the system.
    pub(crate) fn is_system(&self, path: &str) -> bool {
        let path = self.resolve(path);
        let below = path.strip_prefix('/').unwrap_or_default();
        let first = below.split('/').next().unwrap_or_default();
        if ["dev/", "proc/self/fd/", "run/user/"].iter().any(|it| below.starts_with(it)) {
            return false;
        }
        if matches!(
            first,
            "home" | "Users" | "root" | "Volumes" | "run" | "srv" | "opt" | "nix" | "private"
        ) {
            return below.starts_with("opt/") && path.contains("/bin/");
        }
        let temporary = below.starts_with("var/tmp") || below.starts_with("var/folders");
        SYSTEM.contains(&first) && !temporary
    }

    /// Whether a path lies outside of the working directory, and not among temporary files.
    pub(crate) fn is_outside(&self, path: &str) -> bool {
        let resolved = self.resolve(path);
        let is_temporary =
            ["/tmp/", "/var/tmp/", "/private/tmp/"].iter().any(|it| resolved.starts_with(it));
        let inside = match self.directory {
            Some(directory) => {
                let directory = self.resolve(directory);
                resolved.strip_prefix(&directory).is_some_and(|rest| rest.starts_with('/'))
            }
            None => !resolved.starts_with(['/', '~']) && !resolved.starts_with(".."),
        };
        !is_temporary && !inside
    }

    /// Whether a path holds keys or passwords.
    pub(crate) fn is_credential(&self, path: &str) -> bool {
        if !path.contains(['.', '/', 'i', 'K']) {
            return false;
        }
        let resolved = self.resolve(path);
        let rooted = format!("/{}", resolved.trim_start_matches('/'));
        let inside = |part: &str| {
            rooted.find(part).is_some_and(|at| {
                let after = rooted.get(at + part.len()..).unwrap_or_default();
                after.is_empty()
                    || after.starts_with(['/', '*', HOLE])
                    || after.starts_with(".toml")
            })
        };
        let is_public = rooted.ends_with(".pub") || rooted.ends_with("known_hosts");
        let by_name = ["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa"].contains(&base_name(&rooted));
        let system = SYSTEM_CREDENTIALS.iter().any(|it| rooted.starts_with(it));
        !is_public && (CREDENTIALS.iter().any(|it| inside(it)) || by_name || system)
    }

    /// Whether a path is a file that other programs run or obey.
    pub(crate) fn is_obeyed(&self, path: &str) -> bool {
        let rooted = format!("/{}", self.resolve(path).trim_start_matches('/'));
        let in_home = START_FILES.contains(&base_name(path)) && self.is_in_home(path);
        in_home || OBEYED.iter().any(|it| rooted.contains(it) || rooted == it.trim_end_matches('/'))
    }

    fn is_in_home(&self, path: &str) -> bool {
        let resolved = self.resolve(path);
        let known = resolved.starts_with('/') || resolved.starts_with('~');
        known || base_name(path) == path
    }
}

/// Whether a file is one that agents of later sessions obey.
pub(crate) fn is_instructions(path: &str) -> bool {
    INSTRUCTIONS.contains(&base_name(path))
}

/// Whether a path is a file of keys for a project, and no template of one.
pub(crate) fn is_env_file(path: &str) -> bool {
    let name = base_name(path);
    let ending = match name.strip_prefix(".env") {
        Some("") => return true,
        Some(ending) => ending,
        None => return false,
    };
    let template = ["example", "sample", "template", "dist", "test", "ci", "defaults", "schema"];
    ending.starts_with('.') && !template.iter().any(|it| ending.contains(it))
}

/// Whether a path is a disk, a part of it, or memory.
pub(crate) fn is_raw_device(path: &str) -> bool {
    let mut path = path.to_owned();
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    let path = path.replace("/./", "/");
    let Some(name) = path.strip_prefix("/dev/") else {
        return path.starts_with("/dev") && path.contains("../dev/sd");
    };
    let begins = |it: &str| name.starts_with(it);
    let is_memory = matches!(name, "mem" | "kmem" | "port");
    is_memory
        || DEVICES.iter().any(|it| begins(it))
        || name.starts_with("[sv]d")
        || name.starts_with("?da")
}

/// Whether the last part of a path stands for all in a directory.
fn is_everything(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|it| "*.?[]!^{}".contains(it)) && part.contains(['*', '?'])
        || part == ".*"
}

/// Whether a path holds the home directory: `/home` is a system directory, `/data/people` may be.
fn is_parent(path: &str, home: &str) -> bool {
    path.starts_with('/') && home.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a name right below `/` is a pattern.
fn has_glob_only_start(name: &str) -> bool {
    !name.contains('/') && crate::field::has_glob(name)
}
