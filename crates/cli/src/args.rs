//! The command line, as types.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

mod acp;
mod command_group;
mod cron;
mod mcp;
mod memory;
mod new;
mod options;
#[cfg(test)]
mod page_commands;
mod plugin;
mod policy;
mod profiles;
mod prompt;
mod serve;
mod skills;
mod toolsets;

pub(crate) use acp::Acp;
pub(crate) use command_group::CommandGroup;
pub(crate) use cron::{CronAdd, CronCommand, CronRun};
pub(crate) use mcp::{AddServer, LoginArgs, Mcp, McpServe};
pub(crate) use memory::MemoryCommand;
pub(crate) use new::{NewCommand, Project};
use options::dollars;
pub(crate) use options::{Approve, ModelChoice, OutputFormat, Role, RunOptions, Settings, View};
pub(crate) use plugin::Plugin;
pub(crate) use policy::{ExplainArgs, FileAccess, PolicyCommand};
pub(crate) use profiles::Profiles;
pub(crate) use prompt::{ChildPrompt, Prompt};
pub(crate) use skills::Skills;
pub(crate) use toolsets::{ChildTools, Toolsets};

const RUN_EXAMPLES: &str = "\
Examples:
  deputize run \"explain what src/main.rs does\"
  deputize run - < task.txt
  deputize run -m openai/NAME --base-url http://127.0.0.1:8080/v1 \"list the open tasks\"
  deputize run --output json --approve deny \"count the tests\"
  deputize run --resume SESSION \"now the tests\"

Exit codes: 0 completed, 1 failed, 2 wrong usage or configuration, 3 provider not usable,
4 limit reached and partial answer printed, 130 interrupted.";

/// An agent that delegates work to other agents.
#[derive(Debug, Parser)]
#[command(name = "deputize", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Append a log to this file, filtered by DEPUTIZE_LOG [default: info]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

// To build the arguments of all commands takes longer than the rest of a start. With that put off,
// a doc comment of flattened options would stand in the help of each command instead of its own.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Run one task to completion
    ///
    /// Only the answer goes to standard output; progress goes to standard error.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Serve this agent to an editor, over ACP on standard input and output
    Acp(Box<Acp>),
    /// Print a request without sending it
    Prompt(Box<Prompt>),
    /// List tools, and choose which ones agents get
    Tools(CommandGroup<Tools>),
    /// List toolsets, and the tools of a child
    Toolsets(CommandGroup<Toolsets>),
    /// List, check and create plugins
    Plugin(CommandGroup<Plugin>),
    /// Manage MCP servers
    Mcp(CommandGroup<Mcp>),
    /// Serve this agent to other agents, over MCP on standard input and output
    McpServe(Box<McpServe>),
    /// Show running agents, and stop one
    Agents(Agents),
    /// Pause the start of new children; running ones go on
    Pause {
        /// Sessions [default: all running ones]
        sessions: Vec<String>,
    },
    /// Allow new children again
    Unpause {
        /// Sessions [default: all running ones]
        sessions: Vec<String>,
    },
    /// List, show, resume, export and delete sessions
    Sessions(CommandGroup<Sessions>),
    /// List, show, edit and delete what agents keep for later sessions
    Memory(CommandGroup<MemoryCommand>),
    /// Run, list, show, add, edit and delete scheduled jobs
    Cron(CommandGroup<CronCommand>),
    /// List, show, edit and delete skills
    Skills(CommandGroup<Skills>),
    /// List, show and create profiles, which are kinds of agents
    Profiles(CommandGroup<Profiles>),
    /// Show and check the configuration
    Config(CommandGroup<Config>),
    /// Explain what the rules say of a command, a path or an address
    Policy(CommandGroup<PolicyCommand>),
    /// Create a project that extends this program
    New(CommandGroup<NewCommand>),
    /// Check models, keys, plugins and servers
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The task; without it, or with `-`, the task comes from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Resume a stored session
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// Replay a recording, without models, tools, files or keys; stop at the first difference
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_IN_REPLAY)]
    pub(crate) replay: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// Options that a replay takes from its recording.
const NOT_IN_REPLAY: [&str; 12] = [
    "resume",
    "record",
    "images",
    "model",
    "base_url",
    "api_key_env",
    "approve",
    "config",
    "set",
    "max_cost",
    "max_tokens_total",
    "profile",
];

