//! What lasts from one script to the next.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use deputize_process::{
    Exit, Owner, Script, Shell, ShellError, ShellState, StateChange, Supervisor, UnchangedReason,
};
use tokio_util::sync::CancellationToken;

use crate::process_table::{Marker, env, supervisor};

struct ShellFixture {
    _supervisor: Supervisor,
    owner: Owner,
    shell: Shell,
    state: ShellState,
}

struct ShellResult {
    exit: Exit,
    text: String,
    change: StateChange,
}

impl ShellFixture {
    fn new(shell: Shell) -> Self {
        let supervisor = supervisor();
        let owner = supervisor.owner();
        let state = ShellState { cwd: "/".into(), env: env() };
        Self { _supervisor: supervisor, owner, shell, state }
    }

    fn bash() -> Self {
        Self::new(Shell::find(env().get(OsStr::new("PATH")).map(|path| path.as_os_str())).unwrap())
    }

    /// A shell that is found where there is no bash.
    fn sh(dir: &Path) -> Self {
        symlink("/bin/sh", dir.join("sh")).unwrap();
        Self::new(Shell::find(Some(dir.as_os_str())).unwrap())
    }

    async fn run(&mut self, script: &str) -> ShellResult {
        self.try_run(Script::new(script)).await.unwrap()
    }

    async fn try_run(&mut self, script: Script) -> Result<ShellResult, ShellError> {
        let cancel = CancellationToken::new();
        let ran = self.shell.run(&self.owner, &mut self.state, script, &cancel).await?;
        let text = String::from_utf8_lossy(&ran.finished.output.head).into_owned();
        Ok(ShellResult { exit: ran.finished.exit, text, change: ran.state })
    }

    fn var(&self, name: &str) -> Option<&str> {
        self.state.env.get(OsStr::new(name))?.to_str()
    }
}

fn taken() -> StateChange {
    StateChange::Updated { dropped: Vec::new() }
}

/// Script, exit code, what it prints, and the value of `A` for the next one. Each starts with
/// `A=old` exported; `-` stands for unset.
type ScriptRow = (&'static str, i32, &'static str, &'static str);

const SCRIPTS: &[ScriptRow] = &[
    ("", 0, "", "old"),
    ("export A=new", 0, "", "new"),
    ("A=new", 0, "", "new"),
    ("B=1; export A=x$B; false", 1, "", "x1"),
    ("unset A", 0, "", "-"),
    ("export A=", 0, "", ""),
    ("export A='1\n2\n'", 0, "", "1\n2\n"),
    ("export A='a=b=c'", 0, "", "a=b=c"),
    ("export A=new; exit 3", 3, "", "new"),
    ("export A=new; exit 3; echo never", 3, "", "new"),
    ("set -e; export A=new; false; echo never", 1, "", "new"),
    ("set -eu; export A=new; : $UNSET_VARIABLE", 1, "*", "new"),
    ("set -euo pipefail 2>/dev/null || :; export A=new; true", 0, "", "new"),
    ("f() { export A=$1; return 4; }; f new", 4, "", "new"),
    ("printf() { echo fake; }; pwd() { echo fake; }; export A=new", 0, "", "new"),
    ("PATH=/nowhere; export A=new", 0, "", "new"),
    ("IFS=0123456789; export A=new; exit 12", 12, "", "new"),
    ("( export A=new; exit 9 )", 9, "", "old"),
    ("( export A=new; exit 9 ) & wait $!", 9, "", "old"),
    ("export A=new; exec 3>/dev/null 4>&1; echo x >&4", 0, "x\n", "new"),
    ("export A=new; cat", 0, "", "new"),
    ("export A=new; trap 'echo bye' EXIT", 0, "bye\n", "new"),
    ("export A=new; trap 'echo bye' EXIT; false", 1, "bye\n", "new"),
    ("export A=new; ( sleep 30 & ) >/dev/null 2>&1", 0, "", "new"),
    ("export A=new # comment", 0, "", "new"),
    ("cat <<X\nhere\nX\nexport A=new", 0, "here\n", "new"),
    ("echo $#", 0, "0\n", "old"),
    ("echo \"[$*]\"; set -- a b; export A=$2", 0, "[]\n", "b"),
    ("set -a; A=new; C=1", 0, "", "new"),
    ("set -f; export A='*'", 0, "", "*"),
];

async fn check_scripts(terminal: &mut ShellFixture, rows: impl Iterator<Item = &ScriptRow>) {
    let start = terminal.state.clone();
    for (script, code, text, value) in rows {
        terminal.state = start.clone();
        terminal.state.env.insert("A".into(), "old".into());
        let seen = terminal.run(script).await;
        assert_eq!(seen.exit, Exit::Code(*code), "{script}: {}", seen.text);
        assert_eq!(seen.change, taken(), "{script}");
        assert!(*text == "*" || seen.text == *text, "{script}: {}", seen.text);
        assert_eq!(terminal.var("A").unwrap_or("-"), *value, "{script}");
    }
}

#[tokio::test]
async fn exported_variables_survive_every_kind_of_script() {
    check_scripts(&mut ShellFixture::bash(), SCRIPTS.iter()).await;
}

#[tokio::test]
async fn they_survive_in_a_plain_shell_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = ShellFixture::sh(dir.path());
    // Other exit codes, other options, other words in messages.
    let different = ["UNSET_VARIABLE", "pipefail"];
    let common = |row: &&ScriptRow| different.iter().all(|word| !row.0.contains(word));
    check_scripts(&mut terminal, SCRIPTS.iter().filter(common)).await;
}

