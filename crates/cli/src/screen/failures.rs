//! The agents that failed in a turn and the tasks that got none, each with its whole reason.

use deputize_core::outcome::ExitReason;
use deputize_core::sanitize::for_terminal_line;
use deputize_core::wording::count;
use deputize_core::{AgentId, Status};
use deputize_runtime::snapshot::{AgentExit, UnstartedTask};
use deputize_runtime::{AgentSnapshot, SessionSnapshot};

use super::agent_text::{error_line, goal_text};
use super::line::{ScreenLine, Style};
use crate::agent_name::short;

/// Failures that are listed; more are counted.
const LISTED: usize = 50;

/// Whether an agent that ended like this failed.
pub(super) const fn is_failure(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Error | Status::Timeout)
}

/// Returns the children that failed in the top agent's last turn, and the tasks that got none: in the
/// order of the tree, those that failed for the same reason together, each on one row of so many
/// columns. Empty if none failed.
pub(super) fn failure_lines(snapshot: &SessionSnapshot, columns: usize) -> Vec<ScreenLine> {
    let turn = snapshot.turn();
    let agents = snapshot.agents().filter(|agent| agent.depth > 0);
    let agents = agents.filter_map(|agent| Some((agent, agent.exit.as_ref()?)));
    let failed = agents.filter(|(_, exit)| exit.turn == turn && is_failure(exit.status));
    let agents = failed.map(|(agent, exit)| Failure::of_agent(snapshot, agent, exit)).collect();
    let tasks = snapshot.unstarted_tasks().iter();
    let tasks = tasks.filter(|task| task.turn == turn && is_failure(task.status));
    let tasks = tasks.map(|task| Failure::of_task(snapshot, task)).collect();
    let mut lines = section(agents, "agent", "failed", columns);
    lines.extend(section(tasks, "task", "not begun", columns));
    lines
}

/// A line that names what failed, and why it did.
struct Failure {
    name: ScreenLine,
    /// The part of the reason by which failures are the same; see [`Outcome::cause`].
    ///
    /// [`Outcome::cause`]: deputize_core::Outcome::cause
    shared: String,
    reason: String,
    /// Whether the reason has figures that a person wants to see, as what is left of a budget.
    has_figures: bool,
}

impl Failure {
    fn of_agent(snapshot: &SessionSnapshot, agent: &AgentSnapshot, exit: &AgentExit) -> Self {
        let reason = error_line(agent).unwrap_or_else(|| "it gave no reason".to_owned());
        let cause = exit.cause.as_deref().map(|cause| for_terminal_line(cause, cause.len()));
        let tag = snapshot.task_path(&agent.id);
        Self {
            name: name(&tag, &agent.id, &goal_text(snapshot, agent)),
            shared: cause.unwrap_or_else(|| reason.clone()),
            reason,
            has_figures: exit.exit_reason == ExitReason::Budget,
        }
    }

    fn of_task(snapshot: &SessionSnapshot, task: &UnstartedTask) -> Self {
        let above = snapshot.task_path(&task.parent);
        let separator = if above.is_empty() { "" } else { "." };
        let number = task.index.saturating_add(1);
        let tag = format!("{above}{separator}{number}/{}", task.count);
        let error = for_terminal_line(&task.error, task.error.len());
        let name = name(&tag, &task.agent, &task.goal);
        Self { name, shared: error.clone(), reason: error, has_figures: false }
    }
}

/// Failures for the same reason.
struct Group {
    shared: String,
    names: Vec<ScreenLine>,
    /// The whole reason of the first.
    reason: String,
    /// Whether it is that of all, to the letter.
    is_equal: bool,
    has_figures: bool,
}

impl Group {
    fn new(first: Failure) -> Self {
        let Failure { name, shared, reason, has_figures } = first;
        Self { shared, names: vec![name], reason, is_equal: true, has_figures }
    }

    fn add(&mut self, failure: Failure) {
        self.is_equal &= failure.reason == self.reason;
        self.names.push(failure.name);
    }

    /// Returns a text that is true of each of them: figures of one are said to be its own.
    fn words(&self, thing: &str) -> String {
        let size = self.names.len();
        let reason = &self.reason;
        let all = count(size, thing);
        if size == 1 {
            reason.clone()
        } else if self.is_equal {
            format!("{all}: {reason}")
        } else if self.has_figures {
            format!("{all}, the first of them: {reason}")
        } else {
            format!("{all}: {}", self.shared)
        }
    }
}

