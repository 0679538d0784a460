//! The survey of a directory: look, hand parts to children, put together.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Next;
use super::commands::commands;
use super::conversation::{Ask, Turn, TurnCall};
use super::entries::entries;
use super::figures::{Figures, figures, teach};
use super::frame::unframe;
use super::imports::Resolver;
use super::inventory::{File, Inventory, PAGES, head, nearest};
use super::language::file_name;
use super::licence::{is_licence, licences_of};
use super::manifest::{self, Manifests, Package};
use super::measure;
use super::modules::{describe, modules};
use super::part::Part;
use super::plan;
use super::readme;
use super::report::{self, PartReport, Report, Top};
use super::requirements::mark_test_only;
use super::scope::{Scope, under};
use super::search::PAGE;
use super::syntax::{FILE_BYTES, Grammar};
use super::task::SurveyMode;
use super::wording::{sentence_end, shorten};

/// Bytes of a line of source, on average.
const LINE_BYTES: u64 = 36;
/// Children of one call, when the tool does not say how many it takes.
const CHILDREN: usize = 3;
/// A directory of fewer sources than this is surveyed without children.
const WORTH_SHARING: usize = 16;
/// Lines of a licence file that are read: a second licence may follow a long first one.
const LICENCE_LINES: u64 = 1_000;
/// Licence files that are read.
const LICENCES: usize = 4;

/// Returns the next step of a survey of a directory.
pub(super) fn step(turn: &Turn<'_>, root: &str, sharing: SurveyMode, closing: bool) -> Next {
    let mut ask = Ask::new(turn);
    let whole = Scope::whole(root);
    let listing = ask.call("list_dir", json!({"path": root, "depth": 1, "hidden": true}));
    let mut inventory = Inventory::with_lines(&mut ask, &whole);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    if let Some(problem) = cannot_look(&mut ask, root, listing) {
        return refuse_when_known(ask, problem, closing);
    }
    let Manifests { mut packages, gaps: unread } = manifest::manifests(&mut ask, &inventory, root);
    manifest::inherit_from_above(&mut ask, &mut packages, root);
    let top = top_files(&mut ask, &inventory, root, listing);
    let shared = share(&mut ask, root, sharing, &inventory);
    let (figures, parts, note) = match shared {
        DelegationOutcome::Done(parts) => (together(&parts), parts, None),
        DelegationOutcome::Not => (own_figures(&mut ask, &inventory, &packages), Vec::new(), None),
        DelegationOutcome::Refused(why) => {
            (own_figures(&mut ask, &inventory, &packages), Vec::new(), Some(why))
        }
    };
    let complete = parts.iter().all(|part| part.problem.is_none());
    let complete = complete && figures.gaps.is_empty();
    mark_test_only(&mut packages, &inventory, &figures.requirements, complete, figures.parsed);
    // What is shared must not depend on what the parts say, so this comes after it.
    figures.mark_files(&mut inventory);
    let mut parts_of_it = modules(&inventory, root, &packages);
    describe(
        &mut ask,
        &inventory,
        &packages,
        &said_of_all(&packages, &top, root),
        &mut parts_of_it,
    );
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let mut gaps = std::mem::take(&mut inventory.gaps);
    gaps.extend(inventory.binary_sources());
    gaps.extend(unread);
    gaps.extend(figures.gaps.iter().cloned());
    once(&mut gaps);
    gaps.extend(note.map(|why| format!("nothing by children: delegating {why}")));
    if closing && ask.waits() {
        gaps.push("what further calls would have found: none could be made any more".to_owned());
    }
    let names: Vec<&str> = top.entries.iter().map(String::as_str).collect();
    let report = Report {
        commands: commands(&packages, folder_of(root), &inventory, &names),
        entries: entries(&packages, &inventory, &figures),
        modules: parts_of_it,
        top: Top { name: turn.directory_name(root).to_owned(), ..top },
        packages,
        inventory,
        figures,
        parts,
        gaps,
    };
    Next::Say(report::render(&report))
}

/// Returns the next step of a survey of a part.
pub(super) fn part_step(turn: &Turn<'_>, scope: &Scope, closing: bool) -> Next {
    let mut ask = Ask::new(turn);
    let project = Inventory::paths(&mut ask, &Scope::whole(&scope.root));
    let mut mine = Inventory::paths(&mut ask, scope);
    mine.mark_compiled(&project);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let packages = manifest::manifests(&mut ask, &project, &scope.root).packages;
    let mut resolver = Resolver::new(&project);
    teach(&mut resolver, &packages);
    let mut figures = figures(&mut ask, &mine.files, &resolver);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    figures.shorten_lists(&mine.files);
    Next::Say(report::of_part(scope, &figures))
}

