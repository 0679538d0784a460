//! The command line as a value: which tool crates a program has, and `run`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use deputize_core::ToolCrate;

use crate::args::{Arguments, Command, Sessions};
use crate::command::{agents, config, doctor, pause, prompt, run, sessions, tools};
use crate::compose::toolset_names;
use crate::exit::CliError;
use crate::processes;
use crate::surroundings::{Surroundings, print, tell};

/// A `deputize` program. A user's own one is the same five lines with more `LINK`s:
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     deputize::Cli::new().tools(deputize_tools::LINK).run()
/// }
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Cli {
    links: Vec<ToolCrate>,
}

impl Cli {
    /// A program without tools of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with the tools of a crate.
    pub fn tools(mut self, link: ToolCrate) -> Self {
        self.links.push(link);
        self
    }

    /// Reads the command line, does what it says, and tells how that ended.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        match processes::helper(&arguments) {
            Some(done) => done,
            None => self.run_with(arguments),
        }
    }

    fn run_with(&self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        let arguments = match Arguments::try_parse_from(arguments) {
            Ok(arguments) => arguments,
            Err(error) => {
                // Help and version go to standard output and are no error.
                let _unread = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
        };
        match self.command(&arguments.command) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                tell(&error.to_string());
                ExitCode::from(error.exit().code())
            }
        }
    }

    fn command(&self, command: &Command) -> Result<u8, CliError> {
        let links = self.links.as_slice();
        let around = Surroundings::of_process(toolset_names())?;
        let done = match command {
            Command::Run(args) => {
                let (prompt, resume) = (args.prompt.as_deref(), args.resume.as_deref());
                let job = run::Job { prompt, resume, options: &args.options };
                return match &args.replay {
                    Some(file) => run::replay(links, &around, file, &job),
                    None => run::run(links, &around, &job),
                };
            }
            Command::Sessions(Sessions::Resume(args)) => {
                let (prompt, resume) = (args.prompt.as_deref(), Some(args.session.as_str()));
                let job = run::Job { prompt, resume, options: &args.options };
                return run::run(links, &around, &job);
            }
            Command::Doctor(args) => return doctor::doctor(links, &around, args),
            Command::Prompt(args) => prompt::prompt(links, &around, args),
            Command::Tools(args) => tools::tools(links, &around, args),
            Command::Toolsets(args) => tools::toolsets(links, &around, args),
            Command::Agents(args) => agents::agents(&around, args),
            Command::Pause { sessions } => pause::pause(&around, sessions, true),
            Command::Unpause { sessions } => pause::pause(&around, sessions, false),
            Command::Sessions(args) => sessions::sessions(&around, args),
            Command::Config(args) => config::config(&around, args),
            Command::Completions { shell } => completions(*shell),
        };
        done.map(|()| 0)
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "deputize", &mut script);
    print(&String::from_utf8_lossy(&script))
}
