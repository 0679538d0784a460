//! An agent as an embedder builds it: safe by default.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use deputize_agent::{
    Agent, AgentBuilder, AgentModel, BuildError, ChildModels, CodeLimits, DelegationConfig,
    ProfileLibrary,
};
use deputize_core::budget::Budget;
use deputize_core::hook::HookPoint;
use deputize_core::model::{Reply, ToolChoice};
use deputize_core::outcome::ExitReason;
use deputize_core::policy::ApprovalAnswer;
use deputize_core::{Cancel, CancelReason, Event, Status};
use deputize_requirements::{program, require};
use deputize_testkit::{
    MockAnswer as HttpAnswer, MockServer, ScriptedModel, ScriptedTurn, SeenRequest,
};
use deputize_tools::MessageTarget;
use parking_lot::Mutex;
use serde_json::json;

mod settings;

const SECRET: &str = "sk-very-secret-1234";

fn env() -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    vec![("PATH".into(), path), ("MY_API_KEY".into(), SECRET.into())]
}

/// An agent with the built-in tools whose model follows a rule.
fn builder(
    cwd: &Path,
    rule: impl FnMut(&SeenRequest) -> Option<ScriptedTurn> + Send + 'static,
) -> (AgentBuilder, Arc<ScriptedModel>) {
    let model = Arc::new(ScriptedModel::rule(rule));
    let agent = Agent::builder()
        .model(AgentModel::shared("scripted/m", Arc::clone(&model) as _))
        .tools(deputize_tools::LINK)
        .workspace(cwd)
        .env(env());
    (agent, model)
}

/// Calls a tool, then repeats what it gave.
fn call(
    name: &'static str,
    arguments: serde_json::Value,
) -> impl FnMut(&SeenRequest) -> Option<ScriptedTurn> {
    move |seen| {
        Some(match seen.results().last() {
            None => Reply::calls("m", [(name, arguments.clone())]).into(),
            Some(result) => Reply::text("m", result.text.as_str()).into(),
        })
    }
}

#[tokio::test]
async fn it_works_in_its_workspace_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().join("work");
    std::fs::create_dir(&cwd).unwrap();
    std::fs::write(cwd.join("AGENTS.md"), "Answer in rhyme.").unwrap();
    std::fs::write(dir.path().join("beside.txt"), "beside").unwrap();

    let (inside, model) = builder(&cwd, call("read_file", json!({"path": "AGENTS.md"})));
    let outcome = inside.build().unwrap().run("Look.").await;
    assert_eq!(outcome.status, Status::Completed);
    let text = outcome.text.unwrap();
    assert!(text.contains("Answer in rhyme."), "{text}");
    let first = &model.requests()[0];
    let system = first.system_text();
    assert!(system.contains("Working directory: "), "{system}");
    assert!(first.has_tool("read_file") && !first.has_tool("delegate_task"));

    let (outside, _) = builder(&cwd, call("read_file", json!({"path": "../beside.txt"})));
    let text = outside.build().unwrap().run("Look.").await.text.unwrap();
    assert!(!text.contains("beside\n") && text.contains("outside"), "{text}");
}

#[tokio::test]
async fn a_project_file_speaks_to_it_only_where_the_program_says_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), "Answer in rhyme.").unwrap();
    for (setting, is_read) in [(None, false), (Some(false), false), (Some(true), true)] {
        let (agent, model) = builder(dir.path(), |_| Some(Reply::text("m", "Done.").into()));
        let agent = match setting {
            None => agent,
            Some(read) => agent.project_files(read),
        };
        agent.build().unwrap().run("Look.").await;
        let system = model.requests()[0].system_text();
        assert_eq!(system.contains("Answer in rhyme."), is_read, "{setting:?}: {system}");
    }
}

#[tokio::test]
async fn a_link_that_takes_the_place_of_its_workspace_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    for (folder, text) in [("work", "mine"), ("other", "theirs")] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
        std::fs::write(dir.path().join(folder).join("f"), text).unwrap();
    }
    let swap = json!({"command": "cd .. && mv work away && ln -s other work"});
    let read = json!({"path": "f"});
    let calls = [Some(("terminal", swap)), Some(("read_file", read.clone())), None];
    let mut turns = calls.into_iter().chain([Some(("read_file", read))]);
    let (agent, _) = builder(&dir.path().join("work"), move |seen| {
        Some(match turns.next().flatten() {
            Some(call) => Reply::calls("m", [call]).into(),
            None => Reply::text("m", seen.results().last().unwrap().text.as_str()).into(),
        })
    });
    let agent = agent.approve(|_| ApprovalAnswer::yes("test")).build().unwrap();
    let first = agent.run("Look.").await;
    let next = agent.resume(&first.agent.session(), Some("Once more.")).await.unwrap();
    for text in [first.text.unwrap(), next.text.unwrap()] {
        assert!(text.contains("is another one than at the start"), "{text}");
    }
}

