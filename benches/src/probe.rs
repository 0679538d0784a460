//! Runs one command and writes down what it took: `deputize-probe OUT COMMAND [ARGS]`. A process
//! of its own, because the kernel adds up what all children of a process took, and small, because
//! a child's peak memory begins with its parent's.

use std::error::Error;
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(out), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err("usage: deputize-probe OUT COMMAND [ARGS]".into());
    };
    let began = now_ns();
    let status = Command::new(program).args(arguments).status()?;
    let ended = now_ns();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu_us = micros(usage.user_time()) + micros(usage.system_time());
    let code = status.code().unwrap_or(-1);
    let peak_kib = usage.max_rss();
    let text = format!(
        r#"{{"began_ns":{began},"ended_ns":{ended},"cpu_us":{cpu_us},"peak_kib":{peak_kib},"code":{code}}}"#
    );
    std::fs::write(out, text)?;
    Ok(())
}

/// The machine's monotonic clock, the same for all processes.
fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn micros(time: TimeVal) -> i64 {
    time.tv_sec() * 1_000_000 + time.tv_usec()
}