/// Returns the next step of the question where the tests are.
pub(super) fn tests_step(turn: &Turn<'_>, root: &str, closing: bool) -> Next {
    let mut ask = Ask::new(turn);
    let whole = Scope::whole(root);
    let listing = ask.call("list_dir", json!({"path": root, "depth": 1, "hidden": true}));
    let inventory = Inventory::paths(&mut ask, &whole);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    if let Some(problem) = cannot_look(&mut ask, root, listing) {
        return refuse_when_known(ask, problem, closing);
    }
    let packages = manifest::manifests(&mut ask, &inventory, root).packages;
    let figures = own_figures(&mut ask, &inventory, &packages);
    if ask.waits() && !closing {
        return Next::Calls(ask.into_missing());
    }
    let names: Vec<String> = entry_names(listing);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let commands = commands(&packages, folder_of(root), &inventory, &names);
    let mut gaps = inventory.gaps.clone();
    gaps.extend(figures.gaps.iter().cloned());
    once(&mut gaps);
    Next::Say(report::of_tests(root, &inventory, &figures, &gaps, &commands.test))
}

/// Leaves each line once: one agent may say what another says too.
fn once(lines: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
}

fn folder_of(root: &str) -> &str {
    if root == "." { "" } else { root }
}

/// Returns the sentences that say what the whole is.
fn said_of_all(packages: &[Package], top: &Top, root: &str) -> Vec<String> {
    let at_top = packages.iter().filter(|package| package.folder() == folder_of(root));
    let lead = top.readme.as_ref().map(|readme| first_sentence_of(&readme.lead).to_owned());
    at_top.map(|package| first_sentence_of(&package.about).to_owned()).chain(lead).collect()
}

fn first_sentence_of(text: &str) -> &str {
    text.get(..sentence_end(text).unwrap_or(text.len())).unwrap_or_default()
}