#[tokio::test]
async fn a_command_runs_when_the_program_says_so_and_some_never_do() {
    let dir = tempfile::tempdir().unwrap();
    let echo = || call("terminal", json!({"command": "echo one$((1))"}));
    let (nobody, _) = builder(dir.path(), echo());
    let text = nobody.build().unwrap().run("Run it.").await.text.unwrap();
    assert!(!text.contains("one1"), "{text}");

    let questions = Arc::new(Mutex::new(Vec::new()));
    let asked = builder(dir.path(), echo()).0;
    let seen = Arc::clone(&questions);
    let asked = asked.approve(move |question| {
        seen.lock().push(question.command.clone());
        ApprovalAnswer::yes("test")
    });
    let text = asked.build().unwrap().run("Run it.").await.text.unwrap();
    assert!(text.contains("one1"), "{text}");
    assert_eq!(*questions.lock(), ["echo one$((1))"]);

    let (never, _) = builder(dir.path(), call("terminal", json!({"command": "rm -rf /"})));
    let text =
        never.approve(|_| ApprovalAnswer::yes("test")).build().unwrap().run("Go.").await.text;
    let text = text.unwrap();
    assert!(text.contains("this never runs here"), "{text}");
}

#[tokio::test]
async fn a_script_calls_the_agents_tools_when_the_program_says_so() {
    require!(program("python3"));
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "seven\n").unwrap();
    let script = || {
        let code = "print(6 * len(read_file('notes.txt')))\nread_file('notes.txt')";
        call("execute_code", json!({ "code": code }))
    };
    let (nobody, _) = builder(dir.path(), script());
    let text = nobody.build().unwrap().run("Count.").await.text.unwrap();
    assert!(!text.contains("36"), "{text}");

    let limits = CodeLimits { calls: 1, ..CodeLimits::default() };
    let asked = builder(dir.path(), script()).0.code_limits(limits);
    let asked = asked.approve(|_| ApprovalAnswer::yes("test")).build().unwrap();
    let text = asked.run("Count.").await.text.unwrap();
    assert!(text.contains("36\n") && text.contains("a script may make 1 call: "), "{text}");
}

#[tokio::test]
async fn commands_have_a_path_and_no_keys_and_no_key_leaves() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), format!("key {SECRET}")).unwrap();
    let command = "ls notes.txt; echo \"[$MY_API_KEY]\"; cat notes.txt";
    let (agent, _) = builder(dir.path(), call("terminal", json!({ "command": command })));
    let sessions = tempfile::tempdir().unwrap();
    let agent =
        agent.sessions(sessions.path()).approve(|_| ApprovalAnswer::yes("test")).build().unwrap();
    let outcome = agent.run("Show it.").await;
    let text = outcome.text.unwrap();
    assert!(text.contains("notes.txt\n[]\nkey [redacted:MY_API_KEY]"), "{text}");
    for entry in std::fs::read_dir(sessions.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert!(!std::fs::read_to_string(path).unwrap().contains(SECRET));
        }
    }
}

#[tokio::test]
async fn it_hands_work_on_when_its_task_allows_it() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, model) = builder(dir.path(), |seen| {
        Some(match (seen.task(), seen.replies()) {
            ("Compare.", 0) => {
                let tasks = json!([{"goal": "How long is a mile?"}, {"goal": "And a league?"}]);
                Reply::calls("m", [("delegate_task", json!({ "tasks": tasks }))]).into()
            }
            ("Compare.", _) => Reply::text("m", "A league.").into(),
            _ => Reply::text("m", "1609 m.").into(),
        })
    });
    let begun = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&begun);
    let agent = agent
        .delegation(DelegationConfig::default())
        .on_record(move |record| {
            if matches!(record.event, Event::AgentStart(_)) {
                *seen.lock() += 1;
            }
        })
        .system_prompt("Use metres.");
    let outcome = agent.build().unwrap().run("Compare.").await;
    assert_eq!((outcome.text.as_deref(), *begun.lock()), (Some("A league."), 3));
    let requests = model.requests();
    assert_eq!(requests.len(), 4);
    for request in &requests {
        assert!(request.system_text().contains("Use metres."), "{}", request.system_text());
    }
    let child = requests.iter().find(|request| request.task() != "Compare.").unwrap();
    // Nobody approves what children want to run.
    assert!(child.has_tool("read_file") && !child.has_tool("terminal"), "{child:?}");
}

