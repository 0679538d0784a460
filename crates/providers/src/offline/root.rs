//! The survey of a directory from the top: look, hand parts to children, put together.

use serde_json::{Value, json};

use super::Next;
use super::conversation::{Ask, Done, Turn};
use super::facts::{Facts, Size};
use super::frame::unframe;
use super::housekeeping;
use super::measure;
use super::plan;
use super::report::{self, PartReport, Report};
use super::scope::Scope;
use super::search::{Found, PAGE, Search};
use super::survey::{shorten, survey};
use super::task::Sharing;
use super::wording::count;

/// Bytes of a line, and of a file more than which cost no more work.
const LINE_BYTES: u64 = 36;
const MOST_BYTES: u64 = 400_000;
/// A directory of more files than this is cut into parts by sizes of directories alone.
const FILES_READ: u64 = 10_000;
/// Children of one call, when the tool does not say how many it takes.
const CHILDREN: usize = 3;
/// A directory of fewer files than this is surveyed without children.
const WORTH_SHARING: u64 = 16;

/// The next step of a survey of a directory.
pub(super) fn step(turn: &Turn<'_>, root: &str, sharing: Sharing, closing: bool) -> Next {
    let mut ask = Ask::new(turn);
    let whole = Scope::whole(root);
    let listing = ask.call("list_dir", json!({"path": root, "depth": 1, "hidden": true}));
    let first = Search::counts(&whole, "lines", "^", &[]).pages(1).ask(&mut ask);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    if let Some(problem) = cannot_look(&ask, root, listing) {
        return Next::Refuse(problem);
    }
    let worth = sharing == Sharing::Fitting && first.files >= WORTH_SHARING;
    let width = width(turn).filter(|_| worth);
    let parts = width.map(|width| parts(&mut ask, root, width, &first)).unwrap_or_default();
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let shared = if parts.len() > 1 { hand_on(&mut ask, &parts) } else { Handed::Not };
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let (facts, parts, note) = match shared {
        Handed::Done(parts) => (together(&parts), parts, None),
        Handed::Not => (survey(&mut ask, &whole, closing), Vec::new(), None),
        Handed::Refused(why) => (survey(&mut ask, &whole, closing), Vec::new(), Some(why)),
    };
    let sum = facts.size;
    let housekeeping = housekeeping::remarks(&mut ask, root, listing, &facts);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let children = parts.len();
    let subject = format!("`{root}`");
    let root = root.to_owned();
    let mut report = Report { subject, root, facts, parts, housekeeping };
    if children > 0 && report.parts.iter().all(|part| part.facts.is_some()) {
        let whole = Size { files: first.files, lines: first.total };
        report.facts.gaps.extend(unequal(sum, whole));
    }
    report.facts.gaps.extend(note.map(|why| format!("by children: handing parts on {why}")));
    report.facts.gaps.extend(
        ask.lacking().iter().map(|tool| format!("what needs `{tool}`: not among the tools")),
    );
    if closing {
        report
            .facts
            .gaps
            .push("what further calls would have found: none could be made any more".to_owned());
    }
    Next::Say(format!("{}\n{}\n", report::render(&report), made_by(children)))
}

/// The next step of a survey of a part.
pub(super) fn part_step(turn: &Turn<'_>, scope: &Scope, closing: bool) -> Next {
    let mut ask = Ask::new(turn);
    let facts = survey(&mut ask, scope, closing);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let mut facts = facts;
    facts.gaps.extend(
        ask.lacking().iter().map(|tool| format!("what needs `{tool}`: not among the tools")),
    );
    Next::Say(report::of_part(scope, &facts))
}

/// The parts of a directory that are worth a child each.
fn parts(ask: &mut Ask<'_, '_>, root: &str, width: usize, first: &Found<'_>) -> Vec<Scope> {
    if first.files > FILES_READ {
        return plan::parts(root, width, &mut |dir| measure::children(ask, root, dir));
    }
    let pages = usize::try_from(FILES_READ / PAGE).unwrap_or(1);
    let whole = Scope::whole(root);
    let sizes = Search::files(&whole, &[]).pages(pages).ask(ask);
    // To divide the work, lines as long as they mostly are will do.
    let lines = |bytes: u64| bytes.min(MOST_BYTES).div_ceil(LINE_BYTES);
    let files: Vec<(&str, u64)> = sizes.sizes().map(|(path, bytes)| (path, lines(bytes))).collect();
    plan::parts(root, width, &mut |dir| Some(plan::children(dir, &files)))
}