#[tokio::test]
async fn bash_may_do_what_only_bash_can() {
    let mut terminal = ShellFixture::bash();
    for (script, code, text) in [
        ("set -x; true", 0, "++ true\n"),
        ("trap 'echo err' ERR; false; :", 0, "err\n"),
        ("[[ a == a ]] && export A=(1 2)", 0, ""),
        ("if", 2, "*"),
        ("echo one\nnosuchcommand", 127, "one\nbash: line 2: nosuchcommand: command not found\n"),
        ("declare -r A=1; readonly B=2; export A B", 0, ""),
        ("echo $0", 0, "bash\n"),
        ("echo a | { read x; echo $x; }; kill -0 $$", 0, "a\n"),
    ] {
        let seen = terminal.run(script).await;
        assert_eq!(seen.exit, Exit::Code(code), "{script}: {}", seen.text);
        assert!(text == "*" || seen.text == text, "{script}: {:?}", seen.text);
        assert_eq!(seen.change, taken(), "{script}");
    }
}

#[tokio::test]
async fn the_directory_survives() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("a b\n");
    fs::create_dir(&odd).unwrap();
    symlink(&odd, dir.path().join("link")).unwrap();
    let mut terminal = ShellFixture::bash();
    terminal.state.cwd = dir.path().to_owned();

    terminal.run("cd 'a b\n'").await;
    assert_eq!(terminal.state.cwd, odd);
    terminal.run("cd - >/dev/null; cd link; exit 1").await;
    assert_eq!(terminal.state.cwd, dir.path().join("link"));
    // The way one came, not the place where the link leads.
    assert_eq!(terminal.run("cd ..; pwd").await.text, format!("{}\n", dir.path().display()));
    terminal.run("( cd / )").await;
    assert_eq!(terminal.state.cwd, dir.path());
    terminal.run("PWD=/etc").await;
    assert_eq!(terminal.state.cwd, dir.path());
}

#[tokio::test]
async fn our_own_variables_do_not_enter_the_state() {
    let mut terminal = ShellFixture::bash();
    let start = terminal.state.clone();
    for script in ["true", "set -a; B=1; unset B", "export __deputize=1; unset __deputize"] {
        terminal.run(script).await;
        assert_eq!(terminal.state, start, "{script}");
    }
}

