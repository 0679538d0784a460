//! The floor as a process: `deputize-floor PLAN`, a JSON file.

use std::error::Error;
use std::path::PathBuf;

use deputize_testkit::Baseline;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Deserialize;

/// [`Baseline`], as it is written.
#[derive(Deserialize)]
struct Plan {
    server: String,
    folder: PathBuf,
    task: String,
    root: Vec<usize>,
    children: usize,
    child_task: String,
    child: Vec<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: deputize-floor PLAN")?;
    let plan: Plan = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files)?;
    let floor = Baseline {
        server: plan.server.parse()?,
        folder: plan.folder,
        task: plan.task,
        root: plan.root,
        children: plan.children,
        child_task: plan.child_task,
        child: plan.child,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(floor.run())?;
    Ok(())
}
