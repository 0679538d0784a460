//! A program that is nothing but a helper: for tests, and for programs whose `main` cannot be one.

use std::process::ExitCode;

fn main() -> ExitCode {
    deputize_process::helper_main()
}
