use super::*;
use crate::fixture::{agent_start, record};

fn entries(fold: &mut SessionFold, records: &[String]) -> Vec<String> {
    let apply = |(seq, record): (u64, &String)| {
        let raw: Box<RawValue> = RawValue::from_string(record.clone()).unwrap();
        fold.apply(seq, &raw)
    };
    let line = |entry: Entry| {
        let Entry { seq, agent, kind, text, .. } = entry;
        format!("{seq} {} [{agent}] {text}", kind.as_str())
    };
    (0..).zip(records).filter_map(apply).map(line).collect()
}

/// A session with a child and an external agent, and records of no known shape.
fn records() -> Vec<String> {
    let child = "s/1.0.0";
    let fact = serde_json::json!({"fact": "outside_read", "source": "web:a.example"});
    [
        record(0, "s", &serde_json::json!({"type": "session.start", "cwd": "/"})),
        record(1, "s", &agent_start("s", "Fix the\nbuild")),
        record(2, "s", &serde_json::json!({"type": "message", "text": "[date]\nFix the\nbuild"})),
        record(3, "s", &serde_json::json!({"type": "model.response", "reply": {"text": " \n"}})),
        record(
            4,
            "s",
            &serde_json::json!({"type": "tool.start", "tool": "terminal",
            "arguments": r#"{"command": "cargo build", "seconds": 5, "content": ""}"#}),
        ),
        record(
            5,
            "s",
            &serde_json::json!({"type": "tool.end", "tool": "terminal",
            "result": {"text": "<tool:terminal b0>\nerror[E0308]\n</b0>\n[exit code 1]", "status": "ok",
                "sources": ["tool:terminal", "mcp:docs", "new:x"]},
            "boundary": "b0", "facts": [fact, {"fact": "new"}]}),
        ),
        record(6, child, &agent_start(child, "Look around")),
        record(7, child, &serde_json::json!({"type": "message", "text": "Look around"})),
        record(8, child, &serde_json::json!({"type": "message", "text": "And\u{1b}[2J there"})),
        record(
            9,
            child,
            &serde_json::json!({"type": "model.response",
            "reply": {"text": "Seen."}}),
        ),
        record(10, child, &serde_json::json!({"type": "agent.end", "text": "Seen."})),
        record(
            11,
            "s",
            &serde_json::json!({"type": "message", "text": "ended",
            "from": "s/1.0.0", "sources": ["child:s/1.0.0"]}),
        ),
        record(12, "s", &serde_json::json!({"type": "message", "text": "Thanks"})),
        record(
            13,
            "s/1.0.1",
            &serde_json::json!({"type": "agent.end", "external": true,
            "text": "Its own words"}),
        ),
        record(
            14,
            "s",
            &serde_json::json!({"type": "tool.start", "tool": TOOL_NAME,
            "arguments": r#"{"query": "build"}"#}),
        ),
        record(15, "s", &serde_json::json!({"type": "model.response", "reply": 3})),
        record(16, "s", &serde_json::json!({"type": "agent.start", "spec": {}})),
        record(17, "s", &serde_json::json!({"type": "unheard.of"})),
    ]
    .into()
}

/// Results that are not searched.
fn other_results() -> Vec<String> {
    let end = |seq, tool: &str, result: Value| {
        let event = serde_json::json!({"type": "tool.end", "tool": tool, "result": result});
        record(seq, "s", &event)
    };
    vec![
        end(18, TOOL_NAME, serde_json::json!({"text": "found", "status": "ok"})),
        end(19, "terminal", serde_json::json!({"text": "denied by user", "status": "denied"})),
        end(20, "terminal", serde_json::json!({})),
    ]
}

#[test]
fn words_of_people_agents_and_tools_are_searched() {
    let mut fold = SessionFold::default();
    insta::assert_snapshot!(entries(&mut fold, &[records(), other_results()].concat()).join("\n"), @"
    1 prompt [] Fix the
    build
    4 call [] terminal cargo build
    5 result [] error[E0308]
    [exit code 1]
    6 task [1.0.0] Look around
    8 task [1.0.0] And there
    9 reply [1.0.0] Seen.
    12 prompt [] Thanks
    13 reply [1.0.1] Its own words
    ");
    assert_eq!(fold.goal, "Fix the build");
    let outside = [Source::child("s/1.0.0"), Source::mcp("docs"), Source::web("a.example")];
    assert_eq!(fold.outside, SourceSet::from(outside));
    assert_eq!(fold.started_ms, Some(0));
}

#[test]
fn what_nobody_asked_for_is_a_result_and_what_the_prompt_names_was_read() {
    let mut fold = SessionFold::default();
    let mut start = agent_start("s", "Go");
    start["spec"]["system_sources"] = serde_json::json!(["memory:work", "web:b.example"]);
    let message = |seq, text: &str, sources: &[&str]| {
        let event = serde_json::json!({"type": "message", "text": text, "sources": sources});
        record(seq, "s", &event)
    };
    let records = [
        record(0, "s", &start),
        message(1, "Go", &["user"]),
        message(2, "background command ended: secret plan", &["tool:terminal"]),
        message(3, "see this", &["input:stdin", "user"]),
        message(4, "and that", &["parent", "web:a.example"]),
    ];
    assert_eq!(
        entries(&mut fold, &records)[1..],
        [
            "2 result [] background command ended: secret plan",
            "3 prompt [] see this",
            "4 prompt [] and that",
        ]
    );
    let outside = [Source::web("a.example"), Source::web("b.example")];
    assert_eq!(fold.outside, SourceSet::from(outside));
}
