//! Questions of agents that a person answers in words.

use std::fmt;
use std::sync::Arc;

use crate::cancel::Cancel;
use crate::future::BoxFuture;
use crate::name::AgentId;
use crate::resource::Resource;

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonQuestion {
    /// The agent that asks.
    pub agent: AgentId,
    /// Text of the question.
    pub text: String,
    /// Answers to choose from; the person may answer in words of their own.
    pub options: Vec<String>,
    /// The answer that an empty line means; `None` if there is none.
    pub default: Option<String>,
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonAnswer {
    /// These words, or one of the options.
    Text(String),
    /// Nothing, within a number of seconds.
    TimedOut {
        /// How long the question was open.
        seconds: u64,
    },
    /// Nobody can be asked; why.
    Nobody(String),
}

/// Asks a person.
pub trait AskPerson: Send + Sync {
    /// Waits for the answer. Ends soon when `cancel` is signalled, with any answer.
    fn ask_person<'a>(
        &'a self,
        question: &'a PersonQuestion,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, PersonAnswer>;
}

/// The person of a session, in its settings. The default is that there is nobody.
#[derive(Clone, Default)]
pub struct Person(Option<Arc<dyn AskPerson>>);

impl Resource for Person {}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Person" } else { "Person(nobody)" })
    }
}

impl Person {
    /// Wraps what asks the person.
    #[must_use]
    pub fn new(asker: Arc<dyn AskPerson>) -> Self {
        Self(Some(asker))
    }

    /// Returns what asks the person; `None` if there is nobody.
    #[must_use]
    pub fn asker(&self) -> Option<&dyn AskPerson> {
        self.0.as_deref()
    }
}
