//! Owns child processes and their whole trees.
//!
//! A program makes one [`Supervisor`] at its start. Each agent gets an [`Owner`] from it and runs
//! every [`Command`] through it; a terminal adds a [`Shell`], whose directory and exported
//! variables last from one command to the next. A command ends with everything that it started,
//! including detached sessions, double forks and processes that ignore signals. It ends at its time
//! limit, when it is cancelled, when its future is dropped, and when its owner or the supervisor
//! ends. With a [`Helper`], it also ends when this program ends by whatever means. A background
//! process of a command that ended by itself lives until its owner ends. Only a [`DurableCommand`]
//! goes on after all of them.
//!
//! ```
//! use deputize_process::{Command, Exit, Supervisor};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let supervisor = Supervisor::start()?;
//! let owner = supervisor.owner();
//! let mut command = Command::new("/bin/sh", "/");
//! command.args = vec!["-c".into(), "echo out; echo err >&2; exit 3".into()];
//! let finished = owner.run(command, &CancellationToken::new()).await?;
//! assert_eq!(finished.exit, Exit::Code(3));
//! assert_eq!(finished.output.head, b"out\nerr\n");
//! let ended = owner.end().await;
//! assert!(ended.is_complete());
//! # Ok(())
//! # }
//! ```
//!
//! # Who does it
//!
//! A reaper starts the commands, reports their ends and ends their trees. With a [`Helper`] it is a
//! process of its own, started at the first command; the end of a socket shows it that this program
//! is gone. Without one it is a thread of this program, and `kill -9` kills it too: running
//! commands then go on.
//!
//! # How a tree is held together
//!
//! On Linux, a helper that may ([`Containment::PidNamespace`]) gives each owner a PID namespace: the
//! kernel ends everything in it at once, and when the helper dies. A command in it sees its
//! owner's processes only.
//!
//! Otherwise ([`Containment::ProcessTable`]) the reaper becomes the parent of orphans below it, so that
//! everything it ever started stays below it, and looks at the process table until nothing is
//! left. The command of a process is known, in this order, by a tag in an inherited
//! resource limit, by the variable [`OWNER_VARIABLE`], by its session, and by its parent. Signals
//! go to a process by descriptor after its start time was compared, never to a number that may be
//! used anew. A program that raises its limits as root, clears its environment, leaves its session
//! *and* loses its parent can hide from the walk, and many that fork and end at once can outrun
//! it. If helper and program are killed together, the first process of each command dies with
//! them, and what it had started does not.
//!
//! On other systems ([`Containment::ProcessGroups`]) the process group of each command is asked to end,
//! and killed. That part has been compiled and tried on Linux only.
//!
//! # What it does not do
//!
//! It does not sandbox.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: inner. It is published because the others need it, and changes with them.

mod c_heap;
mod capture;
mod channel;
mod command;
mod command_leaders;
mod command_run;
mod connected_program;
mod containment;
mod durable;
mod durable_group;
mod environment;
mod fault_injection;
mod helper;
mod interactive;
mod kill_respawning;
mod launcher;
mod open_files;
mod outbox;
mod outcome;
mod output_writer;
mod owner;
mod pid_namespace;
mod private;
mod process_table;
mod process_tag;
mod program;
mod protocol;
mod pseudo_terminal;
mod reaper;
mod reaper_link;
mod reaper_server;
mod registry;
mod scope;
mod service;
mod shell;
mod shell_state;
mod signal;
mod spawn;
mod start;
mod supervisor;
mod supervisor_config;
mod termination;
mod termination_report;
mod tree;
mod tree_kill;
mod tree_signal;

pub use c_heap::share_c_heap;
pub use capture::OutputCapture;
pub use command::{
    Command, HEAD_LIMIT, OutputLimits, SPILL_LIMIT, SpillFile, Stdin, TAIL_LIMIT, TIME_LIMIT,
};
pub use command_run::DRAIN_LIMIT;
pub use connected_program::ConnectedProgram;
pub use containment::Containment;
pub use durable::{DurableCommand, DurableProcess};
pub use durable_group::durable_group_runs;
pub use environment::{base_env, drop_hooks, is_hook};
pub use helper::{Helper, HelperError, helper_main, this_program};
pub use interactive::{CommandInput, CommandIo, CommandOutput, InteractiveCommand};
pub use launcher::BACKGROUND_LIMIT;
pub use open_files::{OPEN_FILES_LIMIT, OpenFiles, raise_open_files};
pub use outcome::{Background, CommandOutcome, Exit, Output, Spill, SpillProblem, StateReport};
pub use owner::Owner;
pub use private::keep_private;
pub use process_tag::OWNER_VARIABLE;
pub use program::{ProgramError, resolve_program};
pub use service::{Service, ServiceProcess};
pub use shell::{STATE_LIMIT, Script, Shell, ShellError, ShellOutcome};
pub use shell_state::{MissingDirectory, ShellState, StateChange, UnchangedReason, parse_state};
pub use spawn::{SpawnError, SystemError};
pub use supervisor::{Supervisor, SupervisorError};
pub use supervisor_config::SupervisorConfig;
pub use termination_report::TerminationReport;
pub use tree_kill::{GRACE, KILL_LIMIT};
