//! Calls of functions.

use std::rc::Rc;

use super::{Evaluator, KnownOutput};
use crate::invocation::Input;
use crate::rule::FORK_BOMB;
use crate::syntax::Command;

/// A function that runs.
#[derive(Debug)]
pub(super) struct ActiveCall {
    body: Rc<Command>,
    parallel: usize,
    conditional: usize,
    self_calls: usize,
}

/// Runs the body of a function, unless it runs already.
pub(super) fn call(
    it: &mut Evaluator,
    name: &str,
    body: &Rc<Command>,
    arguments: &[String],
    input: &Input,
) -> KnownOutput {
    it.uncalled.remove(name);
    let (parallel, conditional) = (it.parallel, it.conditional);
    if let Some(active) = it.calls.iter_mut().rev().find(|call| Rc::ptr_eq(&call.body, body)) {
        if parallel > active.parallel && conditional > active.conditional {
            it.findings.dangerous(&FORK_BOMB);
        } else if parallel > active.parallel {
            active.self_calls += 1;
            if active.self_calls > 1 {
                it.findings.hardline(&FORK_BOMB, "a fork bomb");
            }
        }
        return None;
    }
    let active = ActiveCall { body: Rc::clone(body), parallel, conditional, self_calls: 0 };
    it.calls.push(active);
    let before = it.state.positional.replace(arguments.to_vec());
    let printed = it.run(body, input);
    it.state.positional = before;
    it.calls.pop();
    printed
}

/// Judges functions that nothing called: a later command may.
pub(super) fn judge_uncalled(it: &mut Evaluator) {
    while let Some((_, body)) = it.uncalled.pop_first() {
        let parallel = it.parallel;
        let active = ActiveCall { body: Rc::clone(&body), parallel, conditional: 0, self_calls: 0 };
        it.calls.push(active);
        it.in_subshell(|it| {
            it.state.positional = None;
            it.run(&body, &Input::Unknown)
        });
        it.calls.pop();
    }
}
