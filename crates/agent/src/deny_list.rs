//! Commands that never run, whatever the setting: a stand-in, until there is a classifier that
//! reads a command as the shell will.
//!
//! It knows a short list of accidents in their usual forms. What hides what it does (a variable, a
//! script in a file, another language) gets past it: it is a seat belt and no boundary.

mod words;

use deputize_core::truncate::truncate_bytes;
use std::path::Path;

use words::{INTO, commands};

/// Commands in commands (`sh -c`) are looked at so deep.
const LEVELS: u32 = 4;
/// Directories right below `/` whose loss is the loss of the system.
const SYSTEM: [&str; 13] = [
    "bin", "boot", "dev", "etc", "home", "lib", "lib64", "proc", "root", "sbin", "sys", "usr",
    "var",
];
/// How the names of block devices begin, below `/dev/`.
const BLOCK_DEVICES: [&str; 10] =
    ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "md", "dm-", "mapper/"];
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "su"];
/// Programs that run the command after them: name, options with a value, and the number of words
/// before the command.
const WRAPPERS: [(&str, &str, usize); 14] = [
    ("sudo", "ughpCrtTDR", 0),
    ("doas", "uC", 0),
    ("env", "uCS", 0),
    ("nice", "n", 0),
    ("ionice", "cnp", 0),
    ("timeout", "sk", 1),
    ("stdbuf", "ioe", 0),
    ("xargs", "InPLdsEa", 0),
    ("command", "", 0),
    ("builtin", "", 0),
    ("exec", "a", 0),
    ("nohup", "", 0),
    ("time", "fo", 0),
    ("setsid", "", 0),
];
/// Words of the shell's grammar before a command.
const KEYWORDS: [&str; 10] =
    ["!", "{", "then", "do", "else", "elif", "if", "while", "until", "busybox"];

/// Returns what a command would do that never happens here.
pub(crate) fn denied_command(text: &str, home: Option<&Path>) -> Option<&'static str> {
    if is_fork_bomb(text) {
        return Some("a fork bomb");
    }
    within(text, home, LEVELS)
}

fn within(text: &str, home: Option<&Path>, levels: u32) -> Option<&'static str> {
    let levels = levels.checked_sub(1)?;
    commands(text).iter().find_map(|words| {
        let into = words.windows(2).filter(|pair| matches!(pair, [into, _] if into == INTO));
        if into.filter_map(|pair| pair.get(1)).any(|target| is_block_device(target)) {
            return Some("writing to a block device");
        }
        let (program, arguments) = unwrap_command(words)?;
        match inner(program, arguments) {
            Some(text) => within(&text, home, levels),
            None => simple(program, arguments, home),
        }
    })
}

/// Returns the command that a shell is given.
fn inner(program: &str, arguments: &[String]) -> Option<String> {
    if program == "eval" {
        return Some(arguments.join(" "));
    }
    let is_text = |word: &String| {
        word.strip_prefix('-').is_some_and(|flags| !flags.starts_with('-') && flags.ends_with('c'))
    };
    let at = arguments.iter().position(is_text).filter(|_| SHELLS.contains(&program))?;
    arguments.get(at + 1).cloned()
}

/// The program of a simple command and its arguments, without what stands before them.
fn unwrap_command(words: &[String]) -> Option<(&str, &[String])> {
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        let name = word.rsplit('/').next().unwrap_or(word);
        if KEYWORDS.contains(&name) || is_assignment(word) {
            rest = behind;
        } else if let Some((_, valued, before)) = WRAPPERS.iter().find(|it| it.0 == name) {
            rest = behind;
            while let Some((option, behind)) = rest.split_first().filter(|it| it.0.starts_with('-'))
            {
                let takes = option.len() == 2 && option.ends_with(|c: char| valued.contains(c));
                rest = behind.get(usize::from(takes)..).unwrap_or_default();
            }
            rest = rest.get(*before..).unwrap_or_default();
        } else {
            return Some((name, behind));
        }
    }
    None
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name.trim_end_matches('+'));
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn simple(program: &str, arguments: &[String], home: Option<&Path>) -> Option<&'static str> {
    let has = |options: &[&str]| arguments.iter().any(|word| options.contains(&word.as_str()));
    let on_device = || arguments.iter().any(|word| is_block_device(word));
    match program {
        "rm" if removes_all(arguments, home) => {
            Some("recursive removal of /, a system directory or the home directory")
        }
        "dd" if arguments.iter().any(|it| it.strip_prefix("of=").is_some_and(is_block_device)) => {
            Some("writing to a block device")
        }
        "tee" | "shred" | "blkdiscard" if on_device() => Some("writing to a block device"),
        "wipefs" if on_device() && has(&["-a", "--all"]) => Some("writing to a block device"),
        "cp" | "mv" if arguments.last().is_some_and(|to| is_block_device(to)) => {
            Some("writing to a block device")
        }
        "mke2fs" | "newfs" | "mkswap" if on_device() => Some("making a file system on a device"),
        _ if program.starts_with("mkfs") && on_device() => Some("making a file system on a device"),
        "shutdown" if has(&["-c", "--help"]) => None,
        "shutdown" | "reboot" | "halt" | "poweroff" if !has(&["--help"]) => {
            Some("shutting the machine down")
        }
        "init" | "telinit" if has(&["0", "6"]) => Some("shutting the machine down"),
        "systemctl" if has(&["poweroff", "reboot", "halt", "kexec"]) => {
            Some("shutting the machine down")
        }
        _ => None,
    }
}

