//! What the rules find in a command.

use crate::command_class::{CommandClass, CommandVerdict};
use crate::nested_command::{NestedCode, NestedCommand};
use crate::rule::Rule;

/// The gravest finding so far, and the nested commands that are to be judged.
#[derive(Default)]
pub(crate) struct Findings {
    gravest: Option<CommandVerdict>,
    nested: Vec<NestedCommand>,
}

impl Findings {
    pub(crate) fn hardline(&mut self, rule: &Rule, reason: impl Into<String>) {
        self.add(CommandClass::Hardline, rule, reason.into());
    }

    pub(crate) fn dangerous(&mut self, rule: &Rule) {
        self.add(CommandClass::Dangerous, rule, rule.reason.to_owned());
    }

    /// Keeps the first one of the gravest class.
    fn add(&mut self, class: CommandClass, rule: &Rule, reason: String) {
        if self.class() < class {
            self.gravest = Some(CommandVerdict { class, rule: rule.name, reason });
        }
    }

    pub(crate) fn runs_text(&mut self, text: impl Into<String>) {
        self.runs(NestedCommand::new(NestedCode::Text(text.into())));
    }

    pub(crate) fn runs_words(&mut self, words: Vec<String>) {
        self.runs(NestedCommand::new(NestedCode::Words(words)));
    }

    pub(crate) fn suspects(&mut self, text: impl Into<String>) {
        self.runs(NestedCommand::new(NestedCode::SuspectText(text.into())));
    }

    pub(crate) fn runs(&mut self, command: NestedCommand) {
        self.nested.push(command);
    }

    /// Takes the commands that are to be judged.
    pub(crate) fn take_nested(&mut self) -> Vec<NestedCommand> {
        std::mem::take(&mut self.nested)
    }

    pub(crate) fn class(&self) -> CommandClass {
        self.gravest.as_ref().map_or(CommandClass::Safe, |it| it.class)
    }

    /// Takes the gravest finding out, so that another part is judged by itself.
    pub(crate) fn take_gravest(&mut self) -> Option<CommandVerdict> {
        self.gravest.take()
    }

    /// Puts a finding back, if it is graver than what was found since.
    pub(crate) fn restore(&mut self, earlier: Option<CommandVerdict>) {
        if let Some(earlier) = earlier
            && earlier.class >= self.class()
        {
            self.gravest = Some(earlier);
        }
    }

    pub(crate) fn into_verdict(self) -> CommandVerdict {
        self.gravest.unwrap_or_else(|| CommandVerdict {
            class: CommandClass::Safe,
            rule: "none",
            reason: "no rule matches".to_owned(),
        })
    }
}
