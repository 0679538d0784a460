//! What is measured, and what is to be reached.

use std::io;
use std::path::Path;

use clap::ValueEnum;
use serde_json::Value;

use crate::Options;
use crate::calls;
use crate::lab::{Lab, Run};
use crate::script::Script;
use crate::session_search;
use crate::spread::Spread;
use crate::table::{Goal, Report, Row};
use crate::tools;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Start of the process to its first request; peak memory; the first request.
    Start,
    /// The program's own time for each of 20 steps that read a file.
    Steps,
    /// Children that read 5 files each, 50 ms an answer.
    Children,
    /// Memory of each of many children that wait for the model.
    Waiting,
    /// A search over many files, beside ripgrep.
    Files,
    /// The fetch of a large page.
    Page,
    /// The size of the program.
    Binary,
    /// A search over many sessions, and the first one, which builds the index.
    Search,
    /// A call of one tool: linked, loaded, in a process of its own, behind an MCP server.
    Calls,
}

/// Files that the steps read.
const STEPS: u64 = 20;
/// Files that a child reads.
const READS: u64 = 5;
/// Milliseconds of an answer to a child and its parent.
const LATENCY: u64 = 50;
/// Steps are short: so many runs more than of other things.
const MORE_RUNS: usize = 2;

/// Measures what the options want: of a program, by this one, which is also its own helpers.
pub(crate) fn measure(bench: &Path, program: &Path, options: &Options) -> io::Result<Report> {
    let wanted = |figure| options.only.is_empty() || options.only.contains(&figure);
    let mut report = Report::default();
    let is_alone = |figure: &Figure| matches!(figure, Figure::Calls | Figure::Search);
    if options.only.is_empty() || !options.only.iter().all(is_alone) {
        of_program(&Lab::new(bench, program)?, options, &wanted, &mut report)?;
    }
    if wanted(Figure::Search) {
        session_search::measure(options.sessions, options.runs, &mut report)?;
    }
    if wanted(Figure::Calls) {
        calls::measure(bench, options.runs, &mut report)?;
    }
    Ok(report)
}

fn of_program(
    lab: &Lab,
    options: &Options,
    wanted: &dyn Fn(Figure) -> bool,
    report: &mut Report,
) -> io::Result<()> {
    if wanted(Figure::Start) {
        start(lab, options.runs * MORE_RUNS, report)?;
    }
    if wanted(Figure::Steps) {
        steps(lab, options.runs * MORE_RUNS, report)?;
    }
    for children in &options.children {
        if wanted(Figure::Children) {
            fan_out(lab, *children, options.runs, report)?;
        }
    }
    if wanted(Figure::Waiting) {
        let most = options.children.iter().max().copied().unwrap_or(1);
        waiting(lab, most, options.runs.min(3), report)?;
    }
    if wanted(Figure::Files) {
        tools::search(lab, options.files, options.runs, report)?;
    }
    if wanted(Figure::Page) {
        tools::fetch(lab, options.page_bytes, options.runs, report)?;
    }
    if wanted(Figure::Binary) {
        let bytes = lab.program_bytes()?;
        report.row("program file", "MB", (None, Spread::of([bytes / 1e6])), Goal::AtMost(30.0));
    }
    Ok(())
}

impl Report {
    pub(crate) fn row(
        &mut self,
        figure: &str,
        unit: &'static str,
        (floor, ours): (Option<Spread>, Spread),
        goal: Goal,
    ) {
        self.rows.push(Row { figure: figure.to_owned(), unit, floor, ours, goal });
    }
}

/// Runs of the floor and of the program, in turns, so that what else the machine does meets both.
struct Pair {
    floor: Vec<Run>,
    ours: Vec<Run>,
}

impl Pair {
    fn measure(lab: &Lab, script: &Script, runs: usize) -> io::Result<Self> {
        lab.write_files(script)?;
        let like = lab.run(script)?;
        let mut pair = Self { floor: Vec::new(), ours: Vec::new() };
        for run in 0..runs.max(1) {
            // Neither is always the first.
            if run % 2 == 0 {
                pair.floor.push(lab.run_floor(script, &like)?);
                pair.ours.push(lab.run(script)?);
            } else {
                pair.ours.push(lab.run(script)?);
                pair.floor.push(lab.run_floor(script, &like)?);
            }
        }
        Ok(pair)
    }

