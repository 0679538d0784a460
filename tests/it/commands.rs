//! Whole commands: what each prints where, and how it ends.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use deputize_requirements::{program, require};
use deputize_testkit::{MockAnswer, MockServer};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};

use crate::program::{Lab, ProgramEnd, RunningProgram, hang, model, soon};

async fn ended(lab: &Lab, args: &[&str]) -> ProgramEnd {
    RunningProgram::start(lab.deputize(args)).end().await
}

/// Runs one command after the other and puts down how each ended.
async fn transcript(lab: &Lab, rows: &[&[&str]]) -> String {
    let mut actual = String::new();
    for args in rows {
        let ProgramEnd { code, out, err, .. } = ended(lab, args).await;
        let code = code.unwrap();
        let streams: String = [("out", out), ("err", err)]
            .iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| format!("--- {name}\n{text}"))
            .collect();
        actual += &format!("$ deputize {}\n{streams}--- exit code {code}\n\n", args.join(" "));
    }
    actual
}

/// Holds a snapshot without what differs between runs and machines.
#[track_caller]
fn holds(lab: &Lab, name: &str, actual: &str) {
    let actual = actual.replace(&*lab.path("").to_string_lossy(), "LAB/");
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{8}-\d{6}-[a-z]{6}", "SESSION");
    settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d", "WHEN");
    settings.add_filter(r"\d+\.\d s", "N s");
    // As wide as the path of the temporary directory.
    settings.add_filter(r"DIRECTORY +GOAL", "DIRECTORY  GOAL");
    // What holds processes, and how many files may be open, is the machine's to say.
    settings.add_filter(r"\w+ +(processes|open files)  .*", "HELD  $1");
    settings.add_filter(r"([< /a-z_])[a-z2-7]{12}>", "${1}MARK>");
    settings.bind(|| insta::assert_snapshot!(name, actual));
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A session that the offline model made.
async fn with_session(lab: &Lab) -> String {
    write(&lab.work("notes.txt"), "one\ntwo\n");
    ended(lab, &["run", "-q", "-m", "offline", "List the files"]).await.with_code(0);
    lab.session()
}

#[tokio::test]
async fn tools_and_toolsets() {
    // Without it, one of the tools cannot be used.
    require!(program("python3"));
    let lab = Lab::new();
    let actual = transcript(
        &lab,
        &[
            &["toolsets", "list"],
            &["toolsets", "list", "--set", "toolsets=[file, browser]"],
            &["tools", "list"],
            &["tools", "show", "list_dir"],
            &["tools", "show", "lst_dir"],
            &["prompt", "-m", "offline", "-t", "read_file"],
            &["prompt", "-m", "offline", "-t", ""],
            &["tools", "show", "\u{1b}[2J"],
        ],
    )
    .await;
    holds(&lab, "tools", &actual);

    let listed = ended(&lab, &["tools", "list", "--json"]).await.with_code(0);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    for tool in listed.as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let shown = ended(&lab, &["tools", "show", name, "--json"]).await.with_code(0);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!(shown["name"], tool["name"]);
        assert_eq!(shown["parameters"]["type"], "object", "{name}");
    }
    let sets = ended(&lab, &["toolsets", "list", "--json"]).await.with_code(0);
    let sets: Value = serde_json::from_str(&sets.out).unwrap();
    let sets = sets.as_array().unwrap();
    assert!(sets.iter().all(|set| set["enabled"] == (set["toolset"] != "browser")), "{sets:?}");
    let sent = ended(&lab, &["prompt", "--tools", "-m", "offline"]).await.with_code(0);
    assert!(!sent.out.contains("browser"), "{}", sent.out);
}