/// What to say when there is nothing to look at.
fn cannot_look(ask: &Ask<'_, '_>, root: &str, listing: Option<&Done>) -> Option<String> {
    if ask.turn().tool("search_files").is_none() && ask.turn().tool("list_dir").is_none() {
        return Some("I cannot survey anything: neither `list_dir` nor `search_files` is among my tools. Allow the toolset `file`.".to_owned());
    }
    let problem = listing?.problem()?;
    Some(format!("I cannot survey `{root}`: listing it {problem}"))
}

/// How many children one call may have; nothing when work cannot be handed on.
fn width(turn: &Turn<'_>) -> Option<usize> {
    let tool = turn.tool("delegate_task")?;
    let schema = tool.parameters.to_value();
    let most = schema.pointer("/properties/tasks/maxItems").and_then(Value::as_u64);
    Some(most.and_then(|most| usize::try_from(most).ok()).unwrap_or(CHILDREN))
}

enum Handed {
    Not,
    Refused(String),
    Done(Vec<PartReport>),
}

/// Hands parts to children; their reports, once they are there.
fn hand_on(ask: &mut Ask<'_, '_>, parts: &[Scope]) -> Handed {
    let task = |(number, scope): (usize, &Scope)| json!({"goal": scope.goal(number, parts.len()), "context": scope.context()});
    let tasks: Vec<Value> = (1..).zip(parts).map(task).collect();
    let Some(done) = ask.call("delegate_task", json!({"tasks": tasks})) else {
        return Handed::Not;
    };
    if let Some(problem) = done.problem() {
        return Handed::Refused(problem);
    }
    let value: Value = serde_json::from_str(&done.content).unwrap_or_default();
    let Some(results) = value.get("results").and_then(Value::as_array) else {
        let why = value.get("error").and_then(Value::as_str).unwrap_or("gave no results");
        return Handed::Refused(format!("failed: {}", shorten(why, 200)));
    };
    let of = |index: usize| {
        results.iter().find(|result| {
            result.get("task_index").and_then(Value::as_u64) == u64::try_from(index).ok()
        })
    };
    Handed::Done(
        parts.iter().enumerate().map(|(index, scope)| read_part(scope, of(index))).collect(),
    )
}

/// A child's entry in the results.
fn read_part(scope: &Scope, result: Option<&Value>) -> PartReport {
    let word = |field: &str| result.and_then(|result| result.get(field)).and_then(Value::as_str);
    let summary = word("summary").map(|text| unframe(text).content);
    let facts = summary.and_then(report::figures);
    let status = word("status").unwrap_or("missing");
    let failed = (status != "completed").then(|| match word("error") {
        Some(error) => format!("the child ended as {status}: {}", shorten(error, 200)),
        None => format!("the child ended as {status}"),
    });
    let unread =
        (facts.is_none() && failed.is_none()).then(|| "its figures could not be read".to_owned());
    let text = summary.filter(|_| facts.is_none()).map(str::to_owned);
    PartReport { label: scope.short_label(), facts, problem: failed.or(unread), text }
}

fn together(parts: &[PartReport]) -> Facts {
    let mut all = Facts::default();
    for facts in parts.iter().filter_map(|part| part.facts.as_ref()) {
        all.add(facts.clone());
    }
    all
}

/// What to say when the parts do not add up to the whole that was counted first.
fn unequal(sum: Size, whole: Size) -> Option<String> {
    (sum != whole).then(|| {
        format!(
            "the difference between the parts ({} files, {} lines) and the whole as it was \
             counted before ({} files, {} lines): files changed meanwhile, or there are too many",
            sum.files, sum.lines, whole.files, whole.lines
        )
    })
}

