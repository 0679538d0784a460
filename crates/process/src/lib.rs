//! Owns child processes and their whole trees.
//!
//! A [`Supervisor`] is made once, at the start of the program. Each agent gets an [`Owner`] from
//! it and runs every [`Command`] through it; a terminal adds a [`Shell`], whose directory and
//! exported variables last from one command to the next. Whatever a command starts, detached
//! sessions, double forks and processes that ignore signals included, is gone after its time
//! limit, its cancel, the drop of its future, the end of its owner, or the end of the supervisor.
//! A background process of a command that ended by itself lives until its owner ends.
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
//! # How a tree is found
//!
//! On Linux this process becomes the parent of orphans below it, so that everything it ever
//! started stays below it. Which command a process belongs to is told, in this order, by a mark
//! in an inherited resource limit, by the variable [`OWNER_VARIABLE`], by its session, and by its
//! parent. Signals go to a process by descriptor after its start time was compared, never to a
//! number that may be used anew. A program that raises its limits as root, clears its
//! environment, leaves its session *and* loses its parent can hide; a process namespace around
//! the command, which is the sandbox's task, closes that gap.
//!
//! On other systems the process group of each command is asked to end, and killed.
//!
//! # What it does not do
//!
//! It does not sandbox, and it does not survive the death of its own process by signal 9: the
//! supervisor is the place where a helper process will take over then.

mod capture;
mod census;
mod chase;
mod command;
mod environment;
mod finished;
mod mark;
mod owner;
mod program;
mod registry;
mod run;
mod service;
mod shell;
mod signal;
mod spawn;
mod state;
mod supervisor;
mod walk;
mod watch;

pub use command::{
    Command, HEAD_LIMIT, OutputLimits, SPILL_LIMIT, SpillFile, Stdin, TAIL_LIMIT, TIME_LIMIT,
};
pub use environment::{base_env, drop_hooks, is_hook};
pub use finished::{Background, Exit, Finished, Output, Report, Spill, SpillProblem};
pub use mark::OWNER_VARIABLE;
pub use owner::{BACKGROUND_LIMIT, Owner};
pub use program::{ProgramError, resolve_program};
pub use run::DRAIN_LIMIT;
pub use service::Service;
pub use shell::{STATE_LIMIT, Script, Shell, ShellError, ShellFinished};
pub use spawn::SpawnError;
pub use state::{DirectoryGone, Kept, ShellState, StateChange, parse_state};
pub use supervisor::{Ended, Supervisor, SupervisorError};
pub use walk::{GRACE, KILL_LIMIT};
