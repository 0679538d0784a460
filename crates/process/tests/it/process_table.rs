//! What the machine says is running, independently of the crate under test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use deputize_process::{Command, Supervisor, base_env};

/// Far more than anything here takes; a bound for a test that would hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn supervisor() -> Supervisor {
    Supervisor::start().unwrap()
}

pub(crate) fn env() -> BTreeMap<OsString, OsString> {
    base_env(&std::env::vars_os().collect())
}

/// A command in `bash`, which may take as long as it likes.
pub(crate) fn bash(script: &str) -> Command {
    Command {
        args: vec!["-c".into(), script.into()],
        env: env(),
        time_limit: PATIENCE,
        ..Command::new("bash", "/")
    }
}

/// An argument that no other process of the machine has.
pub(crate) struct Marker(String);

impl Marker {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("31536.{:07}{number:04}", std::process::id()))
    }

    /// `{S}` becomes a sleep that carries the marker.
    pub(crate) fn fill(&self, script: &str) -> String {
        script.replace("{S}", &format!("sleep {}", self.0))
    }

    /// Numbers of the living processes whose arguments hold the marker.
    pub(crate) fn alive(&self) -> Vec<i32> {
        processes()
            .into_iter()
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(&self.0)
            })
            .collect()
    }

    /// Those of them that are the sleep itself.
    pub(crate) fn sleeping(&self) -> usize {
        let expected = format!("sleep\0{}\0", self.0);
        processes()
            .into_iter()
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).ends_with(&expected)
            })
            .count()
    }
}

fn processes() -> Vec<i32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Ended children of this process that nobody has taken note of.
pub(crate) fn zombies() -> Vec<i32> {
    let me = std::process::id().to_string();
    let is_ours = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        fields.first() == Some(&"Z") && fields.get(1) == Some(&me.as_str())
    };
    processes().into_iter().filter(is_ours).collect()
}

/// Looks again and again until `true`.
pub(crate) async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
