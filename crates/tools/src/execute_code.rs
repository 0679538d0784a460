//! `execute_code`: a Python script that calls tools itself, and of which only the output returns.

mod calls;
mod clock;
pub(crate) mod message;
mod python;
mod script_run;
#[cfg(test)]
mod tests;

use deputize_core::message::ModelText;
use deputize_core::tool::{CallCheck, CallRisk, spec_of};
use deputize_core::wording::count;
use deputize_core::{
    AgentView, ArgumentRole, Availability, Effects, Example, ParentOnly, ResourceMap, Subject,
    ToolCallResult, ToolCx, ToolDecl, ToolEffect, ToolError, ToolKind, ToolOutput, ToolSpec,
    TypedTool, describe_error,
};
use deputize_process::{Exit, Output};
use schemars::JsonSchema;
use serde::Deserialize;

use calls::TOOLS;
use python::Python;
pub use python::find_python;
use script_run::{ScriptEnd, ScriptError, run_script};

use crate::output_text::{omitted_note, output_text};
use crate::processes::Processes;
use crate::{CodeLimits, Settings, spill};

/// Returns what the tool does for an agent whose scripts may call these tools.
fn describe(functions: &[&str]) -> String {
    let functions = match functions {
        [] => String::new(),
        [one] => format!(" with {one} as a function"),
        [first @ .., last] => format!(" with {} and {last} as functions", first.join(", ")),
    };
    format!(
        "Run a Python script{functions}. You get only what it prints: use it to loop over, filter \
         or join many results."
    )
}

/// Returns whether an agent has a tool, and can use it now.
fn has(agent: &AgentView, tool: &str) -> bool {
    let own = agent.spec.tools.iter().any(|name| name.as_str() == tool);
    agent.catalog.get(tool).is_some_and(|entry| {
        own && agent.authority.permits(entry).is_ok()
            && entry.tool.availability(&agent.session.settings) == Availability::Yes
    })
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    code: String,
}

