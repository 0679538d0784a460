//! The policy until there is a sandbox.

use std::path::{Path, PathBuf};

use deputize_core::policy::{Denial, Verdict};
use deputize_core::tool::CallRisk;
use deputize_core::{AgentView, Effects, Policy, ToolSpec};
use deputize_policy::{CommandClass, CommandContext, CommandVerdict, classify_command};
use serde_json::Value;

/// Judges a call by the effects of its tool. A tool that only reads runs. A tool that writes files
/// runs, because the agent's authority bounds its paths. Every other call asks, and the question
/// about a command names its class and the rule that matches. Hardline commands never run, such as
/// `rm -rf /`.
///
/// ```
/// use std::path::Path;
///
/// use deputize_agent::EffectPolicy;
/// use deputize_core::Policy as _;
///
/// let policy = EffectPolicy::default();
/// assert!(policy.never("rm -rf .", Path::new("/")).is_some());
/// assert!(policy.never("rm -rf .", Path::new("/work/ada")).is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct EffectPolicy {
    /// The user's home directory, which no command may delete.
    pub home: Option<PathBuf>,
}

impl EffectPolicy {
    /// Returns the effects of tools whose every call needs an approval.
    #[must_use]
    pub fn approval_effects() -> Vec<Effects> {
        let all = [Effects::ReadOnly, Effects::WritesFiles, Effects::Unknown];
        all.into_iter().filter(|effects| asks(*effects)).collect()
    }

    fn verdict(&self, tool: &ToolSpec, arguments: &Value, cwd: &Path) -> Verdict {
        let effects = tool.effects_of(arguments);
        if !asks(effects) {
            return Verdict::Allow;
        }
        let commands = tool.subject.commands(arguments);
        let gravest = commands
            .map(|(_, command)| self.classify(command, cwd))
            .reduce(|first, next| if next.class > first.class { next } else { first });
        match gravest {
            Some(verdict) if verdict.class == CommandClass::Hardline => {
                Verdict::Deny(hardline_denial(&verdict))
            }
            Some(verdict) if tool.risk.is_none() => Verdict::from(command_risk(&verdict)),
            _ => Verdict::from(tool.risk.clone().unwrap_or(CallRisk::unbounded())),
        }
    }

    fn classify(&self, command: &str, cwd: &Path) -> CommandVerdict {
        let context = CommandContext { home: self.home.clone(), directory: Some(cwd.to_owned()) };
        classify_command(command, &context)
    }
}

/// What a person risks who approves a command.
fn command_risk(verdict: &CommandVerdict) -> CallRisk {
    let CallRisk { reason: unbounded, .. } = CallRisk::unbounded();
    match verdict.class {
        CommandClass::Safe => CallRisk::new(CommandClass::Safe.name(), unbounded),
        class => CallRisk::new(
            class.name(),
            format!("{}: {}; {unbounded}", verdict.rule, verdict.reason),
        ),
    }
}

fn hardline_denial(verdict: &CommandVerdict) -> Denial {
    let rule = format!("blocked (hardline: {}): this never runs here", verdict.reason);
    Denial {
        for_model: format!("{rule}. If it is needed, the person runs it themselves, outside"),
        for_person: rule,
    }
}

impl Policy for EffectPolicy {
    fn judge(&self, tool: &ToolSpec, arguments: &Value, cwd: &Path, _: &AgentView) -> Verdict {
        self.verdict(tool, arguments, cwd)
    }

    fn never(&self, command: &str, cwd: &Path) -> Option<Denial> {
        let verdict = self.classify(command, cwd);
        (verdict.class == CommandClass::Hardline).then(|| hardline_denial(&verdict))
    }
}

const fn asks(effects: Effects) -> bool {
    matches!(effects, Effects::Unknown)
}

#[cfg(test)]
mod tests {
    use deputize_core::schema::Schema;
    use deputize_core::tool::HarmlessCalls;
    use deputize_core::{ToolDecl, ToolKind, ToolName};
    use serde_json::json;

    use super::*;

