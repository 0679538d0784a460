//! The built-in tools keep the contract of every tool.

use std::fs;
use std::future::ready;
use std::sync::Arc;

use deputize_agent::session_index::SessionSearchSettings;
use deputize_core::person::{AskPerson, Person, PersonAnswer, PersonQuestion};
use deputize_core::sanitize::Secrets;
use deputize_core::{
    Availability, BoxFuture, Cancel, Catalog, Effects, ResourceMap, Tool, ToolCallResult, ToolCx,
    ToolSpec,
};
use deputize_requirements::{program, require};
use deputize_runtime::SessionDir;
use deputize_testkit::{
    CallRule, CheckReport, ContractRule, HttpRequest, MockAnswer, MockServer, SpecRule, ToolCheck,
    Violation, Violations,
};
use deputize_tools::cron::{JobSettings, JobStore};
use deputize_tools::web::http::AddressPolicy;
use deputize_tools::web::{FetchSettings, SearchBackend, SearchSettings};
use deputize_tools::{
    CommandSettings, MemoryFiles, MemorySettings, MessageSettings, MessageTarget, Settings,
    bundled_skills,
};
use serde_json::{Value, json};

use crate::program::soon;

fn builtin(name: &str) -> Arc<dyn Tool> {
    let catalog = Catalog::linked(&[deputize_tools::LINK]).unwrap();
    Arc::clone(&catalog.get(name).unwrap().tool)
}

/// A built-in tool whose description a test may change.
struct DescribedTool {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
    before: Option<PriorCall>,
}

/// A call that comes before each call of a tool.
struct PriorCall {
    tool: Arc<dyn Tool>,
    /// Its arguments, by those of the call.
    arguments: fn(&Value) -> Value,
}

impl DescribedTool {
    fn of(name: &str) -> Self {
        let tool = builtin(name);
        Self { spec: tool.spec().clone(), tool, before: None }
    }

    /// A tool that changes files. An edit comes after a `read_file` of the same file, which the tool
    /// demands of agents.
    fn of_edit(name: &str) -> Self {
        Self::of(name).after(
            "read_file",
            |call| json!({"path": call.get("path").cloned().unwrap_or(json!("README.md"))}),
        )
    }

    fn after(mut self, name: &str, arguments: fn(&Value) -> Value) -> Self {
        self.before = Some(PriorCall { tool: builtin(name), arguments });
        self
    }
}

impl Tool for DescribedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        self.tool.availability(settings)
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            if let Some(before) = &self.before {
                // A call that has to work fails without it. A file that an earlier call deleted is
                // not there to be read.
                let _before = before.tool.call((before.arguments)(&arguments), cx).await;
            }
            self.tool.call(arguments, cx).await
        })
    }
}

/// Gives each question its first answer, or a yes.
struct FirstOption;

impl AskPerson for FirstOption {
    fn ask_person<'a>(
        &'a self,
        question: &'a PersonQuestion,
        _: &'a Cancel,
    ) -> BoxFuture<'a, PersonAnswer> {
        let answer = question.options.first().cloned().unwrap_or_else(|| "Yes".to_owned());
        Box::pin(ready(PersonAnswer::Text(answer)))
    }
}

/// Checks a tool where there are the files that its examples name, with more calls. Its session has a
/// person, a memory and skills.
async fn checked(tool: DescribedTool, calls: &[Value]) -> Result<CheckReport, Violations> {
    let dir = tempfile::tempdir().unwrap();
    let line = if tool.spec.decl.name.as_str() == "apply_patch" { "TODO: a" } else { "A tale." };
    fs::write(dir.path().join("README.md"), format!("# Title\n\n{line}\n")).unwrap();
    let env = std::env::vars_os().collect();
    let commands = CommandSettings { env, ..CommandSettings::default() };
    let settings = Settings { commands, ..Settings::default() };
    let files = MemoryFiles::new(dir.path().join("memory"), Secrets::default());
    let tool: Arc<dyn Tool> = Arc::new(tool);
    let check = ToolCheck::new(&tool)
        .inside(dir.path())
        .lend(settings)
        .lend(MemorySettings { files: Some(files) })
        .lend(bundled_skills().with_user(dir.path().join("skills")))
        .lend(SessionSearchSettings::new(SessionDir::new(dir.path().join("sessions"))))
        .lend(Person::new(Arc::new(FirstOption)));
    let check = calls.iter().cloned().fold(check, ToolCheck::call);
    soon("the check", check.run()).await
}

