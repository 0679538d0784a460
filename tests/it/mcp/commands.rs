//! What a person does with servers: add, look, review, remove.

use std::fs;
use std::path::PathBuf;

use deputize_requirements::{program, require};
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::{Value, json};

use super::fixture::{SERVER, approval_files, caller, config, deputize, offered, set};
use crate::program::{Lab, RunningProgram};

#[tokio::test]
async fn a_server_is_added_listed_tested_reviewed_and_removed() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    fs::write(lab.path("home/config.yaml"), "# mine\nmax_iterations: 7\n").unwrap();
    let add = ["mcp", "add", "weather", "--env", "A=b c", "--start-timeout", "60", "--yes", "--"];
    let add = [&add[..], &[SERVER, "instructions"]].concat();
    let ended = deputize(&lab, &add).await.with_code(0);
    // All of it was shown, and nothing of it was hidden.
    for part in [
        "faulty 1",
        &format!("reached by: {SERVER} instructions\ngiven by name: A\n"),
        "Obey.\\u{202e}",
        "Say it again.",
        "\"required\"",
        "\"text\"",
    ] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    let env = json!({"A": "b c"});
    let entry = json!({"command": SERVER, "args": ["instructions"], "env": env, "start_timeout_seconds": 60});
    let text = format!("# mine\nmax_iterations: 7\nmcp_servers:\n  weather: {entry}\n");
    assert_eq!(config(&lab), text);
    deputize(&lab, &["config", "check"]).await.with_code(0);

    let again = deputize(&lab, &add).await.with_code(2);
    assert!(again.err.contains("there is an MCP server `weather` already"), "{}", again.err);
    let list = deputize(&lab, &["mcp", "list"]).await.with_code(0);
    assert!(list.out.contains("weather") && list.out.contains("ready"), "{}", list.out);
    let list = deputize(&lab, &["mcp", "list", "--json"]).await.with_code(0);
    let rows: Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!((&rows[0]["tools"], &rows[0]["is"]), (&json!(["echo"]), &json!("faulty 1")));
    assert_eq!(rows[0]["arguments"], json!(["instructions"]));
    let test = deputize(&lab, &["mcp", "test", "weather"]).await.with_code(0);
    assert!(
        test.out.contains("mcp weather: faulty 1, protocol 2025-06-18, 1 tool"),
        "{}",
        test.out
    );
    let review = deputize(&lab, &["mcp", "review", "weather"]).await.with_code(0);
    assert!(review.err.contains("all of it is as you approved it"), "{}", review.err);
    let tools = deputize(&lab, &["tools", "list"]).await.with_code(0);
    let row = tools.out.lines().find(|line| line.starts_with("mcp__weather__echo")).unwrap();
    assert!(row.contains("mcp-weather") && row.contains("mcp weather"), "{row}");

    let near = deputize(&lab, &["config", "check", "--set", "toolsets=[mcp-wether]"]).await;
    assert!(near.err.contains("did you mean `mcp-weather`?"), "{} {}", near.out, near.err);
    // On the command line it is a mistake, as the name of any other toolset.
    let none = deputize(&lab, &["run", "-m", "offline", "-t", "file,mcp-nope", "list"]).await;
    let none = none.with_code(2);
    let unknown = "error: --toolsets: `toolsets`: there is no toolset `mcp-nope`; ";
    assert!(none.err.starts_with(unknown), "{}", none.err);
    let near = deputize(&lab, &["mcp", "test", "wether"]).await.with_code(2);
    assert!(near.err.contains("the nearest name is `weather`"), "{}", near.err);
    deputize(&lab, &["mcp", "remove", "weather"]).await.with_code(0);
    assert_eq!(config(&lab), "# mine\nmax_iterations: 7\n");
    assert_eq!(approval_files(&lab.path("home")), Vec::<PathBuf>::new());
    assert!(
        !lab.path("home/mcp/started-in/weather").exists(),
        "what it left is for no other server"
    );
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn the_toolset_of_a_server_that_was_not_asked_yet_is_distinguished_from_one_that_is_nowhere()
{
    let lab = Lab::new();
    let resolve = async |more: &[&str]| {
        let own = set("none");
        let all = ["toolsets", "resolve", "--child", "--set", &own, "--toolsets", "mcp-w"];
        deputize(&lab, &[&all, more].concat()).await
    };
    let unasked = resolve(&[]).await.with_code(2);
    let hint = "`mcp-w` is the toolset of the MCP server w, which offers no tools now";
    assert!(unasked.err.contains(hint), "{}", unasked.err);
    assert!(unasked.err.contains("try it with: deputize mcp test w"), "{}", unasked.err);
    let without = resolve(&["--set", "toolsets=[file, delegation]"]).await.with_code(2);
    assert!(without.err.contains("`deputize tools enable mcp-w`"), "{}", without.err);
    deputize(&lab, &["mcp", "test", "w", "--set", &set("none")]).await.with_code(0);
    let unapproved = resolve(&[]).await.with_code(2);
    assert!(unapproved.err.contains(hint), "{}", unapproved.err);
    assert!(
        unapproved.err.contains("approve it, with: deputize mcp review w"),
        "{}",
        unapproved.err
    );
    let review = ["mcp", "review", "w", "--yes", "--set", &set("none")];
    deputize(&lab, &review).await.with_code(0);
    let row = async |more: &[&str]| {
        let known = resolve(more).await.with_code(0).out;
        known.lines().find(|line| line.starts_with("mcp__w__echo")).unwrap().to_owned()
    };
    let unapproved = row(&[]).await;
    assert!(unapproved.contains("delegation.approvals is `deny`"), "{unapproved}");
    let own = row(&["--set", "delegation.approvals=auto"]).await;
    assert!(own.contains("yes"), "{own}");
    let prompt = ["prompt", "--child", "--goal", "G", "--toolsets", "mcp-v"];
    let nowhere = deputize(&lab, &prompt).await.with_code(2);
    assert!(!nowhere.err.contains("MCP server"), "{}", nowhere.err);
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_not_added_and_it_is_said_why() {
    let lab = Lab::new();
    let ended = deputize(&lab, &["mcp", "add", "w", "--yes", "--", SERVER, "exits at once"]).await;
    assert!(ended.err.contains("no key: set WEATHER_KEY"), "{}", ended.err);
    assert_eq!((ended.code, config(&lab)), (Some(1), String::new()));
    assert!(!lab.path("home/mcp/started-in/w").exists(), "what it left is for no other server");
    let ended = deputize(&lab, &["mcp", "add", "w", "--yes", "--", "no-such-program"]).await;
    assert!(ended.err.contains("program `no-such-program` not found in PATH"), "{}", ended.err);
    let slow = ["mcp", "add", "w", "--start-timeout", "1", "--yes", "--", SERVER, "hangs at once"];
    let ended = deputize(&lab, &slow).await.with_code(1);
    let words = "it did not answer within 1 s after its start";
    assert!(ended.err.contains(words) && ended.err.contains("--start-timeout"), "{}", ended.err);
    let far = ["mcp", "add", "w", "--url", "http://127.0.0.1:9/mcp", "--yes"];
    let ended = deputize(&lab, &far).await.with_code(1);
    let words = "it cannot be reached: Connection refused";
    assert_eq!(ended.err.matches(words).count(), 1, "{}", ended.err);
    let hint = "hint: check the address http://127.0.0.1:9/mcp, and whether the server runs";
    assert!(ended.err.contains(hint), "{}", ended.err);
    assert!(!ended.err.contains("::"), "no names of our parts: {}", ended.err);
    let help = deputize(&lab, &["mcp", "add", "--help"]).await.with_code(0);
    assert!(help.out.contains("deputize mcp add [OPTIONS] <NAME> --url <URL>"), "{}", help.out);
    let bare = ["mcp", "add", "w", "--url", "example.com", "--yes"];
    let ended = deputize(&lab, &bare).await.with_code(2);
    let words = "mcp w: its address must begin with http:// or https://";
    assert!(ended.err.contains(words), "{}", ended.err);
    let bare = ["mcp", "add", "w", "--url", "http://[", "--yes"];
    let ended = deputize(&lab, &bare).await.with_code(2);
    assert!(ended.err.contains("write it like https://mcp.example/mcp"), "{}", ended.err);
    // Nobody is there to be asked.
    let ended = deputize(&lab, &["mcp", "add", "w", "--", SERVER, "none"]).await;
    assert!(ended.err.contains("--yes says yes beforehand"), "{}", ended.err);
    let ended = deputize(
        &lab,
        &["mcp", "add", "w", "--env", "K=${NO_SUCH}", "--yes", "--", SERVER, "none"],
    )
    .await;
    let words = "`mcp_servers.w.env.K` names the variable `NO_SUCH`, which is not set";
    assert!(ended.err.contains(words), "{}", ended.err);
}

#[tokio::test]
async fn an_address_of_something_else_is_named_with_what_it_answers() {
    let lab = Lab::new();
    let server = MockServer::start_with(|request| match request.path.as_str() {
        "/page?key=hush" => MockAnswer::body("text/html", "<p>Hello</p>"),
        _ => MockAnswer::json(&json!({"hello": 1})),
    });
    let server = server.await.unwrap();
    for (path, words) in [
        ("page?key=hush", "its answer is text/html, and neither JSON nor events"),
        ("json", "the server's answer is no message of the protocol: {\"hello\":1}"),
    ] {
        let url = format!("http://{}/{path}", server.address());
        let ended = deputize(&lab, &["mcp", "add", "w", "--yes", "--url", &url]).await.with_code(1);
        let said = format!("mcp w: it does not answer as an MCP server: {words}");
        assert!(ended.err.contains(&said), "{}", ended.err);
        let url = url.split('?').next().unwrap();
        let hint = format!("hint: check the address {url}: that of an MCP server often ends in");
        assert!(ended.err.contains(&hint) && !ended.err.contains("hush"), "{}", ended.err);
    }
}

#[tokio::test]
async fn each_failure_of_a_server_by_http_says_what_happened_and_what_to_do() {
    let lab = Lab::new();
    let other = json!({"jsonrpc": "2.0", "id": 77, "result": {}}).to_string();
    let another = format!("the server's answer names another call: {other}\n");
    let server = MockServer::start_with(move |request| {
        let text = |status| MockAnswer::body("text/plain", "so it is").status(status);
        match request.path.as_str() {
            "/moved" => text(307).header("location", "https://other.example/mcp?key=hush"),
            "/credentials" => text(403),
            "/page" => MockAnswer::body("text/html", "<p>hush</p>").status(405),
            "/soon" => text(429).header("retry-after", "30"),
            "/fails" => text(503),
            "/empty" => MockAnswer::body("application/json", ""),
            "/accepted" => MockAnswer::body("text/plain", "").status(202),
            "/other" => MockAnswer::body("application/json", other.as_str()),
            "/event" => MockAnswer::sse(format!("data: {other}\n\n")),
            _ => text(404),
        }
    });
    let server = server.await.unwrap();
    let nothing = "does not answer as an MCP server: the server answered nothing, where the";
    let often = "check the address URL: that of an MCP server often ends in /mcp";
    for (path, said, hint) in [
        (
            "moved",
            "HTTP 307 Temporary Redirect, which is not followed: https://other.example/mcp\n",
            "if you trust the address that it names, give that instead of URL",
        ),
        (
            "credentials",
            "HTTP 403 Forbidden: it refuses the credentials",
            "check the credentials that `--header` or the sign-in sends to URL",
        ),
        ("none", "HTTP 404 Not Found: so it is", often),
        ("page", "HTTP 405 Method Not Allowed\n", often),
        (
            "soon",
            "HTTP 429 Too Many Requests: wait 30 s before you repeat it",
            "try again later: URL limits how often it is asked",
        ),
        (
            "fails",
            "HTTP 503 Service Unavailable: so it is",
            "try again later, or tell whoever runs URL",
        ),
        ("empty", nothing, often),
        ("accepted", nothing, often),
        ("other", &another, often),
        ("event", &another, often),
    ] {
        let url = format!("http://{}/{path}", server.address());
        let ended = deputize(&lab, &["mcp", "add", "w", "--yes", "--url", &url]).await.with_code(1);
        let hint = format!("hint: {}", hint.replace("URL", &url));
        let actual = ended.err.contains(said) && ended.err.contains(&hint);
        assert!(actual && !ended.err.contains("hush"), "{path}: {}", ended.err);
    }
}

#[tokio::test]
async fn a_server_cannot_have_a_name_by_which_its_tools_are_another_ones() {
    let lab = Lab::new();
    // `w` with a tool `echo__echo`, and `w__echo` with `echo`, would both have `mcp__w__echo__echo`.
    let words = "the name of a server has no `__` and no `_` at its end";
    for name in ["w__echo", "w_"] {
        let own = format!("mcp_servers.{name}={}", json!({"command": SERVER, "args": ["none"]}));
        let check = deputize(&lab, &["config", "check", "--set", &own]).await.with_code(2);
        assert!(format!("{}{}", check.out, check.err).contains(words), "{}", check.err);
        let add = deputize(&lab, &["mcp", "add", name, "--yes", "--", SERVER, "none"]).await;
        assert!(add.with_code(2).err.contains(words));
    }
}

#[tokio::test]
async fn a_password_in_the_address_of_a_server_is_refused_and_shown_nowhere() {
    let lab = Lab::new();
    let url = "http://me:hush@127.0.0.1:9/mcp";
    let own = format!("mcp_servers.w={}", json!({"url": url}));
    for args in [
        &["mcp", "add", "w", "--url", url, "--yes"][..],
        &["mcp", "list", "--set", &own],
        &["mcp", "test", "w", "--set", &own],
        &["run", "-m", "offline", "--set", &own, "go"],
    ] {
        let ended = deputize(&lab, args).await.with_code(2);
        assert!(ended.err.contains("holds a user name or password"), "{}", ended.err);
        assert!(ended.err.contains("--header 'Authorization=Basic ${NAME}'"), "{}", ended.err);
        lab.holds_no("hush", &ended);
    }
}

#[tokio::test]
async fn a_secret_that_would_stand_in_the_file_is_noted_and_one_of_the_environment_not() {
    let lab = Lab::new();
    let add = async |name: &str, more: &[&str]| {
        let add = [&["mcp", "add", name, "--yes"], more, &["--", SERVER, "none"]].concat();
        let mut command = lab.deputize(&add);
        command.env("API_TOKEN", "hush-0123456789");
        RunningProgram::start(command).end().await.with_code(0).err
    };
    let said = add("a", &["--env", "API_TOKEN=hush 0123456789", "--env", "MODE=x"]).await;
    let hint = "note: the value of `API_TOKEN` is in that file.";
    assert!(said.contains(hint) && said.contains("--env 'API_TOKEN=${API_TOKEN}'"), "{said}");
    assert!(!said.contains("hush") && !said.contains("MODE"), "{said}");
    let said = add("b", &["--env", "API_TOKEN=${API_TOKEN}"]).await;
    assert!(!said.contains("note: the value"), "{said}");
    // One whose program is gone is taken out, and what was approved of it cannot be found.
    let gone = json!({"command": "no-such-program"});
    fs::write(lab.path("home/config.yaml"), format!("mcp_servers:\n  a: {gone}\n")).unwrap();
    let removed = deputize(&lab, &["mcp", "remove", "a"]).await.with_code(0);
    assert!(removed.err.contains("note: its approval stays"), "{}", removed.err);
}

#[tokio::test]
async fn an_empty_mapping_takes_all_servers_away() {
    let lab = Lab::new();
    deputize(&lab, &["mcp", "add", "a", "--yes", "--", SERVER, "none"]).await.with_code(0);
    let none = deputize(&lab, &["mcp", "list", "--json", "--set", "mcp_servers={}"]).await;
    assert_eq!(none.with_code(0).out.trim(), "[]");
    let other = format!("mcp_servers={}", json!({"b": {"url": "http://127.0.0.1:9/"}}));
    let both = deputize(&lab, &["mcp", "list", "--json", "--set", &other]).await.with_code(0);
    assert_eq!(both.out.matches("\"name\"").count(), 2, "{}", both.out);
}

#[tokio::test]
async fn a_server_that_no_agent_is_given_is_listed_as_such_until_it_is_enabled() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    let file = "model: offline\n\
                toolsets: [clarify, code_execution, cronjob, file, memory, messaging, session_search, skills, terminal, todo, web]\n";
    fs::write(lab.path("home/config.yaml"), file).unwrap();
    let why =
        "no agent is given it: `toolsets` is a list without mcp-w (deputize tools enable mcp-w)";
    let add = ["mcp", "add", "w", "--yes", "--", SERVER, "none"];
    let added = deputize(&lab, &add).await.with_code(0);
    assert!(added.err.contains(&format!("note: {why}")), "{}", added.err);
    let list = deputize(&lab, &["mcp", "list"]).await.with_code(0);
    assert!(list.out.contains(&format!("ready, but {why}")), "{}", list.out);
    let doctor = deputize(&lab, &["doctor"]).await.with_code(0);
    let row = doctor.out.lines().find(|line| line.contains("mcp server")).unwrap();
    assert!(row.starts_with("warn") && row.ends_with(&format!("s, but {why}")), "{row}");
    let sets = deputize(&lab, &["toolsets", "list"]).await.with_code(0);
    let row = sets.out.lines().find(|line| line.starts_with("mcp-w")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["mcp-w", "no", "mcp__w__echo"]);
    let not = "no: not enabled (deputize tools enable mcp-w)";
    for args in [&["tools", "list"][..], &["tools", "show", "mcp__w__echo"]] {
        let shown = deputize(&lab, args).await.with_code(0);
        assert!(shown.out.contains(not), "{args:?}: {}", shown.out);
    }
    // It is not started for a run, and nothing is told of it there; its tool is nobody's.
    let server = caller().await;
    let run = lab.run(&server, &["--approve", "auto", "--output", "events", "go"]).end().await;
    assert!(!offered(&run) && !run.err.contains("mcp w"), "{}", run.err);
    assert!(!run.out.contains("echo: hello"), "{}", run.out);

    // The list that names all is none.
    let some = deputize(&lab, &["tools", "enable", "mcp-w"]).await.with_code(0);
    assert!(
        some.err.contains(
            "is now [clarify, code_execution, cronjob, file, memory, messaging, session_search, skills, terminal, todo, web, mcp-w]"
        ),
        "{}",
        some.err
    );
    let list = deputize(&lab, &["mcp", "list"]).await.with_code(0);
    assert!(list.out.trim_end().ends_with("ready"), "{}", list.out);
    let all = deputize(&lab, &["tools", "enable", "delegation"]).await.with_code(0);
    assert!(all.err.contains("is no longer in"), "{}", all.err);
    assert!(!config(&lab).contains("toolsets"), "{}", config(&lab));
    let run = lab.run(&server, &["--approve", "auto", "--output", "events", "go"]).end().await;
    assert!(offered(&run), "{}", run.err);

    // A list that names one that is gone is told of with what to do.
    deputize(&lab, &["tools", "disable", "delegation"]).await.with_code(0);
    let removed = deputize(&lab, &["mcp", "remove", "w"]).await.with_code(0);
    let note = "note: `toolsets` names mcp-w still: deputize tools disable mcp-w";
    assert!(removed.err.contains(note), "{}", removed.err);
    let check = deputize(&lab, &["config", "check"]).await.with_code(0);
    let remedy = "to take it out of your file: deputize tools disable mcp-w";
    assert!(check.err.contains(remedy), "{}", check.err);
    deputize(&lab, &["tools", "disable", "mcp-w"]).await.with_code(0);
    let check = deputize(&lab, &["config", "check"]).await.with_code(0);
    assert!(check.err.is_empty(), "{}", check.err);
    assert_eq!(lab.processes(), []);
}

