//! What agents may not do, tried through the program: read its keys, run what never runs, keep
//! what the operator took away. And which key each of them has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::chown;

use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::kill::{call, kill, text};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

fn is_child(asked: &ChatRequest) -> bool {
    asked.system().contains("YOUR TASK:")
}

/// The results of calls that the model was sent, whoever made them.
fn results(server: &MockServer) -> String {
    let requests = server.requests();
    let all = requests.iter().flat_map(|request| {
        let asked = ChatRequest::of(request);
        asked.results().into_iter().map(str::to_owned).collect::<Vec<_>>()
    });
    all.collect::<Vec<_>>().join("\n")
}

/// One agent that runs one command.
async fn one_command(command: &'static str) -> MockServer {
    model(move |asked| match asked.results().len() {
        0 => call("terminal", json!({"command": command})),
        _ => text("Done."),
    })
    .await
}

/// As a user without rights, if this one has all: an administrator may read everything.
pub(crate) fn without_rights(lab: &Lab, mut command: Command) -> Command {
    const NOBODY: u32 = 65_534;
    if rustix::process::geteuid().is_root() {
        for place in ["", "work"] {
            chown(lab.path(place), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

#[tokio::test]
async fn no_command_reads_the_environment_of_the_program() {
    let look = "for at in /proc/[0-9]*; do tr '\\0' '\\n' <$at/environ; done 2>/dev/null \
                | grep -E '^(LANG|PLAIN)='";
    let lab = Lab::new();
    let server = one_command(look).await;
    let mut command = lab.run_command(&server, &["--approve", "auto", "Look."]);
    // A name that is no secret's: what is not redacted must not be found.
    command.env("PLAIN", "canary-of-the-environment");
    RunningProgram::start(without_rights(&lab, command)).end().await.with_code(0);
    let results = results(&server);
    assert!(results.contains("LANG=C.UTF-8"), "its own environment it may read: {results}");
    assert!(!results.contains("canary"), "{results}");
}

#[tokio::test]
async fn what_looks_like_a_secret_is_redacted_also_where_the_run_does_not_use_it() {
    let lab = Lab::new();
    let server = one_command("printf 'it is %s%s\\n' svc-canary- 87654321").await;
    let mut command = lab.run_command(&server, &["--approve", "auto", "Print it."]);
    command.env("SERVICE_TOKEN_2", "svc-canary-87654321");
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let results = results(&server);
    assert!(results.contains("it is [redacted:SERVICE_TOKEN_2]"), "{results}");
    lab.holds_no("svc-canary-87654321", &ended);
}

#[tokio::test]
async fn what_never_runs_is_refused_whatever_the_setting_and_whoever_asks() {
    // It would fail by itself, if it ran: there is no such place.
    let never = "echo ran; echo x > /dev/sd-of-nobody/x";
    for child in [false, true] {
        let lab = Lab::new();
        let server = model(move |asked| match (is_child(asked), asked.results().len()) {
            (false, 0) if child => call("delegate_task", json!({"goal": "Write it."})),
            (_, 0) => call("terminal", json!({"command": never})),
            _ => text("Done."),
        })
        .await;
        let auto = ["--approve", "auto", "--set", "delegation.approvals=auto"];
        let args = [&auto[..], &["--output", "events", "Write it."]].concat();
        let ended = lab.run(&server, &args).end().await.with_code(0);
        let results = results(&server);
        assert!(
            results.contains(
                "error: denied: blocked (hardline: writes to /dev/sd-of-nobody/x): this never runs here"
            ),
            "{results}"
        );
        assert!(!results.contains("\nran"), "{results}");
        let denied = ended.events("tool.end");
        assert!(denied.iter().any(|end| end["status"] == "denied"), "{denied:?}");
        if !child {
            let ended = lab.run(&server, &[&auto[..], &["Write it."]].concat()).end().await;
            let line = format!(
                "terminal refused: {never}: blocked (hardline: writes to /dev/sd-of-nobody/x): this \
                 never runs here"
            );
            assert!(ended.err.lines().any(|it| it == line), "{}", ended.err);
        }
    }
}

#[tokio::test]
async fn a_child_that_is_taken_up_is_under_the_ceiling_of_now() {
    let lab = Lab::new();
    let mut pipe = lab.pipe("pipe");
    let wait = format!("echo begun > pipe; sleep {}", lab.mark());
    let server = model(move |asked| match (is_child(asked), asked.replies()) {
        (false, 0) => call("delegate_task", json!({"goal": "Run the commands."})),
        (true, 0) => call("terminal", json!({"command": wait})),
        (true, 1) => call("terminal", json!({"command": "echo x > ran"})),
        _ => text("Done."),
    })
    .await;
    let auto = ["--set", "delegation.approvals=auto"];
    let running = lab.run(&server, &[&auto[..], &["Go."]].concat());
    pipe.lines(1).await;
    kill(&lab, running).await;
    let session = lab.session();
    let resume = ["--resume", session.as_str(), "--set", "delegation.toolset_ceiling=[file]"];
    lab.run(&server, &[&auto[..], &resume[..]].concat()).end().await.with_code(0);
    let results = results(&server);
    assert!(results.contains("its outcome is unknown"), "{results}");
    assert!(results.contains("terminal may not be used"), "{results}");
    assert!(!fs::exists(lab.work("ran")).unwrap(), "the command ran");
}

/// Runs with a configuration of three keys; gives the keys that each agent's requests had.
async fn with_keys(
    lab: &Lab,
    server: &MockServer,
    who: impl Fn(&ChatRequest) -> String,
) -> (ProgramEnd, BTreeMap<String, BTreeSet<String>>) {
    let config = format!(
        "model: a/m\nproviders:\n  a: {{ base_url: {}, api_key_envs: [K1, K2, K3] }}\n",
        server.base_url()
    );
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), config).unwrap();
    let mut command = lab.deputize(&["run", "Go."]);
    for key in ["K1", "K2", "K3"] {
        command.env(key, format!("key-of-{key}-12345"));
    }
    let ended = RunningProgram::start(command).end().await.with_code(0);
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for request in server.requests() {
        let key = key_of(&request);
        keys.entry(who(&ChatRequest::of(&request))).or_default().insert(key);
    }
    (ended, keys)
}

fn key_of(request: &HttpRequest) -> String {
    let header = request.header("authorization").unwrap_or_default();
    header.trim_start_matches("Bearer key-of-").trim_end_matches("-12345").to_owned()
}

fn name(asked: &ChatRequest) -> String {
    if is_child(asked) { asked.first_user().to_owned() } else { "parent".to_owned() }
}

/// A parent with two children side by side; each looks twice, and answers.
fn family(asked: &ChatRequest) -> MockAnswer {
    let tasks: Value = json!([{"goal": "One."}, {"goal": "Two."}]);
    match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"tasks": tasks})),
        (true, 0 | 1) => call("list_dir", json!({})),
        _ => text("Done."),
    }
}