impl Args {
    fn check(&self) -> Result<(), ToolError> {
        match self.code.trim() {
            "" => Err(ToolError::refused("the code is empty")),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ExecuteCode;

impl TypedTool for ExecuteCode {
    type Args = Args;

    fn spec() -> ToolSpec {
        let code = "text = read_file('README.md')\nprint(len(text.splitlines()), 'lines')";
        ToolSpec {
            // The script's own limit ends it and everything that it started.
            time_limit: None,
            examples: vec![Example {
                title: "Only a number returns",
                arguments: serde_json::json!({"code": code}),
            }],
            parent_only: Some(ParentOnly::RunsScripts),
            kind: ToolKind::Execute,
            subject: Subject::new(Some("run Python".into()), "code", ArgumentRole::Command),
            // What the rules for commands of a shell say of Python means nothing.
            risk: Some(CallRisk::unbounded()),
            ..ToolSpec::effectful(
                spec_of::<Args>("execute_code", &describe(&TOOLS)),
                Effects::Unknown,
            )
        }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        match Python::find(settings) {
            Ok(_) => Availability::Yes,
            Err(why) => Availability::No(why),
        }
    }

    /// Promises only the functions that work.
    fn declare(&self, agent: &AgentView) -> Option<ToolDecl> {
        let own: Vec<&str> = TOOLS.into_iter().filter(|tool| has(agent, tool)).collect();
        let description = describe(&own);
        (own.len() < TOOLS.len()).then(|| ToolDecl { description, ..Self::spec().decl })
    }

    async fn check(&self, args: Args, _: &ToolCx) -> Result<CallCheck, ToolError> {
        args.check()?;
        Ok(CallCheck::Accepted)
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        args.check()?;
        let python = Python::find(&cx.agent.session.settings).map_err(ToolError::refused)?;
        let supervisor = Processes::supervisor(cx).map_err(|error| {
            ToolError::refused(format!("no script can run: {}", describe_error(&error)))
        })?;
        let (spill, not_kept) = match spill::file(cx).await {
            Ok(file) => (Some(file), None),
            Err(why) => (None, Some(why)),
        };
        let owner = supervisor.owner();
        let ended = match run_script(&python, &args.code, &owner, spill, cx).await {
            Ok(ended) => ended,
            Err(ScriptError::Spawn(error)) => {
                return Err(ToolError::refused(describe_error(&error)));
            }
            Err(ScriptError::Journal(error)) => return Err(ToolError::failed(error)),
        };
        let code = &Settings::of(cx).code;
        let mut output = output(&ended);
        if ended.output.omitted() > 0 {
            let name = code.setting_names.note("code_output_bytes");
            let most = code.output_bytes;
            output.notes.insert(
                0,
                format!(
                    "{}; at most {most} are shown{name}",
                    omitted_note(&ended.output, ended.spill.as_ref(), not_kept)
                ),
            );
        }
        let exit_code = if let Exit::Code(code) = ended.exit { Some(code) } else { None };
        let unknown = ended.exit == Exit::Unknown;
        output.facts.push(ToolEffect::Command { command: args.code, exit_code, unknown });
        settle_result(ended.exit, code, output)
    }
}

deputize_core::register_tool!("code_execution", ExecuteCode);

/// Returns what a script printed, with notes; for one that failed, with the end of its messages.
fn output(ended: &ScriptEnd) -> ToolOutput {
    let mut content = output_text(&ended.output);
    let stderr = &ended.stderr;
    let mut notes = Vec::new();
    if ended.exit != Exit::Code(0) && stderr.total > 0 {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.push_str(&format!("[stderr]\n{}", tail_text(stderr)));
    } else if stderr.total > 0 {
        notes.push(format!("{} on stderr, not shown", count(stderr.total, "byte")));
    }
    match ended.exit {
        Exit::Code(0) => {}
        // Of the other ends the refusal tells.
        Exit::Code(_) | Exit::Signal(_) => notes.push(ended.exit.to_string()),
        Exit::TimedOut | Exit::Cancelled | Exit::Unknown => {}
    }
    match &ended.calls {
        Some(calls) => notes.extend(calls.fault.as_ref().map(message::ScriptCallError::note)),
        None => notes.push("a call of the script did not settle: its outcome is unknown".into()),
    }
    if !ended.left.is_empty() {
        let left: Vec<_> = ended.left.iter().map(ToString::to_string).collect();
        notes.push(format!("could not be ended: process {}", left.join(", ")));
    }
    let made = ended.calls.as_ref().map_or(0, |calls| calls.made);
    if made > 0 && ended.exit != Exit::Code(0) {
        notes.push(format!("it had made {}; what they changed stays", count(made, "call")));
    }
    ToolOutput { notes, ..ToolOutput::text(content) }
}

/// Returns the end of the messages as text.
fn tail_text(stderr: &Output) -> String {
    let tail = String::from_utf8_lossy(&stderr.tail);
    match stderr.omitted() {
        0 => tail.into_owned(),
        // The tail may begin inside a character.
        more => format!("[… {more} bytes left out …]\n{}", tail.trim_start_matches('\u{fffd}')),
    }
}

/// Returns the result of a script, by its exit.
fn settle_result(exit: Exit, limits: &CodeLimits, output: ToolOutput) -> ToolCallResult {
    let text = match exit {
        Exit::Code(_) | Exit::Signal(_) => return Ok(output),
        Exit::Cancelled => return Err(ToolError::Cancelled(Box::new(output))),
        Exit::TimedOut => format!(
            "timed out after {}{}; the script and everything it started were killed",
            count(limits.seconds, "second"),
            limits.setting_names.note("code_seconds")
        ),
        Exit::Unknown => {
            "outcome unknown: the process that owned the script was killed, so nobody \
             saw how it ended; check what it did before it is run again"
                .to_owned()
        }
    };
    Err(ToolError::Partly { text: ModelText::own(text), output: Box::new(output) })
}