#[tokio::test]
async fn toolsets_are_chosen_in_the_persons_file() {
    require!(program("python3"));
    let lab = Lab::new();
    let file = lab.path("home/config.yaml");
    write(&file, "# mine\nmodel: offline   # no key\n");
    let actual = transcript(
        &lab,
        &[
            &["tools", "disable", "delegation"],
            &["tools", "disable", "delegation"],
            &["toolsets", "list"],
            &["tools", "list"],
            &["tools", "disable", "file"],
            &["tools", "disable", "clarify"],
            &["tools", "disable", "memory"],
            &["tools", "disable", "skills"],
            &["tools", "disable", "todo"],
            &["tools", "disable", "web"],
            &["tools", "disable", "code_execution"],
            &["tools", "disable", "cronjob"],
            &["tools", "disable", "messaging"],
            &["tools", "disable", "session_search"],
            &["tools", "disable", "terminal"],
            &["tools", "enable", "delegation", "--set", "toolsets=[file]"],
            &["tools", "enable", "delegation"],
            &["tools", "enable", "delegate_task"],
            &["tools", "enable", "browser"],
            &["tools", "disable", "termnal"],
        ],
    )
    .await;
    let now = fs::read_to_string(&file).unwrap();
    holds(&lab, "tools_chosen", &format!("{actual}=== the file\n{now}"));

    // Nobody hands work on who has no tool for it.
    let prompt = ["prompt", "--tools", "-m", "offline"];
    let with = ended(&lab, &prompt).await.with_code(0).out;
    assert!(with.contains("delegate_task"), "{with}");
    ended(&lab, &["tools", "disable", "delegation"]).await.with_code(0);
    let without = ended(&lab, &prompt).await.with_code(0).out;
    assert!(!without.contains("delegate_task"), "{without}");

    // What is broken, or written otherwise, is left as it is.
    for broken in ["model: [offline\ntoolsets: [file]\n", "toolsets: [file,\n  terminal]\n"] {
        fs::write(&file, broken).unwrap();
        let refused = ended(&lab, &["tools", "disable", "file"]).await;
        assert_ne!(refused.code, Some(0), "{}", refused.err);
        assert_eq!(fs::read_to_string(&file).unwrap(), broken);
    }
}

#[tokio::test]
async fn help_is_also_a_word() {
    let lab = Lab::new();
    for (words, option) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "run"], &["run", "--help"]),
        (&["help", "cron", "add"], &["cron", "add", "--help"]),
    ] {
        let [word, option] = [ended(&lab, words).await, ended(&lab, option).await];
        assert_eq!(word.with_code(0).out, option.with_code(0).out, "{words:?}");
    }
    ended(&lab, &["help", "nope"]).await.with_code(2);
}

#[tokio::test]
async fn a_composite_toolset_is_disabled_with_those_that_it_is_made_of() {
    let lab = Lab::new();
    let file = lab.path("home/config.yaml");
    let change = async |before: &str, args: &[&str]| {
        write(&file, before);
        let ProgramEnd { code, err, .. } = ended(&lab, &[&["tools"], args].concat()).await;
        (code.unwrap(), err, fs::read_to_string(&file).unwrap())
    };
    let model = "model: offline\n";
    let (code, err, now) = change(model, &["disable", "coding"]).await;
    let left = "[clarify, code_execution, cronjob, memory, messaging, session_search, web]";
    assert_eq!((code, now.clone()), (0, format!("{model}toolsets: {left}\n")), "{err}");
    let back = "note: no longer there: delegation, file, skills, terminal, todo; `deputize tools enable \
                coding` gives them back\n";
    assert!(err.contains(back), "{err}");
    let (code, err, again) = change(&now, &["disable", "coding"]).await;
    assert_eq!((code, again), (0, now), "{err}");
    assert!(err.starts_with("disabled already: coding; "), "{err}");
    let list = "toolsets:\n  - file # mine\n  - web\n  - terminal\n";
    let (_, err, now) = change(list, &["disable", "coding"]).await;
    assert_eq!(now, "toolsets:\n  - web\n", "{err}");

    // What has other tools too stays, and the error names it.
    for (before, name, holder, whole) in
        [(model, "file_read", "file", "file"), (model, "research", "file", "delegation, web, file")]
    {
        let (code, err, now) = change(before, &["disable", name]).await;
        assert_eq!((code, now.as_str()), (2, before), "{err}");
        let said = format!(
            "error: the toolset `{holder}` has tools of `{name}`, and others too\nhint: these can be \
             disabled: {whole}; a toolset of single tools is made in `composite_toolsets`\n"
        );
        assert_eq!(err, said);
    }
    // What is made of others gives way to the others.
    let (code, err, now) = change("toolsets: [coding, web]\n", &["disable", "file"]).await;
    let left = "toolsets: [web, delegation, skills, terminal, todo]\n";
    assert_eq!((code, now.as_str()), (0, left), "{err}");
    let (code, err, now) = change("toolsets:\n  - coding\n", &["disable", "delegation"]).await;
    let left = "toolsets:\n  - file\n  - skills\n  - terminal\n  - todo\n";
    assert_eq!((code, now.as_str()), (0, left), "{err}");
    let (_, err, now) = change("toolsets: [coding]\n", &["enable", "delegation"]).await;
    assert_eq!(now, "toolsets: [coding]\n", "{err}");
    assert!(err.starts_with("enabled already: delegation; "), "{err}");
    let all = "[clarify, code_execution, cronjob, memory, messaging, session_search, web]";
    let (_, err, now) = change(&format!("{model}toolsets: {all}\n"), &["enable", "coding"]).await;
    assert_eq!(now, model, "{err}");
    let (code, err, now) =
        change("toolsets: [coding, delegation]\n", &["disable", "delegation"]).await;
    assert_eq!((code, now.as_str()), (0, "toolsets: [coding]\n"), "{err}");
    let note = "note: agents still have tools of delegation, by these: coding\n";
    assert!(err.ends_with(note), "{err}");
    let (code, err, now) = change(model, &["enable", "file_read"]).await;
    assert_eq!((code, now.as_str()), (0, model), "{err}");
    let (_, err, now) = change("toolsets: [web]\n", &["enable", "file_read"]).await;
    assert_eq!(now, "toolsets: [web, file_read]\n", "{err}");
}

