//! How much of what is sent was sent before: what a provider's cache can serve. Counted over
//! tools, then system text, then messages, which is the order that providers cache in.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use deputize_core::model::Reply;
use deputize_testkit::{HttpRequest, MockAnswer};
use serde_json::{Value, json};

use super::{is_child, run};
use crate::program::{ChatRequest, Lab, RunningProgram, model};

/// A request as a provider's cache sees it.
struct Prefix {
    /// Tools and system text.
    head: String,
    /// And the conversation.
    all: String,
    /// Where each tool ends.
    tools: Vec<usize>,
}

impl Prefix {
    fn of(request: &HttpRequest) -> Self {
        let request = request.json();
        let mut head = String::new();
        let mut tools = Vec::new();
        for tool in request["tools"].as_array().into_iter().flatten() {
            head.push_str(&tool.to_string());
            tools.push(head.len());
        }
        let messages = request["messages"].as_array().unwrap();
        let (system, talk): (Vec<&Value>, Vec<&Value>) =
            messages.iter().partition(|message| message["role"] == "system");
        system.iter().for_each(|message| head.push_str(message["content"].as_str().unwrap()));
        let talk: String = talk.iter().map(|message| message.to_string()).collect();
        Self { all: format!("{head}{talk}"), head, tools }
    }

    /// How many bytes of its tools and system text stand at the beginning of another's.
    fn shared(&self, other: &Self) -> usize {
        common(&self.head, &other.head)
    }
}

fn common(one: &str, two: &str) -> usize {
    one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count()
}

fn percent(part: usize, whole: usize) -> f64 {
    let share = |n: usize| u32::try_from(n).map(f64::from).unwrap();
    100.0 * share(part) / share(whole)
}

/// A parent that looks, hands two parts on, and ends; children look twice.
fn family(
    role: &'static str,
    name: &'static str,
) -> impl Fn(&ChatRequest) -> MockAnswer + Send + Sync + 'static {
    let task = name == "task";
    let history = if name == FORK { "fork" } else { "none" };
    move |asked| {
        let calls = |calls: Vec<(&str, Value)>| Reply::calls("m", calls);
        let is_child = is_child(asked) || asked.last_user().contains("YOUR TASK:");
        MockAnswer::reply(&match (is_child, asked.results().len()) {
            (false, 0) => calls(vec![("list_dir", json!({}))]),
            (false, 1) if task => calls(vec![
                ("task", json!({"description": "Look at one"})),
                ("task", json!({"description": "Look at two"})),
            ]),
            (false, 1) => calls(vec![(
                "delegate_task",
                json!({"role": role, "history": history, "tasks": [
                    {"goal": "Look at one", "context": "In src."},
                    {"goal": "Look at two", "context": "In docs. Be quick."},
                ]}),
            )]),
            (false, _) => Reply::text("m", "Both looked."),
            (true, n @ (0 | 1)) => calls(vec![("list_dir", json!({"depth": n + 1}))]),
            (true, _) => Reply::text("m", "I looked."),
        })
    }
}

/// The requests of the agent whose last message of a user holds a word, in order.
fn with_task<'r>(requests: &'r [HttpRequest], word: &str) -> Vec<&'r HttpRequest> {
    requests.iter().filter(|request| ChatRequest::of(request).last_user().contains(word)).collect()
}

/// The form whose children begin with their parent's conversation.
const FORK: &str = "cache_preserving, history: fork";

/// What one form of delegation shares.
struct Form {
    name: &'static str,
    /// Bytes of a child's tools and system text.
    head: usize,
    /// How much of the head its parent's begin with.
    parent: usize,
    /// How much a sibling's begin with.
    sibling: usize,
    /// Whether every tool before the first one that the child lost is shared.
    tools_before: bool,
    /// Whether the child's conversation begins with all that its parent had sent before the call.
    conversation: bool,
    /// Bytes of the child's own brief in its system text.
    brief: usize,
}

impl Form {
    async fn of(name: &'static str, set: &[&str], role: &'static str) -> Self {
        let lab = Lab::new();
        fs::write(lab.work("AGENTS.md"), "Use tabs.\n").unwrap();
        let server = model(family(role, name)).await;
        run(&lab, &server, set, "Look around").await;
        let requests = server.requests();
        for word in ["Look around", "Look at one", "Look at two"] {
            append_only(name, &with_task(&requests, word));
        }
        let first = |word| Prefix::of(with_task(&requests, word)[0]);
        let parent = first("Look around");
        let one = first("Look at one");
        let two = first("Look at two");
        let own = one.tools.last().copied().unwrap_or(0);
        let kept = parent.tools.iter().zip(&one.tools).filter(|(a, b)| a == b).count();
        let before = kept.checked_sub(1).map_or(0, |last| parent.tools[last]);
        Self {
            name,
            head: one.head.len(),
            parent: one.shared(&parent),
            sibling: one.shared(&two),
            tools_before: one.shared(&parent) >= before && kept > 0,
            conversation: one
                .all
                .starts_with(&Prefix::of(with_task(&requests, "Look around")[1]).all),
            brief: one.head.len() - one.head.find("YOUR TASK:").unwrap_or(one.head.len()).max(own),
        }
    }
}

/// What an agent has sent is never sent again changed: each request begins with the one before,
/// and beside what is new in the conversation at most 2 % is.
fn append_only(form: &str, mine: &[&HttpRequest]) {
    for pair in mine.windows(2) {
        let before = Prefix::of(pair[0]);
        let after = Prefix::of(pair[1]);
        assert_eq!(before.head, after.head, "{form}: tools and system text");
        assert!(after.all.starts_with(&before.all), "{form}: history");
        let old = pair[0].text();
        let new = pair[1].text();
        let wire = new.len() - common(&old, &new);
        let content = after.all.len() - before.all.len();
        assert!(wire <= content + new.len() / 50, "{form}: {wire} bytes for {content} new ones");
    }
}

