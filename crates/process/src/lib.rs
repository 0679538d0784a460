//! Owns child processes and their whole trees.
//!
//! A [`Supervisor`] is made once, at the start of the program. Each agent gets an [`Owner`] from
//! it and runs every [`Command`] through it; a terminal adds a [`Shell`], whose directory and
//! exported variables last from one command to the next. Whatever a command starts, detached
//! sessions, double forks and processes that ignore signals included, is gone after its time
//! limit, its cancel, the drop of its future, the end of its owner, the end of the supervisor,
//! and, with a [`Helper`], the end of this program by whatever means. A background process of a
//! command that ended by itself lives until its owner ends.
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
//! A warden starts the commands, reports their ends and ends their trees. With a [`Helper`] it is
//! a process of its own, started at the first command and told by the end of a socket that this
//! program is gone. Without one it is a thread of this program, which `kill -9` takes with it:
//! what runs then goes on.
//!
//! # How a tree is held together
//!
//! On Linux, a helper that may ([`Containment::Namespace`]) gives each owner a PID namespace: the
//! kernel ends everything in it at once, and when the helper dies. A command in it sees its
//! owner's processes only.
//!
//! Otherwise ([`Containment::Walk`]) the warden becomes the parent of orphans below it, so that
//! everything it ever started stays below it, and looks at the process table until nothing is
//! left. Which command a process belongs to is told, in this order, by a mark in an inherited
//! resource limit, by the variable [`OWNER_VARIABLE`], by its session, and by its parent. Signals
//! go to a process by descriptor after its start time was compared, never to a number that may be
//! used anew. A program that raises its limits as root, clears its environment, leaves its session
//! *and* loses its parent can hide from the walk, and many that fork and end at once can outrun
//! it. If helper and program are killed together, the first process of each command dies with
//! them, and what it had started does not.
//!
//! On other systems ([`Containment::Groups`]) the process group of each command is asked to end,
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

mod capture;
mod census;
mod channel;
mod chase;
mod command;
mod ending;
mod environment;
mod finished;
mod helper;
mod link;
mod mark;
mod open_files;
mod owner;
mod private;
mod program;
mod registry;
mod run;
mod serve;
mod service;
mod shell;
mod signal;
mod space;
mod spawn;
mod start;
mod state;
mod step;
mod supervisor;
mod tree;
mod walk;
mod warden;
mod wire;

pub use command::{
    Command, HEAD_LIMIT, OutputLimits, SPILL_LIMIT, SpillFile, Stdin, TAIL_LIMIT, TIME_LIMIT,
};
pub use environment::{base_env, drop_hooks, is_hook};
pub use finished::{Background, Exit, Finished, Output, Report, Spill, SpillProblem};
pub use helper::{Helper, HelperError, helper_main, this_program};
pub use mark::OWNER_VARIABLE;
pub use open_files::{OPEN_FILES_LIMIT, OpenFiles, raise_open_files};
pub use owner::{BACKGROUND_LIMIT, Owner};
pub use private::keep_private;
pub use program::{ProgramError, resolve_program};
pub use run::DRAIN_LIMIT;
pub use service::{Life, Service};
pub use shell::{STATE_LIMIT, Script, Shell, ShellError, ShellFinished};
pub use spawn::SpawnError;
pub use state::{DirectoryGone, Kept, ShellState, StateChange, parse_state};
pub use supervisor::{Containment, Ended, Setup, Supervisor, SupervisorError};
pub use walk::{GRACE, KILL_LIMIT};