#[tokio::test]
async fn several_toolsets_are_disabled_at_once_and_one_that_is_off_is_so_already() {
    let lab = Lab::new();
    let file = lab.path("home/config.yaml");
    write(&file, "toolsets: [file, web, memory]\n");
    // What a killed process left of its change goes with the next one.
    let left = lab.path("home/.config.yaml.new");
    fs::write(&left, "toolsets: [").unwrap();
    let wrong = ended(&lab, &["tools", "disable", "web", "memry"]).await.with_code(2);
    assert_eq!(
        wrong.err,
        "error: there is no toolset `memry`\nhint: the nearest name is `memory`\n"
    );
    ended(&lab, &["tools", "disable", "web", "memory"]).await.with_code(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "toolsets: [file]\n");
    assert!(!left.exists());
    let off = ended(&lab, &["tools", "disable", "browser"]).await.with_code(0);
    let why = "it is off until `browser.enabled` is set";
    assert_eq!(off.err, format!("disabled already: browser: {why}\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "toolsets: [file]\n");
}

#[tokio::test]
async fn a_tool_that_a_toolset_names_and_that_is_not_there_is_found_by_the_check() {
    let lab = Lab::new();
    let file = lab.path("home/config.yaml");
    let sets = "composite_toolsets:\n  look:\n    tools: [list_dir, reed_file, mcp__far__x]\n";
    write(&file, sets);
    let checked = ended(&lab, &["config", "check"]).await.with_code(2);
    let place = format!("{}:3:5: `composite_toolsets.look.tools`", file.display());
    assert_eq!(
        checked.err,
        format!(
            "warning: {place}: there is no server for the tool `mcp__far__x`: add it to \
             `mcp_servers`\nerror: {place}: there is no tool `reed_file`; did you mean \
             `read_file`?\n"
        )
    );
    write(&file, &sets.replace("reed_file", "read_file"));
    ended(&lab, &["config", "check"]).await.with_code(0);
}

#[tokio::test]
async fn a_good_configuration_and_a_broken_one() {
    let lab = Lab::new();
    write(&lab.path("home/config.yaml"), "model: offline\ndelegation:\n  max_spawn_depth: 2\n");
    let broken = "model: opnai/x\nmax_iteration: 5\ntoolsets: [nope]\ndelegation:\n  \
                  default_toolsets: [fil, web]\n  toolset_ceiling: [nope3]\nproviders:\n  x:\n    \
                  base_url: http://127.0.0.1:1/v1\n    headers: {\"bad header\": \"x\"}\n";
    write(&lab.work("broken.yaml"), broken);
    let actual = transcript(
        &lab,
        &[
            &["config", "path"],
            &["config", "check"],
            &["config", "show", "--set", "max_iterations=7"],
            &["config", "path", "--config", "broken.yaml"],
            &["config", "check", "--config", "broken.yaml"],
            &["config", "show", "--config", "broken.yaml"],
            &["run", "--config", "broken.yaml", "Hello"],
            &["config", "check", "--config", "missing.yaml"],
            &["config", "check", "--set", "delegation.max_concurrent_children=3000"],
            // Told once, also where the parts are put together.
            &["tools", "show", "none", "--set", "delegation.max_concurrent_children=3000"],
        ],
    )
    .await;
    holds(&lab, "config", &actual);

    let schema = ended(&lab, &["config", "schema"]).await.with_code(0);
    let schema: Value = serde_json::from_str(&schema.out).unwrap();
    assert!(schema["properties"]["delegation"]["properties"]["max_spawn_depth"].is_object());
    let shown = ended(&lab, &["config", "show", "--json"]).await.with_code(0);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["config"]["delegation"]["max_spawn_depth"], 2);
}

#[tokio::test]
async fn sessions_are_listed_shown_exported_and_deleted() {
    let lab = Lab::new();
    let none = ended(&lab, &["sessions", "list"]).await.with_code(0);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "there are no sessions yet\n"));
    let session = with_session(&lab).await;

    let listed = ended(&lab, &["sessions", "list", "--json"]).await.with_code(0);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed[0]["session"], session.as_str());
    assert_eq!(listed[0]["status"], "completed");
    let exported = ended(&lab, &["sessions", "export", &session]).await.with_code(0);
    assert_eq!(exported.events("session.end").len(), 1, "{exported:#?}");

    let actual = transcript(
        &lab,
        &[
            &["sessions", "list"],
            &["sessions", "show", &session],
            &["sessions", "show", &session, "--agent", "1.0/0"],
            &["sessions", "show", "nope"],
            &["sessions", "export", &session, "--format", "markdown"],
            &["sessions", "rm", &session, "nope"],
            &["sessions", "rm", &session, &session],
            &["sessions", "rm", &session],
            &["sessions", "list"],
        ],
    )
    .await;
    holds(&lab, "sessions", &actual);
}