    /// A value of all runs: of the floor, and ours.
    fn values(&self, value: impl Fn(&Run) -> f64) -> (Option<Spread>, Spread) {
        let floor = Spread::of(self.floor.iter().map(&value));
        (Some(floor), Spread::of(self.ours.iter().map(&value)))
    }
}

fn start(lab: &Lab, runs: usize, report: &mut Report) -> io::Result<()> {
    let pair = Pair::measure(lab, &Script::default(), runs)?;
    let values = pair.values(|run| run.start_ms);
    report.row("start to first request", "ms", values, Goal::Times(3.0));
    let values = pair.values(|run| run.wall_ms);
    report.row("one answer: whole run", "ms", values, Goal::None);
    let values = pair.values(|run| run.cpu_s * 1e3);
    report.row("one answer: CPU", "ms", values, Goal::None);
    let values = pair.values(|run| run.peak_mb);
    report.row("one answer: peak memory", "MB", values, Goal::AtMost(15.0));
    let first = pair.ours.first().map(|run| told_bytes(&run.first)).unwrap_or_default();
    let ours = Spread::of([first / 1e3]);
    report.row("first request: system text and tools", "KB", (None, ours), Goal::AtMost(12.0));
    Ok(())
}

/// Bytes of the system text and the tools of a request, as they were sent.
fn told_bytes(body: &str) -> f64 {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let tools = body.get("tools").map(ToString::to_string).unwrap_or_default();
    let messages = body.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
    let role = |message: &Value| message.get("role").and_then(Value::as_str).map(str::to_owned);
    let system = messages
        .iter()
        .filter(|message| matches!(role(message).as_deref(), Some("system" | "developer")));
    let system: usize = system.map(|message| message.to_string().len()).sum();
    (tools.len() + system) as f64
}

fn steps(lab: &Lab, runs: usize, report: &mut Report) -> io::Result<()> {
    let script = Script { reads: STEPS, ..Script::default() };
    let pair = Pair::measure(lab, &script, runs)?;
    let values = pair.values(|run| run.between_ms / STEPS as f64);
    report.row("a step that reads a file", "ms", values, Goal::Times(2.0));
    let values = pair.values(|run| run.cpu_s * 1e3);
    report.row("20 such steps: CPU", "ms", values, Goal::None);
    Ok(())
}

fn fan_out(lab: &Lab, children: u64, runs: usize, report: &mut Report) -> io::Result<()> {
    let script = Script { children, reads: READS, latency: LATENCY, ..Script::default() };
    let runs = if children > 100 { runs.div_ceil(2) } else { runs };
    let pair = Pair::measure(lab, &script, runs)?;
    let few = children <= 50;
    let row = |what: &str| format!("{children} children: {what}");
    let values = pair.values(|run| run.span_ms);
    let goal = Goal::Times(match children {
        0..=50 => 1.07,
        51..=1000 => 1.2,
        _ => 3.0,
    });
    report.row(&row("time"), "ms", values, goal);
    let values = pair.values(|run| run.cpu_s);
    let goal = if few { Goal::AtMost(0.15) } else { Goal::None };
    report.row(&row("CPU"), "s", values, goal);
    let values = pair.values(|run| run.peak_mb);
    let goal = if few { Goal::AtMost(25.0) } else { Goal::None };
    report.row(&row("peak memory"), "MB", values, goal);
    Ok(())
}

fn waiting(lab: &Lab, children: u64, runs: usize, report: &mut Report) -> io::Result<()> {
    let alone = Script { held: 1, ..Script::default() };
    for (what, held) in [("first", 1), ("last", READS + 1)] {
        let many = Script { children, reads: READS, held, ..Script::default() };
        lab.write_files(&many)?;
        let mut values = Vec::new();
        for _run in 0..runs.max(1) {
            let without = lab.resident_while_held(&alone, 1)?;
            let number = usize::try_from(children).unwrap_or(usize::MAX);
            let with = lab.resident_while_held(&many, number)?;
            values.push((with - without) / children as f64 / 1e3);
        }
        let figure = format!("a waiting child of {children}, {what} request");
        let goal = Goal::AtMost(60.0);
        report.row(&figure, "KB", (None, Spread::of(values)), goal);
    }
    Ok(())
}
