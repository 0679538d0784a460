//! What a program that exchanges a directory and a link at full speed makes the file tools write.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_core::authority::Grant;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

/// Calls of each tool while the places are exchanged.
const CALLS: usize = 150;

/// Runs something while two entries of a directory exchange their places, again and again.
async fn while_exchanged(one: &Path, other: &Path, run: impl AsyncFnOnce()) {
    let done = AtomicBool::new(false);
    let runs = AtomicBool::new(false);
    let exchange = || renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    let handle = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                exchange();
                runs.store(true, Ordering::Relaxed);
            }
        });
        while !runs.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        tokio::task::block_in_place(|| handle.block_on(run()));
        done.store(true, Ordering::Relaxed);
    });
}

/// Returns all that lies below a directory, each with its content.
fn below(dir: &Path) -> BTreeSet<(String, Vec<u8>)> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => {
                found.insert((format!("{name}/"), Vec::new()));
                found.extend(
                    below(&entry.path())
                        .into_iter()
                        .map(|(path, text)| (format!("{name}/{path}"), text)),
                );
            }
            false => {
                found.insert((name, std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    found
}

/// A workspace in which `d` is a directory and `l` a link to what is guarded. The same files are in
/// both.
fn workspace(guarded: &str) -> ToolFixture {
    let bench = ToolFixture::new();
    for dir in ["d", guarded] {
        bench.put(&format!("{dir}/f"), "old\n");
        for call in 0..CALLS {
            bench.put(&format!("{dir}/r{call}"), "old\n").put(&format!("{dir}/m{call}"), "old\n");
        }
    }
    bench.link(guarded, "l");
    bench
}

/// The calls of one round, each with what it leaves in the directory if it is made: a name, and
/// whether that is there then.
async fn call_tools(bench: &ToolFixture, cx: &ToolCx, call: usize) -> Vec<(String, bool)> {
    let mut made = Vec::new();
    let mut keep = |text: String, left: &[(String, bool)]| {
        let is_refused = ["refused: ", "denied: "].iter().any(|start| text.starts_with(start));
        if !is_refused {
            made.extend_from_slice(left);
        }
    };
    let (new, deep) = (format!("h{call}"), format!("n{call}/h"));
    for name in [new, deep] {
        let write = json!({"path": format!("d/{name}"), "content": "new"});
        keep(bench.call_as(cx, WriteFile, write).await, &[(name, true)]);
    }
    bench.call_as(cx, ReadFile, json!({"path": "d/f"})).await;
    let edit = json!({"path": "d/f", "old": "old", "new": "old"});
    keep(bench.call_as(cx, EditFile, edit).await, &[]);
    for name in ["r", "m"] {
        bench.call_as(cx, ReadFile, json!({"path": format!("d/{name}{call}")})).await;
    }
    let remove = format!("*** Begin Patch\n*** Delete File: d/r{call}\n*** End Patch");
    let left = [(format!("r{call}"), false)];
    keep(bench.call_as(cx, ApplyPatch, json!({"patch": remove})).await, &left);
    let rename = format!(
        "*** Begin Patch\n*** Update File: d/m{call}\n*** Move to: d/to{call}\n@@\n-old\n+new\n*** End Patch"
    );
    let left = [(format!("m{call}"), false), (format!("to{call}"), true)];
    keep(bench.call_as(cx, ApplyPatch, json!({"patch": rename})).await, &left);
    made
}

async fn check_nothing_is_written_to(guarded: &str) {
    let bench = workspace(guarded);
    let before = below(&bench.path(guarded));
    let mut made = Vec::new();
    while_exchanged(&bench.path("d"), &bench.path("l"), async || {
        for call in 0..CALLS {
            made.extend(call_tools(&bench, &bench.cx, call).await);
        }
    })
    .await;
    assert_eq!(below(&bench.path(guarded)), before);
    let is_link = bench.path("d").symlink_metadata().unwrap().is_symlink();
    let real = bench.path(if is_link { "l" } else { "d" });
    assert!(!made.is_empty(), "some calls met the directory");
    for (name, is_there) in made {
        assert_eq!(real.join(&name).exists(), is_there, "{name} is where it was reported");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_takes_the_place_of_a_directory_leads_no_write_to_what_is_guarded() {
    check_nothing_is_written_to(".git/hooks").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_to_instructions_that_nobody_was_asked_about() {
    check_nothing_is_written_to(".claude/agents").await;
}

/// The directory of a child is opened when the child first writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_takes_the_place_of_a_granted_directory_is_judged_by_where_it_leads() {
    let bench = workspace(".git/hooks");
    let before = below(&bench.path(".git/hooks"));
    while_exchanged(&bench.path("d"), &bench.path("l"), async || {
        for call in 0..CALLS {
            let roots = Some(BTreeSet::from([bench.path("d")]));
            let grant = Grant { read: roots.clone(), write: roots, ..Grant::default() };
            let session = bench.other_session("child");
            let mut child = bench.child(&grant);
            if let Some(agent) = std::sync::Arc::get_mut(&mut child.agent) {
                agent.session = std::sync::Arc::clone(&session.agent.session);
            }
            for name in [format!("h{call}"), format!("n{call}/h")] {
                let write = json!({"path": format!("d/{name}"), "content": "new"});
                bench.call_as(&child, WriteFile, write).await;
            }
        }
    })
    .await;
    assert_eq!(below(&bench.path(".git/hooks")), before);
}