#[tokio::test]
async fn of_several_keys_each_agent_has_its_own_and_keeps_to_it() {
    let lab = Lab::new();
    let server = model(family).await;
    let (_, keys) = with_keys(&lab, &server, name).await;
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(keys.values().all(|keys| keys.len() == 1), "each keeps to one: {keys:?}");
    let all: BTreeSet<&String> = keys.values().flatten().collect();
    assert_eq!(all.len(), 3, "they are different: {keys:?}");
    assert_eq!(server.requests().len(), 8);
}

#[tokio::test]
async fn an_agent_whose_key_is_limited_goes_on_with_another_and_stays_with_that() {
    let lab = Lab::new();
    let limited = |request: &HttpRequest| match key_of(request).as_str() {
        "K1" => MockAnswer::error(429, "slow down").header("retry-after", "7200"),
        _ => family(&ChatRequest::of(request)),
    };
    let server = MockServer::start_with(limited).await.unwrap();
    let (ended, keys) = with_keys(&lab, &server, name).await;
    assert_eq!(keys["parent"].len(), 2, "{keys:?}");
    assert!(["One.", "Two."].iter().all(|child| keys[*child].len() == 1), "{keys:?}");
    assert_eq!(server.requests().iter().filter(|it| key_of(it) == "K1").count(), 1);
    lab.holds_no("key-of-K1-12345", &ended);
}

