//! The command line, as types.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

mod acp;
mod mcp;
mod new;
mod serve;

pub(crate) use acp::Acp;
pub(crate) use mcp::{Add, Mcp, McpServe};
pub(crate) use new::{New, Project};

const RUN_EXAMPLES: &str = "\
Examples:
  deputize run \"explain what src/main.rs does\"
  deputize run - < task.txt
  deputize run -m openai/NAME --base-url http://127.0.0.1:8080/v1 \"list the open tasks\"
  deputize run --output json --approve deny \"count the tests\"
  deputize run --resume SESSION \"now the tests\"

Exit codes: 0 completed, 1 failed, 2 wrong usage or configuration, 3 the provider could not be used,
4 a limit was reached and the partial answer was printed, 130 interrupted.";

/// An agent that can hand work to other agents.
#[derive(Debug, Parser)]
#[command(name = "deputize", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Append a log to this file; DEPUTIZE_LOG filters it [default: info]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Do one task to its end
    ///
    /// The answer goes to standard output and nothing else does; progress goes to standard error.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Serve this agent to an editor, over ACP on the standard streams
    Acp(Box<Acp>),
    /// Print what a model would be sent, without sending it
    Prompt(Box<Prompt>),
    /// Show the tools there are, and choose those that agents have
    #[command(subcommand)]
    Tools(Tools),
    /// Show the sets that tools are given in
    #[command(subcommand)]
    Toolsets(Toolsets),
    /// Look at dynamic plugins, and begin one
    #[command(subcommand)]
    Plugin(Plugin),
    /// Deal with MCP servers, whose tools agents have
    #[command(subcommand)]
    Mcp(Mcp),
    /// Serve this agent to other agents, over MCP on the standard streams
    McpServe(Box<McpServe>),
    /// Show the agents of runs, and tell one to end
    Agents(Agents),
    /// Let a run start no new children; those that run go on
    Pause {
        /// The sessions [default: all that run]
        sessions: Vec<String>,
    },
    /// Let a run start children again
    Unpause {
        /// The sessions [default: all that run]
        sessions: Vec<String>,
    },
    /// Look at stored sessions, and go on with them
    #[command(subcommand)]
    Sessions(Sessions),
    /// Show and check the configuration
    #[command(subcommand)]
    Config(Config),
    /// Write a project that extends this program
    #[command(subcommand)]
    New(New),
    /// Say what works on this machine and what does not
    Doctor(Doctor),
    /// Print a script that completes this program's arguments in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Settings {
    /// Work in this directory
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Read this file instead of the person's own configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set a configuration key, such as delegation.max_spawn_depth=2; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// Which model answers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ModelChoice {
    /// The model; `offline` needs no key and no network
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Reach the model's provider at this address
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Environment variable that holds the key
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What to do; `-` reads it from standard input, and so does a pipe without it
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Go on with a stored session
    #[arg(long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// Play a recording instead: no model, no tool, no file, no key; a first difference ends it
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_IN_REPLAY)]
    pub(crate) replay: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// What a recording has and a replay is not told.
const NOT_IN_REPLAY: [&str; 10] = [
    "resume",
    "record",
    "model",
    "base_url",
    "api_key_env",
    "approve",
    "config",
    "set",
    "max_cost",
    "max_tokens_total",
];

#[derive(Debug, Clone, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Give the agent these toolsets only
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    /// Make at most this many model requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_iterations: Option<u32>,
    /// Spend at most this much, with all children; the models must have prices
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,
    /// Send and receive at most this many tokens, with all children
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens_total: Option<u64>,
    /// How questions about dangerous calls are answered [default: ask on a terminal, else deny]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) approve: Option<Approve>,
    /// What is printed on standard output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
    /// Record everything that comes from outside into a new file, for `run --replay FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Show no progress
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Show more: every call, and replies while they arrive
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// An amount of money that is one.
fn dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("give an amount of dollars, such as 0.50".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// Ask the person: at the terminal, or in the editor
    Ask,
    /// Answer no
    Deny,
    /// Answer yes, once each, and record it
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object a line for everything that happens
    Events,
}

