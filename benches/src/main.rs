//! What Deputize costs by itself, as a table. The model is taken out: a scripted server on this
//! machine answers at once, or after a fixed time. Each figure stands beside the floor, a bare
//! loop that sends as many bytes and reads as many files, measured in turns with it.
//!
//! ```text
//! just bench                        # builds what it needs, measures, prints the table
//! just bench --runs 21 --json       # more runs; all figures as JSON
//! just bench --only start,steps     # some of the figures
//! just bench-calls                  # a call of a tool, by each way to it
//! ```

mod calls;
mod figures;
mod lab;
mod script;
mod serve;
mod session_search;
mod spread;
mod table;
mod tools;
mod words;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::figures::Figure;

/// The server is this program: what it takes of the machine, the measured program lacks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures what Deputize costs by itself.
#[derive(Debug, Parser)]
#[command(name = "deputize-bench", version)]
struct Options {
    /// How often each thing is measured.
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// Measure these only.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Figure>,
    /// Children of the fan-outs.
    #[arg(long, value_delimiter = ',', default_values_t = [50, 500, 2000])]
    children: Vec<u64>,
    /// Sessions that are searched.
    #[arg(long, default_value_t = 1000)]
    sessions: u64,
    /// Files of the tree that is searched.
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Bytes of the page that is fetched.
    #[arg(long, default_value_t = 2_000_000)]
    page_bytes: u64,
    /// Print JSON with every single value.
    #[arg(long)]
    json: bool,
    /// Measure this program, not the one beside this one.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => done(serve::serve()),
        Some(calls::PLUGIN_HOST) => deputize_plugin_host::host_main(),
        Some(calls::MCP_SERVER) => {
            done(calls::serve(std::env::args_os().nth(2).map(PathBuf::from)))
        }
        // The smallest test of this program has no other program to measure, nor one whose processes
        // convert pages.
        #[cfg(debug_assertions)]
        Some(first) if first == "run" || first.starts_with("__") => {
            deputize::Cli::new().tools(deputize_tools::LINK).run()
        }
        _ => done(bench(&Options::parse())),
    }
}

fn done(result: io::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let _unread = writeln!(io::stderr(), "deputize-bench: {error}");
    ExitCode::FAILURE
}

fn bench(options: &Options) -> io::Result<()> {
    raise_file_limit()?;
    let bench = std::env::current_exe()?;
    let program = options.program.clone().unwrap_or_else(|| bench.with_file_name("deputize"));
    let report = figures::measure(&bench, &program, options)?;
    let text = if options.json { report.to_json() } else { report.to_table() };
    writeln!(io::stdout(), "{text}")
}

/// Thousands of connections are as many descriptors.
fn raise_file_limit() -> io::Result<()> {
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    Ok(setrlimit(Resource::Nofile, files)?)
}
