//! What children are offered where nobody approves what they want to run.

use std::io::Write as _;

use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer};
use serde_json::{Value, json};

use super::{call, is_child, messages, of, result, run, say, tools};
use crate::program::{ChatRequest, Lab, RunningProgram, model, sees};

/// The words that say that children run no commands.
const CANNOT: &str = ", run commands or use";

/// What a request says of the tool that hands work on: its description and its parameters.
fn delegation(request: &HttpRequest) -> (String, Value) {
    let request = request.json();
    let mut tools = request["tools"].as_array().unwrap().iter();
    let tool = tools.find(|tool| tool["function"]["name"] == "delegate_task").unwrap();
    let text = tool["function"]["description"].as_str().unwrap().to_owned();
    (text, tool["function"]["parameters"]["properties"].clone())
}

/// A parent with one child that has these toolsets. The child runs a command, if it may.
fn family(toolsets: Value) -> impl Fn(&ChatRequest) -> MockAnswer + Send + Sync + 'static {
    move |asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => {
            call("delegate_task", json!({"goal": "Look at one", "toolsets": toolsets.clone()}))
        }
        (true, 0) => call("terminal", json!({"command": "touch ran"})),
        (_, _) => say("Looked."),
    }
}

#[tokio::test]
async fn where_nobody_approves_a_child_has_no_commands_and_both_models_know() {
    for set in [&[][..], &["delegation.approvals=deny"], &["delegation.approvals=ask"]] {
        let lab = Lab::new();
        let server = model(family(json!(["file", "skills", "terminal", "web"]))).await;
        run(&lab, &server, set, "Go").await;
        let requests = server.requests();
        let parent = of(&requests, "Go");
        let child = of(&requests, "Look at one");
        let own = tools(parent[0]);
        let theirs = tools(child[0]);
        assert!(own.contains(&"terminal".to_owned()), "{own:?}");
        assert!(!theirs.contains(&"terminal".to_owned()), "{theirs:?}");
        assert!(own.starts_with(&theirs), "{own:?} begins like {theirs:?}");
        let (text, fields) = delegation(parent[0]);
        assert!(text.contains(CANNOT), "{text}");
        let offered = fields["toolsets"]["description"].as_str().unwrap();
        assert!(offered.contains("file (") && !offered.contains("terminal"), "{offered}");
        let (actual, _) = result(&messages(parent[1], "tool")[0]);
        let said = "task 0 got less than it asked for: process (it needs approval, which children \
                    cannot get), terminal (it needs approval, which children cannot get), \
                    skill_manage (no child has it: what is learned is the top agent's)";
        assert_eq!(actual["warnings"], json!([said]));
        assert_eq!(actual["results"][0]["tool_trace"][0]["status"], "error", "{actual:#}");
        assert!(!lab.work("ran").exists());
        // The key is the operator's: no model is told of it.
        let sent: String = requests.iter().map(HttpRequest::text).collect();
        assert!(!sent.contains("approvals"), "{sent}");
    }
}

#[tokio::test]
async fn a_child_that_names_nothing_loses_the_same_and_is_no_warning() {
    let lab = Lab::new();
    let server = model(family(Value::Null)).await;
    run(&lab, &server, &[], "Go").await;
    let requests = server.requests();
    assert!(!tools(of(&requests, "Look at one")[0]).contains(&"terminal".to_owned()));
    let (actual, _) = result(&messages(of(&requests, "Go")[1], "tool")[0]);
    assert_eq!(actual["warnings"], json!([]), "it is in the description");
}

#[tokio::test]
async fn where_somebody_approves_it_is_offered_and_kept() {
    let auto = "delegation.approvals=auto";
    let lab = Lab::new();
    let server = model(family(json!(["terminal"]))).await;
    run(&lab, &server, &[auto], "Go").await;
    let requests = server.requests();
    let (text, fields) = delegation(of(&requests, "Go")[0]);
    assert!(!text.contains(CANNOT), "{text}");
    let offered = fields["toolsets"]["description"].as_str().unwrap();
    assert!(offered.contains("terminal (run commands)"), "{offered}");
    assert!(lab.work("ran").exists(), "it ran");
}