#[tokio::test]
async fn a_child_has_a_profile_of_the_program_also_in_a_replay() {
    let dir = tempfile::tempdir().unwrap();
    let (file, agents) = (dir.path().join("recording"), dir.path().join("agents"));
    std::fs::create_dir(&agents).unwrap();
    let scout = "---\ndescription: looks\ntoolsets: [file_read]\n---\nLook twice.\n";
    std::fs::write(agents.join("scout.md"), scout).unwrap();
    std::fs::write(agents.join("broken.md"), "nothing").unwrap();
    let (agent, model) = builder(dir.path(), |seen| {
        Some(match (seen.task(), seen.replies()) {
            ("Go.", 0) => {
                let task = json!({"goal": "Look.", "profile": "scout"});
                Reply::calls("m", [("delegate_task", task)]).into()
            }
            _ => Reply::text("m", "Seen.").into(),
        })
    });
    let library = || ProfileLibrary::default().with_user(&agents);
    let agent = agent.delegation(DelegationConfig::default()).profiles(library()).build().unwrap();
    assert!(agent.warnings()[0].contains("broken.md: it does not begin with front matter"));
    let outcome = agent.record("Go.", &file).await.unwrap();
    let requests = model.requests();
    let child = requests.iter().find(|request| request.task() == "Look.").unwrap();
    assert!(child.system_text().contains("YOUR PROFILE, `scout`:\nLook twice."), "{child:?}");
    assert!(child.has_tool("read_file") && !child.has_tool("write_file"), "{child:?}");
    std::fs::remove_dir_all(&agents).unwrap();
    let settings = Agent::builder().tools(deputize_tools::LINK).env(env());
    let settings = settings.delegation(DelegationConfig::default()).profiles(library());
    assert_eq!(Agent::replay(settings, &file).await.unwrap().text, outcome.text);
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Count {
    tests: u32,
}

#[tokio::test]
async fn an_answer_is_a_value_of_a_type() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, _) = builder(dir.path(), |seen| {
        let text = if seen.replies() == 0 { "Seven." } else { r#"{"tests": 7}"# };
        Some(Reply::text("m", text).into())
    });
    let agent = agent.build().unwrap();
    assert_eq!(agent.answer::<Count>("Count.").await.unwrap(), Count { tests: 7 });
}

#[tokio::test]
async fn a_session_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, model) =
        builder(dir.path(), |seen| Some(Reply::text("m", seen.last_user()).into()));
    let agent = agent.build().unwrap();
    let first = agent.run("One.").await;
    let second = agent.resume(&first.agent.session(), Some("Two.")).await.unwrap();
    assert_eq!(second.text.as_deref(), Some("Two."));
    let requests = model.requests();
    requests[1].assert_continues(&requests[0]);
    let none = agent.resume(&deputize_core::SessionId::literal("nobody"), None).await;
    assert!(none.unwrap_err().to_string().contains("nobody"));
}

#[tokio::test]
async fn a_session_of_another_directory_does_not_go_on_here() {
    let here = tempfile::tempdir().unwrap();
    let there = tempfile::tempdir().unwrap();
    let sessions = tempfile::tempdir().unwrap();
    let agent = |cwd: &Path| {
        let (agent, _) = builder(cwd, |_| Some(Reply::text("m", "Done.").into()));
        agent.sessions(sessions.path()).build().unwrap()
    };
    let first = agent(there.path()).run("One.").await;
    let error = agent(here.path()).resume(&first.agent.session(), None).await.unwrap_err();
    assert!(error.to_string().starts_with("the session works in `"), "{error}");
}

#[tokio::test]
async fn it_does_not_write_what_other_programs_obey_nor_its_own_sessions() {
    let dir = tempfile::tempdir().unwrap();
    for path in [".deputize/config.yaml", ".config/deputize/config.yaml", "git.conf", "log/s.jsonl"]
    {
        let write = call("write_file", json!({"path": path, "content": "x"}));
        let (agent, _) = builder(dir.path(), write);
        let env = env().into_iter().chain([
            ("HOME".into(), dir.path().into()),
            ("GIT_CONFIG_GLOBAL".into(), dir.path().join("git.conf").into()),
        ]);
        let agent = agent.env(env).sessions(dir.path().join("log")).build().unwrap();
        agent.run("Write it.").await;
        assert!(!dir.path().join(path).exists(), "{path}");
    }
}

