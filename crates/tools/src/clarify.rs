//! `clarify`: a question that a person answers in words.

use deputize_core::message::ModelText;
use deputize_core::person::{Person, PersonAnswer, PersonQuestion};
use deputize_core::source::Source;
use deputize_core::tool::spec_of;
use deputize_core::{
    ArgumentRole, Availability, Example, ParentOnly, ResourceMap, Subject, ToolCallResult, ToolCx,
    ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a question at most.
const MOST_OPTIONS: usize = 9;
/// Characters of a question at most.
const QUESTION_CHARS: usize = 2_000;
/// Characters of an option, and of the default, at most.
const OPTION_CHARS: usize = 200;

const NOBODY: &str = "nobody can be asked: no person is at a terminal";

const DESCRIPTION: &str = "Ask the person, and wait. Only for what you cannot find out and must not \
    guess.";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    question: String,
    #[serde(default)]
    options: Vec<String>,
    /// Answer if none comes in time.
    #[serde(default)]
    default: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Clarify;

impl TypedTool for Clarify {
    type Args = Args;

    fn spec() -> ToolSpec {
        let arguments = serde_json::json!({
            "question": "Which database is it for?",
            "options": ["PostgreSQL", "SQLite"],
            "default": "SQLite",
        });
        ToolSpec {
            examples: vec![Example { title: "A choice", arguments }],
            kind: ToolKind::Other,
            subject: Subject::new(Some("ask you".into()), "question", ArgumentRole::Text),
            parent_only: Some(ParentOnly::Other("a child has nobody to ask")),
            // The person has a limit of their own.
            time_limit: None,
            parallel: false,
            ..ToolSpec::read_only(spec_of::<Args>("clarify", DESCRIPTION))
        }
    }

    fn availability(&self, settings: &ResourceMap) -> Availability {
        match settings.get_or_insert_with(Person::default).asker() {
            Some(_) => Availability::Yes,
            None => Availability::No(NOBODY.to_owned()),
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        check(&args)?;
        let person = cx.agent.session.settings.get_or_insert_with(Person::default);
        let asker = person.asker().ok_or_else(|| ToolError::refused(NOBODY))?;
        let Args { question, options, default } = args;
        let agent = cx.agent.id().clone();
        let question = PersonQuestion { agent, text: question, options, default };
        let answer = asker.ask_person(&question, &cx.cancel).await;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::Cancelled(Box::default()));
        }
        result(answer, question.default)
    }
}

deputize_core::register_tool!("clarify", Clarify);

fn check(args: &Args) -> Result<(), ToolError> {
    if args.question.trim().is_empty() {
        return Err(ToolError::refused("the question is empty"));
    }
    let chars = args.question.chars().count();
    if chars > QUESTION_CHARS {
        return Err(ToolError::refused(format!(
            "the question has {chars} characters, and {QUESTION_CHARS} is the most: shorten it"
        )));
    }
    let options = args.options.len();
    if options > MOST_OPTIONS {
        return Err(ToolError::refused(format!(
            "the question has {options} options, and {MOST_OPTIONS} is the most: leave some out"
        )));
    }
    let is_long = |option: &String| option.chars().count() > OPTION_CHARS;
    let long = match &args.default {
        _ if args.options.iter().any(is_long) => "an option",
        Some(default) if is_long(default) => "the default",
        _ => return Ok(()),
    };
    Err(ToolError::refused(format!("{long} has more than {OPTION_CHARS} characters: shorten it")))
}

