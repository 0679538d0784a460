use std::fmt::Write as _;

use serde_json::{Map, json};

use super::*;
use crate::config::ChildModels;

/// The only function here that knows the signature under test.
fn reads(arguments: &Value) -> String {
    let config = DelegationConfig {
        models: ChildModels { choices: vec!["p/small".to_owned()], ..ChildModels::default() },
        ..DelegationConfig::default()
    };
    let ParsedCall { tasks, errors, warnings, .. } = read(arguments, &config);
    let mut out = String::new();
    for task in tasks {
        write!(out, "{:?} {:?}", task.index, task.goal).unwrap();
        if let Some(context) = task.context {
            write!(out, " context {context:?}").unwrap();
        }
        if let Some(toolsets) = task.toolsets {
            write!(out, " toolsets {toolsets:?}").unwrap();
        }
        if task.role == Role::Orchestrator {
            out.push_str(" orchestrator");
        }
        if let Some(most) = task.max_iterations {
            write!(out, " max {most}").unwrap();
        }
        if let Some(schema) = task.output_schema {
            write!(out, " schema {schema}").unwrap();
        }
        if let Some(model) = task.model {
            write!(out, " model {model}").unwrap();
        }
        out.push('\n');
    }
    for error in errors {
        writeln!(out, "error {}", serde_json::to_string(&error).unwrap()).unwrap();
    }
    for warning in warnings {
        writeln!(out, "warning {warning}").unwrap();
    }
    out
}

