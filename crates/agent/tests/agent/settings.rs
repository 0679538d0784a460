//! What an embedder sets as the command line's configuration does: memory, compaction, heartbeats,
//! the time of children, and the web.

use std::sync::Arc;
use std::time::Duration;

use deputize_agent::{Agent, AgentModel, CompactionConfig, DelegationConfig, Heartbeat};
use deputize_core::memory::{Memory, MemoryError, MemorySnapshot};
use deputize_core::model::{Reply, ToolChoice};
use deputize_core::policy::ApprovalAnswer;
use deputize_core::sanitize::Secrets;
use deputize_core::{AgentId, BoxFuture, Cancel, CancelReason, Event, Outcome, Status};
use deputize_testkit::{ScriptedModel, ScriptedTurn, SeenRequest};
use deputize_tools::{MemoryFiles, MemoryTopic};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::{builder, call, env};

/// Delegates one task, and answers when it has the report.
fn delegate(seen: &SeenRequest) -> ScriptedTurn {
    match seen.replies() {
        0 => Reply::calls("m", [("delegate_task", json!({"goal": "Look."}))]).into(),
        _ => Reply::text("m", "Done.").into(),
    }
}

/// A memory that knows one fact, and notes the children that ended.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Memory for Notes {
    fn on_delegation<'a>(
        &'a self,
        task: &'a str,
        result: &'a Outcome,
        _: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        self.0.lock().push(format!("{task} {}", result.status.as_str()));
        Box::pin(async { Ok(()) })
    }

    fn snapshot(&self) -> Option<MemorySnapshot> {
        Some("Likes tea.".to_owned().into())
    }
}

#[tokio::test]
async fn a_memory_of_the_program_speaks_to_the_agent_alone_and_hears_of_each_child_once() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, model) = builder(dir.path(), |seen| {
        Some(if seen.says("Look.") && seen.replies() == 0 && !seen.has_tool("delegate_task") {
            Reply::text("m", "Seen.").into()
        } else {
            delegate(seen)
        })
    });
    let notes = Notes::default();
    let agent = agent.memory(notes.clone()).delegation(DelegationConfig::default());
    let file = dir.path().join("recording");
    let outcome = agent.build().unwrap().record("Go.", &file).await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("Done."));
    assert_eq!(*notes.0.lock(), ["Look. completed"]);
    let told = model.requests().iter().map(|seen| seen.says("Likes tea.")).collect::<Vec<_>>();
    assert_eq!(told, [true, false, true]);

    // It heard of the child when that happened.
    let again = Agent::builder().tools(deputize_tools::LINK).env(env()).memory(notes.clone());
    let again = again.delegation(DelegationConfig::default());
    assert_eq!(Agent::replay(again, &file).await.unwrap().text, outcome.text);
    assert_eq!(notes.0.lock().len(), 1);
}

#[tokio::test]
async fn facts_in_memory_files_last_from_one_agent_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("memory");
    let files = MemoryFiles::new(folder.clone(), Secrets::default());
    files.add(MemoryTopic::User, "Likes tea.", &[]).unwrap();
    let add = json!({"action": "add", "topic": "work", "text": "Tests run with just."});
    let (agent, first) = builder(dir.path(), call("memory", add));
    let recording = dir.path().join("recording");
    let agent = agent.memory_files(&folder).approve(|_| ApprovalAnswer::yes("test"));
    let outcome = agent.build().unwrap().record("Note it.", &recording).await.unwrap();
    first.requests()[0].assert_says("Likes tea.").assert_silent_about("Tests run");

    let (agent, second) = builder(dir.path(), |_| Some(Reply::text("m", "Done.").into()));
    agent.memory_files(&folder).build().unwrap().run("Go.").await;
    second.requests()[0].assert_says("Likes tea.").assert_says("Tests run with just.");
    let (agent, without) = builder(dir.path(), |_| Some(Reply::text("m", "Done.").into()));
    agent.build().unwrap().run("Go.").await;
    without.requests()[0].assert_silent_about("Likes tea.");

    // A replay has the facts of the recording.
    let again = Agent::builder().tools(deputize_tools::LINK).env(env()).memory_files(&folder);
    assert_eq!(Agent::replay(again, &recording).await.unwrap().text, outcome.text);
}