fn made_by(children: usize) -> String {
    let by = match children {
        0 => String::new(),
        children => {
            format!(" Its {} were each surveyed by a child agent.", count(children as u64, "part"))
        }
    };
    format!(
        "---\nMade by the model `offline`: fixed rules over the results of file tools, no language \
         model.{by} Findings are lines that fit a pattern, not proofs."
    )
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use deputize_core::CallStatus;

    use super::super::fixture::{Given, Talk, ok, talk, talk_in};
    use super::*;

    const FILES: &[&str] = &["list_dir", "search_files", "read_file"];
    const ALL: &[&str] = &["list_dir", "search_files", "read_file", "delegate_task"];

    /// Twenty files of 100 lines each, in two directories.
    fn tree(tool: &str, arguments: &Value) -> Given {
        let pattern = arguments.get("pattern").and_then(Value::as_str).unwrap_or_default();
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
        let mut text = String::new();
        match tool {
            "list_dir" => ok("a/\nb/", ""),
            "search_files" if pattern.ends_with("^)") => {
                for number in 0..10 {
                    let _ = write!(text, "a/{number}.rs:100\nb/{number}.py:100\n");
                }
                ok(text.trim(), "2000 matches in 20 files")
            }
            "search_files" if path.is_empty() => panic!("no path"),
            "search_files" if pattern.is_empty() => {
                for number in 0..10 {
                    let _ = write!(text, "a/{number}.rs\t3600\nb/{number}.py\t3600\n");
                }
                ok(text.trim(), "20 files")
            }
            _ => ok("", "no match in 20 files"),
        }
    }

    fn survey_of(play: impl FnMut(&str, &Value) -> Given) -> Talk {
        talk("Survey this repository", ALL, 20, play)
    }

    fn child(index: u64, status: &str, summary: &str) -> Value {
        json!({"task_index": index, "status": status, "summary": summary, "error": "too slow"})
    }

    #[test]
    fn parts_go_to_children_in_one_call_and_come_back_as_one_report() {
        let facts = |files, lines| Facts { size: Size { files, lines }, ..Facts::default() };
        let talk = survey_of(|tool, arguments| match tool {
            "delegate_task" => {
                let task = arguments.pointer("/tasks/1").unwrap();
                assert_eq!(task["goal"], "Survey part 2 of 2: b");
                let context = task["context"].as_str().unwrap();
                assert!(context.starts_with("Your part: `b/**` of `.`\n"), "{context}");
                let reports = [facts(10, 1000), facts(10, 1000)]
                    .map(|facts| report::of_part(&Scope::whole("x"), &facts));
                let results =
                    [child(0, "completed", &reports[0]), child(1, "completed", &reports[1])];
                ok(&json!({"results": results}).to_string(), "")
            }
            _ => tree(tool, arguments),
        });
        assert_eq!(talk.calls.iter().filter(|(tool, _)| tool == "delegate_task").count(), 1);
        assert!(talk.answer.contains("20 files and 2,000 lines"), "{}", talk.answer);
        assert!(!talk.answer.contains("Not looked at"), "{}", talk.answer);
        assert!(talk.answer.contains("Its 2 parts were each surveyed by a child agent."));
    }

    #[test]
    fn what_is_too_large_to_list_is_divided_by_the_sizes_of_its_directories() {
        let mut contexts = Vec::new();
        let talk = survey_of(|tool, arguments| {
            let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
            let flat = arguments.get("glob").is_some();
            match (tool, path) {
                ("delegate_task", _) => {
                    let tasks = arguments.get("tasks").and_then(Value::as_array).unwrap();
                    let context = |task: &Value| task["context"].as_str().unwrap().to_owned();
                    contexts.extend(tasks.iter().map(context));
                    ok(r#"{"results": []}"#, "")
                }
                ("list_dir", ".") => ok("big/\nsmall/\nlink -> big\na.rs\t9", ""),
                ("list_dir", "big") => ok("x/\ny/", ""),
                ("search_files", ".") if !flat => {
                    ok("a.rs:1", "800000 matches in 40000 files; shown 1; offset 1 for more")
                }
                ("search_files", "big") if !flat => ok("", "700000 matches in 35000 files"),
                ("search_files", "big/x" | "big/y") => ok("", "350000 matches in 17500 files"),
                ("search_files", "small") => ok("", "99999 matches in 4999 files"),
                ("search_files", ".") => ok("", "1 match in 1 file"),
                _ => ok("", "no match in 40000 files"),
            }
        });
        let parts: Vec<&str> =
            contexts.iter().filter_map(|text| text.split(" of `.`").next()?.get(11..)).collect();
        assert_eq!(parts, ["`*`, `big/x/**`", "`big/y/**`, `small/**`"]);
        assert!(talk.answer.contains("the child ended as missing"), "{}", talk.answer);
    }

    #[test]
    fn a_child_that_fails_is_a_gap_and_one_without_figures_is_quoted() {
        let talk = survey_of(|tool, arguments| match tool {
            "delegate_task" => {
                let results =
                    [child(0, "timeout", ""), child(1, "completed", "All is <b>well</b>.")];
                ok(&json!({"results": results}).to_string(), "")
            }
            _ => tree(tool, arguments),
        });
        for part in [
            "- `a/**`: the child ended as timeout: too slow",
            "- `b/**`: its figures could not be read",
            "> All is <b>well</b>.",
            "| `a/**` | ? | ? |",
        ] {
            assert!(talk.answer.contains(part), "{}", talk.answer);
        }
    }

    #[test]
    fn without_children_it_does_the_work_itself_and_says_why() {
        let error = |text: &str| (CallStatus::Error, text.to_owned(), "");
        for (tools, refusal, said) in [
            (FILES, None, None),
            (ALL, Some(error("refused: spawning is paused")), Some("spawning is paused")),
            (ALL, Some(ok(r#"{"error": "depth limit"}"#, "")), Some("depth limit")),
            (ALL, Some(ok("no json", "")), Some("gave no results")),
        ] {
            let talk = talk("Survey this repository", tools, 20, |tool, arguments| match tool {
                "delegate_task" => refusal.clone().unwrap(),
                _ => tree(tool, arguments),
            });
            assert!(talk.answer.contains("20 files and 2,000 lines"), "{}", talk.answer);
            assert!(talk.answer.contains("| Python | 10 | 1,000 | 50.0 % |"), "{}", talk.answer);
            assert_eq!(talk.answer.contains("## Not looked at"), said.is_some(), "{}", talk.answer);
            assert!(talk.answer.contains(said.unwrap_or_default()), "{}", talk.answer);
        }
    }

    #[test]
    fn what_is_denied_or_broken_is_said_and_ends() {
        let denied = |_: &str, _: &Value| (CallStatus::Denied, "denied by policy".to_owned(), "");
        let none = survey_of(denied);
        assert_eq!((none.steps, none.failed), (2, true));
        assert!(
            none.answer.contains("I cannot survey `.`: listing it was denied: denied by policy")
        );
        let half = survey_of(|tool, arguments| match tool {
            "search_files" => (CallStatus::Error, "refused: no".to_owned(), ""),
            _ => tree(tool, arguments),
        });
        assert!(half.steps < 5 && !half.failed);
        assert!(half.answer.contains("counting the lines of `.` failed: no"), "{}", half.answer);
        let bare = talk("Survey this repository", &[], 9, denied);
        assert_eq!((bare.steps, bare.calls.len()), (1, 0));
        assert!(bare.answer.contains("neither `list_dir` nor `search_files`"), "{}", bare.answer);
    }

    #[test]
    fn what_was_cancelled_is_asked_for_once_more() {
        let mut left = 3;
        let talk = talk("Survey this repository", FILES, 20, |tool, arguments| {
            left -= i32::from(left > 0);
            if left > 0 {
                return (CallStatus::Cancelled, String::new(), "");
            }
            tree(tool, arguments)
        });
        assert!(talk.answer.contains("20 files and 2,000 lines"), "{}", talk.answer);
        let never = survey_of(|_, _| (CallStatus::Cancelled, String::new(), ""));
        assert_eq!((never.steps, never.calls.len()), (3, 4));
        assert!(never.answer.contains("was cancelled"), "{}", never.answer);
    }

    #[test]
    fn a_closing_answer_tells_what_there_is() {
        let early = talk("Survey this repository", FILES, 1, tree);
        assert!(early.answer.contains("20 files and 2,000 lines"), "{}", early.answer);
        assert!(early.answer.contains("none could be made any more"), "{}", early.answer);
        let scope = Scope::new(".", [("a", true)]);
        let system = [scope.context().into()];
        let part = talk_in(&system, &scope.goal(1, 2), FILES, 1, tree);
        assert!(part.answer.starts_with("# Survey of `a/**`"), "{}", part.answer);
        assert!(report::figures(&part.answer).unwrap().gaps.len() > 2, "{}", part.answer);
    }
}