fn entry_names(listing: Option<&TurnCall>) -> Vec<String> {
    let text = listing.and_then(TurnCall::ok).unwrap_or_default();
    let name = |line: &str| {
        let path = line.split(['\t']).next().unwrap_or(line);
        file_name(path.trim_end_matches('/')).to_owned()
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(name).collect()
}

fn top_files(
    ask: &mut Ask<'_, '_>,
    inventory: &Inventory,
    root: &str,
    listing: Option<&TurnCall>,
) -> Top {
    let entries = entry_names(listing);
    let top = folder_of(root);
    let readme = readme::nearest(inventory, top)
        .and_then(|path| Some(readme::read(path, &head(ask, path, readme::LINES)?)));
    let mut licences = Vec::new();
    for name in entries.iter().filter(|name| is_licence(name)).take(LICENCES) {
        let path = under(root, name);
        if inventory.has(&path) {
            let text = head(ask, &path, LICENCE_LINES);
            licences.push((path, text.as_deref().map(licences_of).unwrap_or_default()));
        }
    }
    let checks = checks(ask, root, &entries);
    Top { root: root.to_owned(), name: String::new(), entries, readme, licences, checks }
}

/// Files that configure continuous integration, by their names.
const CHECKS: [&str; 10] = [
    ".gitlab-ci.yml",
    ".travis.yml",
    ".cirrus.yml",
    ".drone.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "appveyor.yml",
    ".appveyor.yml",
    "bitbucket-pipelines.yml",
    ".woodpecker.yml",
];

fn checks(ask: &mut Ask<'_, '_>, root: &str, entries: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    if entries.iter().any(|name| name == ".github") {
        let folder = under(root, ".github");
        let github = ask.call("list_dir", json!({"path": folder, "depth": 2, "hidden": true}));
        let listed = github.and_then(TurnCall::ok).unwrap_or_default();
        for line in listed.lines() {
            let path = line.split('\t').next().unwrap_or_default();
            let workflow =
                path.contains("workflows/") && (path.ends_with(".yml") || path.ends_with(".yaml"));
            if workflow {
                let name = file_name(path);
                out.push(under(&folder, &format!("workflows/{name}")));
            }
        }
    }
    let known = entries.iter().filter(|name| CHECKS.contains(&name.as_str()));
    out.extend(known.map(|name| under(root, name)));
    out
}

fn own_figures(ask: &mut Ask<'_, '_>, inventory: &Inventory, packages: &[Package]) -> Figures {
    let mut resolver = Resolver::new(inventory);
    teach(&mut resolver, packages);
    figures(ask, &inventory.files, &resolver)
}

/// Whether a file is read and parsed.
fn is_parsed(file: &File) -> bool {
    Grammar::of(&file.path).is_some()
        && file.part() != Part::Foreign
        && file.bytes > 0
        && file.bytes <= FILE_BYTES
}

/// Hands the sources of a directory to children, if that is worth it.
fn share(
    ask: &mut Ask<'_, '_>,
    root: &str,
    sharing: SurveyMode,
    inventory: &Inventory,
) -> DelegationOutcome {
    let sources: Vec<&File> = inventory.files.iter().filter(|file| is_parsed(file)).collect();
    if sharing == SurveyMode::Alone || sources.len() < WORTH_SHARING {
        return DelegationOutcome::Not;
    }
    let Some(width) = width(ask.turn()) else { return DelegationOutcome::Not };
    let known = PAGES * usize::try_from(PAGE).unwrap_or(1);
    let parts = if inventory.files.len() >= known {
        plan::parts(root, width, &mut |dir| measure::children(ask, root, dir))
    } else {
        let files: Vec<(&str, u64)> = sources
            .iter()
            .map(|file| (file.path.as_str(), file.bytes.div_ceil(LINE_BYTES)))
            .collect();
        plan::parts(root, width, &mut |dir| Some(plan::children(dir, &files)))
    };
    if parts.len() > 1 { hand_on(ask, &parts) } else { DelegationOutcome::Not }
}

/// Refuses once all is there that the refusal is made of.
fn refuse_when_known(ask: Ask<'_, '_>, problem: String, closing: bool) -> Next {
    if ask.waits() && !closing { Next::Calls(ask.into_missing()) } else { Next::Refuse(problem) }
}

/// Says why there is nothing to look at, if so.
fn cannot_look(ask: &mut Ask<'_, '_>, root: &str, listing: Option<&TurnCall>) -> Option<String> {
    if ask.turn().tool("search_files").is_none() && ask.turn().tool("list_dir").is_none() {
        return Some("I cannot survey anything: neither `list_dir` nor `search_files` is among my tools. Allow the toolset `file`.".to_owned());
    }
    let listing = listing?;
    let problem = listing.problem()?;
    if problem.contains("not a directory") {
        return Some(format!("I cannot survey `{root}`: it is a file. `read {root}` shows it.\n"));
    }
    let near = nearest(ask, root, &problem);
    Some(format!("I cannot survey `{root}`: listing it {problem}{near}\n"))
}

/// Returns how many children one call may have. `None` if the agent cannot delegate.
fn width(turn: &Turn<'_>) -> Option<usize> {
    let tool = turn.tool("delegate_task")?;
    let schema = tool.parameters.to_value();
    let most = schema.pointer("/properties/tasks/maxItems").and_then(Value::as_u64);
    Some(most.and_then(|most| usize::try_from(most).ok()).unwrap_or(CHILDREN))
}

enum DelegationOutcome {
    Not,
    Refused(String),
    Done(Vec<PartReport>),
}

/// Hands parts to children, and returns their reports once they are there.
fn hand_on(ask: &mut Ask<'_, '_>, parts: &[Scope]) -> DelegationOutcome {
    let task = |(number, scope): (usize, &Scope)| json!({"goal": scope.goal(number, parts.len()), "context": scope.context()});
    let tasks: Vec<Value> = (1..).zip(parts).map(task).collect();
    let Some(done) = ask.call("delegate_task", json!({"tasks": tasks})) else {
        return DelegationOutcome::Done(Vec::new());
    };
    if let Some(problem) = done.problem() {
        return DelegationOutcome::Refused(problem);
    }
    let value: Value = serde_json::from_str(&done.content).unwrap_or_default();
    let Some(results) = value.get("results").and_then(Value::as_array) else {
        let why = value.get("error").and_then(Value::as_str).unwrap_or("gave no results");
        return DelegationOutcome::Refused(format!("failed: {}", shorten(why, 200)));
    };
    let of = |index: usize| {
        results.iter().find(|result| {
            result.get("task_index").and_then(Value::as_u64) == u64::try_from(index).ok()
        })
    };
    DelegationOutcome::Done(
        parts.iter().enumerate().map(|(index, scope)| read_part(scope, of(index))).collect(),
    )
}

/// Reads a child's entry in the results.
fn read_part(scope: &Scope, result: Option<&Value>) -> PartReport {
    let word = |field: &str| result.and_then(|result| result.get(field)).and_then(Value::as_str);
    let summary = word("summary").map(|text| unframe(text).content);
    let figures = summary.and_then(report::figures);
    let status = word("status").unwrap_or("missing");
    let failed = (status != "completed").then(|| match word("error") {
        Some(error) => format!("the child ended as {status}: {}", shorten(error, 200)),
        None => format!("the child ended as {status}"),
    });
    let unread =
        (figures.is_none() && failed.is_none()).then(|| "its figures could not be read".to_owned());
    PartReport { label: scope.short_label(), figures, problem: failed.or(unread) }
}

fn together(parts: &[PartReport]) -> Figures {
    let mut all = Figures::default();
    for part in parts {
        all.gaps.extend(part.problem.iter().map(|problem| format!("{}: {problem}", part.label)));
        if let Some(figures) = &part.figures {
            all.add(figures.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests;