#[tokio::test]
async fn hook_variables_are_not_handed_on_and_named() {
    let mut terminal = ShellFixture::bash();
    let seen = terminal.run("export BASH_ENV=/x LD_PRELOAD= A=1; f() { :; }; export -f f").await;
    let dropped = ["BASH_ENV", "BASH_FUNC_f%%", "LD_PRELOAD"].map(Into::into).to_vec();
    assert_eq!(seen.change, StateChange::Updated { dropped });
    assert_eq!(terminal.var("A"), Some("1"));
    assert_eq!(terminal.run("echo ${BASH_ENV-none}; f").await.exit, Exit::Code(127));

    // Nor does one that was put in by hand.
    terminal.state.env.insert("LD_PRELOAD".into(), "x".into());
    assert_eq!(terminal.run("echo ${LD_PRELOAD-none}").await.text, "none\n");
}

#[tokio::test]
async fn without_a_report_the_state_stays_and_it_is_said() {
    let mut terminal = ShellFixture::bash();
    let start = terminal.state.clone();
    for script in [
        "export A=1; exec true",
        "export A=1; trap 'echo bye' EXIT; exit 3",
        "export A=1; kill -9 $$",
        "export A=1; exec 11>&-",
    ] {
        let seen = terminal.run(script).await;
        assert_eq!(seen.change, StateChange::Unchanged(UnchangedReason::NotReported), "{script}");
        assert_eq!(terminal.state, start, "{script}");
    }
    let seen = terminal.run("export A=$(head -c 100000 /dev/zero | tr '\\0' x)").await;
    assert_eq!(seen.change, taken());
    terminal.state = start.clone();
    let seen = terminal
        .run("x=$(head -c 100000 /dev/zero | tr '\\0' x); for i in $(seq 15); do export A$i=$x; done")
        .await;
    assert_eq!(
        seen.change,
        StateChange::Unchanged(UnchangedReason::TooLong { limit: 1024 * 1024 })
    );
    assert_eq!(terminal.state, start);
}

#[tokio::test]
async fn an_interrupted_script_leaves_the_state() {
    let mut terminal = ShellFixture::bash();
    let marker = Marker::new();
    let start = terminal.state.clone();
    let mut script = Script::new(marker.fill("cd /usr; export A=1; {S}"));
    script.time_limit = Duration::from_millis(300);
    let seen = terminal.try_run(script).await.unwrap();
    assert_eq!(seen.exit, Exit::TimedOut);
    assert_eq!(seen.change, StateChange::Unchanged(UnchangedReason::Interrupted));
    assert_eq!(terminal.state, start);
    assert_eq!(marker.alive(), [0; 0]);
}

#[tokio::test]
async fn a_directory_that_vanished_is_said_and_nothing_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = ShellFixture::bash();
    terminal.state.cwd = dir.path().to_owned();
    let seen = terminal.run("mkdir a; cd a; rmdir ../a").await;
    assert_eq!(seen.change, taken());
    let error = terminal.try_run(Script::new("touch ran")).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "nothing was run: working directory `{0}/a` no longer exists; the next command runs in `{0}`",
            dir.path().display()
        )
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(terminal.run("pwd").await.text, format!("{}\n", dir.path().display()));
}

#[tokio::test]
async fn background_processes_see_no_input_and_hold_no_result() {
    let mut terminal = ShellFixture::bash();
    let marker = Marker::new();
    // It inherits the report pipe; the report does not wait for its end.
    let seen = terminal.run(&marker.fill("( {S} & ) >/dev/null 2>&1; export A=1")).await;
    assert_eq!((seen.exit, terminal.var("A")), (Exit::Code(0), Some("1")));
    assert_eq!(terminal.run("read x; echo $?").await.text, "1\n");
    assert!(terminal.owner.end().await.is_complete());
    assert_eq!(marker.alive(), [0; 0]);
}

#[tokio::test]
async fn two_shells_share_nothing() {
    let mut one = ShellFixture::bash();
    let mut other = ShellFixture::bash();
    one.run("export A=1; cd /usr").await;
    other.run("export A=2").await;
    assert_eq!(one.run("echo $A $PWD").await.text, "1 /usr\n");
    assert_eq!(other.run("echo $A $PWD").await.text, "2 /\n");
}
