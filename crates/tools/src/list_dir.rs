//! `list_dir`: the names in a directory.

use std::os::unix::ffi::OsStrExt as _;

use deputize_core::tool::spec_of;
use deputize_core::wording::count;
use deputize_core::{
    ArgumentRole, Example, Subject, ToolCallResult, ToolCx, ToolError, ToolKind, ToolOutput,
    ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Settings;
use crate::blocking::blocking;
use crate::display_name::display_name;
use crate::granted_path::{Access, GrantedPath};
use crate::path_error::{FileKindError, PathError, special};
use crate::walk::{EntryKind, Walk, WalkEntry};

/// The deepest listing.
const MAX_DEPTH: usize = 5;

const DESCRIPTION: &str = "List a directory: `name/`, a file's name, tab and bytes, a link as \
    `name -> target`. Omits hidden and ignored entries.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[serde(default)]
    path: Option<String>,
    /// Default: 1.
    #[schemars(range(max = 5))]
    #[serde(default)]
    depth: Option<usize>,
    #[serde(default)]
    hidden: bool,
}

#[derive(Debug)]
pub(crate) struct ListDir;

impl TypedTool for ListDir {
    type Args = Args;

    fn spec() -> ToolSpec {
        let example = |title, arguments| Example { title, arguments };
        ToolSpec {
            examples: vec![
                example("The working directory", serde_json::json!({})),
                example("Two levels, everything", serde_json::json!({"depth": 2, "hidden": true})),
            ],
            kind: ToolKind::Search,
            subject: Subject::new(Some("list".into()), "path", ArgumentRole::Path),
            ..ToolSpec::read_only(spec_of::<Args>("list_dir", DESCRIPTION))
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        blocking(cx, move |cx| list(&args, cx)).await
    }
}

deputize_core::register_tool!("file", ListDir);

fn list(args: &Args, cx: &ToolCx) -> ToolCallResult {
    let place = GrantedPath::existing(cx, args.path.as_deref().unwrap_or("."), Access::Read)?;
    if !place.metadata()?.is_dir() {
        let path = place.shown().to_owned();
        return Err(PathError::from(FileKindError::NotDirectory(path)).into());
    }
    place.check_readable_directory("list")?;
    let depth = args.depth.unwrap_or(1).clamp(1, MAX_DEPTH);
    let limit = Settings::of(cx).list_entries;
    let mut walk = Walk::new(&place, depth, args.hidden);
    let mut lines = Vec::new();
    let mut all = 0_u64;
    let mut no_text = 0_u64;
    let mut cancelled = false;
    for entry in walk.by_ref() {
        if cx.cancel.is_cancelled() {
            cancelled = true;
            break;
        }
        all += 1;
        no_text += u64::from(entry.rel.file_name().is_some_and(|name| name.to_str().is_none()));
        if lines.len() < limit {
            lines.push(line(&place, &entry));
        }
    }
    let shown = lines.len() as u64;
    let mut output = ToolOutput::text(lines.join("\n"));
    let mut note = |wanted: bool, note: String| output.notes.extend(wanted.then_some(note));
    note(
        all == 0 && walk.left_out == 0 && walk.unreadable == 0,
        "the directory is empty".to_owned(),
    );
    note(
        shown < all,
        format!(
            "{shown} of {all} entries shown; list a directory in it, or use search_files with a glob"
        ),
    );
    note(
        walk.left_out > 0,
        format!(
            "{} hidden or ignored and not shown; hidden: true shows them",
            count(walk.left_out, "entry")
        ),
    );
    note(walk.unreadable > 0, format!("{} could not be read", count(walk.unreadable, "entry")));
    note(
        no_text > 0,
        format!(
            "{} not UTF-8 in the name; only the terminal can name them",
            count(no_text, "entry")
        ),
    );
    if cancelled { Err(ToolError::Cancelled(Box::new(output))) } else { Ok(output) }
}

fn line(place: &GrantedPath, entry: &WalkEntry) -> String {
    let rel = entry.rel.strip_prefix(place.rel()).unwrap_or(&entry.rel);
    let name = display_name(&rel.to_string_lossy());
    match entry.kind {
        EntryKind::Directory => format!("{name}/"),
        EntryKind::File => match place.root().symlink_metadata(&entry.rel) {
            Ok(meta) => format!("{name}\t{}", meta.len()),
            Err(_) => format!("{name}\t?"),
        },
        EntryKind::Link => match place.root().read_link_contents(&entry.rel) {
            Ok(target) => {
                format!(
                    "{name} -> {}",
                    display_name(&String::from_utf8_lossy(target.as_os_str().as_bytes()))
                )
            }
            Err(_) => format!("{name} -> ?"),
        },
        EntryKind::Special => match place.root().symlink_metadata(&entry.rel) {
            Ok(meta) => format!("{name} ({})", special(meta.file_type())),
            Err(_) => format!("{name} (?)"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{ToolFixture, result, show};
    use deputize_core::CancelReason;
    use serde_json::json;
    use std::ffi::OsStr;

    async fn list_in(bench: &ToolFixture, arguments: serde_json::Value) -> String {
        bench.call(ListDir, arguments).await
    }

    #[tokio::test]
    async fn each_kind_of_entry_has_its_form() {
        let bench = ToolFixture::new();
        bench.put("src/main.rs", "fn main() {}\n").put("Cargo.toml", "").fifo("pipe");
        bench.link("../outside", "out").link("src", "in").link("gone", "dangling");
        bench.put(".hidden", "").put(".gitignore", "target\n").put("target/x", "");
        insta::assert_snapshot!(list_in(&bench, json!({})).await, @r"
        Cargo.toml	0
        dangling -> gone
        in -> src
        out -> ../outside
        pipe (named pipe)
        src/
        [3 entries hidden or ignored and not shown; hidden: true shows them]
        ");
        insta::assert_snapshot!(list_in(&bench, json!({"depth": 2, "hidden": true})).await, @r"
        .gitignore	7
        .hidden	0
        Cargo.toml	0
        dangling -> gone
        in -> src
        out -> ../outside
        pipe (named pipe)
        src/
        src/main.rs	13
        target/
        target/x	0
        ");
        assert_eq!(list_in(&bench, json!({"path": "in"})).await, "main.rs\t13");
        assert_eq!(bench.call_as(&bench.within("src"), ListDir, json!({})).await, "main.rs\t13");
    }

    #[tokio::test]
    async fn names_cannot_forge_lines() {
        let bench = ToolFixture::new();
        bench.put("a\nb", "").put("\u{1b}[2Jx", "");
        std::fs::write(bench.root().join(OsStr::from_bytes(b"z\xff")), "").unwrap();
        assert_eq!(
            list_in(&bench, json!({"hidden": true})).await,
            "\\u{1b}[2Jx\t0\na\\u{a}b\t0\nz\u{fffd}\t0\n[1 entry not UTF-8 in the name; only the \
             terminal can name them]"
        );
    }

    #[tokio::test]
    async fn a_large_directory_is_cut_with_a_count() {
        let bench = ToolFixture::new();
        std::fs::create_dir(bench.path("many")).unwrap();
        for number in 0..50_000 {
            std::fs::File::create(bench.path(&format!("many/{number:05}"))).unwrap();
        }
        let text = list_in(&bench, json!({"path": "many"})).await;
        assert!(text.starts_with("00000\t0\n00001\t0\n"));
        assert!(text.ends_with(
            "00999\t0\n[1000 of 50000 entries shown; list a directory in it, or use search_files with a glob]"
        ));
    }

    #[tokio::test]
    async fn what_is_no_directory_is_refused() {
        let bench = ToolFixture::new();
        bench.put("f", "").link("../outside", "out").put("d/.keep", "");
        std::fs::create_dir(bench.path("empty")).unwrap();
        assert_eq!(
            list_in(&bench, json!({"path": "f"})).await,
            "refused: not a directory: f; read_file shows a file"
        );
        assert_eq!(
            list_in(&bench, json!({"path": "out"})).await,
            "refused: symlink leaves the workspace: out"
        );
        assert_eq!(
            list_in(&bench, json!({"path": ".."})).await,
            "refused: outside the workspace: .."
        );
        assert_eq!(
            list_in(&bench, json!({"path": "emty"})).await,
            "refused: not found: emty; did you mean empty?"
        );
        assert_eq!(list_in(&bench, json!({"path": "empty"})).await, "\n[the directory is empty]");
        assert_eq!(
            list_in(&bench, json!({"path": "d"})).await,
            "\n[1 entry hidden or ignored and not shown; hidden: true shows them]"
        );
    }

    #[tokio::test]
    async fn a_cancelled_listing_settles() {
        let bench = ToolFixture::new();
        bench.put("f", "");
        bench.cx.cancel.cancel(CancelReason::Interrupted);
        assert!(show(&result(&bench.cx, ListDir, json!({})).await).starts_with("cancelled\n"));
    }
}