fn result(answer: PersonAnswer, default: Option<String>) -> ToolCallResult {
    let why = match answer {
        // An empty line says neither yes nor no.
        PersonAnswer::Text(text) if text.trim().is_empty() && default.is_none() => {
            return Err(ToolError::Refused(ModelText::own(
                "the person gave an empty answer. Ask again, or do without what needs it",
            )));
        }
        PersonAnswer::Text(text) => {
            let source = Some(Source::input("answer"));
            return Ok(ToolOutput { source, ..ToolOutput::text(text) });
        }
        PersonAnswer::TimedOut { seconds } => format!("nobody answered within {seconds} s"),
        PersonAnswer::Nobody(why) => format!("nobody could be asked: {why}"),
    };
    match default {
        Some(default) => Ok(ToolOutput::text(default).note(format!("{why}; this is your default"))),
        None => Err(ToolError::Refused(ModelText::own(format!(
            "{why}. Decide yourself, and say in your answer what you assumed"
        )))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fixture::ToolFixture;
    use deputize_core::person::AskPerson;
    use deputize_core::{BoxFuture, Cancel, CancelReason};
    use parking_lot::Mutex;
    use serde_json::json;

    /// A person with one answer, who remembers what was asked.
    struct OneAnswer(PersonAnswer, Mutex<Vec<PersonQuestion>>);

    impl AskPerson for OneAnswer {
        fn ask_person<'a>(
            &'a self,
            question: &'a PersonQuestion,
            _: &'a Cancel,
        ) -> BoxFuture<'a, PersonAnswer> {
            self.1.lock().push(question.clone());
            Box::pin(async { self.0.clone() })
        }
    }

    fn with(answer: PersonAnswer) -> (ToolFixture, Arc<OneAnswer>) {
        let bench = ToolFixture::new();
        let person = Arc::new(OneAnswer(answer, Mutex::default()));
        let settings = &bench.cx.agent.session.settings;
        settings.get_or_insert_with(|| Person::new(Arc::clone(&person) as _));
        (bench, person)
    }

    #[tokio::test]
    async fn an_answer_a_default_or_the_advice_to_decide() {
        let (bench, person) = with(PersonAnswer::Text("SQLite".to_owned()));
        let ask = json!({"question": "Which?", "options": ["SQLite", "None"], "default": "None"});
        assert_eq!(bench.call(Clarify, ask.clone()).await, "SQLite");
        assert_eq!(person.1.lock()[0].options, ["SQLite", "None"]);
        let (bench, _) = with(PersonAnswer::TimedOut { seconds: 600 });
        let actual = bench.call(Clarify, ask).await;
        assert_eq!(actual, "None\n[nobody answered within 600 s; this is your default]");
        let actual = bench.call(Clarify, json!({"question": "Which?"})).await;
        assert!(
            actual.starts_with("refused: nobody answered within 600 s. Decide yourself"),
            "{actual}"
        );
        let (empty, _) = with(PersonAnswer::Text("  ".to_owned()));
        let actual = empty.call(Clarify, json!({"question": "Delete it?"})).await;
        assert!(actual.starts_with("refused: the person gave an empty answer."), "{actual}");
        bench.cx.cancel.cancel(CancelReason::Interrupted);
        assert_eq!(bench.call(Clarify, json!({"question": "Which?"})).await, "cancelled\n");
    }

    #[tokio::test]
    async fn without_a_person_it_is_not_usable() {
        let bench = ToolFixture::new();
        let settings = &bench.cx.agent.session.settings;
        assert_eq!(Clarify.availability(settings), Availability::No(NOBODY.to_owned()));
        let actual = bench.call(Clarify, json!({"question": "Which?"})).await;
        assert_eq!(actual, format!("refused: {NOBODY}"));
        let (bench, _) = with(PersonAnswer::Text(String::new()));
        let settings = &bench.cx.agent.session.settings;
        assert_eq!(Clarify.availability(settings), Availability::Yes);
    }

    #[tokio::test]
    async fn what_nobody_can_read_is_not_asked() {
        let (bench, person) = with(PersonAnswer::Text("x".to_owned()));
        let mut seen = String::new();
        for ask in [
            json!({"question": " "}),
            json!({"question": "x".repeat(2_001)}),
            json!({"question": "x", "options": vec!["a"; 10]}),
            json!({"question": "x", "options": ["a".repeat(201)]}),
            json!({"question": "x", "default": "a".repeat(201)}),
        ] {
            seen += &(bench.call(Clarify, ask).await + "\n");
        }
        insta::assert_snapshot!(seen, @r"
        refused: the question is empty
        refused: the question has 2001 characters, and 2000 is the most: shorten it
        refused: the question has 10 options, and 9 is the most: leave some out
        refused: an option has more than 200 characters: shorten it
        refused: the default has more than 200 characters: shorten it
        ");
        assert!(person.1.lock().is_empty());
    }
}
