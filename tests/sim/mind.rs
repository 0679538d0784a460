//! Who decides what models say and tools do: chance, or a plan that stays the same.

use std::sync::Arc;

use deputize_core::Message;
use deputize_core::model::{
    FailureKind, Finish, ModelError, RawCall, Reply, Request, ToolChoice, Usage,
};
use deputize_testkit::Seed;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::world::SECRET;

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mind {
    /// Everything follows from the seed.
    Chance,
    /// A tree of five agents that all follow their tasks.
    Plan,
    /// A wide tree that does little but delegate.
    Wide,
    /// The same with background children.
    Loose,
}

/// What a model does with one request.
#[derive(Debug)]
pub(crate) struct ModelBehaviour {
    pub(crate) after_ms: u64,
    pub(crate) answer: Result<Reply, ModelError>,
}

/// What a tool does with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolBehaviour {
    Works,
    /// It fails in a way that the model can act on.
    Refuses,
    /// It fails for a reason of the machine: no process can be started.
    CannotSpawn,
    Panics,
    /// It goes on until it is cancelled.
    Waits,
    /// It does not even end then.
    IsDeaf,
    /// It gives more than anybody can read.
    Floods,
}

/// Who a conversation is with: its system text and first message, or, where that is another agent's,
/// the message with its task.
pub(crate) fn identity(request: &Request<'_>) -> String {
    let text = |message: &'_ Arc<Message>| match &**message {
        Message::User(user) => Some(user.text.clone()),
        Message::Assistant(_) | Message::Tool(_) => None,
    };
    let mut texts = request.messages.iter().rev().filter_map(text);
    let task = texts.find(|text| text.contains("YOUR TASK:"));
    let first = task.or_else(|| request.messages.first().and_then(text)).unwrap_or_default();
    let system = request.system.last().map(|block| &**block).unwrap_or_default();
    format!("{system}\n{first}")
}

fn replies(request: &Request<'_>) -> usize {
    request.messages.iter().filter(|it| matches!(***it, Message::Assistant(_))).count()
}

impl Mind {
    pub(crate) fn says(self, seed: Seed, request: &Request<'_>, tries: u32) -> ModelBehaviour {
        let who = identity(request);
        let at = request.messages.len();
        let mut dice = seed.dice(&format!("model {at} {tries} {who}"));
        match self {
            Self::Chance => ModelBehaviour {
                after_ms: delay(&mut dice),
                answer: by_chance(&mut dice, (seed, &who), request),
            },
            Self::Plan => {
                ModelBehaviour { after_ms: 100, answer: Ok(by_plan(&who, replies(request))) }
            }
            Self::Wide | Self::Loose => {
                let reply = widely(&who, replies(request), self == Self::Loose);
                ModelBehaviour { after_ms: dice.u64(..400), answer: Ok(reply) }
            }
        }
    }

    pub(crate) fn does(self, seed: Seed, call: &str, tries: u32) -> (u64, ToolBehaviour) {
        let mut dice = seed.dice(&format!("tool {tries} {call}"));
        match self {
            Self::Chance => {
                let deed = match dice.u32(..100) {
                    0..64 => ToolBehaviour::Works,
                    64..74 => ToolBehaviour::Refuses,
                    74..80 => ToolBehaviour::CannotSpawn,
                    80..86 => ToolBehaviour::Panics,
                    86..94 => ToolBehaviour::Waits,
                    94..99 => ToolBehaviour::IsDeaf,
                    _ => ToolBehaviour::Floods,
                };
                (delay(&mut dice), deed)
            }
            Self::Plan => (50, ToolBehaviour::Works),
            Self::Wide | Self::Loose => (dice.u64(..300), ToolBehaviour::Works),
        }
    }
}

/// Mostly short, at times none, rarely minutes.
fn delay(dice: &mut Rng) -> u64 {
    match dice.u32(..20) {
        0..5 => 0,
        5..19 => dice.u64(1..3000),
        _ => dice.u64(1000..400_000),
    }
}