/// Returns the advice beside that on arguments whose name says all.
fn advice(report: &CheckReport) -> Vec<&Violation> {
    let is_other = |it: &&Violation| it.rule != ContractRule::Spec(SpecRule::Described);
    report.advice.iter().filter(is_other).collect()
}

#[tokio::test]
async fn writing_keeps_the_contract() {
    let over = json!({"path": "new.txt", "content": "one\ntwo\n"});
    let deep = json!({"path": "a/b/c.txt", "content": ""});
    let checked =
        checked(DescribedTool::of("write_file"), &[over.clone(), over, deep]).await.unwrap();
    // Each of four calls alone, and twice told to end.
    assert_eq!((checked.calls, checked.advice), (12, Vec::new()));
}

#[tokio::test]
async fn editing_keeps_the_contract() {
    let more = json!({"path": "README.md", "old": "tble", "new": "tables"});
    let checked = checked(DescribedTool::of_edit("edit_file"), &[more]).await.unwrap();
    assert_eq!((checked.calls, checked.advice), (9, Vec::new()));
}

#[tokio::test]
async fn patching_keeps_the_contract() {
    let patch =
        "*** Begin Patch\n*** Add File: a/b.txt\n+x\n*** Delete File: README.md\n*** End Patch";
    let call = json!({ "patch": patch });
    let checked = checked(DescribedTool::of_edit("apply_patch"), &[call]).await.unwrap();
    assert_eq!((checked.calls, checked.advice), (9, Vec::new()));
}

#[tokio::test]
async fn commands_keep_the_contract() {
    let calls =
        ["for i in $(seq 20000); do :; done; echo late", "cat < /dev/null; exit 3", "cd .. && pwd"];
    let calls = calls.map(|command| json!({"command": command}));
    let checked = checked(DescribedTool::of("terminal"), &calls).await.unwrap();
    assert_eq!((checked.calls, checked.advice), (18, Vec::new()));
}

#[tokio::test]
async fn scripts_keep_the_contract() {
    require!(program("python3"));
    let late = json!({"code": "sum(range(10**6))\nopen('new', 'w')\nprint('late')"});
    let failed = json!({"code": "1 / 0"});
    let checked = checked(DescribedTool::of("execute_code"), &[late, failed]).await.unwrap();
    assert_eq!((checked.calls, advice(&checked)), (9, Vec::new()));
}

#[tokio::test]
async fn background_commands_keep_the_contract() {
    let call = |action: &str| json!({"action": action, "id": "p1"});
    let write = json!({"action": "write", "id": "p1", "text": "x\n", "until": "x"});
    let calls = [write, call("read"), call("kill"), call("wait")];
    let tool = DescribedTool::of("process")
        .after("terminal", |_| json!({"command": "cat", "background": true}));
    let checked = checked(tool, &calls).await.unwrap();
    assert_eq!((checked.calls, advice(&checked)), (15, Vec::new()));
}

#[tokio::test]
async fn questions_and_plans_keep_the_contract() {
    let open = json!({"question": "Which port?"});
    let checked_question = checked(DescribedTool::of("clarify"), &[open]).await.unwrap();
    assert_eq!((checked_question.calls, advice(&checked_question)), (8, Vec::new()));
    let checked_plan = checked(DescribedTool::of("todo"), &[json!({})]).await.unwrap();
    assert_eq!((checked_plan.calls, advice(&checked_plan)), (8, Vec::new()));
}

#[tokio::test]
async fn the_memory_keeps_the_contract() {
    let replace = json!({"action": "replace", "topic": "work", "old": "just", "text": "None."});
    let remove = json!({"action": "remove", "topic": "work", "old": "None."});
    let checked = checked(DescribedTool::of("memory"), &[replace, remove]).await.unwrap();
    assert_eq!((checked.calls, advice(&checked)), (9, Vec::new()));
}

#[tokio::test]
async fn messages_keep_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let targets = [("team", MessageTarget::File(dir.path().join("log")))];
    let targets = targets.map(|(name, target)| (name.to_owned(), target)).into();
    let tool: Arc<dyn Tool> = Arc::new(DescribedTool::of("send_message"));
    let check = ToolCheck::new(&tool);
    let check = check.lend(MessageSettings { targets, ..MessageSettings::default() });
    let checked = soon("the check", check.run()).await.unwrap();
    assert_eq!((checked.calls, advice(&checked)), (3, Vec::new()));
}