/// A count that is not 0.
fn count_from_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("give a whole number from 1".to_owned()),
    }
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Tools {
    /// List tools, with their origin and availability
    List {
        #[command(flatten)]
        view: View,
    },
    /// Show a tool's description and arguments, as models get them
    Show {
        /// The tool
        name: String,
        #[command(flatten)]
        view: View,
    },
    /// Enable a toolset, in the configuration file
    Enable(Choice),
    /// Disable a toolset, such as `delegation`, in the configuration file
    Disable(Choice),
}

// A toolset that agents are to have, or not.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// The toolsets, as `toolsets list` names them
    #[arg(value_name = "TOOLSET", required = true)]
    pub(crate) toolsets: Vec<String>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Agents {
    #[command(subcommand)]
    pub(crate) command: Option<AgentsCommand>,
    /// Print the agents once and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Sessions [default: all running ones, or the latest]
    pub(crate) sessions: Vec<String>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum AgentsCommand {
    /// Stop an agent; its parent gets its partial work
    Stop {
        /// The agent, as `agents` names it; SESSION/ is optional if one session runs
        agent: String,
        /// Stop all agents below it too
        #[arg(long)]
        tree: bool,
    },
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Sessions {
    /// List stored sessions, latest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the agents of a session, and the conversation of one
    Show {
        /// The session, or one of its agents
        #[arg(value_name = "SESSION[/AGENT]")]
        session: String,
        /// The agent whose conversation to show [default: the top agent]
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
    },
    /// Search the conversations of all sessions; needs a build with `session-search`
    Search {
        /// Words to find; words in double quotes stand together
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// Print at most this many sessions
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = count_from_one)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Resume a session, like `run --resume SESSION`
    Resume(Box<Resume>),
    /// Print a session without known secrets
    Export {
        /// The session
        session: String,
        /// Output format
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
    },
    /// Delete sessions that are not in use
    Rm {
        /// The sessions
        #[arg(required = true)]
        sessions: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The session
    pub(crate) session: String,
    /// The next message; without it, an interrupted turn continues
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object per line, like `run --output events`
    Jsonl,
    /// A readable conversation
    Markdown,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Config {
    /// Print the path of your configuration file
    Path {
        #[command(flatten)]
        settings: Settings,
    },
    /// Print the effective values and their sources
    Show {
        #[command(flatten)]
        view: View,
    },
    /// Check for mistakes, with file, line and column
    Check {
        #[command(flatten)]
        settings: Settings,
    },
    /// Print the JSON Schema of the configuration file
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) view: View,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The help of every command, one after the other.
    fn help(command: &mut clap::Command, path: &str, out: &mut String) {
        let name = format!("{path} {}", command.get_name());
        let text = command.render_long_help();
        out.push_str(&format!("=== {} --help\n{}\n\n", name.trim(), text.to_string().trim_end()));
        let mut below: Vec<clap::Command> = command.get_subcommands().cloned().collect();
        for command in &mut below {
            help(command, &name, out);
        }
    }

    #[test]
    fn the_help_of_every_command() {
        let mut command = Arguments::command().term_width(100);
        command.clone().debug_assert();
        command.build();
        let mut out = String::new();
        help(&mut command, "", &mut out);
        insta::assert_snapshot!(out);
    }

    fn parse(line: &str) -> Result<Arguments, clap::error::ErrorKind> {
        Arguments::try_parse_from(line.split(' ')).map_err(|error| error.kind())
    }

    #[test]
    fn a_prompt_may_be_a_dash_and_lists_are_split_at_commas() {
        let Command::Run(run) = parse("deputize run -t file,web -").unwrap().command else {
            panic!()
        };
        assert_eq!(run.prompt.as_deref(), Some("-"));
        assert_eq!(run.options.toolsets, ["file", "web"]);
        assert_eq!(run.options.output, OutputFormat::Text);
    }

    #[test]
    fn options_that_contradict_or_miss_each_other_are_refused() {
        use clap::error::ErrorKind::{ArgumentConflict, MissingRequiredArgument, ValueValidation};
        assert_eq!(parse("deputize run -q -v x").unwrap_err(), ArgumentConflict);
        assert_eq!(parse("deputize prompt --system --tools").unwrap_err(), ArgumentConflict);
        assert_eq!(parse("deputize prompt --child").unwrap_err(), MissingRequiredArgument);
        assert_eq!(parse("deputize prompt --goal g").unwrap_err(), MissingRequiredArgument);
        assert_eq!(parse("deputize run --max-iterations 0 x").unwrap_err(), ValueValidation);
        assert_eq!(parse("deputize sessions rm").unwrap_err(), MissingRequiredArgument);
    }
}