/// What gives an orchestrator all tools of its parent.
const EQUAL: [&str; 3] = [
    "delegation.max_spawn_depth=2",
    "delegation.approvals=auto",
    "toolsets=[delegation, file, terminal, web]",
];

#[tokio::test]
async fn what_every_form_shares() {
    let shares = "delegation.tool_schemas=cache_preserving";
    let forms = [
        Form::of("default", &[], "leaf").await,
        Form::of("cache_first", &["delegation.prompt_layout=cache_first"], "leaf").await,
        Form::of("orchestrators", &["delegation.max_spawn_depth=2"], "orchestrator").await,
        Form::of("equal lists", &EQUAL, "orchestrator").await,
        Form::of(
            "equal lists, cache_first",
            &[&EQUAL[..], &["delegation.prompt_layout=cache_first"]].concat(),
            "orchestrator",
        )
        .await,
        Form::of("cache_preserving", &[shares], "leaf").await,
        Form::of(
            "cache_preserving, orchestrators",
            &[shares, "delegation.max_spawn_depth=2"],
            "orchestrator",
        )
        .await,
        Form::of(FORK, &[shares], "leaf").await,
        Form::of("task", &["delegation.tool_name=task"], "leaf").await,
    ];
    let mut table = String::from("| form | system + tools, bytes | parent, % | sibling, % |\n");
    for form in &forms {
        let share = |part| percent(part, form.head);
        writeln!(
            table,
            "| {} | {} | {:.1} | {:.1} |",
            form.name,
            form.head,
            share(form.parent),
            share(form.sibling)
        )
        .unwrap();
        assert!(form.tools_before, "{}", form.name);
        assert_eq!(form.conversation, form.name == FORK, "{}", form.name);
        if form.name.starts_with("cache_preserving") || form.name.starts_with("equal lists") {
            assert!(share(form.parent) >= 97.0 && share(form.sibling) >= 99.0, "{table}");
            assert_eq!(form.brief, 0);
        }
        if form.name.contains("cache_first") {
            // All that a sibling does not share is what it alone is told.
            assert!(percent(form.sibling, form.head - form.brief) >= 99.0, "{table}");
        }
    }
    println!("{table}");
}

#[tokio::test]
async fn no_two_calls_of_a_fork_have_one_id_and_its_costs_are_its_own() {
    let lab = Lab::new();
    let server = model(family("leaf", FORK)).await;
    let set = "delegation.tool_schemas=cache_preserving";
    let args = ["--output", "events", "--record", "../t.jsonl", "--set", set, "Look around"];
    let ended = lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    let own = with_task(&requests, "Look at one");
    let last = own.last().unwrap().json();
    let messages = last["messages"].as_array().unwrap();
    let calls = messages.iter().flat_map(|it| it["tool_calls"].as_array().into_iter().flatten());
    let ids: Vec<String> = calls.map(|call| call["id"].to_string()).collect();
    let distinct: BTreeSet<&String> = ids.iter().collect();
    assert_eq!((ids.len(), distinct.len()), (2, 2), "{ids:?}");
    let starts = ended.events("agent.start");
    let histories: Vec<&Value> = starts.iter().map(|start| &start["history"]).collect();
    assert_eq!(histories, [&Value::Null, &json!("fork"), &json!("fork")]);
    let show = |args: &[&str]| {
        let command = lab.deputize(&[&["sessions", "show"], args].concat());
        async { RunningProgram::start(command).end().await.with_code(0).out }
    };
    let session = lab.session();
    let tree = show(&[&session]).await;
    assert_eq!(tree.matches("  [fork] ").count(), 2, "{tree}");
    let child = show(&[&session, "--agent", starts[1]["agent"].as_str().unwrap()]).await;
    assert!(child.contains("\nhistory: fork (its conversation begins"), "{child}");
    let agents = lab.deputize(&["agents", &session, "--json"]);
    let agents = RunningProgram::start(agents).end().await.with_code(0).out;
    assert_eq!(agents.matches("\"history\": \"fork\"").count(), 2, "{agents}");
    let top = with_task(&requests, "Look around");
    let result = ChatRequest::of(top[2]).results()[1].to_owned();
    let line = result.lines().find(|line| line.starts_with('{')).unwrap();
    let result: Value = serde_json::from_str(line).unwrap();
    for entry in result["results"].as_array().unwrap() {
        assert_eq!(entry["api_calls"], 2, "{entry}");
        assert_eq!(entry["tool_trace"].as_array().unwrap().len(), 1, "{entry}");
    }
    drop(server);
    let file = lab.path("t.jsonl");
    let again = ["run", "--replay", file.to_str().unwrap(), "--output", "events"];
    let played = RunningProgram::start(lab.deputize(&again)).end().await.with_code(0);
    assert_eq!(played.out, ended.out);
}

#[tokio::test]
async fn a_fork_that_no_cache_would_serve_is_refused() {
    let lab = Lab::new();
    let server = model(family("leaf", FORK)).await;
    lab.run(&server, &["Look around"]).end().await.with_code(0);
    let requests = server.requests();
    let refused = ChatRequest::of(requests.last().unwrap()).results()[1].to_owned();
    assert!(refused.contains("E_HISTORY") && refused.contains("tool_schemas"), "{refused}");
    let offered = |request: &HttpRequest| request.json()["tools"].to_string().contains("\"fork\"");
    assert!(!requests.iter().any(offered), "what is refused is not offered");
}
