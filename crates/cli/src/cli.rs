//! The command line as a value: which tool crates a program has, and `run`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use deputize_core::ToolCrate;
use deputize_core::hook::Hook;
use deputize_core::memory::Memory;
use deputize_process::keep_private;

use crate::args::{Arguments, Command, CommandGroup, CronCommand, Sessions};
use crate::command::{
    acp, agents, config, cron, doctor, mcp, mcp_serve, memory, new, pause, plugin, policy,
    profiles, prompt, run, sessions, skills, tools,
};
use crate::compose::{LinkedTools, toolset_names, toolset_of};
use crate::exit::CliError;
use crate::extensions::Extensions;
use crate::invocation::{format_command, remember_config};
use crate::later;
use crate::process_env::ProcessEnv;
use crate::processes;
use crate::stdio::{print, tell};

/// A `deputize` program. A user's own one is the same five lines with more `LINK`s:
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     deputize::Cli::new().tools(deputize_tools::LINK).run()
/// }
/// ```
///
/// It may have hooks and a memory of its own, too:
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use deputize_core::{AgentId, BoxFuture, Cancel, Outcome};
/// use deputize_core::hook::{Hook, HookAnswer, HookEvent, HookInput, HookPoint};
/// use deputize_core::memory::{Memory, MemoryError, MemorySnapshot};
///
/// struct NoNetwork;
///
/// impl Hook for NoNetwork {
///     fn name(&self) -> &str {
///         "no-network"
///     }
///
///     fn wants(&self, point: HookPoint) -> bool {
///         point == HookPoint::PreToolUse
///     }
///
///     fn run<'a>(&'a self, input: &'a HookInput<'a>, _: &'a Cancel) -> BoxFuture<'a, HookAnswer> {
///         Box::pin(async move {
///             match input.event {
///                 HookEvent::PreToolUse { arguments, .. }
///                     if arguments["command"].as_str().is_some_and(|it| it.contains("curl")) =>
///                 {
///                     HookAnswer::block("nothing is fetched here")
///                 }
///                 _ => HookAnswer::pass(),
///             }
///         })
///     }
/// }
///
/// struct Notes;
///
/// impl Memory for Notes {
///     fn on_delegation<'a>(
///         &'a self,
///         task: &'a str,
///         result: &'a Outcome,
///         child: &'a AgentId,
///     ) -> BoxFuture<'a, Result<(), MemoryError>> {
///         Box::pin(async move {
///             eprintln!("{child} did `{task}`: {:?}", result.status);
///             Ok(())
///         })
///     }
///
///     fn snapshot(&self) -> Option<MemorySnapshot> {
///         Some("The person likes short answers.".to_owned().into())
///     }
/// }
///
/// fn main() -> ExitCode {
///     deputize::Cli::new().tools(deputize_tools::LINK).hook(NoNetwork).memory(Notes).run()
/// }
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Cli {
    links: Vec<ToolCrate>,
    own: Extensions,
}

impl Cli {
    /// Creates a program without tools of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the same with the tools of a crate.
    pub fn tools(mut self, link: ToolCrate) -> Self {
        self.links.push(link);
        self
    }