#[tokio::test]
async fn a_session_in_use_is_not_deleted() {
    let lab = Lab::new();
    let server = model(|_| hang()).await;
    let running = lab.run(&server, &["--output", "events", "Hello"]);
    running.event("model.request", |_| true).await;
    let session = lab.session();
    let refused = ended(&lab, &["sessions", "rm", &session]).await.with_code(1);
    assert!(refused.err.contains("is in use by"), "{}", refused.err);
    let hint = "`deputize agents stop SESSION --tree` ends it";
    assert!(refused.err.contains(hint), "{}", refused.err);
    assert!(lab.session_file().is_file());
    running.signal(Signal::INT);
    running.end().await.with_code(130);
    ended(&lab, &["sessions", "rm", &session]).await.with_code(0);
}

#[tokio::test]
async fn the_doctor_says_what_works_and_what_does_not() {
    let lab = Lab::new();
    for (program, mode) in [("bash", 0o755), ("git", 0o644)] {
        let path = lab.path("bin").join(program);
        write(&path, "");
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let server = MockServer::start([]).await.unwrap();
    let url = server.base_url();
    let path = lab.path("bin");
    let mut actual = String::new();
    for args in [
        &["doctor"][..],
        &["doctor", "-m", "offline"],
        &["doctor", "-m", "openai/mock", "--base-url", &url],
        &["doctor", "-m", "anthropic/large"],
        &["doctor", "-m", "nowhere/large"],
        &["doctor", "--set", "toolsets=[nope]"],
        &["doctor", "-m", "offline", "--set", "delegation.max_spawn_depth=7"],
    ] {
        let mut command = lab.deputize(args);
        command.env("PATH", &path);
        let ProgramEnd { code, out, err, .. } = RunningProgram::start(command).end().await;
        assert_eq!(err, "");
        actual += &format!("$ {}\n{out}--- exit code {}\n\n", args.join(" "), code.unwrap());
    }
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    holds(&lab, "doctor", &actual.replace(address, "HOST:PORT"));
    let [asked] = &server.requests()[..] else { panic!("one request is sent") };
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/v1/models"));
    assert_eq!(asked.header("authorization"), None);

    let missing = ["doctor", "-m", "openai/mock", "--json"];
    let missing = ended(&lab, &missing).await.with_code(1);
    let rows: Value = serde_json::from_str(&missing.out).unwrap();
    let key = rows.as_array().unwrap().iter().find(|row| row["what"] == "key").unwrap();
    assert_eq!(key, &json!({"what": "key", "health": "fail", "found": "set OPENAI_API_KEY"}));
}

#[tokio::test]
async fn the_doctor_names_broken_jobs_and_memory_that_is_too_long() {
    let lab = Lab::new();
    write(&lab.path("home/cron/jobs/a.json"), "{");
    write(&lab.path("home/memory/user.md"), &format!("- {}\n", "x".repeat(6_000)));
    write(&lab.path("home/memory/work.md"), "- Written in Rust.\n");
    let doctor = ended(&lab, &["doctor", "-m", "offline", "--json"]).await.with_code(0);
    let rows: Value = serde_json::from_str(&doctor.out).unwrap();
    let describe = |what: &str| -> String {
        let rows = rows.as_array().unwrap().iter().filter(|row| row["what"] == what);
        let rows = rows.map(|row| format!("{} {}\n", row["health"], row["found"]));
        rows.collect::<String>().replace(&lab.path("home").display().to_string(), "HOME")
    };
    insta::assert_snapshot!(describe("jobs"), @r#""warn" "`HOME/cron/jobs/a.json` is not a valid job: EOF while parsing an object at line 1 column 1; `deputize cron edit a` corrects it, and `deputize cron rm a` deletes it""#);
    insta::assert_snapshot!(describe("memory files"), @r#""warn" "HOME/memory/user.md: prompts have no room for 1 of its entries: 6000 bytes are the most; shorten it with `deputize memory edit user`""#);
}

#[tokio::test]
async fn completions_are_scripts() {
    let lab = Lab::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = ended(&lab, &["completions", shell]).await.with_code(0);
        assert_eq!(script.err, "");
        assert!(script.out.contains("toolsets") && script.out.contains("resume"), "{shell}");
        fs::write(lab.work(shell), script.out).unwrap();
    }
    let mut bash = lab.command("bash");
    let parsed = RunningProgram::start({
        bash.args(["-n", "bash"]);
        bash
    });
    assert_eq!(parsed.end().await.with_code(0).err, "");
    ended(&lab, &["completions", "nope"]).await.with_code(2);
}

#[tokio::test]
async fn help_is_no_error_and_unknown_words_are() {
    let lab = Lab::new();
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["prompt", "-h"],
        &["sessions", "--help"],
        &["--version"],
    ] {
        let help = ended(&lab, args).await.with_code(0);
        assert_eq!(help.err, "", "{args:?}");
        assert!(help.out.starts_with("deputize ") || help.out.contains("Usage: deputize"));
        assert!(!help.out.contains('\u{1b}'), "{args:?}");
    }
    for args in [&["rnu"][..], &["run", "--modle", "x"], &["config"], &[]] {
        let wrong = ended(&lab, args).await.with_code(2);
        assert_eq!(wrong.out, "", "{args:?}");
        assert!(wrong.err.contains("Usage: deputize"), "{args:?}");
    }
}

/// What the program writes to a terminal that is its output and its errors.
async fn on_screen(lab: &Lab, args: &[&str], env: (&str, &str)) -> String {
    let mut screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map(File::from).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
    let no_tty = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
    let end = OpenOptions::new().read(true).write(true).custom_flags(no_tty).open(name).unwrap();
    let mut command = lab.deputize(args);
    command.env("TERM", "xterm-256color").env(env.0, env.1);
    command.stdout(end.try_clone().unwrap()).stderr(end);
    let mut child = command.spawn().unwrap();
    // The terminal is at its end when nobody has it open any more.
    drop(command);
    let read = tokio::task::spawn_blocking(move || {
        let mut text = Vec::new();
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            text.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8(text).unwrap()
    });
    let text = soon("the end of what is on the screen", read).await.unwrap();
    soon("the program's end", child.wait()).await.unwrap();
    text
}

/// Whether a text sets colours or the like.
fn has_colour(text: &str) -> bool {
    text.split("\u{1b}[").skip(1).any(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
    })
}