/// Failures under a title, those with the same reason together.
fn section(failures: Vec<Failure>, thing: &str, what: &str, columns: usize) -> Vec<ScreenLine> {
    let all = failures.len();
    if all == 0 {
        return Vec::new();
    }
    let mut groups: Vec<Group> = Vec::new();
    for failure in failures {
        match groups.iter_mut().find(|group| group.shared == failure.shared) {
            Some(group) => group.add(failure),
            None => groups.push(Group::new(failure)),
        }
    }
    let title = format!("{} {what}:", count(all, thing));
    let mut lines = vec![ScreenLine::default().with(Style::Bad, title)];
    let mut left = LISTED;
    for group in groups {
        let reason = format!("    {}", group.words(thing));
        let size = group.names.len();
        lines.extend(group.names.into_iter().take(left).map(|name| name.fit(columns)));
        left = left.saturating_sub(size);
        lines.push(ScreenLine::default().with(Style::Plain, reason));
    }
    if let more @ 1.. = all.saturating_sub(LISTED) {
        lines.push(ScreenLine::default().with(Style::Dim, format!("  and {more} more")));
    }
    lines
}

/// An agent by its path in the tree, its id, which no other call repeats, and its goal.
fn name(tag: &str, id: &AgentId, goal: &str) -> ScreenLine {
    let line = ScreenLine::default().with(Style::Bad, "  ✗ ");
    let line = line.with(Style::Dim, format!("[{tag}] {}: ", short(id)));
    line.with(Style::Plain, goal)
}

#[cfg(test)]
mod tests {
    use deputize_core::message::{CallStatus, UserMessage};
    use deputize_core::{CallId, Event, ToolEffect};

    use super::*;
    use crate::fixture::{
        CALL, TestWriter, called, child, outcome, returned, root, started, tools,
    };

    fn failed(agent: &AgentId, error: &str) -> Event {
        let mut outcome = outcome(agent, Status::Failed, ExitReason::Error);
        outcome.error = Some(error.to_owned());
        Event::AgentEnd(Box::new(outcome))
    }

