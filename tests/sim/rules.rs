//! Who may do what: rules and a person by chance, and rights that are looked at in every call.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::hook::{Hook, HookAnswer, HookInput, HookPoint};
use deputize_core::policy::{ApprovalAnswer, Denial, Question, Verdict};
use deputize_core::{AgentView, Approver, BoxFuture, Cancel, Clock, Policy, ToolSpec};
use serde_json::Value;
use tokio::time::Instant;

use crate::mind::Mind;
use crate::world::{SECRET, World};

pub(crate) struct SimRules(pub(crate) Arc<World>);

impl Policy for SimRules {
    fn judge(
        &self,
        tool: &ToolSpec,
        arguments: &Value,
        _: &std::path::Path,
        agent: &AgentView,
    ) -> Verdict {
        let world = &self.0;
        let mut state = world.state();
        let rights = agent.authority.as_ref().clone();
        let above = agent.spec.parent.as_ref().map(|parent| state.rights.get(parent).cloned());
        state.rights.insert(agent.id().clone(), rights.clone());
        drop(state);
        match above {
            Some(Some(above)) if !rights.is_within(&above) => {
                world.wrong(format!("{} may do more than its parent", agent.id()));
            }
            // A background child goes on after a crash while its parent rests.
            Some(None) if !agent.spec.background => {
                world.wrong(format!("{} has a parent that did nothing", agent.id()));
            }
            _ => {}
        }
        if !rights.has(tool.decl.name.as_str()) {
            world.wrong(format!("{} calls {}, which it has not", agent.id(), tool.decl.name));
        }
        if world.mind != Mind::Chance {
            return Verdict::Allow;
        }
        let name = format!("rule {} {arguments}", tool.decl.name);
        match world.seed.dice(&name).u32(..12) {
            0 => Verdict::Deny(Denial::new("not today")),
            1 => Verdict::Ask { class: "odd".to_owned(), reason: "who knows".to_owned() },
            _ => Verdict::Allow,
        }
    }
}

pub(crate) struct SimPerson(pub(crate) Arc<World>);

impl Approver for SimPerson {
    fn ask<'a>(
        &'a self,
        question: &'a Question,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let world = &self.0;
            let _under_way = world.under_way(format!("question of {}", question.agent));
            let name = format!("{} {}", question.agent, question.call);
            let tries = world.tries(&name);
            let mut dice = world.seed.dice(&format!("person {tries} {name}"));
            let thinks = Duration::from_millis(dice.u64(..90_000));
            tokio::select! {
                biased;
                () = cancel.cancelled() => ApprovalAnswer::no("nobody: cancelled"),
                () = tokio::time::sleep(thinks) => {
                    if dice.bool() { ApprovalAnswer::yes("user") } else { ApprovalAnswer::no("user") }
                }
            }
        })
    }
}

/// Hooks that mostly let pass. What one decides of a moment is always the same, also after a crash.
pub(crate) struct SimHook(pub(crate) Arc<World>);

impl Hook for SimHook {
    fn name(&self) -> &str {
        "sim"
    }

    fn wants(&self, point: HookPoint) -> bool {
        point != HookPoint::UserPromptSubmit
    }

    fn run<'a>(
        &'a self,
        input: &'a HookInput<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, HookAnswer> {
        Box::pin(async move {
            let world = &self.0;
            let agent = &input.agent.id;
            let point = input.event.point();
            let call = input.event.call().map(|(call, _)| call);
            let name = format!("hook {agent} {} {call:?}", point.as_str());
            let _under_way = world.under_way(name.clone());
            let mut dice = world.seed.dice(&name);
            let decision = dice.u32(..24);
            tokio::select! {
                biased;
                () = cancel.cancelled() => return HookAnswer::error("told to end"),
                () = tokio::time::sleep(Duration::from_millis(dice.u64(..2_000))) => {}
            }
            match (decision, call) {
                (0..2, Some(call)) if point == HookPoint::PreToolUse => {
                    world.state().blocked.insert((agent.clone(), call));
                    HookAnswer::block(format!("not {SECRET}"))
                }
                (0..2, _) => HookAnswer::block(format!("not {SECRET}")),
                (2, _) => HookAnswer::error(format!("no {SECRET}")),
                (3, _) => panic!("on purpose"),
                _ => HookAnswer::pass(),
            }
        })
    }
}

/// A clock of the wall that jumps now and then, also back: nothing may depend on it.
pub(crate) struct SimClock {
    pub(crate) world: Arc<World>,
    pub(crate) since: Instant,
}

impl Clock for SimClock {
    fn now_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap();
        let tries = self.world.tries("clock");
        let jumps = tries % 50 == 49 && !self.world.state().clock_is_steady;
        let jump = if jumps { 86_400_000 } else { 0 };
        1_700_000_000_000 + elapsed - jump
    }
}
