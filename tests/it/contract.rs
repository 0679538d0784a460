//! The built-in tools that change things keep the contract of every tool.

use std::fs;
use std::sync::Arc;

use deputize_core::{BoxFuture, Catalog, Effects, Tool, ToolCallResult, ToolCx, ToolSpec};
use deputize_testkit::{CallRule, CheckReport, ToolCheck, Violations};
use deputize_tools::{CommandSettings, Settings};
use serde_json::{Value, json};

use crate::program::soon;

fn builtin(name: &str) -> Arc<dyn Tool> {
    let catalog = Catalog::linked(&[deputize_tools::LINK]).unwrap();
    Arc::clone(&catalog.get(name).unwrap().tool)
}

/// A built-in tool whose description a test may change. An edit comes after a `read_file` of the
/// same file, which the tool demands of agents.
struct DescribedTool {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
    read: Option<Arc<dyn Tool>>,
}

impl DescribedTool {
    fn of(name: &str) -> Self {
        let tool = builtin(name);
        let reads = ["apply_patch", "edit_file"].contains(&name);
        let read = reads.then(|| builtin("read_file"));
        Self { spec: tool.spec().clone(), tool, read }
    }
}

impl Tool for DescribedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async move {
            if let Some(read) = &self.read {
                let path = arguments.get("path").cloned().unwrap_or(json!("README.md"));
                // A call that has to work fails without it. A file that an earlier call deleted is
                // not there to be read.
                let _read = read.call(json!({"path": path}), cx).await;
            }
            self.tool.call(arguments, cx).await
        })
    }
}

/// Checks a tool where there are the files that its examples name, with more calls.
async fn checked(tool: DescribedTool, calls: &[Value]) -> Result<CheckReport, Violations> {
    let dir = tempfile::tempdir().unwrap();
    let line = if tool.spec.decl.name.as_str() == "apply_patch" { "TODO: a" } else { "A tale." };
    fs::write(dir.path().join("README.md"), format!("# Title\n\n{line}\n")).unwrap();
    let env = std::env::vars_os().collect();
    let commands = CommandSettings { env, ..CommandSettings::default() };
    let settings = Settings { commands, ..Settings::default() };
    let tool: Arc<dyn Tool> = Arc::new(tool);
    let check = ToolCheck::new(&tool).inside(dir.path()).lend(settings);
    let check = calls.iter().cloned().fold(check, ToolCheck::call);
    soon("the check", check.run()).await
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
    let checked = checked(DescribedTool::of("edit_file"), &[more]).await.unwrap();
    assert_eq!((checked.calls, checked.advice), (9, Vec::new()));
}

#[tokio::test]
async fn patching_keeps_the_contract() {
    let patch =
        "*** Begin Patch\n*** Add File: a/b.txt\n+x\n*** Delete File: README.md\n*** End Patch";
    let call = json!({ "patch": patch });
    let checked = checked(DescribedTool::of("apply_patch"), &[call]).await.unwrap();
    assert_eq!((checked.calls, checked.advice), (9, Vec::new()));
}

#[tokio::test]
async fn commands_keep_the_contract() {
    let calls = ["sleep 0.2; echo late", "cat < /dev/null; exit 3", "cd .. && pwd"];
    let calls = calls.map(|command| json!({"command": command}));
    let checked = checked(DescribedTool::of("terminal"), &calls).await.unwrap();
    assert_eq!((checked.calls, checked.advice), (18, Vec::new()));
}

/// The check sees what these tools do: one that says it only looks is found out.
#[tokio::test]
async fn a_tool_that_hides_what_it_changes_is_found_out() {
    let calls = [
        ("write_file", json!({"path": "new.txt", "content": "x"})),
        ("edit_file", json!({"path": "README.md", "old": "# Title", "new": "# Name"})),
        ("apply_patch", json!({"patch": "*** Begin Patch\n*** Add File: b\n+x\n*** End Patch"})),
        ("terminal", json!({"command": "echo x > new.txt"})),
    ];
    for (name, call) in calls {
        let mut tool = DescribedTool::of(name);
        tool.spec.effects = Effects::ReadOnly;
        tool.spec.examples.clear();
        let found = checked(tool, &[call]).await.unwrap_err();
        assert!(found.has(CallRule::OnlyLooks), "{name}: {found}");
    }
}
