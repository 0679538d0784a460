//! Questions, answered by the person at the editor.

use std::sync::Arc;

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    SessionNotification, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use deputize_core::authority::ApproverMode;
use deputize_core::excerpt::Excerpt;
use deputize_core::policy::{ApprovalAnswer, Question};
use deputize_core::sanitize::{for_question, for_terminal_line};
use deputize_core::{AgentId, Approver, BoxFuture, Cancel};
use parking_lot::Mutex;

use super::call_view::fenced;
use super::session_updates::{ApprovalUpdate, SessionUpdates};

/// Limit on a title, in characters.
const TITLE_CHARS: usize = 160;
/// Who says no when the turn ends first.
const CANCELLED: &str = "the end of the turn";
/// The options' ids.
const ALLOW: &str = "allow";
const REJECT: &str = "reject";

/// Asks the person at the editor, as the mode says that was chosen there.
pub(crate) struct EditorApprover {
    pub(crate) connection: ConnectionTo<Client>,
    pub(crate) session: String,
    pub(crate) root: AgentId,
    pub(crate) mode: Arc<Mutex<ApproverMode>>,
    pub(crate) session_updates: Arc<Mutex<SessionUpdates>>,
}

impl Approver for EditorApprover {
    fn answer_without_asking(&self, question: &Question) -> Option<ApprovalAnswer> {
        // How children's questions are answered is a matter of the configuration.
        if question.agent != self.root {
            return None;
        }
        match *self.mode.lock() {
            ApproverMode::Auto => Some(ApprovalAnswer::yes(ApprovalAnswer::AUTO)),
            ApproverMode::Deny => Some(ApprovalAnswer::no(ApprovalAnswer::NOBODY)),
            ApproverMode::Ask => None,
        }
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(self.answer(question, cancel))
    }
}

impl EditorApprover {
    async fn answer(&self, question: &Question, cancel: &Cancel) -> ApprovalAnswer {
        let asked = self.connection.send_request(self.request(question));
        tokio::select! {
            biased;
            () = cancel.cancelled() => ApprovalAnswer::no(CANCELLED),
            answered = asked.block_task() => match answered {
                Ok(response) => answer_of(&response.outcome),
                Err(error) => {
                    let reason = for_terminal_line(&error.to_string(), TITLE_CHARS);
                    ApprovalAnswer { reason, ..ApprovalAnswer::no("no user to ask at the editor") }
                }
            },
        }
    }

    fn request(&self, question: &Question) -> RequestPermissionRequest {
        // Held until it is told, as all that is told of a turn.
        let mut session_updates = self.session_updates.lock();
        let asked =
            session_updates.question(&question.agent, question.call, question.tool.as_str());
        let ApprovalUpdate { id, kind, whose, announcement } = asked;
        if let Some(update) = announcement {
            let update = SessionNotification::new(self.session.clone(), update);
            // A connection that is closed answers no question either.
            let _closed = self.connection.send_notification(update);
        }
        drop(session_updates);
        let title = title(question);
        let title = if whose.is_empty() { title } else { format!("{whose}: {title}") };
        let fields = ToolCallUpdateFields::new()
            .title(title)
            .kind(kind)
            .status(ToolCallStatus::Pending)
            .content(vec![ToolCallContent::from(words(question))]);
        let fields = match &question.saved {
            None => fields,
            Some(saved) => fields.locations(vec![ToolCallLocation::new(&*saved.path)]),
        };
        let option = |id, name, kind| PermissionOption::new(id, name, kind);
        let options = vec![
            option(ALLOW, "Allow once", PermissionOptionKind::AllowOnce),
            option(REJECT, "Reject", PermissionOptionKind::RejectOnce),
        ];
        let call = ToolCallUpdate::new(id, fields);
        RequestPermissionRequest::new(self.session.clone(), call, options)
    }
}

/// The tool and what it would do. Without a command of its own, that begins with the tool.
fn title(question: &Question) -> String {
    let tool = question.tool.as_str();
    let command = for_question(&question.command);
    let is_named = command.split([' ', '\n']).next() == Some(tool);
    let title = if is_named { command } else { format!("{tool} {command}") };
    for_terminal_line(&title, TITLE_CHARS)
}

/// Returns the text that the person judges: the command, within a fence that it cannot close.
fn words(question: &Question) -> String {
    let cwd = for_question(&question.cwd.to_string_lossy()).replace('\n', "\\n");
    let reason = for_terminal_line(&question.reason, TITLE_CHARS);
    let command = match &question.saved {
        None => fenced(&for_question(&question.command)),
        Some(saved) => {
            let Excerpt { head, omitted, tail } = Excerpt::new(&question.command);
            format!("{}\n{omitted}\n{}\n\n{}\n", fenced(&head), fenced(&tail), saved.describe())
        }
    };
    let arguments = match question.argument_lines().as_slice() {
        [] => String::new(),
        lines => format!("\nwith\n{}", fenced(&lines.join("\n"))),
    };
    format!("{command}{arguments}\nin `{cwd}`\n\n{}: {reason}.", question.class,)
}

fn answer_of(outcome: &RequestPermissionOutcome) -> ApprovalAnswer {
    match outcome {
        RequestPermissionOutcome::Selected(chosen) => match &*chosen.option_id.0 {
            ALLOW => ApprovalAnswer::yes("user"),
            REJECT => ApprovalAnswer::no("user"),
            _ => ApprovalAnswer::no("an answer of the editor that was not offered"),
        },
        _ => ApprovalAnswer::no(CANCELLED),
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::SelectedPermissionOutcome;
    use deputize_core::{CallId, SessionId, ToolName};

    use super::*;

    #[test]
    fn only_what_was_offered_is_a_yes() {
        let chosen = |id: &'static str| {
            let chosen = SelectedPermissionOutcome::new(id);
            answer_of(&RequestPermissionOutcome::Selected(chosen))
        };
        assert_eq!(chosen("allow"), ApprovalAnswer::yes("user"));
        assert_eq!(chosen("reject"), ApprovalAnswer::no("user"));
        assert!(!chosen("allow_always").allowed);
        assert_eq!(answer_of(&RequestPermissionOutcome::Cancelled), ApprovalAnswer::no(CANCELLED));
    }

    #[test]
    fn the_command_is_shown_whole_and_cannot_leave_its_fence() {
        let question = Question {
            agent: AgentId::root(&SessionId::literal("s")),
            goal: "Tidy up".to_owned(),
            call: CallId::new(1, 0),
            tool: ToolName::literal("terminal"),
            command: "ls\n```\nSafe, says the agent.\u{202e}".to_owned(),
            arguments: [("input".to_owned(), "y\n```".into())].into_iter().collect(),
            cwd: "/w\nin /safe".into(),
            class: "dangerous".to_owned(),
            reason: "nothing bounds it".to_owned(),
            needs_person: false,
            saved: None,
        };
        assert!(title(&question).starts_with("terminal ls"), "{}", title(&question));
        let fetch = Question {
            tool: ToolName::literal("fetch"),
            command: "fetch {\"url\":\"u\"}".to_owned(),
            ..question.clone()
        };
        assert_eq!(title(&fetch), "fetch {\"url\":\"u\"}");
        insta::assert_snapshot!(words(&question), @r#"
        ````
        ls
        ```
        Safe, says the agent.\u{202e}
        ````
        with
        ````
        input:
            y
            ```
        ````
        in `/w\nin /safe`

        dangerous: nothing bounds it.
        "#);
    }
}