#[tokio::test]
async fn a_person_at_a_terminal_can_be_asked_for_children() {
    let lab = Lab::new();
    let server = model(family(Value::Null)).await;
    let ask = ["--set", "delegation.approvals=ask", "--output", "events", "Go"];
    let (mut person, running) = lab.on_terminal(&server, &ask);
    sees(&person, "Run it? [y/N] ").await;
    person.write_all(b"n\n").unwrap();
    drop(running.end().await);
    let requests = server.requests();
    assert!(tools(of(&requests, "Look at one")[0]).contains(&"terminal".to_owned()));
    assert!(!delegation(of(&requests, "Go")[0]).0.contains(CANNOT));
}

#[tokio::test]
async fn where_the_list_stays_one_line_of_the_prompt_says_it() {
    let lab = Lab::new();
    let server = model(family(Value::Null)).await;
    let shares = "delegation.tool_schemas=cache_preserving";
    let ended = run(&lab, &server, &[shares], "Go").await;
    let requests = server.requests();
    let child = of(&requests, "Look at one");
    assert_eq!(tools(child[0]), tools(of(&requests, "Go")[0]));
    let prompt = messages(child[0], "user").remove(0);
    let line = prompt.lines().find(|line| line.contains("`terminal`")).unwrap();
    assert!(line.contains("You cannot run commands") && line.contains("denied"), "{prompt}");
    let refused = messages(child[1], "tool").remove(0);
    let expected = "`terminal` needs approval, and nobody gives it to child agents";
    assert!(refused.contains(expected), "{refused}");
    // The person reads which setting allows it, and not the advice for the model.
    let line = "terminal refused: calls of children are not approved; `delegation.approvals: ask` \
                or `auto` allows it";
    assert!(ended.err.lines().any(|it| it.ends_with(line)), "{}", ended.err);
    assert!(!lab.work("ran").exists());
}

#[tokio::test]
async fn what_a_refused_call_of_a_shared_list_reads_is_why_the_child_lacks_the_tool() {
    let needs = "`terminal` needs approval, and nobody gives it to child agents";
    let other = "you may not use `terminal`: use ";
    for (set, actual) in [
        (&["delegation.approvals=ask"][..], needs),
        (&["delegation.toolset_ceiling=[file]"], other),
        (&["delegation.toolset_ceiling=[file]", "delegation.approvals=ask"], other),
        (&["delegation.default_toolsets=[file]"], other),
    ] {
        let lab = Lab::new();
        let server = model(family(Value::Null)).await;
        let shares = "delegation.tool_schemas=cache_preserving";
        run(&lab, &server, &[&[shares][..], set].concat(), "Go").await;
        let requests = server.requests();
        let child = of(&requests, "Look at one");
        let refused = messages(child[1], "tool").remove(0);
        assert!(refused.contains(actual), "{set:?}: {refused}");
        let prompt = messages(child[0], "user").remove(0);
        assert_eq!(
            prompt.contains("You cannot run commands"),
            actual == needs,
            "{set:?}: {prompt}"
        );
    }
}

#[tokio::test]
async fn doctor_does_not_lay_to_approvals_what_a_ceiling_takes_away() {
    for (set, withheld) in
        [("toolset_ceiling=[file, terminal]", true), ("toolset_ceiling=[file]", false)]
    {
        let lab = Lab::new();
        let set = format!("delegation.{set}");
        let doctor = lab.deputize(&["doctor", "-m", "offline", "--set", &set]);
        let ended = RunningProgram::start(doctor).end().await;
        assert_eq!(ended.out.contains("lack `process`, `terminal`"), withheld, "{}", ended.out);
    }
}