#[tokio::test]
async fn jobs_keep_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let store = Some(JobStore::new(dir.path().join("cron")));
    let mut tool = DescribedTool::of("cronjob");
    // The agent of the check has no other tool that a job of its own could have.
    tool.spec.examples.retain(|example| example.arguments["action"] == "list");
    let tool: Arc<dyn Tool> = Arc::new(tool);
    let check = ToolCheck::new(&tool).call(json!({"action": "list"}));
    let check = check.lend(JobSettings { store, person_available: true, ..JobSettings::default() });
    let checked = soon("the check", check.run()).await.unwrap();
    assert_eq!((checked.calls, advice(&checked)), (6, Vec::new()));
}

#[tokio::test]
async fn the_search_over_sessions_keeps_the_contract() {
    let checked = checked(DescribedTool::of("session_search"), &[]).await.unwrap();
    assert_eq!((checked.calls, advice(&checked)), (6, Vec::new()));
}

#[tokio::test]
async fn skills_keep_the_contract() {
    let text = "---\nname: release-notes\ndescription: Other notes.\n---\nRead the tags.\n";
    let edit = json!({"action": "edit", "name": "release-notes", "content": text});
    let remove = json!({"action": "remove", "name": "release-notes"});
    for (name, calls, made) in [
        ("skills_list", vec![], 6),
        ("skill_view", vec![], 6),
        ("skill_manage", vec![edit, remove], 9),
    ] {
        let checked = checked(DescribedTool::of(name), &calls).await.unwrap();
        assert_eq!((checked.calls, advice(&checked)), (made, Vec::new()), "{name}");
    }
}

/// A page, and the answer of a search engine.
fn site(request: &HttpRequest) -> MockAnswer {
    match request.path.as_str() {
        "/page" => MockAnswer::body("text/html; charset=utf-8", "<h1>Kites</h1><p>They fly."),
        _ => MockAnswer::json(&json!({"results": [
            {"url": "https://example.org/kites", "title": "Kites", "content": "They fly."}
        ]})),
    }
}

#[tokio::test]
async fn the_web_tools_keep_the_contract() {
    let server = MockServer::start_with(site).await.unwrap();
    let base = server.base_url().trim_end_matches("/v1").to_owned();
    let host = base.trim_start_matches("http://").parse().unwrap();
    let fetch =
        FetchSettings { policy: AddressPolicy::new(vec![host]), ..FetchSettings::default() };
    let backend = SearchBackend::Searxng;
    let base_url = Some(base.parse().unwrap());
    let search = Some(SearchSettings { backend, base_url, key: None });
    let settings = deputize_tools::web::Settings { fetch, search, ..Default::default() };
    let calls = [
        ("web_fetch", json!({"url": format!("{base}/page")})),
        ("web_search", json!({"query": "kites", "limit": 1})),
    ];
    for (name, call) in calls {
        let mut tool = DescribedTool::of(name);
        // The example of a fetch is an address of the internet.
        for example in &mut tool.spec.examples {
            if let Some(url) = example.arguments.get_mut("url") {
                *url = call["url"].clone();
            }
        }
        let examples = tool.spec.examples.len();
        assert!(examples > 0, "{name}");
        let tool: Arc<dyn Tool> = Arc::new(tool);
        let check = ToolCheck::new(&tool).lend(settings.clone()).call(call.clone());
        let refused = check.run().await.unwrap_err();
        assert!(refused.to_string().contains("may not use the network"), "{name}: {refused}");
        let check = ToolCheck::new(&tool).lend(settings.clone()).with_network().call(call);
        let checked = soon("the check", check.run()).await.unwrap();
        assert_eq!(
            (checked.calls, server.requests().is_empty()),
            (6 * (1 + examples), false),
            "{name}"
        );
    }
}

/// The check sees what these tools do: one that says it only looks is found out.
#[tokio::test]
async fn a_tool_that_hides_what_it_changes_is_found_out() {
    let skill = "---\nname: a\ndescription: Something.\n---\nText.\n";
    let calls = [
        ("write_file", json!({"path": "new.txt", "content": "x"})),
        ("edit_file", json!({"path": "README.md", "old": "# Title", "new": "# Name"})),
        ("apply_patch", json!({"patch": "*** Begin Patch\n*** Add File: b\n+x\n*** End Patch"})),
        ("terminal", json!({"command": "echo x > new.txt"})),
        ("memory", json!({"action": "add", "topic": "work", "text": "A fact."})),
        ("skill_manage", json!({"action": "create", "name": "a", "content": skill})),
    ];
    for (name, call) in calls {
        let mut tool = DescribedTool::of_edit(name);
        tool.spec.effects = Effects::ReadOnly;
        tool.spec.examples.clear();
        let found = checked(tool, &[call]).await.unwrap_err();
        assert!(found.has(CallRule::OnlyLooks), "{name}: {found}");
    }
}