    #[test]
    fn each_argument_that_is_a_command_is_judged() {
        let decl = || ToolDecl {
            name: ToolName::literal("remote_shell"),
            description: String::new(),
            parameters: Schema::new(&json!({"type": "object"})).unwrap(),
        };
        let silent = ToolSpec::effectful(decl(), Effects::Unknown);
        let named = silent.clone().about(ToolKind::Execute, "script");
        let hidden = silent.clone().about(ToolKind::Think, "command");
        let denied = |tool: &ToolSpec, arguments: Value| {
            matches!(
                EffectPolicy::default().verdict(tool, &arguments, Path::new("/work")),
                Verdict::Deny(_)
            )
        };
        assert!(denied(&named, json!({"script": "rm -rf /"})));
        assert!(!denied(&silent, json!({"script": "rm -rf /"})), "it does not say that this runs");
        for tool in [&silent, &named, &hidden] {
            assert!(denied(tool, json!({"command": "rm -rf /", "script": "ls"})));
            assert!(!denied(tool, json!({"command": "ls"})));
        }
    }

    #[test]
    fn a_question_names_the_class_of_its_command_and_the_rule() {
        let decl = ToolDecl {
            name: ToolName::literal("shell"),
            description: String::new(),
            parameters: Schema::new(&json!({"type": "object"})).unwrap(),
        };
        let shell = ToolSpec::effectful(decl, Effects::Unknown);
        let asked = |command: &str| match EffectPolicy::default().verdict(
            &shell,
            &json!({ "command": command }),
            Path::new("/work"),
        ) {
            Verdict::Ask { class, reason } => format!("{class}: {reason}"),
            other => format!("{other:?}"),
        };
        let unbounded = "it would run with all your rights, and no sandbox holds it";
        assert_eq!(asked("cargo test"), format!("safe: {unbounded}"));
        let rule = "git-rewrites-remote: rewrites or deletes remote history";
        assert_eq!(asked("git push --force"), format!("dangerous: {rule}; {unbounded}"));
        assert!(asked("rm -rf ~").contains("blocked (hardline: recursive delete of"));
    }

    #[test]
    fn a_command_is_judged_where_it_would_run() {
        let policy = EffectPolicy { home: Some("/home/ada".into()) };
        let stopped = |command, cwd| policy.never(command, Path::new(cwd)).is_some();
        for command in ["rm -rf .", "rm -rf *", "rm -rf ..", "cd .. && rm -rf *"] {
            assert!(!stopped(command, "/home/ada/work/app"), "{command}");
        }
        assert!(stopped("rm -rf .", "/home/ada"));
        assert!(stopped("rm -rf *", "/"));
        assert!(stopped("rm -rf ..", "/home/ada/work"));
        assert!(stopped("cd .. && rm -rf *", "/home/ada/work"));
    }

    #[test]
    fn a_call_that_its_tool_names_as_harmless_does_not_ask() {
        let decl = ToolDecl {
            name: ToolName::literal("job"),
            description: String::new(),
            parameters: Schema::new(&json!({"type": "object"})).unwrap(),
        };
        let harmless = Some(HarmlessCalls { argument: "action", values: &["look"] });
        let job = ToolSpec { harmless, ..ToolSpec::effectful(decl, Effects::Unknown) };
        let verdict =
            |arguments| EffectPolicy::default().verdict(&job, &arguments, Path::new("/work"));
        assert_eq!(verdict(json!({"action": "look"})), Verdict::Allow);
        for arguments in [json!({"action": "write"}), json!({"action": ["look"]}), json!({})] {
            assert!(matches!(verdict(arguments), Verdict::Ask { .. }));
        }
    }

    #[test]
    fn only_what_nothing_bounds_is_asked_for() {
        let decl = || ToolDecl {
            name: ToolName::literal("tool"),
            description: String::new(),
            parameters: Schema::new(&json!({"type": "object"})).unwrap(),
        };
        let verdict =
            |tool: &ToolSpec| EffectPolicy::default().verdict(tool, &json!({}), Path::new("/work"));
        assert_eq!(verdict(&ToolSpec::read_only(decl())), Verdict::Allow);
        let writes = ToolSpec::effectful(decl(), Effects::WritesFiles);
        assert_eq!(verdict(&writes), Verdict::Allow);
        assert_eq!(EffectPolicy::approval_effects(), [Effects::Unknown]);
        let bare = ToolSpec::effectful(decl(), Effects::Unknown);
        let asked = |tool: &ToolSpec| match verdict(tool) {
            Verdict::Ask { class, reason } => format!("{class}: {reason}"),
            other => format!("{other:?}"),
        };
        let unbounded = "dangerous: it would run with all your rights, and no sandbox holds it";
        assert_eq!(asked(&bare), unbounded);
        let risk = Some(CallRisk::new(CallRisk::OUTGOING, "it leaves this machine"));
        assert_eq!(asked(&ToolSpec { risk, ..bare }), "outgoing: it leaves this machine");
    }
}
