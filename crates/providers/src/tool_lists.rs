//! Lists of tools as JSON, written once for all requests with the same tools.

use std::sync::Arc;

use deputize_core::ToolDecl;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// How many lists are remembered: those of a parent, its children, and their children.
const REMEMBERED: usize = 4;

/// The lists that were written last. An agent sends its tools with each request, and thousands of
/// children have the same ones.
#[derive(Debug, Default)]
pub(crate) struct ToolLists(Mutex<Vec<ToolList>>);

#[derive(Debug)]
struct ToolList {
    tools: Vec<Arc<ToolDecl>>,
    json: Arc<RawValue>,
}

impl ToolLists {
    /// Returns the JSON array of some tools, each written by `param`; `None` if there are none.
    /// Tools are compared by where they lie in memory.
    pub(crate) fn json<'t, P: Serialize>(
        &self,
        tools: &'t [Arc<ToolDecl>],
        param: impl Fn(&'t ToolDecl) -> P,
    ) -> Option<Arc<RawValue>> {
        if tools.is_empty() {
            return None;
        }
        let mut lists = self.0.lock();
        let is_same = |list: &ToolList| {
            list.tools.len() == tools.len()
                && list.tools.iter().zip(tools).all(|(known, tool)| Arc::ptr_eq(known, tool))
        };
        if let Some(list) = lists.iter().find(|list| is_same(list)) {
            return Some(Arc::clone(&list.json));
        }
        let params: Vec<P> = tools.iter().map(|tool| param(tool)).collect();
        let json: Arc<RawValue> = to_raw_value(&params).ok()?.into();
        if lists.len() == REMEMBERED {
            lists.remove(0);
        }
        lists.push(ToolList { tools: tools.to_vec(), json: Arc::clone(&json) });
        Some(json)
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::schema::Schema;
    use deputize_core::{ToolDecl, ToolName};
    use serde_json::json;

    use super::*;

    fn decl(name: &'static str) -> Arc<ToolDecl> {
        let parameters = Schema::new(&json!({"type": "object"})).unwrap();
        let name = ToolName::literal(name);
        Arc::new(ToolDecl { name, description: "Says \"a\".".into(), parameters })
    }

    fn name(decl: &ToolDecl) -> &str {
        decl.name.as_str()
    }

    #[test]
    fn the_same_tools_are_written_once_and_others_by_themselves() {
        let lists = ToolLists::default();
        let (a, b) = (decl("a"), decl("b"));
        let both = [Arc::clone(&a), Arc::clone(&b)];
        let first = lists.json(&both, name).unwrap();
        assert_eq!(first.get(), r#"["a","b"]"#);
        assert!(Arc::ptr_eq(&first, &lists.json(&both.clone(), name).unwrap()));
        assert_eq!(lists.json(&[b], name).unwrap().get(), r#"["b"]"#);
        // Another tool of the same name is another tool.
        assert!(!Arc::ptr_eq(&first, &lists.json(&[a, decl("b")], name).unwrap()));
        assert!(lists.json(&[], name).is_none());
    }

    #[test]
    fn the_oldest_list_is_forgotten() {
        let lists = ToolLists::default();
        let first = [decl("a")];
        let json = lists.json(&first, name).unwrap();
        for _ in 0..REMEMBERED {
            lists.json(&[decl("b")], name).unwrap();
        }
        assert!(!Arc::ptr_eq(&json, &lists.json(&first, name).unwrap()));
    }
}