/// Each path with the tool that is to write it.
const GUARDED: [(&str, &str); 17] = [
    ("work/.git/config", "write_file"),
    ("work/.git/hooks/post-checkout", "write_file"),
    ("work/by_link/config", "write_file"),
    ("home/config.yaml", "write_file"),
    ("home/mcp/started-in/x", "write_file"),
    (".config/deputize/config.yaml", "write_file"),
    (".local/state/deputize/sessions/x.jsonl", "write_file"),
    ("own", "write_file"),
    ("given.yaml", "write_file"),
    ("home/config.yaml", "edit_file"),
    ("work/.git/config", "edit_file"),
    ("work/.git/hooks/pre-push", "apply_patch"),
    ("home/config.yaml", "apply_patch"),
    ("xdg/git/config", "write_file"),
    ("global", "write_file"),
    ("work/.deputize/config.yaml", "write_file"),
    ("work/below/.deputize/x", "write_file"),
];

#[tokio::test]
async fn no_file_tool_writes_what_git_or_this_program_would_obey() {
    for child in [false, true] {
        let lab = Lab::new();
        for (name, content) in [
            ("work/.git/config", "[core]\n"),
            ("home/config.yaml", "max_iterations: 50\n"),
            ("given.yaml", "max_iterations: 60\n"),
        ] {
            fs::create_dir_all(lab.path(name).parent().unwrap()).unwrap();
            fs::write(lab.path(name), content).unwrap();
        }
        std::os::unix::fs::symlink(".git", lab.work("by_link")).unwrap();
        std::os::unix::fs::symlink("home/config.yaml", lab.path("own")).unwrap();
        let server = model(move |asked| {
            let at = asked.results().len();
            match (is_child(asked), GUARDED.get(at)) {
                (false, _) if child && at == 0 => call("delegate_task", json!({"goal": "Write."})),
                (false, _) if child => text("Done."),
                (_, None) if at == GUARDED.len() => {
                    call("write_file", json!({"path": "work/plain", "content": "written"}))
                }
                (_, None) => text("Done."),
                (_, Some((path, "write_file"))) => {
                    call("write_file", json!({"path": path, "content": "new"}))
                }
                (_, Some((path, "apply_patch"))) => {
                    let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
                    call("apply_patch", json!({ "patch": patch }))
                }
                (_, Some((path, tool))) => {
                    call(tool, json!({"path": path, "old": "o", "new": "new"}))
                }
            }
        })
        .await;
        // The working directory is the person's home, with the folders of this program in it.
        let mut command = lab.run_command(&server, &["Write them."]);
        command.args(["-C", "..", "--config", "../given.yaml"]);
        command.env("XDG_CONFIG_HOME", lab.path("xdg")).env("GIT_CONFIG_GLOBAL", "global");
        let ended = RunningProgram::start(command).end().await.with_code(0);
        let line = "write_file refused: not written: work/.git/hooks/post-checkout; file tools do not \
                    write `.git` or below it: other programs run what stands there";
        assert!(ended.err.lines().any(|it| it.ends_with(line)), "{}", ended.err);
        for (name, content) in [
            ("work/.git/config", "[core]\n"),
            ("home/config.yaml", "max_iterations: 50\n"),
            ("given.yaml", "max_iterations: 60\n"),
            ("work/plain", "written"),
        ] {
            assert_eq!(fs::read_to_string(lab.path(name)).unwrap(), content, "{name}");
        }
        for name in
            ["work/.git/hooks", "home/mcp", ".config", ".local", "xdg", "global", "work/.deputize"]
        {
            assert!(!lab.path(name).exists(), "{name}");
        }
        let results = results(&server);
        for word in ["file tools do not write `.git`", "or another obeys what stands there"] {
            assert!(results.contains(word), "{results}");
        }
    }
}
