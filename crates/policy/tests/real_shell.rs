//! What bash really runs was seen: stand-ins first on an otherwise empty `PATH` record that they ran,
//! and no text whose stand-in for `rm` was given `-rf /` is safe.
//!
//! Nothing here can do harm: `PATH` has the stand-ins alone, no text names a program by its path or has a
//! redirect, and it all happens in a directory of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use deputize_policy::{CommandClass, CommandContext, classify_command};
use deputize_requirements::{program, require};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Programs that the texts run; none of them is there but as a stand-in.
const STAND_INS: [&str; 1] = ["rm"];
/// Commands of drawn texts: each runs a stand-in, or says what a later one runs.
const COMMANDS: [&str; 22] = [
    "rm -rf /",
    "x=rm",
    "x=/",
    "y='-rf /'",
    "$x -rf /",
    "rm -rf $x",
    "rm $y",
    "\"$x\" -rf /",
    "r\\m -rf '/'",
    "${x:-rm} -rf /",
    "set -- rm -rf /",
    "\"$@\"",
    "$1 $2 $3",
    "$(echo rm) -rf /",
    "rm -rf `echo /`",
    "{rm,-rf,/}",
    "$'\\x72m' -rf /",
    "eval rm -rf /",
    "eval \"$x $y\"",
    "echo 'rm -rf /'",
    "a=(rm -rf /)",
    "\"${a[@]}\"",
];
/// What runs a command, which stands in place of `@`.
const FRAMES: [&str; 16] = [
    "@",
    "(@)",
    "{ @; }",
    "if true; then @; fi",
    "if false; then @; fi",
    "for x in rm /; do @; done",
    "! @",
    "true && @",
    "false || @",
    "false && @",
    "f() { @; }; f",
    "f() { @; }",
    "case x in x) @;; esac",
    "echo \"$(@)\"",
    "while @; do break; done",
    "[[ -n x ]] && @",
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
    let framed = (0..FRAMES.len(), 0..COMMANDS.len())
        .prop_map(|(frame, command)| FRAMES[frame].replace('@', COMMANDS[command]));
    let text = (prop::collection::vec(framed, 1..4), 0..2_usize)
        .prop_map(|(parts, joint)| parts.join(["; ", "\n"][joint]));
    let cases = 400;
    let counts = std::cell::Cell::new((0, 0));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&text, |text| {
            let lines = stand_ins.run(&text);
            let class = classify_command(&text, &context).class;
            let (ran, hard) = counts.get();
            let is_hard = hardline_ran(&lines);
            counts.set((ran + u32::from(!lines.is_empty()), hard + u32::from(is_hard)));
            if is_hard {
                prop_assert_ne!(class, CommandClass::Safe, "{:?} ran {:?}", text, lines);
            }
            Ok(())
        })
        .unwrap();
    let (ran, hard) = counts.get();
    assert!(hard > cases / 10, "too few texts ran what they should: {hard}");
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