#[tokio::test]
async fn colours_and_cursor_movements_can_be_done_without() {
    let lab = Lab::new();
    let rows: [&[&str]; 4] = [
        &["run", "-v", "-m", "offline", "List the files"],
        &["tools", "list"],
        &["--help"],
        &["x"],
    ];
    let mut coloured = 0;
    for args in rows {
        coloured += usize::from(has_colour(&on_screen(&lab, args, ("LANG", "C.UTF-8")).await));
        let plain = on_screen(&lab, args, ("NO_COLOR", "1")).await;
        assert!(!plain.is_empty() && !has_colour(&plain), "{args:?}: {plain:?}");
        let dumb = on_screen(&lab, args, ("TERM", "dumb")).await;
        assert!(!dumb.is_empty() && !dumb.contains('\u{1b}'), "{args:?}: {dumb:?}");
        let ProgramEnd { out, err, .. } = ended(&lab, args).await;
        assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{args:?}: no terminal");
    }
    assert!(coloured >= 2, "the terminal of this test shows colours, or it shows nothing");
}

#[tokio::test]
async fn a_task_of_several_arguments_is_refused_with_what_to_do() {
    let lab = Lab::new();
    let hint = "hint: a task is one argument; put its words in quotes: deputize run \"…\"";
    let several = ended(&lab, &["run", "hello", "world"]).await.with_code(2);
    assert!(several.err.contains(hint), "{}", several.err);
    let option = ended(&lab, &["run", "hello", "--wrold"]).await.with_code(2);
    assert!(!option.err.contains(hint), "{}", option.err);
}

