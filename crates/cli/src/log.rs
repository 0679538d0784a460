//! The program's log: what the libraries report, for whoever operates the program.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_core::sanitize::{Secrets, for_exact_line};
use parking_lot::RwLock;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry;

use crate::exit::CliError;
use crate::stdio::tell;

/// The environment variable with the filter of the log.
pub(crate) const LOG_VARIABLE: &str = "DEPUTIZE_LOG";
/// The beginning of the targets of this workspace's crates, to which a level without a target
/// applies: at low levels other libraries report what they send, byte by byte.
const OUR_TARGETS: &str = "deputize";
/// Level of a log file without a filter.
const DEFAULT_LEVEL: LevelFilter = LevelFilter::INFO;
const FILTER_HINT: &str = "levels are off, error, warn, info, debug and trace; an example: \
                           DEPUTIZE_LOG=info,deputize_mcp=debug";

#[derive(Debug, thiserror::Error)]
enum LogError {
    #[error("cannot write the log to `{}`", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{0}` in {LOG_VARIABLE} is neither LEVEL nor TARGET=LEVEL")]
    Filter(String),
    #[error("this process has a log already")]
    AlreadySet,
}

/// A handle to the log. Without a log it does nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Option<Arc<LogWriter>>);

impl Log {
    /// Starts the log in this file, or, if only the filter is given, on standard error. Without
    /// either there is no log.
    ///
    /// # Errors
    /// If the filter cannot be read, or the file cannot be written.
    pub(crate) fn start(file: Option<&Path>, filter: Option<&str>) -> Result<Self, CliError> {
        if file.is_none() && filter.is_none() {
            return Ok(Self::default());
        }
        let targets = match filter {
            Some(filter) => {
                parse_filter(filter).map_err(|error| CliError::usage(error).hint(FILTER_HINT))?
            }
            None => Targets::new().with_target(OUR_TARGETS, DEFAULT_LEVEL),
        };
        let file = file.map(open_private).transpose().map_err(CliError::usage)?;
        let writer = Arc::new(LogWriter::new(file));
        let subscriber = subscriber(Arc::clone(&writer), targets);
        tracing::subscriber::set_global_default(subscriber)
            .map_err(|_| CliError::usage(LogError::AlreadySet))?;
        Ok(Self(Some(writer)))
    }

    /// Returns whether there is a log.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the log shares standard error with the progress of a run.
    pub(crate) fn is_on_screen(&self) -> bool {
        self.0.as_ref().is_some_and(|writer| writer.file.is_none())
    }

    /// Redacts these values in the log from now on.
    pub(crate) fn redact(&self, secrets: &Secrets) {
        if let Some(writer) = &self.0 {
            let mut known = writer.secrets.write();
            known.add_all(secrets);
            // Fields are written in quotes.
            known.add_all(&secrets.escape());
        }
    }
}

/// Returns what a filter lets through: levels for targets, separated by commas.
fn parse_filter(filter: &str) -> Result<Targets, LogError> {
    let directives = filter.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    directives.into_iter().try_fold(Targets::new(), |targets, directive| {
        let (target, level) = directive.split_once('=').unwrap_or((OUR_TARGETS, directive));
        let level = level.trim().parse::<LevelFilter>();
        let level = level.map_err(|_| LogError::Filter(for_exact_line(directive, 80)))?;
        Ok(targets.with_target(target.trim(), level))
    })
}

/// Opens a file at its end. Only its owner can read it: the log quotes what servers and commands say.
fn open_private(path: &Path) -> Result<File, LogError> {
    let open = || {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let found = file.metadata()?;
        if found.is_file() && found.permissions().mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        Ok(file)
    };
    open().map_err(|source| LogError::File { path: path.to_owned(), source })
}

fn subscriber(writer: Arc<LogWriter>, targets: Targets) -> impl Subscriber + Send + Sync {
    // A fault is reported with the agent and the call that it is about, whatever the level.
    let is_our_span = |metadata: &tracing::Metadata<'_>| {
        metadata.is_span() && metadata.target().starts_with(OUR_TARGETS)
    };
    let spans = filter_fn(is_our_span).with_max_level_hint(LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(LogOutput(writer));
    registry().with(lines.with_filter(targets.or(spans)))
}

/// Writes lines without secrets and control characters.
#[derive(Debug)]
struct LogWriter {
    /// `None` for standard error.
    file: Option<File>,
    secrets: RwLock<Secrets>,
    has_failed: AtomicBool,
}

impl LogWriter {
    fn new(file: Option<File>) -> Self {
        Self { file, secrets: RwLock::default(), has_failed: AtomicBool::new(false) }
    }

    fn clean_line(&self, line: &str) -> String {
        let secrets = self.secrets.read();
        let line = secrets.scrub(line.trim_end_matches('\n'));
        let mut line = for_exact_line(&line, usize::MAX);
        line.push('\n');
        line
    }

    /// Writes a line at once, so that lines of several threads do not mix.
    fn write_line(&self, line: &str) -> io::Result<()> {
        let line = self.clean_line(line);
        match &self.file {
            Some(file) => (&mut &*file).write_all(line.as_bytes()),
            None => io::stderr().lock().write_all(line.as_bytes()),
        }
    }
}

#[derive(Debug, Clone)]
struct LogOutput(Arc<LogWriter>);

impl<'a> MakeWriter<'a> for LogOutput {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for LogOutput {
    /// Takes one event, with the line break at its end.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let written = self.0.write_line(&String::from_utf8_lossy(event));
        if let Err(error) = written
            && self.0.file.is_some()
            && !self.0.has_failed.swap(true, Ordering::Relaxed)
        {
            tell(&format!("warning: cannot write the log: {error}"));
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_levels_and_targets_with_levels() {
        use tracing::Level;
        let targets = parse_filter(" warn, deputize_mcp=debug,hyper=trace,").unwrap();
        let lets = |target: &str, level: Level| targets.would_enable(target, &level);
        assert!(lets("deputize_runtime::driver", Level::WARN));
        assert!(!lets("deputize_runtime::driver", Level::INFO));
        assert!(lets("deputize_mcp::servers", Level::DEBUG));
        assert!(!lets("deputize_mcp::servers", Level::TRACE));
        assert!(lets("hyper::client", Level::TRACE));
        assert!(!lets("rmcp", Level::ERROR), "other libraries are named");
        for wrong in ["inof", "deputize_mcp", "deputize_mcp=loud", "info,=,x", "debug\u{1b}[2J"] {
            let error = parse_filter(wrong).unwrap_err().to_string();
            assert!(error.contains("neither LEVEL nor TARGET=LEVEL"), "{error}");
            assert!(!error.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn a_line_has_no_secret_and_no_control_character() {
        let log = Log(Some(Arc::new(LogWriter::new(None))));
        let mut secrets = Secrets::default();
        secrets.add("KEY", "sk-12345678");
        secrets.add("QUOTED", "a\"b\\c\nd-123456");
        log.redact(&secrets);
        log.redact(&secrets);
        let writer = log.0.unwrap();
        assert_eq!(writer.clean_line("x sk-12345678\n"), "x [redacted:KEY]\n");
        let field = format!("x={:?}\n", "a\"b\\c\nd-123456");
        assert_eq!(writer.clean_line(&field), "x=\"[redacted:QUOTED]\"\n");
        assert_eq!(writer.clean_line("a\nb\u{1b}[2J\u{202e}c\n"), "a\\nb\\u{1b}[2J\\u{202e}c\n");
    }
}
