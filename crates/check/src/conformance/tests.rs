use std::sync::atomic::{AtomicUsize, Ordering};

use deputize_core::file_state::FileVersion;
use deputize_core::schema::Schema;
use deputize_core::{
    BoxFuture, Effects, Example, ToolCallResult, ToolCx, ToolDecl, ToolEffect, ToolError, ToolName,
    ToolOutput, ToolSpec,
};
use serde_json::json;

use super::*;
use crate::violation::ContractRule;

type Behaviour = Box<dyn Fn(usize, &ToolCx) -> BoxFuture<'static, ToolCallResult> + Send + Sync>;

/// A tool whose behaviour depends on the number of the call, from 0.
struct ScriptedTool {
    spec: ToolSpec,
    behaviour: Behaviour,
    calls: AtomicUsize,
}

impl Tool for ScriptedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn call<'a>(&'a self, _: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        (self.behaviour)(self.calls.fetch_add(1, Ordering::Relaxed), cx)
    }
}

fn good() -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "A text."}},
        "required": ["text"],
    });
    let decl = ToolDecl {
        name: ToolName::literal("told"),
        description: "Does as told.".to_owned(),
        parameters: Schema::new(&parameters).unwrap(),
    };
    let example = Example { title: "A text", arguments: json!({"text": "a"}) };
    ToolSpec { examples: vec![example], ..ToolSpec::read_only(decl) }
}

fn with_schema(schema: &Value) -> ToolSpec {
    let mut spec = good();
    spec.decl.parameters = Schema::new(schema).unwrap();
    spec.examples.clear();
    spec
}

fn describe(
    spec: ToolSpec,
    behaviour: impl Fn(usize, &ToolCx) -> BoxFuture<'static, ToolCallResult> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(ScriptedTool { spec, behaviour: Box::new(behaviour), calls: AtomicUsize::new(0) })
}

fn fine() -> BoxFuture<'static, ToolCallResult> {
    Box::pin(async { Ok(ToolOutput::text("done")) })
}

fn is_fine(spec: ToolSpec) -> Arc<dyn Tool> {
    describe(spec, |_, _| fine())
}

/// Returns the result of the check, with a line for each violation.
async fn says(tool: Arc<dyn Tool>) -> String {
    let check = ToolCheck::new(&tool).limit(Duration::from_secs(5)).grace(Duration::from_secs(5));
    check.run().await.map_or_else(|broken| broken.to_string(), |checked| format!("{checked:?}"))
}

#[tokio::test]
async fn a_good_tool_is_called_alone_again_beside_itself_and_cancelled() {
    let checked = check_tool(&is_fine(good())).await.unwrap();
    assert_eq!((checked.calls, checked.advice), (6, vec![]));
    let effectful =
        ToolSpec { effects: Effects::Unknown, repeatable: false, parallel: false, ..good() };
    assert_eq!(check_tool(&is_fine(effectful)).await.unwrap().calls, 3);
}

#[tokio::test]
async fn every_tool_of_our_own_that_an_empty_directory_does_for_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "one\ntwo\n").unwrap();
    let catalog = deputize_core::Catalog::linked(&[deputize_tools::LINK]).unwrap();
    for name in ["list_dir", "read_file", "search_files"] {
        let tool = &catalog.get(name).unwrap().tool;
        let call = match name {
            "list_dir" => json!({}),
            "read_file" => json!({"path": "notes.txt"}),
            _ => json!({"pattern": "two"}),
        };
        // Their examples name files that do not exist here.
        let own =
            ToolWithSpec(Arc::clone(tool), ToolSpec { examples: vec![], ..tool.spec().clone() });
        let own: Arc<dyn Tool> = Arc::new(own);
        let checked = ToolCheck::new(&own).inside(dir.path()).call(call).run().await.unwrap();
        assert_eq!(checked.calls, 6, "{name}");
    }
}

struct ToolWithSpec(Arc<dyn Tool>, ToolSpec);

impl Tool for ToolWithSpec {
    fn spec(&self) -> &ToolSpec {
        &self.1
    }
    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        self.0.call(arguments, cx)
    }
}

#[tokio::test]
async fn what_it_says_of_itself_is_looked_at() {
    let mut spec = good();
    spec.decl.description = " ".to_owned();
    assert!(says(is_fine(spec)).await.contains("`told` (description): it is empty"));
    let mut spec = good();
    spec.decl.description = "Does\u{200b} as told.".to_owned();
    assert!(says(is_fine(spec)).await.contains("1 invisible character removed"));
    let schema = json!({"type": "object", "properties": {"a": {"type": "strin"}}});
    assert!(says(is_fine(with_schema(&schema))).await.contains("(schema): it is no JSON Schema"));
    let schema = json!({"type": "object", "required": ["path"]});
    let said = says(is_fine(with_schema(&schema))).await;
    assert!(said.contains("`path` is required and not among its properties"), "{said}");
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}});
    assert!(says(is_fine(with_schema(&schema))).await.contains("(schema): it cannot be used"));
    let usable = Availability::No(String::new());
    assert!(says(is_fine(ToolSpec { usable, ..good() })).await.contains("(usable)"));
    let mut spec = good();
    spec.examples[0].arguments = json!({"text": 7});
    let said = says(is_fine(spec)).await;
    assert!(said.contains("(example): `A text` does not fit: /text: 7 is not"), "{said}");
}

