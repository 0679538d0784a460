//! What bash really runs was seen: stand-ins first on an otherwise empty `PATH` record that they ran,
//! and each text whose stand-in for `rm` was given `/` is hardline.
//!
//! Nothing here can do harm: `PATH` has the stand-ins alone, every text that names a program or a file
//! by an absolute path is left out, and it all happens in a directory of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and prints its figures")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use deputize_policy::{CommandClass, CommandContext, classify_command};
use deputize_requirements::{program, require};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Programs that the texts run; none of them is there but as a stand-in.
const STAND_INS: [&str; 11] =
    ["rm", "sudo", "env", "nice", "timeout", "nohup", "xargs", "cat", "sh", "busybox", "setsid"];
/// The parts of drawn texts: words of a command, and what stands between them.
const PARTS: [&str; 52] = [
    "rm",
    "-rf",
    "/",
    "r",
    "m",
    " ",
    " ",
    " ",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "\n",
    "'",
    "\"",
    "\\",
    "$x",
    "x=rm",
    "x=/",
    "${x}",
    "${x:-rm}",
    "$(",
    ")",
    "`",
    "echo rm",
    "echo /",
    "{",
    "}",
    "(",
    "{rm,-rf,/}",
    "$'\\x72'",
    "eval ",
    "if true; then ",
    "; fi",
    "for x in rm /; do ",
    "; done",
    "f() { ",
    "; }",
    "f",
    "# ",
    "<<E\n",
    "\nE\n",
    "<<< ",
    "!",
    "[[ -n x ]]",
    "case x in x) ",
    ";; esac",
    "printf '%s' ",
    "set -- rm -rf /; ",
    "$@",
    "$1",
];

/// A directory in which bash finds stand-ins alone.
struct StandIns {
    dir: tempfile::TempDir,
}

impl StandIns {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        for name in STAND_INS {
            let path = dir.path().join("bin").join(name);
            // Builtins alone: nothing else is on the path.
            let text = format!(
                "#!/bin/bash\nprintf '%s ' \"{name}\" \"$@\" >> '{0}/ran'\nprintf '\\n' >> '{0}/ran'\n",
                dir.path().display()
            );
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir }
    }

    /// Runs a text, and returns the lines of the stand-ins that ran.
    fn run(&self, text: &str) -> Vec<String> {
        let ran = self.dir.path().join("ran");
        fs::write(&ran, "").unwrap();
        let script = format!(
            "ulimit -t 2 -f 64 -n 64\ncommand_not_found_handle() {{ return 127; }}\n{text}\n"
        );
        let mut bash = Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-c", &script])
            .env_clear()
            .env("PATH", self.dir.path().join("bin"))
            .env("HOME", self.dir.path().join("work"))
            .current_dir(self.dir.path().join("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        bash.wait().unwrap();
        fs::read_to_string(&ran).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// Whether a text can do nothing but run stand-ins: it has no redirect to a file, loops end, and `/`
/// stands alone.
fn is_tame(text: &str) -> bool {
    let plain = text.replace("<<E\n", "").replace("<<< ", "").replace("&&", "");
    let calls_itself = text.contains("f() {") && text.matches('f').count() > 3;
    !plain.contains(['>', '<'])
        && !text.contains("/bin")
        && !text.contains("//")
        && !plain.contains('&')
        && !calls_itself
}

fn hardline_ran(lines: &[String]) -> bool {
    lines.iter().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first() == Some(&"rm") && words.contains(&"-rf") && words.contains(&"/")
    })
}

#[test]
fn what_a_real_shell_runs_was_seen() {
    require!(program("bash"));
    let stand_ins = StandIns::new();
    let context = CommandContext { home: Some(PathBuf::from("/home/ann")), directory: None };
    let parts = prop::collection::vec(prop::sample::select(&PARTS[..]), 1..12);
    let text =
        prop_oneof![parts.clone().prop_map(|it| it.concat()), parts.prop_map(|it| it.join(" ")),];
    let cases = 400;
    let (mut ran, mut hard) = (0, 0);
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let counted = std::cell::RefCell::new((&mut ran, &mut hard));
    runner
        .run(&text, |text| {
            if !is_tame(&text) {
                return Ok(());
            }
            let lines = stand_ins.run(&text);
            let verdict = classify_command(&text, &context);
            let mut counted = counted.borrow_mut();
            *counted.0 += usize::from(!lines.is_empty());
            if hardline_ran(&lines) {
                *counted.1 += 1;
                prop_assert_ne!(verdict.class, CommandClass::Safe, "{:?} ran {:?}", text, lines);
            }
            if lines.iter().any(|it| it.starts_with("rm -rf")) {
                prop_assert_ne!(verdict.class, CommandClass::Safe, "{:?} ran {:?}", text, lines);
            }
            Ok(())
        })
        .unwrap();
    println!("{cases} texts, {ran} ran a stand-in, {hard} of them `rm -rf /`");
}

#[test]
fn the_stand_ins_record_what_ran() {
    require!(program("bash"));
    let stand_ins = StandIns::new();
    assert_eq!(stand_ins.run("x=rm; $x -rf /"), ["rm -rf / "]);
    assert!(hardline_ran(&stand_ins.run("echo; {rm,-rf,/}")));
    assert!(!hardline_ran(&stand_ins.run("echo 'rm -rf /'")));
}
