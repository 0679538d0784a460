//! Laws of authority: it can only shrink.

#![cfg(test)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::authority::{ApproverMode, Grant, ToolDenial};
use deputize_core::schema::Schema;
use deputize_core::{
    Authority, BoxFuture, Catalog, CatalogEntry, Origin, Tool, ToolCallResult, ToolCx, ToolDecl,
    ToolName, ToolOutput, ToolSpec, ToolsetName,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const TOOLS: [&str; 5] = ["a", "b", "c", "d", "e"];
const ROOTS: [&str; 5] = ["/", "/w", "/w/a", "/w/b", "/x"];

struct Plain(ToolSpec);

impl Tool for Plain {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }
    fn call<'a>(&'a self, _: serde_json::Value, _: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        Box::pin(async { Ok(ToolOutput::text("")) })
    }
}

fn entry(name: &str, krate: &str, schema: &serde_json::Value) -> CatalogEntry {
    let decl = ToolDecl {
        name: ToolName::new(name).unwrap(),
        description: String::new(),
        parameters: Schema::new(schema).unwrap(),
    };
    CatalogEntry {
        toolset: ToolsetName::literal("set"),
        origin: Origin::Linked { krate: krate.into() },
        tool: Arc::new(Plain(ToolSpec::read_only(decl))),
    }
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    for name in TOOLS {
        catalog.insert(entry(name, "k", &serde_json::json!({"type": "object"}))).unwrap();
    }
    catalog
}

fn grants() -> impl Strategy<Value = Grant> {
    let some = |of: &'static [&'static str]| {
        proptest::option::of(proptest::collection::btree_set(proptest::sample::select(of), 0..4))
    };
    let paths =
        |set: Option<BTreeSet<&str>>| set.map(|s| s.into_iter().map(PathBuf::from).collect());
    const MODES: [ApproverMode; 3] = [ApproverMode::Deny, ApproverMode::Ask, ApproverMode::Auto];
    (
        some(&TOOLS),
        some(&ROOTS),
        some(&ROOTS),
        proptest::option::of(any::<bool>()),
        proptest::option::of(proptest::sample::select(&MODES[..])),
        proptest::option::of(0..4u32),
        proptest::option::of(0..9u32),
        some(&["m/1", "m/2", "m/3"]),
    )
        .prop_map(move |(tools, read, write, network, approver, depth, number, models)| {
            Grant {
                tools: tools
                    .map(|set| set.into_iter().map(|n| ToolName::new(n).unwrap()).collect()),
                read: paths(read),
                write: paths(write),
                network,
                approver,
                spawn_depth: depth,
                spawn_number: number,
                models: models.map(|set| set.into_iter().map(str::to_owned).collect()),
            }
        })
}

/// Protected by their names.
const GUARDED: [&str; 3] = ["/w/.git", "/w/a/.GIT", "/w/.gitconfig"];

/// A grant, and the paths protected from its holder.
type Side = (Grant, BTreeSet<&'static str>);

fn kept() -> impl Strategy<Value = BTreeSet<&'static str>> {
    proptest::collection::btree_set(proptest::sample::select(&ROOTS[..]), 0..3)
}

proptest! {
    #[test]
    fn a_child_is_within_its_parent_along_every_path(
        root in grants(),
        path in proptest::collection::vec(grants(), 1..6),
        kept in kept(),
    ) {
        let root = Authority::root(&catalog(), &root).with_protected_paths(kept.iter().map(PathBuf::from));
        let mut parent = root.clone();
        for asked in &path {
            let child = parent.intersect(asked);
            prop_assert!(child.is_within(&parent));
            prop_assert!(child.is_within(&root));
            // Intersecting again removes nothing more, and in another order gives the same.
            prop_assert_eq!(&child.intersect(asked), &child);
            // Whatever is requested, paths protected from the top agent are protected from all.
            for path in kept.iter().map(PathBuf::from).chain(GUARDED.map(PathBuf::from)) {
                prop_assert!(!child.may_write(&path) && !child.may_write(&path.join("config")));
            }
            parent = child;
        }
        let backwards = path.iter().rev().fold(root, |authority, asked| authority.intersect(asked));
        prop_assert_eq!(backwards, parent);
    }
}

/// Of two unrelated authorities, one is hardly ever within the other; so half of the cases narrow
/// one to get the other, with the protected paths taken from one or both.
#[test]
fn what_is_within_allows_no_more() {
    let config = ProptestConfig { source_file: Some(file!()), ..ProptestConfig::default() };
    let cases = config.cases;
    let within = Cell::new(0);
    let sides = || (grants(), kept());
    let law = |(root, one, two, narrowed): (Grant, Side, Side, bool)| {
        let root = Authority::root(&catalog(), &root);
        let of = |from: &Authority, (grant, kept): Side| {
            from.intersect(&grant).with_protected_paths(kept.into_iter().map(PathBuf::from))
        };
        let two = of(&root, two);
        let one = of(if narrowed { &two } else { &root }, one);
        prop_assert!(!narrowed || one.is_within(&two));
        if !one.is_within(&two) {
            return Ok(());
        }
        within.set(within.get() + 1);
        for entry in catalog().iter() {
            prop_assert!(one.permits(entry).is_err() || two.permits(entry).is_ok());
        }
        for path in ROOTS.map(PathBuf::from) {
            prop_assert!(!one.may_read(&path) || two.may_read(&path));
            prop_assert!(!one.may_write(&path) || two.may_write(&path));
        }
        Ok(())
    };
    let strategy = (grants(), sides(), sides(), any::<bool>());
    if let Err(failed) = TestRunner::new(config).run(&strategy, law) {
        panic!("{failed}");
    }
    assert!(within.get() * 3 >= cases, "{} of {cases} are within", within.get());
}

#[test]
fn a_tool_that_takes_the_name_of_another_does_not_get_its_right() {
    let authority = Authority::root(&catalog(), &Grant::default());
    let object = serde_json::json!({"type": "object"});
    assert_eq!(authority.permits(&entry("a", "k", &object)), Ok(()));
    assert_eq!(authority.permits(&entry("a", "other", &object)), Err(ToolDenial::Changed));
    let wider = serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}});
    assert_eq!(authority.permits(&entry("a", "k", &wider)), Err(ToolDenial::Changed));
    assert_eq!(authority.permits(&entry("z", "k", &object)), Err(ToolDenial::NoTool));
}