fn by_chance(
    dice: &mut Rng,
    (seed, who): (Seed, &str),
    request: &Request<'_>,
) -> Result<Reply, ModelError> {
    if let Some(error) = trouble(dice) {
        return Err(error);
    }
    // Some repeat themselves for ever.
    if seed.dice(&format!("nature {who}")).u32(..12) == 0 {
        return Ok(Reply::calls("m", [("look", json!({"n": 1}))]));
    }
    let usage = Usage {
        input: dice.u64(..900),
        cached: dice.u64(..90),
        output: dice.u64(..90),
        reasoning: dice.u64(..9),
        ..Usage::default()
    };
    let text = ["", "", "Done.", "I look. ", "key: sk-0123456789-canary, that is it", " \n", TYPED];
    let text = text[dice.usize(..text.len())];
    let finish = match dice.u32(..40) {
        0 => Finish::Refused,
        1..3 => Finish::Length,
        _ => Finish::Stop,
    };
    let may_call = request.tool_choice == ToolChoice::Auto || dice.u32(..4) == 0;
    let count = if may_call && dice.u32(..10) < 7 { dice.usize(1..5) } else { 0 };
    let agents = named_agents(request);
    let calls = (0..count).map(|_| call(dice, &agents)).collect();
    let reasoning = if dice.u32(..5) == 0 { format!("Hm, {SECRET}?") } else { String::new() };
    Ok(Reply { text: text.to_owned(), reasoning, calls, finish, usage, ..Reply::text("m", "") })
}

fn trouble(dice: &mut Rng) -> Option<ModelError> {
    let kind = match dice.u32(..100) {
        0..8 => FailureKind::Transient,
        8..12 => FailureKind::Incomplete,
        12 => FailureKind::ContextOverflow,
        13 => FailureKind::Unavailable,
        14 => FailureKind::Fatal,
        _ => return None,
    };
    let mut error = ModelError::new(kind, format!("the provider says {SECRET}"));
    if kind == FailureKind::Transient {
        error.status = [Some(429), Some(503), Some(529), None][dice.usize(..4)];
        error.retry_after_ms = (dice.u32(..3) == 0).then(|| dice.u64(..70_000));
    }
    if kind == FailureKind::Incomplete {
        error.partial = format!("as far as {SECRET}");
    }
    Some(error)
}

fn call(dice: &mut Rng, agents: &[String]) -> RawCall {
    let n = dice.u32(..4);
    let (name, arguments) = match dice.u32(..27) {
        0..6 => ("look", json!({"n": n}).to_string()),
        6..10 => ("act", json!({"n": n, "text": SECRET}).to_string()),
        10..14 => ("send", json!({"n": n}).to_string()),
        14..21 => ("delegate_task", delegation(dice).to_string()),
        24.. => ("delegate_control", control(dice, agents).to_string()),
        21 => ("lok", "{}".to_owned()),
        22 => {
            ("act", ["", "{", "[]", "{\"m\":1}", "null", "{\"n\":\"x\"}"][dice.usize(..6)].into())
        }
        _ => ("\u{202e}; rm -rf \u{0}", "\"".repeat(dice.usize(..40))),
    };
    RawCall { name: name.to_owned(), arguments }
}

/// An answer that fits the schema of tasks that have one.
const TYPED: &str = "{\"n\": 1}";

