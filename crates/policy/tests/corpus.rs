//! Commands of three classes, in `tests/fixtures/commands` of the repository: one a row, `⏎` for the
//! end of a line. The rows of `*-held-out.txt` were written before their first run, and the rules were
//! not made with a look at them.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its figures"
)]

use std::path::{Path, PathBuf};

use deputize_policy::{CommandClass, CommandContext, classify_command};

/// The rows of a corpus.
fn rows(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/commands");
    let text = std::fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
    text.lines().map(|it| it.replace('⏎', "\n")).collect()
}

fn class(row: &str) -> (CommandClass, &'static str) {
    let context = CommandContext { home: Some(PathBuf::from("/home/ann")), directory: None };
    let verdict = classify_command(row, &context);
    (verdict.class, verdict.rule)
}

/// Prints how many rows are right, and those that are not; returns the part that is, in percent.
fn score(name: &str, is_right: impl Fn(CommandClass) -> bool) -> f64 {
    let rows = rows(name);
    let mut right = 0_u32;
    for row in &rows {
        let (class, rule) = class(row);
        if is_right(class) {
            right += 1;
        } else {
            println!("{name}: {class} by {rule}: {row}");
        }
    }
    let percent = f64::from(right) * 100.0 / rows.len() as f64;
    println!("{name}: {right} of {} ({percent:.1} %)", rows.len());
    percent
}

#[test]
fn every_hardline_command_is_stopped() {
    for name in ["hardline", "hardline-held-out"] {
        assert!(score(name, |it| it == CommandClass::Hardline) >= 100.0, "{name}");
    }
}

#[test]
fn dangerous_commands_are_asked_about() {
    for name in ["dangerous", "dangerous-held-out"] {
        assert!(score(name, |it| it == CommandClass::Dangerous) >= 97.0, "{name}");
        assert!(score(name, |it| it != CommandClass::Hardline) >= 100.0, "{name}");
    }
}

#[test]
fn harmless_commands_run_without_a_question_and_none_is_blocked() {
    for name in ["harmless", "harmless-held-out"] {
        assert!(score(name, |it| it == CommandClass::Safe) >= 97.0, "{name}");
        assert!(score(name, |it| it != CommandClass::Hardline) >= 100.0, "{name}");
    }
}

#[test]
fn what_only_looks_like_it_is_not_hardline() {
    for text in [
        "rm -rf build",
        "rm -rf ./*",
        "rm -rf /tmp/x",
        "rm -rf ~/project/target",
        "rm -rf /home/ann/x",
        "rm /",
        "echo 'rm -rf /'",
        "git commit -m 'never rm -rf / again'",
        "grep -r / x # rm -rf /",
        "man reboot",
        "cat <<EOF > notes\nrm -rf /\nEOF\necho done",
        "mkfs.ext4 disk.img",
        "dd if=/dev/sda of=disk.img",
        "cp /dev/sda disk.img",
        "echo x > /dev/null 2>&1",
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
        assert_ne!(class(text).0, CommandClass::Hardline, "{text}");
    }
}
