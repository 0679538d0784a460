//! The `deputize` command.

use std::process::ExitCode;

/// Many agents allocate on several threads at once, and one frees what another took.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    deputize::Cli::new().tools(deputize_tools::LINK).run()
}
