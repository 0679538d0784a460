//! The arguments of `deputize cron`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use super::serve::SessionOptions;
use super::{RunOptions, Settings, View};

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CronCommand {
    /// Run jobs when they are due, until this program is stopped
    Run(Box<CronRun>),
    /// List all jobs
    List {
        #[command(flatten)]
        view: View,
    },
    /// Show a job and its last run
    Show {
        /// The job
        name: String,
        #[command(flatten)]
        view: View,
    },
    /// Add a job
    Add(Box<CronAdd>),
    /// Edit a job with $VISUAL or $EDITOR
    Edit {
        /// The job
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Delete a job; the answers of its runs stay
    Rm {
        /// The job
        name: String,
    },
    /// Let the times of a job pass without a run
    Pause {
        /// The job
        name: String,
    },
    /// Run a paused job again at its times
    Resume {
        /// The job
        name: String,
    },
    /// Have a job run now, by the program that runs the jobs
    Trigger {
        /// The job
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CronRun {
    #[command(flatten)]
    options: SessionOptions,
}

impl CronRun {
    /// Returns the options of each run. A job names its directory.
    pub(crate) fn options(&self) -> RunOptions {
        self.options.options(None, None, true)
    }
}

#[derive(Debug, Args)]
pub(crate) struct CronAdd {
    /// The name: lower-case letters, digits and hyphens
    pub(crate) name: String,
    /// The task of each run
    pub(crate) prompt: String,
    /// When it runs: five cron fields, `every 2h`, `in 20m` or `at 2026-12-01T09:00`; a time zone
    /// may follow
    #[arg(long, value_name = "TIMES")]
    pub(crate) schedule: String,
    /// The toolsets of its agent
    #[arg(short, long, value_name = "A,B", value_delimiter = ',', required = true)]
    pub(crate) toolsets: Vec<String>,
    /// Send answers to this message target
    #[arg(long, value_name = "TARGET")]
    pub(crate) output: Option<String>,
    /// What happens to missed times [default: once for a single time, otherwise skip]
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(["skip", "once"]))]
    pub(crate) missed: Option<String>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}