/// Whether `rm` with these arguments removes what nobody gets back.
fn removes_all(arguments: &[String], home: Option<&Path>) -> bool {
    let is_option = |word: &&String| word.len() > 1 && word.starts_with('-');
    let recursive = |word: &String| match word.strip_prefix("--") {
        Some(long) => long == "recursive",
        None => word.contains(['r', 'R']),
    };
    let recursive = arguments.iter().filter(is_option).any(recursive);
    recursive && arguments.iter().filter(|it| !is_option(it)).any(|path| is_all(path, home))
}

fn is_all(path: &str, home: Option<&Path>) -> bool {
    if path.is_empty() {
        return false;
    }
    let mut path = path;
    loop {
        let shorter = ["/*", "/.*", "/.", "/.."].iter().find_map(|end| path.strip_suffix(end));
        match shorter.or_else(|| path.strip_suffix('/')) {
            Some(shorter) => path = shorter,
            None => break,
        }
    }
    let system = path.strip_prefix('/').is_some_and(|below| SYSTEM.contains(&below));
    path.is_empty()
        || system
        || ["~", "$HOME", "${HOME}"].contains(&path)
        || home.is_some_and(|home| Path::new(path) == home)
}

fn is_block_device(path: &str) -> bool {
    let name = path.strip_prefix("/dev/").unwrap_or_default();
    BLOCK_DEVICES.iter().any(|begin| name.starts_with(begin))
}

/// Limit on the part of a function that is examined, in bytes.
const BODY_BYTES: usize = 1024;

/// A function that runs itself twice, and goes on.
fn is_fork_bomb(text: &str) -> bool {
    let text = text.replace('\n', ";");
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    text.match_indices("(){").any(|(at, begin)| {
        let (before, behind) = text.split_at(at);
        let name = before.rsplit([';', '&', '|', '(', '{']).next().unwrap_or_default();
        let name = name.strip_prefix("function").unwrap_or(name);
        let body = behind.get(begin.len()..).unwrap_or_default();
        // One that is longer is no such thing, and looking for its end takes long for many of them.
        let body = truncate_bytes(body, BODY_BYTES);
        let body = body.split('}').next().unwrap_or_default();
        !name.is_empty() && body.contains(&format!("{name}|{name}")) && body.contains('&')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(text: &str) -> Option<&'static str> {
        denied_command(text, Some(Path::new("/home/ann")))
    }

    #[test]
    fn what_nobody_gets_back_never_runs() {
        for text in [
            "rm -rf /",
            "rm -fr /*",
            "rm -r -f --no-preserve-root /",
            "rm --recursive --force -- /",
            "rm -rf ~",
            "rm -rf ~/",
            "rm -Rf \"$HOME\"",
            "rm -rf ${HOME}/*",
            "rm -rf /home/ann",
            "rm -rf /etc",
            "rm -rf build / tmp",
            "cd /tmp && rm -rf /",
            "sudo rm -rf /",
            "sudo -u root rm -rf /",
            "env A=1 nice -n 5 rm -rf /",
            "timeout 5 rm -rf /",
            "A=1 /bin/rm -rf /",
            "bash -c 'rm -rf /'",
            "bash -lc \"sh -c 'rm -rf ~'\"",
            "eval rm -rf /",
            "echo $(rm -rf /)",
            "echo \"`rm -rf /`\"",
            "if true; then rm -rf /; fi",
            "(rm -rf /)",
            "{ rm -rf /; }",
            "r\\m -rf '/'",
            "ls | xargs rm -rf /",
            "mkfs.ext4 /dev/sda1",
            "sudo mkfs -t ext4 /dev/nvme0n1",
            "mke2fs /dev/vdb",
            "dd if=/dev/zero of=/dev/sda bs=1M",
            "cat image > /dev/sda",
            "echo x >>/dev/mmcblk0",
            "echo x >| /dev/mapper/root",
            "cat image | tee /dev/sdb",
            "cp image /dev/sdb",
            "shred /dev/sda",
            "wipefs -a /dev/sda",
            ":(){ :|:& };:",
            "bomb() { bomb | bomb & }; bomb",
            "function f() {\n f | f &\n}\nf",
            "shutdown -h now",
            "reboot",
            "sudo poweroff",
            "systemctl reboot",
            "init 0",
        ] {
            assert!(what(text).is_some(), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_it_may_be_asked_about() {
        for text in [
            "rm -rf build",
            "rm -rf ./*",
            "rm -rf /tmp/x",
            "rm -rf ~/project/target",
            "rm -rf /home/ann/x",
            "rm /",
            "rm -f ~/x",
            "echo 'rm -rf /'",
            "echo \"rm -rf /\"",
            "git commit -m 'never rm -rf / again'",
            "grep -rn shutdown src",
            "grep -r / x # rm -rf /",
            "man reboot",
            "cat <<EOF > notes\nrm -rf /\nEOF\necho done",
            "mkfs.ext4 disk.img",
            "dd if=/dev/sda of=disk.img",
            "cp /dev/sda disk.img",
            "echo x > /dev/null 2>&1",
            "cmd &> /dev/null",
            "ls -l /dev/sda",
            "wipefs /dev/sda",
            "f() { g | g; }; f",
            "shutdown --help",
            "systemctl status",
            "init 3",
            "",
            "'",
            "$(",
        ] {
            assert_eq!(what(text), None, "{text}");
        }
    }
}