#[test]
fn one_task() {
    insta::assert_snapshot!(reads(&json!({
        "goal": "Count.", "context": "In German.", "toolsets": ["web", " file "],
        "role": " Orchestrator", "max_iterations": 5
    })), @r#"None "Count." context "In German." toolsets {"file", "web"} orchestrator max 5"#);
}

#[test]
fn what_says_nothing_is_absent() {
    insta::assert_snapshot!(reads(&json!({
        "goal": "Count.", "context": " ", "toolsets": [], "role": null, "max_iterations": "",
        "tasks": [], "output_schema": null, "background": false, "model": "", "workflow": null
    })), @r#"None "Count.""#);
    insta::assert_snapshot!(reads(&json!({
        "goal": "Count.", "tasks": "", "toolsets": "[]", "context": null
    })), @r#"None "Count.""#);
    insta::assert_snapshot!(
        reads(&json!({"goal": "Count.", "tasks": "null", "toolsets": "null"})), @r#"None "Count.""#
    );
}

#[test]
fn a_schema_that_demands_nothing_is_none_and_elsewhere_an_object_is_wrong() {
    insta::assert_snapshot!(reads(&json!({
        "output_schema": "{}", "tasks": [{"goal": "A", "output_schema": {}}]
    })), @r#"Some(0) "A""#);
    insta::assert_snapshot!(reads(&json!({"goal": "A", "context": {}, "toolsets": {}})), @r#"
    None "A"
    error {"code":"E_TYPE","task_index":null,"task":null,"field":"context","value":{},"remedy":"`context` must be a text"}
    error {"code":"E_TYPE","task_index":null,"task":null,"field":"toolsets","value":{},"remedy":"`toolsets` must be a list of names, such as [\"file\"]"}
    "#);
}

#[test]
fn a_schema_demands_only_what_a_cleaned_answer_can_be() {
    let schema = json!({"const": "a\u{200b}", "title": "\u{7}b"});
    insta::assert_snapshot!(reads(&json!({"goal": "A", "output_schema": schema})), @r#"None "A" schema {"const":"a","title":"b"}"#);
    let schema = json!({"enum": ["<think>"]});
    insta::assert_snapshot!(reads(&json!({"goal": "A", "output_schema": schema})), @r#"None "A" schema {"enum":["<think>"]}"#);
}

#[test]
fn lists_in_texts_are_decoded() {
    insta::assert_snapshot!(reads(&json!({
        "tasks": "[{\"goal\": \"A\", \"toolsets\": \"[\\\"file\\\"]\"}, {\"goal\": \"B\"}]"
    })), @r#"
    Some(0) "A" toolsets {"file"}
    Some(1) "B"
    "#);
}

#[test]
fn tasks_win_and_take_defaults_from_the_call() {
    insta::assert_snapshot!(reads(&json!({
        "goal": "ignored", "context": "ignored", "role": "orchestrator", "max_iterations": 9,
        "tasks": [{"goal": "A"}, {"goal": "B", "role": "leaf", "max_iterations": 3}]
    })), @r#"
    Some(0) "A" orchestrator max 9
    Some(1) "B" max 3
    warning top-level fields `goal`, `context` ignored, because `tasks` is given
    "#);
}

#[test]
fn schemas_and_models_are_checked_task_by_task() {
    insta::assert_snapshot!(reads(&json!({
        "output_schema": "{\"type\": \"object\"}",
        "tasks": [
            {"goal": "A", "model": " p/small "},
            {"goal": "B", "output_schema": {"type": "array"}, "model": "p/large"},
            {"goal": "C", "output_schema": {"type": "no such type"}},
            {"goal": "D", "output_schema": [1]},
            {"goal": "E", "output_schema": {"$ref": "https://localhost:9/x.json"}},
        ]
    })), @r#"
    Some(0) "A" schema {"type":"object"} model p/small
    Some(1) "B" schema {"type":"array"}
    Some(2) "C" schema {"type":"object"}
    Some(3) "D" schema {"type":"object"}
    Some(4) "E" schema {"type":"object"}
    error {"code":"E_MODEL","task_index":1,"task":"t1","field":"model","value":"p/large","remedy":"task 1: `model` must be one of p/small, or left out"}
    error {"code":"E_SCHEMA","task_index":2,"task":"t2","field":"output_schema","value":{"type":"no such type"},"remedy":"task 2: `output_schema` must be a JSON Schema: at `/type`: \"no such type\" is nothing that may stand there"}
    error {"code":"E_SCHEMA","task_index":3,"task":"t3","field":"output_schema","value":[1],"remedy":"task 3: `output_schema` must be a JSON Schema: it is no object"}
    error {"code":"E_SCHEMA","task_index":4,"task":"t4","field":"output_schema","value":{"$ref":"https://localhost:9/x.json"},"remedy":"task 4: `output_schema` must be a JSON Schema: a schema must hold what it refers to: `https://localhost:9/x.json` is not in it; put that under `$defs`"}
    "#);
}

#[test]
fn a_schema_that_would_never_be_done_is_an_error_of_its_task() {
    let name = |n: u32| json!({"$ref": format!("#/$defs/d{n}")});
    let mut all: Map<String, Value> =
        (0..60).map(|n| (format!("d{n}"), json!({"anyOf": [name(n + 1), name(n + 1)]}))).collect();
    all.insert("d60".to_owned(), json!({"type": "object", "required": ["a"]}));
    let bomb = json!({"$ref": "#/$defs/d0", "$defs": all});
    let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
    let reading = read(
        &json!({"tasks": [
            {"goal": "A", "output_schema": tree},
            {"goal": "B", "output_schema": bomb},
            {"goal": "C", "output_schema": bomb.to_string()},
            {"goal": "D", "output_schema": {"$defs": {"a": {"$ref": "https://localhost:9/x"}}}},
        ]}),
        &DelegationConfig::default(),
    );
    let actual: Vec<_> = reading.errors.iter().map(|it| (it.code, it.remedy.as_str())).collect();
    let unfolds = "`output_schema` must be a JSON Schema: a schema must not unfold to more than \
                   100000 parts, each `$ref` replaced by what it refers to: refer to \
                   definitions less often, or write it flatter (a definition may refer to itself)";
    let outside = "`output_schema` must be a JSON Schema: it refers to something outside itself; \
                   put that under `$defs`";
    assert_eq!(
        actual,
        [
            (CallErrorCode::Schema, format!("task 1: {unfolds}").as_str()),
            (CallErrorCode::Schema, &format!("task 2: {unfolds}")),
            (CallErrorCode::Schema, &format!("task 3: {outside}")),
        ]
    );
}

#[test]
fn what_is_odd_is_reported() {
    insta::assert_snapshot!(reads(&json!({
        "goal": "Co\u{200b}unt\u{1b}[31m.", "role": "boss\nIgnore this", "max_iterations": 5000,
        "colour": 1, "a\u{1b}[2J": 2
    })), @r#"
    None "Count." max 50
    warning unknown fields `a`, `colour` ignored
    warning role `boss Ignore this` is not known; `leaf` is used (`leaf` and `orchestrator` exist)
    warning `max_iterations` 5000 is above the limit; 50 holds
    warning `goal`: 1 invisible character removed
    warning `goal`: 1 terminal sequence removed
    "#);
    let many: Map<String, Value> = (0..14).map(|n| (format!("x{n:02}"), json!(n))).collect();
    insta::assert_snapshot!(reads(&json!({"tasks": [{"goal": "A"}, many]})), @r#"
    Some(0) "A"
    Some(1) ""
    error {"code":"E_GOAL","task_index":1,"task":"t1","field":"goal","value":null,"remedy":"task 1: give a `goal` that says what to accomplish"}
    warning task 1: unknown fields `x00`, `x01`, `x02`, `x03`, `x04`, `x05`, `x06`, `x07`, `x08`, `x09` and 4 more ignored
    "#);
}

#[test]
fn everything_wrong_is_reported_at_once() {
    insta::assert_snapshot!(reads(&json!({
        "role": "leaf", "max_iterations": 1.5, "workflow": {}, "background": true,
        "tasks": [
            "do it", {"goal": ""}, {"goal": 7}, {"goal": "\u{200b}"},
            {"goal": "A", "context": {"a": 1}, "toolsets": "file", "max_iterations": 0},
            {"goal": "B", "toolsets": [1], "output_schema": {"type": "object"}, "model": "x/y"},
            {"goal": "C", "id": "c", "depends_on": ["a"], "max_iterations": "many"},
        ]
    })), @r#"
Some(1) ""
Some(2) ""
Some(3) ""
Some(4) "A"
Some(5) "B" schema {"type":"object"}
Some(6) "C"
error {"code":"E_NOT_IN_THIS_VERSION","task_index":null,"task":null,"field":"workflow","value":{},"remedy":"`workflow` is not in this version; leave it out"}
error {"code":"E_BACKGROUND_OFF","task_index":null,"task":null,"field":"background","value":true,"remedy":"`background` is switched off here; leave it out"}
error {"code":"E_TYPE","task_index":null,"task":null,"field":"max_iterations","value":1.5,"remedy":"`max_iterations` must be a whole number"}
error {"code":"E_TASK","task_index":0,"task":"t0","field":"tasks","value":"do it","remedy":"task 0 must be an object with a `goal`"}
error {"code":"E_GOAL","task_index":1,"task":"t1","field":"goal","value":"","remedy":"task 1: give a `goal` that says what to accomplish"}
error {"code":"E_TYPE","task_index":2,"task":"t2","field":"goal","value":7,"remedy":"task 2: `goal` must be a text"}
error {"code":"E_GOAL","task_index":3,"task":"t3","field":"goal","value":"","remedy":"task 3: give a `goal` that says what to accomplish"}
error {"code":"E_RANGE","task_index":4,"task":"t4","field":"max_iterations","value":0,"remedy":"task 4: `max_iterations` must be from 1 to 50"}
error {"code":"E_TYPE","task_index":4,"task":"t4","field":"context","value":{"a":1},"remedy":"task 4: `context` must be a text"}
error {"code":"E_TYPE","task_index":4,"task":"t4","field":"toolsets","value":"file","remedy":"task 4: `toolsets` must be a list of names, such as [\"file\"]"}
error {"code":"E_MODEL","task_index":5,"task":"t5","field":"model","value":"x/y","remedy":"task 5: `model` must be one of p/small, or left out"}
error {"code":"E_TYPE","task_index":5,"task":"t5","field":"toolsets","value":[1],"remedy":"task 5: `toolsets` must be a list of names, such as [\"file\"]"}
error {"code":"E_NOT_IN_THIS_VERSION","task_index":6,"task":"t6","field":"depends_on","value":["a"],"remedy":"task 6: `depends_on` is not in this version; leave it out"}
error {"code":"E_NOT_IN_THIS_VERSION","task_index":6,"task":"t6","field":"id","value":"c","remedy":"task 6: `id` is not in this version; leave it out"}
error {"code":"E_TYPE","task_index":6,"task":"t6","field":"max_iterations","value":"many","remedy":"task 6: `max_iterations` must be a whole number"}
warning task 3: `goal`: 1 invisible character removed
"#);
}

#[test]
fn a_call_that_says_nothing() {
    for arguments in [json!({}), json!({"goal": " \n"}), json!({"goal": null, "tasks": []})] {
        let reading = read(&arguments, &DelegationConfig::default());
        let codes: Vec<CallErrorCode> = reading.errors.iter().map(|error| error.code).collect();
        assert_eq!(codes, [CallErrorCode::NoTask], "{arguments}");
    }
    for tasks in [json!("no list"), json!({"goal": "A"}), json!(3), json!("{}")] {
        let reading = read(&json!({"tasks": tasks}), &DelegationConfig::default());
        let codes: Vec<CallErrorCode> = reading.errors.iter().map(|error| error.code).collect();
        assert_eq!(codes, [CallErrorCode::Tasks], "{tasks}");
    }
    let reading = read(&json!(["goal"]), &DelegationConfig::default());
    assert_eq!(reading.errors[0].code, CallErrorCode::Arguments);
}

#[test]
fn a_long_value_is_repeated_in_short() {
    let reading = read(&json!({"tasks": "x".repeat(100_000)}), &DelegationConfig::default());
    assert!(serde_json::to_string(&reading.errors).unwrap().len() < 500);
}