#[tokio::test]
async fn the_model_of_summaries_writes_them_from_the_set_share_of_the_context_on() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("long.txt"), "a line of the file\n".repeat(900)).unwrap();
    let read = |seen: &SeenRequest| match seen.replies() {
        0..5 => Reply::calls("m", [("read_file", json!({"path": "long.txt"}))]),
        _ => Reply::text("m", "Done."),
    };
    for (at, is_compacted) in [(0.2, true), (1.0, false)] {
        let model = Arc::new(ScriptedModel::rule(move |seen| Some(read(seen).into())));
        let writer =
            Arc::new(ScriptedModel::rule(|_| Some(Reply::text("w", "Read it so far.").into())));
        let own = AgentModel::shared("scripted/m", Arc::clone(&model) as _);
        let (agent, _) = builder(dir.path(), |_| None);
        let agent = agent
            .model(own.with_context_window(100_000))
            .child_model(AgentModel::shared("scripted/w", Arc::clone(&writer) as _))
            .compaction(CompactionConfig { at, model: "scripted/w".to_owned() });
        agent.max_iterations(9).build().unwrap().run("Read it.").await;
        assert_eq!(!writer.requests().is_empty(), is_compacted, "at {at}");
    }

    let (agent, _) = builder(dir.path(), |_| None);
    let model = "openai/gpt-5".to_owned();
    let error = agent.compaction(CompactionConfig { at: 0.8, model }).build().unwrap_err();
    assert_eq!(error.to_string(), "the model needs a key: set OPENAI_API_KEY");
}

#[tokio::test(start_paused = true)]
async fn children_show_that_they_live_as_often_as_the_program_says() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = Cancel::new();
    let stop = cancel.clone();
    let (agent, _) = builder(dir.path(), |seen| {
        Some(if seen.has_tool("delegate_task") { delegate(seen) } else { ScriptedTurn::Hang })
    });
    let every = Duration::from_secs(7);
    assert!(every < Heartbeat::default().every);
    let agent = agent.heartbeat(Heartbeat { every, ..Heartbeat::default() });
    let agent = agent.delegation(DelegationConfig::default()).on_record(move |record| {
        if matches!(record.event, Event::AgentHeartbeat { .. }) {
            stop.cancel(CancelReason::Interrupted);
        }
    });
    let start = Instant::now();
    let outcome = agent.build().unwrap().run_until("Go.", &cancel).await;
    assert_eq!(outcome.status, Status::Interrupted);
    // The clock stands still, but for the timers that something waits for.
    let time = start.elapsed();
    assert!(time >= every && time < Heartbeat::default().every, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn children_end_when_their_time_together_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let (agent, model) = builder(dir.path(), |seen| {
        let is_child = !seen.says("Go.");
        Some(match seen.tool_choice {
            ToolChoice::None if is_child => Reply::text("m", "That is all.").into(),
            _ if is_child => ScriptedTurn::Hang,
            _ => delegate(seen),
        })
    });
    let agent = agent.children_time(Duration::from_secs(5));
    let agent = agent.delegation(DelegationConfig::default()).build().unwrap();
    assert_eq!(agent.run("Go.").await.text.as_deref(), Some("Done."));
    let requests = model.requests();
    let result = &requests.last().unwrap().results()[0].text;
    assert!(result.as_str().contains("\"exit_reason\":\"budget\""), "{}", result.as_str());
}

#[cfg(feature = "web")]
#[tokio::test]
async fn the_web_of_an_agent_has_the_hosts_and_the_search_engine_that_the_program_names() {
    use deputize_testkit::MockServer;
    use deputize_tools::web::http::AddressPolicy;
    use deputize_tools::web::{FetchSettings, LINK, SearchBackend, SearchSettings, Settings};

    let dir = tempfile::tempdir().unwrap();
    // It has neither pages nor hits, and says so.
    let server = MockServer::start([]).await.unwrap();
    let address = server.base_url();
    let host = address.split("//").nth(1).unwrap().split('/').next().unwrap();
    let policy = AddressPolicy::new(vec![host.parse().unwrap()]);
    let search = SearchSettings {
        backend: SearchBackend::Searxng,
        base_url: Some(address.parse().unwrap()),
        key: None,
    };
    let settings = Settings {
        fetch: FetchSettings { policy, ..FetchSettings::default() },
        search: Some(search),
        ..Settings::default()
    };
    let fetch = json!({"url": format!("http://{host}/page")});
    let (agent, without) = builder(dir.path(), call("web_fetch", fetch.clone()));
    let refused = agent.tools(LINK).build().unwrap().run("Read it.").await.text.unwrap();
    assert!(!refused.contains("answered 404"), "{refused}");
    assert!(!without.requests()[0].has_tool("web_search"));

    let (agent, _) = builder(dir.path(), call("web_fetch", fetch));
    let read = agent.web(settings.clone()).build().unwrap().run("Read it.").await.text.unwrap();
    assert!(read.contains("answered 404"), "{read}");
    let (agent, with) = builder(dir.path(), call("web_search", json!({"query": "tea"})));
    let recording = dir.path().join("recording");
    let agent = agent.web(settings.clone()).build().unwrap();
    let found = agent.record("Search.", &recording).await.unwrap();
    assert!(with.requests()[0].has_tool("web_search"));
    assert!(found.text.as_deref().unwrap().contains("404"), "{found:?}");
    let again = Agent::builder().tools(deputize_tools::LINK).env(env()).web(settings);
    assert_eq!(Agent::replay(again, &recording).await.unwrap().text, found.text);
}