    fn describe(writer: &TestWriter) -> String {
        let lines = failure_lines(&SessionSnapshot::of(tools(), &writer.records), 60);
        lines.iter().map(|line| line.render(false)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn failed_agents_stand_by_their_path_with_their_whole_reason() {
        let mut writer = TestWriter::default();
        assert_eq!(describe(&writer), "");
        let below = child(1).child(CallId::new(2, 0), 0);
        for (agent, goal) in [
            (root(), "All"),
            (child(0), "a"),
            (child(1), "b"),
            (child(2), "c"),
            (below.clone(), "d"),
        ] {
            writer.add(&agent, started(&agent, goal));
        }
        let long = format!("the provider said{} no", " no".repeat(200));
        writer.add(&child(2), failed(&child(2), "no such model"));
        writer.add(&below, failed(&below, &long));
        writer.add(&child(1), failed(&child(1), "no such model"));
        writer.add(&child(0), failed(&child(0), "it went on later"));
        writer.add(&child(0), started(&child(0), "a"));
        let end = crate::fixture::ended(&child(0), Status::Completed, ExitReason::Completed);
        writer.add(&child(0), end);
        writer.add(&root(), failed(&root(), "told elsewhere"));
        let expected = format!(
            "3 agents failed:\n  ✗ [2/3] 1.0.1: b\n  ✗ [3/3] 1.0.2: c\n    2 agents: no such model\n  ✗ [2/3.1/3] 1.0.1/2.0.0: d\n    {long}"
        );
        assert_eq!(describe(&writer), expected);
        assert_eq!(CALL.step, 1, "the calls of the fixture");
    }

    #[test]
    fn those_of_an_earlier_task_of_the_session_are_left_out() {
        let mut writer = TestWriter::default();
        let message = || Event::Message(UserMessage::new("All".to_owned()));
        writer.add(&root(), started(&root(), "All")).add(&root(), message());
        writer.add(&child(0), started(&child(0), "a")).add(&child(0), failed(&child(0), "no"));
        // A message while it works, and a resume that says nothing new, begin no other task.
        writer.add(&root(), message());
        let end = || crate::fixture::ended(&root(), Status::Interrupted, ExitReason::Interrupted);
        writer
            .add(&root(), end())
            .add(&root(), Event::AgentResume { max_iterations: 9, task: None });
        assert_eq!(describe(&writer), "1 agent failed:\n  ✗ [1/3] 1.0.0: a\n    no");
        writer.add(&root(), end()).add(&root(), message());
        assert_eq!(describe(&writer), "");
    }

    #[test]
    fn very_many_are_counted() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "All"));
        for index in 0..60 {
            writer.add(&child(index), started(&child(index), "a"));
            writer.add(&child(index), failed(&child(index), &(index % 2).to_string()));
        }
        let actual = describe(&writer);
        assert!(
            actual.starts_with("60 agents failed:\n") && actual.ends_with("  and 10 more"),
            "{actual}"
        );
        assert_eq!(actual.lines().filter(|line| line.contains('✗')).count(), 50);
    }

    #[test]
    fn those_for_whom_the_budget_had_no_room_share_one_reason() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "All"));
        let goal = "Sort the imports of every module of this project, one by one";
        let tokens =
            |left| format!("900 of 1485 tokens of budget.tokens are spent, so {left} are left");
        let dollars = "$1.0000 of $1 of budget.usd are spent, so $0.0000 are left".to_owned();
        for (index, figures) in [(0, tokens(440)), (1, tokens(585)), (2, dollars.clone())] {
            writer.add(&child(index), started(&child(index), goal));
            let mut outcome = outcome(&child(index), Status::Failed, ExitReason::Budget);
            let unit = if figures.contains('$') { "dollars" } else { "tokens" };
            outcome.error = Some(format!("nothing was asked: {figures}"));
            outcome.cause = Some(format!("nothing was asked ({unit})"));
            writer.add(&child(index), Event::AgentEnd(Box::new(outcome)));
        }
        let cut = "Sort the imports of every module of this p…";
        assert_eq!(
            describe(&writer),
            format!(
                "3 agents failed:\n  ✗ [1/3] 1.0.0: {cut}\n  ✗ [2/3] 1.0.1: {cut}\n    \
                 2 agents, the first of them: nothing was asked: {}\n  ✗ [3/3] 1.0.2: {cut}\n    \
                 nothing was asked: {dollars}",
                tokens(440)
            )
        );
    }

    #[test]
    fn one_cause_is_one_reason_however_often_it_was_tried() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "All"));
        let remarks = ["", " (tried 2 times)", " (whatever the words)"];
        for (index, remark) in (0..).zip(remarks) {
            writer.add(&child(index), started(&child(index), "a"));
            let mut outcome = outcome(&child(index), Status::Failed, ExitReason::Error);
            outcome.error = Some(format!("no route (port 1){remark}"));
            outcome.cause = Some("no route (port 1)".to_owned()).filter(|_| !remark.is_empty());
            writer.add(&child(index), Event::AgentEnd(Box::new(outcome)));
        }
        let actual = describe(&writer);
        assert!(actual.ends_with("\n    3 agents: no route (port 1)"), "{actual}");
        assert_eq!(actual.matches("no route").count(), 1, "{actual}");
    }

    #[test]
    fn each_reason_is_shown_beyond_the_names_that_are_listed() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "All"));
        for index in 0..60 {
            let error = if index < 55 { "no such model" } else { "no such key" };
            writer.add(&child(index), started(&child(index), "a"));
            writer.add(&child(index), failed(&child(index), error));
        }
        let actual = describe(&writer);
        let end = "    55 agents: no such model\n    5 agents: no such key\n  and 10 more";
        assert!(actual.ends_with(end), "{actual}");
    }

    #[test]
    fn tasks_that_got_no_agent_stand_by_their_goals() {
        let mut writer = TestWriter::default();
        writer.add(&root(), started(&root(), "All"));
        let arguments = r#"{"tasks":[{"goal":"a"},{"goal":"b"},{"goal":"c"}]}"#;
        writer.add(&root(), called(CALL, "delegate_task", arguments));
        let fact = |task_index, status| ToolEffect::NotBegun {
            agent: child(task_index),
            task_index,
            model: "m".to_owned(),
            status,
            error: "its journal cannot be written".to_owned(),
        };
        // Nothing is wrong with a task that nobody wanted any more.
        let facts =
            vec![fact(0, Status::Interrupted), fact(1, Status::Error), fact(2, Status::Error)];
        writer.add(&root(), returned(CALL, "delegate_task", CallStatus::Ok, "{}", facts));
        assert_eq!(
            describe(&writer),
            "2 tasks not begun:\n  ✗ [2/3] 1.0.1: b\n  ✗ [3/3] 1.0.2: c\n    \
             2 tasks: its journal cannot be written"
        );
    }
}