#[tokio::test]
async fn a_script_that_is_here_and_not_where_the_server_is_started_is_pointed_out() {
    require!(program("python3"));
    let lab = Lab::new();
    fs::write(lab.work("server.py"), "import no_such_module\n").unwrap();
    let add = |more: &[&'static str]| {
        [&["mcp", "add", "rel", "--yes"][..], more, &["--", "python3", "server.py"]].concat()
    };
    let ended = deputize(&lab, &add(&[])).await.with_code(1);
    let here = lab.work("server.py").canonicalize().unwrap();
    let own = lab.path("home/mcp/started-in/rel");
    let hint = format!(
        "hint: it starts in `{}`, which has no `server.py`; give `{}`, or `--start-in .` before \
         the `--`",
        own.display(),
        here.display()
    );
    assert!(ended.err.contains(&hint), "{hint}\n{}", ended.err);
    // Where the script was found, its own trouble is all that is told.
    let ended = deputize(&lab, &add(&["--start-in", "."])).await.with_code(1);
    assert!(ended.err.contains("no_such_module") && !ended.err.contains("hint:"), "{}", ended.err);
}

#[tokio::test]
async fn of_a_server_whose_program_is_not_there_no_place_is_listed() {
    let gone = r#"mcp_servers.gone={"command": "no-such-program"}"#;
    let list = deputize(&Lab::new(), &["mcp", "list", "--set", gone]).await.with_code(0);
    assert!(list.out.contains("not found in PATH") && !list.out.contains("''"), "{}", list.out);
}
