//! Functions and aliases that run, and what runs at once.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::findings::Findings;
use crate::rule::FORK_BOMB;
use crate::syntax::Command;

/// A function that runs.
struct ActiveCall {
    body: Rc<Command>,
    parallel: usize,
    conditional: usize,
    self_calls: usize,
}

/// The calls that are open, and the functions that nothing called.
#[derive(Default)]
pub(crate) struct CallStack {
    calls: Vec<ActiveCall>,
    aliases: Vec<String>,
    uncalled: BTreeMap<String, Rc<Command>>,
    /// How many pipelines and background commands are open.
    parallel: usize,
    /// How many branches are open.
    conditional: usize,
}

impl CallStack {
    /// Remembers a function that nothing has called.
    pub(crate) fn define(&mut self, name: &str, body: &Rc<Command>) {
        self.uncalled.insert(name.to_owned(), Rc::clone(body));
    }

    /// Takes a function that nothing called.
    pub(crate) fn take_uncalled(&mut self) -> Option<(String, Rc<Command>)> {
        self.uncalled.pop_first()
    }

    /// Opens a call, and returns whether the body is to run: not if it runs already. One that calls
    /// itself twice at once is a fork bomb.
    pub(crate) fn enter(
        &mut self,
        name: &str,
        body: &Rc<Command>,
        findings: &mut Findings,
    ) -> bool {
        self.uncalled.remove(name);
        let (parallel, conditional) = (self.parallel, self.conditional);
        let Some(active) = self.calls.iter_mut().rev().find(|it| Rc::ptr_eq(&it.body, body)) else {
            let body = Rc::clone(body);
            self.calls.push(ActiveCall { body, parallel, conditional, self_calls: 0 });
            return true;
        };
        if parallel > active.parallel && conditional > active.conditional {
            findings.dangerous(&FORK_BOMB);
        } else if parallel > active.parallel {
            active.self_calls += 1;
            if active.self_calls > 1 {
                findings.hardline(&FORK_BOMB, "a fork bomb");
            }
        }
        false
    }

    /// Closes the call that was opened last.
    pub(crate) fn leave(&mut self) {
        self.calls.pop();
    }

    /// Returns whether the text of an alias runs.
    pub(crate) fn is_active_alias(&self, name: &str) -> bool {
        self.aliases.iter().any(|it| it == name)
    }

    pub(crate) fn enter_alias(&mut self, name: &str) {
        self.aliases.push(name.to_owned());
    }

    pub(crate) fn leave_alias(&mut self) {
        self.aliases.pop();
    }

    /// Opens what runs beside something else.
    pub(crate) fn enter_parallel(&mut self) {
        self.parallel += 1;
    }

    pub(crate) fn leave_parallel(&mut self) {
        self.parallel -= 1;
    }

    /// Opens what may not run.
    pub(crate) fn enter_branch(&mut self) {
        self.conditional += 1;
    }

    pub(crate) fn leave_branch(&mut self) {
        self.conditional -= 1;
    }
}