#[tokio::test]
async fn an_orchestrator_reads_the_same_of_its_own_children() {
    let lab = Lab::new();
    let server = model(|asked| match (is_child(asked), asked.results().len()) {
        (false, 0) => call("delegate_task", json!({"goal": "Look at one", "role": "orchestrator"})),
        (true, 0) if asked.tools().contains(&"delegate_task") => {
            call("delegate_task", json!({"goal": "Look at two", "toolsets": ["terminal"]}))
        }
        _ => say("Looked."),
    })
    .await;
    // All but scripts: the words for an agent that has them name them, and no child has them.
    let toolsets = "toolsets=[clarify, delegation, file, memory, skills, terminal, todo, web]";
    run(&lab, &server, &["delegation.max_spawn_depth=2", toolsets], "Go").await;
    let requests = server.requests();
    let top = of(&requests, "Go");
    let middle = of(&requests, "Look at one");
    let own = tools(middle[0]);
    assert!(own.contains(&"delegate_task".to_owned()), "{own:?}");
    assert!(!own.contains(&"terminal".to_owned()), "{own:?}");
    assert!(tools(top[0]).starts_with(&own), "{own:?}");
    assert_eq!(delegation(top[0]), delegation(middle[0]), "the very same words");
    let (actual, _) = result(&messages(middle[1], "tool")[0]);
    let warning = actual["warnings"][0].as_str().unwrap();
    assert!(warning.contains("toolset terminal (this agent does not have it)"), "{warning}");
}

#[tokio::test]
async fn the_operator_learns_which_key_it_is() {
    let lab = Lab::new();
    let looked = async |args: &[&str]| RunningProgram::start(lab.deputize(args)).end().await;
    let resolved = looked(&["toolsets", "resolve", "--child"]).await.with_code(0).out;
    let row = resolved.lines().find(|line| line.starts_with("terminal")).unwrap();
    assert!(row.contains(" no ") && row.contains("delegation.approvals is `deny`"), "{row}");
    let ask = ["toolsets", "resolve", "--child", "--set", "delegation.approvals=ask"];
    let resolved = looked(&ask).await.with_code(0).out;
    let row = resolved.lines().find(|line| line.starts_with("terminal")).unwrap();
    assert!(row.contains("delegation.approvals is `ask`, and nobody can be asked"), "{row}");
    let doctor = looked(&["doctor", "-m", "offline"]).await.out;
    let row = doctor.lines().find(|line| line.contains("  children ")).unwrap();
    assert!(row.contains("terminal") && row.contains("delegation.approvals"), "{row}");
    let prompt = looked(&["prompt", "-m", "offline", "--child", "--goal", "Count"]).await;
    assert!(
        !prompt.out.contains("approvals") && !prompt.out.contains("\nterminal\n"),
        "{}",
        prompt.out
    );
}

#[tokio::test]
async fn a_child_of_before_keeps_no_commands_that_nobody_approves_now() {
    let lab = Lab::new();
    let mut pipe = lab.pipe("pipe");
    let wait = format!("echo begun > pipe; sleep {}", lab.mark());
    let server = model(move |asked| match (is_child(asked), asked.replies()) {
        (false, 0) => call("delegate_task", json!({"goal": "Look at one"})),
        (true, 0) => call("terminal", json!({"command": wait})),
        (true, 1) => call("terminal", json!({"command": "touch ran"})),
        _ => MockAnswer::reply(&Reply::text("served-1", "Looked.")),
    })
    .await;
    let running = lab.run(&server, &["--set", "delegation.approvals=auto", "Go"]);
    pipe.lines(1).await;
    crate::kill::kill(&lab, running).await;
    let session = lab.session();
    lab.run(&server, &["--resume", &session]).end().await.with_code(0);
    let results: String = of(&server.requests(), "Look at one")
        .iter()
        .flat_map(|request| messages(request, "tool"))
        .collect();
    assert!(results.contains("terminal may not be used"), "{results}");
    assert!(!lab.work("ran").exists());
}