#[tokio::test]
async fn what_would_be_better_is_no_violation() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let checked = check_tool(&is_fine(with_schema(&schema))).await.unwrap();
    assert_eq!(checked.calls, 0);
    let rules: Vec<ContractRule> = checked.advice.iter().map(|advice| advice.rule).collect();
    assert_eq!(rules, [SpecRule::Described.into(), SpecRule::Example.into()]);
}

#[tokio::test]
async fn a_panic_a_failure_and_an_empty_refusal_are_found() {
    let panics = describe(good(), |_, _| Box::pin(async { panic!("boom") }));
    assert!(says(panics).await.contains(r#"(no-panic): {"text":"a"} panicked"#));
    let panics = describe(good(), |_, _| panic!("before its future"));
    assert!(says(panics).await.contains("(no-panic)"));
    let fails = describe(good(), |_, _| Box::pin(async { Err(ToolError::failed("no disk")) }));
    assert!(says(fails).await.contains("does not work: the tool failed: no disk"));
    let mute = describe(good(), |_, _| Box::pin(async { Err(ToolError::refused("")) }));
    assert!(says(mute).await.contains("(refusal)"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_late_or_does_not_hear_is_found() {
    let hangs = describe(good(), |_, _| Box::pin(std::future::pending()));
    assert!(says(hangs).await.contains("(ends)"));
    let deaf = describe(
        good(),
        |number, _| if number < 4 { fine() } else { Box::pin(std::future::pending()) },
    );
    let said = says(deaf).await;
    assert!(said.contains("cancelled before it began") && said.contains("while it ran"), "{said}");
}

#[tokio::test]
async fn effects_and_repetition_are_as_declared() {
    let writes = describe(good(), |_, cx| {
        std::fs::write(cx.agent.spec.cwd.join("left.txt"), "x").unwrap();
        fine()
    });
    assert!(says(writes).await.contains("left.txt`; give the tool its true effects"));
    let once = describe(good(), |number, _| {
        if number == 0 { fine() } else { Box::pin(async { Err(ToolError::refused("once")) }) }
    });
    let said = says(once).await;
    assert!(said.contains("works once and not again") && said.contains("not beside"), "{said}");
    let claims = describe(good(), |_, _| {
        Box::pin(async {
            let path = "a.txt".into();
            let version = FileVersion::of(b"");
            Ok(ToolOutput::default().fact(ToolEffect::FileRead { path, version, whole: true }))
        })
    });
    assert!(says(claims).await.contains("(facts)"));
}

#[tokio::test]
async fn calls_of_ones_own_must_fit_and_work() {
    let tool = is_fine(good());
    let broken = ToolCheck::new(&tool).call(json!({})).run().await.unwrap_err();
    assert!(broken.has(SpecRule::Schema) && !broken.has(CallRule::Works), "{broken}");
    assert_eq!(ToolCheck::new(&tool).call(json!({"text": "b"})).run().await.unwrap().calls, 12);
}

#[tokio::test]
async fn a_file_that_an_example_names_is_reported_as_missing_and_only_that() {
    let refuses = |words: &'static str| {
        describe(good(), move |_, _| Box::pin(async move { Err(ToolError::refused(words)) }))
    };
    let found = async |words, name: &str, dir: Option<&std::path::Path>| {
        let check = ToolCheck::new(&refuses(words)).call(json!({"text": name}));
        let check = dir.into_iter().fold(check, |check, dir| check.inside(dir));
        let mut found = check.run().await.unwrap_err().0;
        // The other call is the example.
        let call = json!({"text": name}).to_string();
        found.retain(|one| one.found.starts_with(&call));
        let [one] = found.as_slice() else { panic!("not one violation: {found:?}") };
        one.rule
    };
    assert_eq!(found("cannot open `b.zip`", "b.zip", None).await, CallRule::Files.into());
    assert_eq!(found("cannot open it", "b.zip", None).await, CallRule::Works.into());
    assert_eq!(found("no word `bee`", "bee", None).await, CallRule::Works.into());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("b.zip"), "").unwrap();
    let there = found("cannot open `b.zip`", "b.zip", Some(dir.path())).await;
    assert_eq!(there, CallRule::Works.into());
}

#[tokio::test]
async fn a_tool_finds_what_it_is_lent_in_every_call() {
    struct TestResource(&'static str);
    impl deputize_core::Resource for TestResource {}
    let tool = || {
        describe(good(), |_, cx| {
            let lent = cx.agent.session.settings.get_or_insert_with(|| TestResource("nothing"));
            Box::pin(async move {
                if lent.0 == "a key" {
                    Ok(ToolOutput::text(""))
                } else {
                    Err(ToolError::refused("no"))
                }
            })
        })
    };
    let checked = ToolCheck::new(&tool()).lend(TestResource("a key")).run().await.unwrap();
    assert!(checked.calls > 1);
    assert!(check_tool(&tool()).await.unwrap_err().has(CallRule::Works));
}