    /// Returns the same with a hook, which runs after those of the person's configuration. All
    /// agents of every run have it.
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.own.hooks.push(Arc::new(hook));
        self
    }

    /// Sets the memory, and replaces an earlier one. It receives the end of every child, and adds
    /// to the system text of each top agent.
    pub fn memory(mut self, memory: impl Memory + 'static) -> Self {
        self.own.memory = Some(Arc::new(memory));
        self
    }

    fn linked(&self) -> LinkedTools {
        LinkedTools::new(self.links.clone())
    }

    /// Runs the command line and returns its exit code.
    ///
    /// From here on, other programs of the same user cannot read this program's environment, which
    /// holds the keys.
    #[must_use]
    pub fn run(self) -> ExitCode {
        // Commands run as the same user: without this each could read the keys.
        if let Err(error) = keep_private() {
            tell(&format!("cannot keep the environment from commands: {error}; nothing was run"));
            return ExitCode::FAILURE;
        }
        let arguments: Vec<OsString> = std::env::args_os().collect();
        match processes::helper(&arguments) {
            Some(done) => done,
            None => self.run_with(arguments),
        }
    }

    fn run_with(&self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        let given = with_help_option(arguments.into_iter().collect());
        remember_config(&given);
        let arguments = match Arguments::try_parse_from(&given) {
            Ok(arguments) => arguments,
            Err(error) => return refuse_arguments(&error, &given),
        };
        match self.command(&arguments) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                tell(&error.to_string());
                ExitCode::from(error.exit().code())
            }
        }
    }

    /// Returns the environment of the program, with its extensions.
    fn env(&self) -> Result<ProcessEnv, CliError> {
        ProcessEnv::of_process(toolset_names(), toolset_of, self.own.clone())
    }

    fn command(&self, arguments: &Arguments) -> Result<u8, CliError> {
        let links = &self.linked();
        let mut env = self.env()?;
        env.start_log(arguments.log.as_deref())?;
        let done = match &arguments.command {
            Command::Run(args) => {
                let prompt = args.prompt.as_deref();
                let resume = args.resume.as_deref();
                let job = run::RunJob { prompt, resume, options: &args.options };
                return match &args.replay {
                    Some(file) => run::replay(links, &env, file, &job),
                    None => run::run(links, &env, &job),
                };
            }
            Command::Sessions(CommandGroup(Sessions::Resume(args))) => {
                let prompt = args.prompt.as_deref();
                let resume = Some(args.session.as_str());
                let job = run::RunJob { prompt, resume, options: &args.options };
                return run::run(links, &env, &job);
            }
            Command::Acp(args) => return acp::acp(links, env, args),
            Command::McpServe(args) => return mcp_serve::mcp_serve(links, env, args),
            Command::Mcp(args) => mcp::mcp(&env, args),
            Command::Doctor(args) => return doctor::doctor(links, &env, args),
            Command::Prompt(args) => prompt::prompt(links, &env, args),
            Command::Tools(args) => tools::tools(links, &env, args),
            Command::Toolsets(args) => tools::toolsets(links, &env, args),
            Command::Plugin(args) => return plugin::plugin(links, &env, args),
            Command::Agents(args) => agents::agents(&env, args),
            Command::Pause { sessions } => pause::pause(&env, sessions, true),
            Command::Unpause { sessions } => pause::pause(&env, sessions, false),
            Command::Sessions(args) => sessions::sessions(links, &env, args),
            Command::Cron(CommandGroup(CronCommand::Run(args))) => {
                return cron::run(links, env, args);
            }
            Command::Cron(args) => cron::cron(links, env, args),
            Command::Memory(args) => memory::memory(&env, args),
            Command::Skills(args) => skills::skills(links, &env, args),
            Command::Profiles(args) => profiles::profiles(links, &env, args),
            Command::Policy(args) => policy::policy(links, &env, args),
            Command::New(args) => new::new(&env, args),
            Command::Config(args) => config::config(links, &env, args),
            Command::Completions { shell } => completions(*shell),
        };
        done.map(|()| 0)
    }
}

/// Returns the arguments with `help COMMAND` written as `COMMAND --help`. A command of its own would
/// build the arguments of all others at each start.
fn with_help_option(mut given: Vec<OsString>) -> Vec<OsString> {
    if given.get(1).is_some_and(|word| word == "help") {
        given.remove(1);
        given.push("--help".into());
    }
    given
}

/// Prints the error of invalid arguments. Help and version go to standard output and are not
/// errors.
fn refuse_arguments(error: &clap::Error, given: &[OsString]) -> ExitCode {
    let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    let unknown = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(unknown)) if error.kind() == ErrorKind::InvalidSubcommand => {
            unknown.as_str()
        }
        _ => "",
    };
    let words: Vec<&str> = given.iter().skip(1).map_while(|word| word.to_str()).collect();
    let until = words.iter().position(|word| *word == unknown).map_or(0, |at| at + 1);
    if let Some(message) = later::missing_command(words.get(..until).unwrap_or_default()) {
        tell(&format!("error: {message}"));
    } else if unknown.contains(char::is_whitespace) {
        tell(&format!("error: a task is given to `run`: {} \"…\"", format_command("run")));
    } else {
        let _unread = error.print();
        if words.first() == Some(&"run") && is_a_word_more(error) {
            let run = format_command("run");
            tell(&format!("hint: a task is one argument; put its words in quotes: {run} \"…\""));
        }
    }
    code
}

/// Whether what was not understood is no option.
fn is_a_word_more(error: &clap::Error) -> bool {
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "-",
    };
    error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-')
}

fn completions(shell: clap_complete::Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "deputize", &mut script);
    print(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests;
