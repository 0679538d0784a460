//! The survey of a directory from the top: look, hand parts to children, put together.

use serde_json::{Value, json};

use super::Next;
use super::conversation::{Ask, Done, Turn};
use super::facts::{Facts, Size};
use super::frame::unframe;
use super::housekeeping;
use super::plan;
use super::report::{self, PartReport, Report};
use super::scope::Scope;
use super::search::Search;
use super::survey::{shorten, survey};
use super::task::Sharing;

/// Pages of the first count of files.
const PAGES: usize = 5;
/// Children of one call, when the tool does not say how many it takes.
const CHILDREN: usize = 3;
/// A directory of fewer files than this is surveyed without children.
const WORTH_SHARING: usize = 16;

/// The next step of a survey of a directory.
pub(super) fn step(turn: &Turn<'_>, root: &str, sharing: Sharing, closing: bool) -> Next {
    let mut ask = Ask::new(turn);
    let whole = Scope::whole(root);
    let listing = ask.call("list_dir", json!({"path": root, "depth": 1, "hidden": true}));
    let sizes = Search::counts(&whole, "^", &[]).pages(PAGES).ask(&mut ask);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    if let Some(problem) = cannot_look(&ask, root, listing) {
        return Next::Say(problem);
    }
    let files: Vec<(&str, u64)> = sizes.counts().collect();
    let width = width(turn).filter(|_| sharing == Sharing::Fitting && files.len() >= WORTH_SHARING);
    let parts = width.map(|width| plan::parts(root, &files, width)).unwrap_or_default();
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
    let mut report = Report { subject: format!("`{root}`"), facts, parts, housekeeping };
    if children > 0 && report.parts.iter().all(|part| part.facts.is_some()) && !sizes.more {
        report.facts.gaps.extend(unequal(sum, &files));
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
    Next::Say(report::of_part(&scope.short_label(), &facts))
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
    let context = "Another agent surveys each of the other parts. Look only at yours, with the \
                   tools for files; change nothing.";
    let task = |scope: &Scope| json!({"goal": scope.goal(), "context": context});
    let tasks: Vec<Value> = parts.iter().map(task).collect();
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
fn unequal(sum: Size, files: &[(&str, u64)]) -> Option<String> {
    let mut whole = Size::default();
    files.iter().for_each(|(_, lines)| whole.add(1, *lines));
    (sum != whole).then(|| {
        format!(
            "the difference between the parts ({} files, {} lines) and the whole as it was \
             counted before ({} files, {} lines): files changed meanwhile",
            sum.files, sum.lines, whole.files, whole.lines
        )
    })
}

fn made_by(children: usize) -> String {
    let by = match children {
        0 => String::new(),
        children => format!(
            " Its {} were each surveyed by a child agent.",
            report::count(children as u64, "part")
        ),
    };
    format!(
        "---\nMade by the model `offline`: fixed rules over the results of file tools, no language \
         model.{by} Findings are lines that fit a pattern, not proofs."
    )
}