#[derive(Debug, Args)]
pub(crate) struct Prompt {
    /// The message that would be sent
    #[arg(value_name = "PROMPT", default_value = "Hello.")]
    pub(crate) prompt: String,
    /// Print the system text only
    #[arg(long, conflicts_with_all = ["tools", "json"])]
    pub(crate) system: bool,
    /// Print the tools only
    #[arg(long, conflicts_with = "json")]
    pub(crate) tools: bool,
    /// Print the whole request as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) child: ChildPrompt,
    /// The toolsets of the agent; with --child, those that the call asks for
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ChildPrompt {
    /// Print what a child of the agent would be sent
    #[arg(long, requires = "goal")]
    pub(crate) child: bool,
    /// The child's goal
    #[arg(long, value_name = "GOAL", requires = "child")]
    pub(crate) goal: Option<String>,
    /// What the child is told beside its goal
    #[arg(long, value_name = "CONTEXT", requires = "child")]
    pub(crate) context: Option<String>,
    /// The child's role
    #[arg(long, value_enum, requires = "child")]
    pub(crate) role: Option<Role>,
    /// How deep the child is below the top agent
    #[arg(long, value_name = "N", requires = "child", value_parser = clap::value_parser!(u32).range(1..=3))]
    pub(crate) depth: Option<u32>,
    /// The directory the child is told to work in
    #[arg(long, value_name = "DIR", requires = "child")]
    pub(crate) workspace: Option<PathBuf>,
    /// File with the JSON Schema that the child's answer must satisfy
    #[arg(long, value_name = "FILE", requires = "child")]
    pub(crate) output_schema: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// It works itself
    Leaf,
    /// It may hand work on
    Orchestrator,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tools {
    /// List the tools: where each comes from, and whether it can be used now
    List {
        #[command(flatten)]
        view: View,
    },
    /// Show a tool as a model is told of it
    Show {
        /// The tool
        name: String,
        #[command(flatten)]
        view: View,
    },
    /// Give agents a toolset: names it in the configuration file
    Enable(Choice),
    /// Give agents a toolset no longer: `disable delegation`, and no agent hands work on
    Disable(Choice),
}

/// A toolset that agents are to have, or not.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// The toolset, as `toolsets list` names it
    pub(crate) toolset: String,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Toolsets {
    /// List the toolsets and the tools in each
    List {
        #[command(flatten)]
        view: View,
    },
    /// Show which tools a child would get, and why it would not get the others
    Resolve {
        #[command(flatten)]
        child: ChildTools,
        #[command(flatten)]
        view: View,
    },
}

/// The child whose tools are asked for.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ChildTools {
    /// Of a child of the agent, which is the default
    #[arg(long)]
    pub(crate) child: bool,
    /// The toolsets that the call names [default: it names none]
    #[arg(short, long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    /// The role that the call names
    #[arg(long, value_enum)]
    pub(crate) role: Option<Role>,
    /// How deep the child is below the top agent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3))]
    pub(crate) depth: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Plugin {
    /// List the plugins of the configuration, and whether each can be used
    List {
        #[command(flatten)]
        view: View,
    },
    /// Look at a plugin's file, try its tools, and print its entry for the configuration
    ///
    /// The file is read before any of its code runs; then it runs in a process of its own. Each tool
    /// is called as its examples say.
    Check {
        /// The library, such as target/release/libwords.so
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// The directory in which its tools are tried [default: a new, empty one]
        #[arg(long, value_name = "DIR")]
        within: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a plugin project that builds and passes its check
    ///
    /// Inside a checkout of Deputize it depends on that checkout; elsewhere say --path or --published.
    New(Project),
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct View {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Agents {
    #[command(subcommand)]
    pub(crate) command: Option<AgentsCommand>,
    /// Print them once, as they stand
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The sessions [default: all that run, or else the latest]
    pub(crate) sessions: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// Tell an agent to end; its parent gets what it has
    Stop {
        /// The agent, as `agents` names it; without SESSION/ where only one session runs
        agent: String,
        /// With all agents that run below it
        #[arg(long)]
        tree: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List the stored sessions, the latest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a session: its agents, and what one of them was told, said and did
    Show {
        /// The session, or one of its agents
        #[arg(value_name = "SESSION[/AGENT]")]
        session: String,
        /// The agent whose messages are shown, as the tree names it [default: the top one]
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
    },
    /// Go on with a session: the same as `run --resume SESSION`
    Resume(Box<Resume>),
    /// Print a session for others to read; known secrets are left out
    Export {
        /// The session
        session: String,
        /// The form
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
    },
    /// Delete sessions that nothing is using
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
    /// What to do next; without it an interrupted turn goes on
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) options: RunOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object a line, as `run --output events` prints them
    Jsonl,
    /// A conversation to read
    Markdown,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print where the person's configuration file is
    Path {
        #[command(flatten)]
        settings: Settings,
    },
    /// Print the values in force and where each comes from
    Show {
        #[command(flatten)]
        view: View,
    },
    /// Report every mistake, with file, line and column
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
