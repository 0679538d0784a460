//! `todo`: the list of what an agent has to do.

use deputize_core::todo::{TodoItem, TodoList, TodoState};
use deputize_core::tool::spec_of;
use deputize_core::{
    ArgumentRole, Example, ParentOnly, Subject, ToolCallResult, ToolCx, ToolEffect, ToolError,
    ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Items of a list at most.
const MOST_ITEMS: usize = 50;
/// Characters of an item at most.
const ITEM_CHARS: usize = 200;

const DESCRIPTION: &str = "Keep the steps of a longer task; the person sees them. Give all items each \
    time, at most one in_progress.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[serde(default)]
    items: Option<Vec<TodoItem>>,
}

#[derive(Debug)]
pub(crate) struct Todo;

impl TypedTool for Todo {
    type Args = Args;

    fn spec() -> ToolSpec {
        let item = |text, state| serde_json::json!({"text": text, "state": state});
        let items = [item("Read the parser", "done"), item("Fix it", "in_progress")];
        let arguments = serde_json::json!({"items": items});
        ToolSpec {
            examples: vec![Example { title: "Two steps", arguments }],
            parent_only: Some(ParentOnly::Other("the plan is the parent's")),
            kind: ToolKind::Think,
            subject: Subject::new(Some("plan".into()), "items", ArgumentRole::Text),
            // The last of two calls in one step is the one that counts.
            parallel: false,
            ..ToolSpec::read_only(spec_of::<Args>("todo", DESCRIPTION))
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        let list = cx.agent.store.get_or_insert_with(TodoList::default);
        let Some(items) = args.items else {
            return Ok(ToolOutput::text(show_items(&list.items())));
        };
        check(&items)?;
        list.set(items.clone());
        Ok(ToolOutput::text(show_items(&items)).fact(ToolEffect::TodoChanged { items }))
    }
}

deputize_core::register_tool!("todo", Todo);

fn check(items: &[TodoItem]) -> Result<(), ToolError> {
    if items.len() > MOST_ITEMS {
        let found = items.len();
        return Err(ToolError::refused(format!(
            "the list has {found} items, and {MOST_ITEMS} is the most: join some"
        )));
    }
    for (index, item) in items.iter().enumerate() {
        let number = index + 1;
        let chars = item.text.chars().count();
        if item.text.trim().is_empty() {
            return Err(ToolError::refused(format!("item {number} has no text")));
        }
        if chars > ITEM_CHARS {
            return Err(ToolError::refused(format!(
                "item {number} has {chars} characters, and {ITEM_CHARS} is the most: shorten it"
            )));
        }
    }
    let in_progress = |item: &&TodoItem| item.state == TodoState::InProgress;
    match items.iter().filter(in_progress).count() {
        0 | 1 => Ok(()),
        several => Err(ToolError::refused(format!(
            "{several} items are in_progress, and only one may be: set the others to pending or done"
        ))),
    }
}

fn show_items(items: &[TodoItem]) -> String {
    if items.is_empty() {
        return "the list is empty".to_owned();
    }
    let line = |item: &TodoItem| {
        let mark = match item.state {
            TodoState::Pending => "[ ]",
            TodoState::InProgress => "[>]",
            TodoState::Done => "[x]",
        };
        format!("{mark} {}", item.text.replace('\n', " "))
    };
    items.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{ToolFixture, result};
    use deputize_core::authority::Grant;
    use serde_json::{Value, json};

    fn items(states: &[(&str, &str)]) -> Value {
        let item = |(text, state): &(&str, &str)| json!({"text": text, "state": state});
        json!({"items": states.iter().map(item).collect::<Vec<_>>()})
    }

    #[tokio::test]
    async fn a_list_is_replaced_whole_and_belongs_to_one_agent() {
        let bench = ToolFixture::new();
        assert_eq!(bench.call(Todo, json!({})).await, "the list is empty");
        let list = items(&[("read", "done"), ("write", "in_progress"), ("test", "pending")]);
        let output = result(&bench.cx, Todo, list).await.unwrap();
        assert_eq!(output.content, "[x] read\n[>] write\n[ ] test");
        let [ToolEffect::TodoChanged { items: kept }] = &output.facts[..] else { panic!() };
        assert_eq!(kept.len(), 3);
        assert_eq!(bench.call(Todo, items(&[("test", "done")])).await, "[x] test");
        assert_eq!(bench.call(Todo, json!({})).await, "[x] test");
        let child = bench.child(&Grant::default());
        assert_eq!(bench.call_as(&child, Todo, json!({})).await, "the list is empty");
        assert_eq!(bench.call(Todo, items(&[])).await, "the list is empty");
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_is_refused_and_the_old_one_stays() {
        let bench = ToolFixture::new();
        bench.call(Todo, items(&[("a", "pending")])).await;
        let many = vec![("x", "pending"); 51];
        let long = "x".repeat(201);
        let mut seen = String::new();
        for list in [
            items(&[("a", "in_progress"), ("b", "in_progress")]),
            items(&[(" ", "pending")]),
            items(&[(&long, "pending")]),
            items(&many),
            items(&[("a", "open")]),
        ] {
            seen += &(bench.call(Todo, list).await + "\n");
        }
        insta::assert_snapshot!(seen, @r"
        refused: 2 items are in_progress, and only one may be: set the others to pending or done
        refused: item 1 has no text
        refused: item 1 has 201 characters, and 200 is the most: shorten it
        refused: the list has 51 items, and 50 is the most: join some
        refused: arguments of todo: unknown variant `open`, expected one of `pending`, `in_progress`, `done`
        ");
        assert_eq!(bench.call(Todo, json!({})).await, "[ ] a");
    }
}