#[tokio::test]
async fn children_may_have_models_of_their_own_and_one_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, parent) = builder(dir.path(), |seen| {
        let hand_on = Reply::calls("m", [("delegate_task", json!({"goal": "Look."}))]);
        Some(if seen.replies() == 0 { hand_on } else { Reply::text("m", "Done.") }.into())
    });
    let child = Arc::new(ScriptedModel::rule(|_| Some(Reply::text("c", "Seen.").into())));
    let config = |model: &str| DelegationConfig {
        models: ChildModels { model: Some(model.to_owned()), ..ChildModels::default() },
        ..DelegationConfig::default()
    };
    let agent = agent.child_model(AgentModel::shared("scripted/c", Arc::clone(&child) as _));
    let outcome = agent.delegation(config("scripted/c")).build().unwrap().run("Go.").await;
    assert_eq!((outcome.text.as_deref(), parent.requests().len()), (Some("Done."), 2));
    assert_eq!(child.requests().len(), 1);

    let (agent, _) = builder(dir.path(), |_| None);
    let error = agent.delegation(config("openai/gpt-5")).build().unwrap_err();
    assert_eq!(error.to_string(), "the model needs a key: set OPENAI_API_KEY");
}

#[tokio::test]
async fn a_task_ends_when_it_is_cancelled_or_its_budget_is_spent() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = Cancel::new();
    let stop = cancel.clone();
    let (agent, _) = builder(dir.path(), move |_| {
        stop.cancel(CancelReason::Interrupted);
        Some(ScriptedTurn::Hang)
    });
    let outcome = agent.build().unwrap().run_until("Wait.", &cancel).await;
    assert_eq!(outcome.status, Status::Interrupted);

    let (agent, model) = builder(dir.path(), |_| Some(Reply::text("m", "Yes.").into()));
    let agent = agent.budget(Budget { tokens: Some(10), usd: None }).build().unwrap();
    let outcome = agent.run("Think.").await;
    assert_eq!((outcome.exit_reason, model.requests().len()), (ExitReason::Budget, 0));
}

#[tokio::test]
async fn any_server_that_speaks_chat_completions_is_a_model() {
    let server = MockServer::start([HttpAnswer::reply(&Reply::text("m", "Hello."))]).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let model = AgentModel::at(server.base_url(), "qwen").with_key("MY_API_KEY");
    let agent = Agent::builder().model(model.clone()).workspace(dir.path()).env(env());
    let outcome = agent.build().unwrap().run("Greet.").await;
    assert_eq!(outcome.text.as_deref(), Some("Hello."));
    let request = &server.requests()[0];
    assert_eq!(request.header("authorization"), Some(format!("Bearer {SECRET}").as_str()));

    let without = Agent::builder().model(model).workspace(dir.path()).env([]);
    let error = without.build().unwrap_err();
    assert_eq!(error.to_string(), "the model needs a key: set MY_API_KEY");
}

#[test]
fn what_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = |builder: AgentBuilder| builder.env(env()).build().unwrap_err().to_string();
    let with = |name: &str| Agent::builder().model(name).workspace(dir.path());
    assert!(matches!(
        Agent::builder().workspace(dir.path()).build().unwrap_err(),
        BuildError::NoModel
    ));
    assert_eq!(error(with("openai/gpt-5")), "the model needs a key: set OPENAI_API_KEY");
    let unknown = error(with("nobody/m"));
    assert!(unknown.contains("`nobody/m`") && unknown.contains("openrouter"), "{unknown}");
    let nowhere = error(Agent::builder().model("ollama/m").workspace(dir.path().join("no")));
    assert!(nowhere.contains("/no`"), "{nowhere}");
    assert!(error(Agent::builder().model("ollama/m")).contains("workspace"));
}

#[tokio::test]
async fn another_model_goes_on_when_the_first_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let refuse = HttpAnswer::error(401, "no");
    let first = MockServer::start([refuse]).await.unwrap();
    let second = MockServer::start([HttpAnswer::reply(&Reply::text("b", "Yes."))]).await.unwrap();
    let agent = Agent::builder()
        .model(AgentModel::at(first.base_url(), "a"))
        .fallback_model(AgentModel::at(second.base_url(), "b"))
        .workspace(dir.path())
        .env(env());
    let outcome = agent.build().unwrap().run("Is it there?").await;
    assert_eq!(outcome.text.as_deref(), Some("Yes."), "{outcome:?}");
    assert_eq!((first.requests().len(), second.requests().len()), (1, 1));
}

