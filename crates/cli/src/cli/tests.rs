use std::sync::Arc;

use deputize_core::hook::{HookAnswer, HookEvent, HookInput, HookPoint};
use deputize_core::memory::{MemoryError, MemorySnapshot};
use deputize_core::{AgentId, BoxFuture, Cancel, Outcome};
use parking_lot::Mutex;

use super::*;

/// What was seen, in a row.
type SeenCalls = Arc<Mutex<Vec<String>>>;

/// A hook that sees calls, and lets nothing be listed.
struct WatchHook(SeenCalls);

impl Hook for WatchHook {
    fn name(&self) -> &str {
        "watch"
    }

    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::PreToolUse
    }

    fn run<'a>(&'a self, input: &'a HookInput<'a>, _: &'a Cancel) -> BoxFuture<'a, HookAnswer> {
        Box::pin(async move {
            let HookEvent::PreToolUse { tool, .. } = input.event else { panic!("{input:?}") };
            self.0.lock().push(tool.to_owned());
            HookAnswer::block("nothing is listed here")
        })
    }
}

struct Notes;

impl Memory for Notes {
    fn on_delegation<'a>(
        &'a self,
        _: &'a str,
        _: &'a Outcome,
        _: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        Box::pin(async { Ok(()) })
    }

    fn snapshot(&self) -> Option<MemorySnapshot> {
        Some("They like short answers.".to_owned().into())
    }
}

/// The environment of a program, in a home of its own.
fn env(cli: &Cli, home: &std::path::Path) -> ProcessEnv {
    let mut env = ProcessEnv::for_tests(&[("DEPUTIZE_HOME", home.to_str().unwrap())]);
    env.own = cli.env().unwrap().own;
    env
}

#[test]
fn a_program_has_the_hooks_that_it_names() {
    let home = tempfile::tempdir().unwrap();
    let seen = SeenCalls::default();
    let cli = Cli::new().tools(deputize_tools::LINK).hook(WatchHook(Arc::clone(&seen)));
    let work = home.path().to_str().unwrap();
    let given = ["deputize", "run", "-q", "-m", "offline", "-C", work, "list ."];
    let Command::Run(args) = Arguments::try_parse_from(given).unwrap().command else { panic!() };
    let job = run::RunJob { prompt: args.prompt.as_deref(), resume: None, options: &args.options };
    let code = run::run(&cli.linked(), &env(&cli, home.path()), &job).unwrap();
    assert_eq!((code, seen.lock().as_slice()), (1, &["list_dir".to_owned()][..]));
}

#[test]
fn what_the_memory_has_stands_in_the_prompt_of_the_top_agent_alone() {
    let home = tempfile::tempdir().unwrap();
    let cli = Cli::new().tools(deputize_tools::LINK).memory(Notes);
    let env = env(&cli, home.path());
    for mode in ["narrowed", "cache_preserving"] {
        let sources = crate::config::Sources {
            set: vec![format!("delegation.tool_schemas={mode}")],
            ..crate::config::Sources::default()
        };
        let loaded = crate::config::load(&sources).unwrap();
        let links = cli.linked();
        let from = crate::compose::AssemblyInput::here(&links, &loaded.config, &env, &sources);
        let made = crate::compose::AssembledProgram::new(&from).unwrap();
        let session = deputize_core::SessionId::literal("s");
        let deny = deputize_core::authority::ApproverMode::Deny;
        let top = made.assembly.top_agent(&session, "m", "Go.", deny);
        let actual = format!("{}{}", top.system.concat(), top.task);
        assert!(actual.contains("<tool:memory "), "{mode}: {actual}");
        assert!(actual.contains("They like short answers."), "{mode}: {actual}");
        let child = made.assembly.delegation.host.child_base.concat();
        assert!(!child.contains("short answers"), "{mode}: {child}");
        let shared = top.system.concat().contains("short answers");
        assert_eq!(shared, mode == "narrowed", "children share the system text");
        assert!(made.played().memory.is_none(), "a replay tells it nothing again");
    }
}