#[tokio::test]
async fn a_missing_key_of_an_address_for_children_is_reported_by_its_key() {
    let set = "delegation={base_url: 'http://127.0.0.1:9/v1', model: m, api_key_env: NOT_SET}";
    let run = ended(&Lab::new(), &["run", "-m", "offline", "--set", set, "List the files"]).await;
    let expected = "error: the server at delegation.base_url needs a key: set NOT_SET";
    assert!(run.err.contains(expected), "{}", run.err);
}

#[tokio::test]
async fn commands_in_hints_have_the_config_option_of_the_program() {
    let lab = Lab::new();
    let servers = json!({"mcp_servers": {"w": {"command": "/bin/false"}}});
    write(&lab.path("my own.yaml"), &servers.to_string());
    let overflow = "This model's maximum context length is 8192 tokens";
    let server = model(move |_| MockAnswer::error(400, overflow)).await;
    let config = ["--config", "../my own.yaml"];
    let mut command = lab.run_command(&server, &["-t", "file", "go"]);
    command.args(config);
    let run = RunningProgram::start(command).end().await;
    let resume = "`deputize run --config '../my own.yaml' --resume ";
    assert!(run.err.contains(resume), "{}", run.err);

    // How a server is reached is not a hint: it stays as it is configured.
    let like_a_hint = json!({"mcp_servers": {"w": {"command": "deputize", "args": ["run"]}}});
    write(&lab.path("my own.yaml"), &like_a_hint.to_string());
    let list = ended(&lab, &["mcp", "list", config[0], config[1]]).await.with_code(0);
    assert!(!list.out.contains("run --config"), "{}", list.out);
    let missing =
        ended(&lab, &["mcp", "test", "elsewhere", config[0], config[1]]).await.with_code(2);
    let hint = "hint: `deputize mcp list --config '../my own.yaml'` lists them";
    assert!(missing.err.contains(hint), "{}", missing.err);
}