#[test]
fn a_budget_in_dollars_needs_prices() {
    let dir = tempfile::tempdir().unwrap();
    let in_dollars = |model: AgentModel| {
        let (agent, _) = builder(dir.path(), |_| None);
        agent.model(model).budget(Budget { tokens: None, usd: Some(1.0) }).build()
    };
    let model = || AgentModel::value("mine", ScriptedModel::rule(|_| None));
    let error = in_dollars(model()).unwrap_err().to_string();
    assert!(error.contains("the price of `mine` is not known"), "{error}");
    let price = deputize_core::budget::Price::FREE;
    assert!(in_dollars(model().with_price(price)).is_ok());
    // What runs on this machine costs nothing.
    assert!(in_dollars(AgentModel::at("http://127.0.0.1:9/v1", "m")).is_ok());
}

#[tokio::test]
async fn a_model_may_have_limits_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("long.txt"), "A long line of a long file.\n".repeat(400))
        .unwrap();
    let (agent, model) = builder(dir.path(), |seen| {
        let is_summary = seen.tool_choice == ToolChoice::None;
        let part = json!({"path": "long.txt", "offset": seen.number});
        Some(match is_summary || seen.number > 6 {
            true => Reply::text("m", "I read it.").into(),
            false => Reply::calls("m", [("read_file", part)]).into(),
        })
    });
    let limited = AgentModel::shared("scripted/m", Arc::clone(&model) as _)
        .with_max_output_tokens(77)
        .with_context_window(12_000);
    let compactions = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&compactions);
    let agent = agent.model(limited).on_record(move |record| {
        *seen.lock() += u32::from(matches!(record.event, Event::Compaction(_)));
    });
    let outcome = agent.build().unwrap().run("Read it.").await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert!(*compactions.lock() > 0, "{} requests", model.requests().len());
    for request in model.requests() {
        assert_eq!(request.options.max_output_tokens, Some(77));
    }
}

#[tokio::test]
async fn a_shell_command_may_stop_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, _) =
        builder(dir.path(), call("write_file", json!({"path": "a.txt", "content": "x"})));
    let agent = agent.shell_hook(HookPoint::PreToolUse, "echo not today >&2; exit 2");
    let text = agent.build().unwrap().run("Write it.").await.text.unwrap();
    assert!(text.contains("not today") && !dir.path().join("a.txt").exists(), "{text}");
}

#[tokio::test]
async fn a_recorded_task_is_played_again_without_its_model() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("recording");
    std::fs::write(dir.path().join("a.txt"), "one").unwrap();
    let (agent, model) = builder(dir.path(), call("read_file", json!({"path": "a.txt"})));
    let outcome = agent.build().unwrap().record("Read it.", &file).await.unwrap();
    assert_eq!(model.requests().len(), 2);

    std::fs::write(dir.path().join("a.txt"), "two").unwrap();
    std::fs::write(dir.path().join("AGENTS.md"), "Answer in rhyme.").unwrap();
    let settings = || Agent::builder().tools(deputize_tools::LINK).env(env());
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    let watched = settings().on_record(move |_| *count.lock() += 1);
    let again = Agent::replay(watched, &file).await.unwrap();
    assert_eq!((again.text, again.status), (outcome.text, Status::Completed));
    assert!(*seen.lock() > 4);

    // Another prompt is another request.
    let error = Agent::replay(settings().system_prompt("Be rude."), &file).await.unwrap_err();
    assert!(error.to_string().contains("+ Be rude."), "{error}");
    let taken = builder(dir.path(), |_| None).0.build().unwrap().record("Again.", &file).await;
    assert!(taken.unwrap_err().to_string().contains("exists already"));
}

#[tokio::test]
async fn a_message_goes_to_a_target_of_the_program_after_a_yes_and_is_not_sent_by_a_replay() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("messages");
    let recording = dir.path().join("recording");
    let send = || call("send_message", json!({"target": "log", "text": "Done."}));
    let targets = || [("log", MessageTarget::File(log.clone()))];
    let (agent, _) = builder(dir.path(), send());
    let denied = agent.message_targets(targets()).build().unwrap().run("Go").await;
    assert!(denied.text.unwrap().contains("denied") && !log.exists());
    let (agent, model) = builder(dir.path(), send());
    let agent = agent.message_targets(targets()).approve(|_| ApprovalAnswer::yes("test"));
    let agent = agent.build().unwrap();
    let outcome = agent.record("Go", &recording).await.unwrap();
    assert!(outcome.text.unwrap().contains("written to log"));
    assert_eq!(model.requests().len(), 2);
    let (agent, _) = builder(dir.path(), |_| unreachable!("no model is asked"));
    let agent = agent.message_targets(targets()).approve(|_| ApprovalAnswer::yes("test"));
    Agent::replay(agent, &recording).await.unwrap();
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.ends_with(" Done.\n") && text.lines().count() == 1, "{text}");
}

