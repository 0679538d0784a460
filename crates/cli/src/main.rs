//! The `deputize` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    deputize::Cli::new().tools(deputize_tools::LINK).run()
}