/// The agents that results have named in a conversation.
fn named_agents(request: &Request<'_>) -> Vec<String> {
    let mut agents = Vec::new();
    for message in request.messages {
        let Message::Tool(result) = &**message else { continue };
        let named = result.text.as_str().split("\"agent\":\"").skip(1);
        agents.extend(named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    agents
}

/// A look at the agents below, a message or a further task for them, an order to stop, or a wait.
fn control(dice: &mut Rng, agents: &[String]) -> Value {
    let action = ["list", "message", "stop", "join", "continue", "continue"][dice.usize(..6)];
    let mut call = json!({"action": action});
    match action {
        "list" => return call,
        "continue" | "message" => call["message"] = format!("Mind {SECRET}.").into(),
        "join" => call["wait_for"] = ["any", "all"][dice.usize(..2)].into(),
        _ => {}
    }
    if agents.is_empty() || dice.u32(..4) == 0 {
        call["all"] = true.into();
    } else {
        call["agents"] = json!([agents[dice.usize(..agents.len())]]);
    }
    call
}

fn delegation(dice: &mut Rng) -> Value {
    let task = |dice: &mut Rng| {
        // Without a number of its own a child would be like its sibling.
        let goal = format!("Job {} of {SECRET}.", dice.u32(..));
        let mut task = json!({"goal": goal});
        if dice.bool() {
            task["role"] = "orchestrator".into();
        }
        match dice.u32(..10) {
            8..10 => {
                let number = json!({"n": {"type": "integer"}});
                task["output_schema"] =
                    json!({"type": "object", "properties": number, "required": ["n"]});
            }
            0 => task["toolsets"] = json!(["work"]),
            1 => task["toolsets"] = json!(["nonsense"]),
            2 => task["max_iterations"] = dice.u32(..4).into(),
            3 => task["context"] = format!("It is {SECRET}.").into(),
            4 => task["goal"] = " ".into(),
            5 => task["history"] = "fork".into(),
            _ => {}
        }
        task
    };
    let background = dice.u32(..3) == 0;
    if dice.u32(..3) == 0 {
        let mut call = task(dice);
        call["background"] = background.into();
        return call;
    }
    let count = dice.usize(1..5);
    let tasks: Vec<Value> = (0..count).map(|_| task(dice)).collect();
    json!({ "tasks": tasks, "background": background })
}

fn calls<const N: usize>(calls: [(&str, Value); N]) -> Reply {
    let usage = Usage { input: 100, cached: 50, output: 10, reasoning: 1, ..Usage::default() };
    Reply { usage, ..Reply::calls("m", calls) }
}

fn by_plan(who: &str, replies: usize) -> Reply {
    let one = || json!({"n": 1});
    let orchestrator = json!({"goal": "Middle.", "role": "orchestrator"});
    match (who, replies) {
        (root, 0) if root.ends_with("go") => {
            calls([("look", one()), ("send", one()), ("send", json!({"n": 2})), ("act", one())])
        }
        (root, 1) if root.ends_with("go") => calls([(
            "delegate_task",
            json!({"tasks": [{"goal": "Left."}, orchestrator, {"goal": "Right."}]}),
        )]),
        (root, 2) if root.ends_with("go") => calls([("act", one())]),
        (middle, 0) if middle.contains("Middle.") => {
            calls([("delegate_task", json!({"goal": "Below."})), ("send", one())])
        }
        (leaf, 0) if !leaf.ends_with("go") => calls([("act", one()), ("look", one())]),
        _ => Reply { text: "Done.".to_owned(), ..calls([]) },
    }
}

fn widely(who: &str, replies: usize, background: bool) -> Reply {
    let task = |name: &str| json!({"goal": name, "role": "orchestrator"});
    let tops = ["Top a", "Top b", "Top c"];
    let top = tops.iter().find(|top| who.contains(**top));
    match (replies, top) {
        (0, None) => {
            let tasks = json!({"tasks": tops.map(task), "background": background});
            calls([("delegate_task", tasks)])
        }
        (0, Some(top)) if !who.contains("Low ") => {
            let lows = ["a", "b"].map(|name| task(&format!("Low {name} of {top}")));
            calls([("delegate_task", json!({"tasks": lows, "background": background}))])
        }
        (0, Some(_)) => calls([("send", json!({"n": 1})), ("look", json!({"n": 1}))]),
        _ => Reply { text: "Done.".to_owned(), ..calls([]) },
    }
}