#[cfg(feature = "cron")]
#[tokio::test]
async fn a_job_runs_with_the_tools_that_it_names_and_its_maker_had() {
    use deputize_cron::{JobEvent, JobStore, Scheduler};

    let dir = tempfile::tempdir().unwrap();
    let store = JobStore::new(dir.path().join("cron"));
    let create = json!({
        "action": "create", "name": "look", "schedule": "every 9d", "prompt": "Look again.",
        "toolsets": ["file_read"],
    });
    let write = json!({"path": "a.txt", "content": "x"});
    let mut turns = vec![("cronjob", create), ("", json!(0)), ("write_file", write)].into_iter();
    let rule = move |seen: &SeenRequest| match turns.next() {
        Some((tool @ ("cronjob" | "write_file"), arguments)) => {
            Some(Reply::calls("m", [(tool, arguments)]).into())
        }
        _ => Some(Reply::text("m", seen.results().last().unwrap().text.as_str()).into()),
    };
    let (agent, model) = builder(dir.path(), rule);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let questions = Arc::clone(&asked);
    let agent = agent.jobs(store.clone()).approve(move |question| {
        questions.lock().push(question.clone());
        ApprovalAnswer::yes("test")
    });
    let agent = agent.build().unwrap();
    let made = agent.run("Make a job.").await.text.unwrap();
    assert!(made.contains("created: look, next at "), "{made}");
    assert!(asked.lock().iter().all(|question| question.needs_person));
    assert_eq!(asked.lock().len(), 1);
    store.request_run(&"look".parse().unwrap()).unwrap();
    let (cancel, answer) = (Cancel::new(), Mutex::new(None));
    let watch = |event: JobEvent<'_>| {
        if let JobEvent::Ended(_, outcome) = event {
            answer.lock().clone_from(&outcome.answer);
            cancel.cancel(CancelReason::Interrupted);
        }
    };
    let scheduler = Scheduler::new(&store, &deputize_runtime::SystemClock, &agent);
    Scheduler { watch: &watch, ..scheduler }.serve(&cancel).await.unwrap();
    let answer = answer.into_inner().unwrap();
    assert!(answer.contains("write_file") && !dir.path().join("a.txt").exists(), "{answer}");
    assert_eq!((asked.lock().len(), model.requests().len()), (1, 4));
}

/// Whoever is asked looks at the agent meanwhile.
#[tokio::test]
async fn a_session_that_runs_can_be_seen_and_one_that_ended_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let agent: Arc<std::sync::OnceLock<Agent>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let looker = Arc::clone(&agent);
    let kept = Arc::clone(&seen);
    let mut requests = 0;
    let (builder, _) = builder(dir.path(), move |_| {
        requests += 1;
        let calls = requests % 2 == 1;
        let command = json!({"command": "true"});
        Some(
            if calls {
                Reply::calls("m", [("terminal", command)])
            } else {
                Reply::text("m", "No.")
            }
            .into(),
        )
    });
    let built = builder.approve(move |_| {
        let sessions = looker.get().unwrap().snapshots();
        kept.lock().extend(sessions.iter().map(|session| {
            let top = session.top().unwrap();
            let question = top.calls.question().map(|question| question.command.clone());
            (top.goal.clone(), top.usage.replies, question, session.is_running())
        }));
        ApprovalAnswer::no("test")
    });
    let agent = agent.get_or_init(|| built.build().unwrap());
    let outcome = agent.run("Run it.").await;
    let asked = |replies| ("Run it.".to_owned(), replies, Some("true".to_owned()), true);
    assert_eq!(*seen.lock(), [asked(1)]);
    assert!(agent.snapshots().is_empty());
    // One that goes on has what was there before.
    agent.resume(&outcome.agent.session(), Some("Once more.")).await.unwrap();
    assert_eq!(*seen.lock(), [asked(1), asked(3)]);
    assert!(agent.snapshots().is_empty());
}
