//! Errors of servers.

use std::fmt;
use std::time::Duration;

use deputize_process::{ProgramError, SpawnError, SupervisorError};

/// A server that cannot be used, and why.
#[derive(Debug)]
pub struct McpError {
    /// The server's name in the configuration.
    pub server: String,
    /// Reason why it cannot be used.
    pub fault: McpErrorKind,
    /// The end of its standard error, on one line; empty if there was none.
    pub words: String,
}

impl fmt::Display for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mcp {}: {}{}", self.server, self.fault, QuotedWords(&self.words))
    }
}

impl std::error::Error for McpError {
    /// Returns the cause of the fault: the message already contains the fault itself.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}

impl McpError {
    pub(crate) fn new(server: &str, fault: impl Into<McpErrorKind>) -> Self {
        Self { server: server.to_owned(), fault: fault.into(), words: String::new() }
    }
}

/// Why a server's program did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// Nothing can be started at all.
    #[error("no process can be started")]
    Supervisor(#[from] SupervisorError),
    /// There is no such program.
    #[error("its program cannot be run")]
    Program(#[from] ProgramError),
    /// Its program was not started.
    #[error("its program was not started")]
    Spawn(#[from] SpawnError),
    /// There is no directory for its program.
    #[error("cannot create the start directory of its program")]
    Directory(#[source] std::io::Error),
}

/// Why a server at an address cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReachError {
    /// It cannot be reached by HTTP.
    #[error("it cannot be reached: {0}")]
    Http(String),
    /// A person has to sign in to it first. Contains what it answered, and how to sign in.
    #[error("{0}")]
    SignIn(String),
    /// A header that HTTP does not carry.
    #[error("header `{0}` cannot be sent: check its name and its value")]
    Header(String),
    /// It answers with a status of HTTP that is no success.
    #[error("{message}")]
    Status {
        /// The status.
        code: u16,
        /// What it answered, as text.
        message: String,
    },
    /// It answers something else than an MCP server does.
    #[error("it does not answer as an MCP server: {0}")]
    NoServer(String),
}

/// Why a server is not started again for a while.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackoffError {
    /// It failed too often in a row.
    #[error(
        "it was started {starts} times and failed each time; it is not started again for {} s, so \
         use another way meanwhile", left.as_secs_f32().ceil()
    )]
    GivenUp {
        /// How often.
        starts: u32,
        /// How long it is left alone yet.
        left: Duration,
    },
    /// It said nothing when it was last started.
    #[error(
        "it did not answer within {} s when it was last started; it is not started again for {} s, \
         so use another way meanwhile", limit.as_secs_f32(), left.as_secs_f32().ceil()
    )]
    Silent {
        /// How long its start may take.
        limit: Duration,
        /// How long it is left alone yet.
        left: Duration,
    },
}

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpErrorKind {
    /// Its program did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It cannot be reached, or does not answer as an MCP server.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// It did not say that it is there.
    #[error("it did not answer within {} s after its start{}", limit.as_secs_f32(), sets(setting))]
    Slow {
        /// How long its start may take.
        limit: Duration,
        /// The host's name of the setting; empty if it has none.
        setting: String,
    },
    /// It answered something else than its protocol.
    #[error("its start failed: {0}")]
    Handshake(String),
    /// It does not list what it has.
    #[error("cannot get its list of {what}: {why}")]
    List {
        /// What it would list, such as tools.
        what: &'static str,
        /// The cause, as text.
        why: String,
    },
    /// It goes beyond what one program may send.
    #[error(transparent)]
    ProtocolViolation(#[from] ProtocolViolation),
    /// It is not started again for a while.
    #[error(transparent)]
    Backoff(#[from] BackoffError),
    /// The program has no such server.
    #[error("no such server is configured")]
    Unknown,
    /// The session is over.
    #[error("the session is over")]
    Over,
}

impl McpErrorKind {
    /// Returns what is wrong, without the server's words, which may hold a secret.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Launch(_) => "its program did not start",
            Self::Reach(ReachError::Http(_)) => "it cannot be reached",
            Self::Reach(ReachError::SignIn(_)) => "a person has to sign in",
            Self::Reach(ReachError::Header(_)) => "a header cannot be sent",
            Self::Slow { .. } => "it did not answer in time",
            Self::Handshake(_) => "its start failed",
            Self::Reach(ReachError::Status { .. }) => "it answers with an error of HTTP",
            Self::Reach(ReachError::NoServer(_)) => "it does not answer as an MCP server",
            Self::List { .. } => "it does not list what it has",
            Self::ProtocolViolation(_) => "it breaks the protocol",
            Self::Backoff(BackoffError::GivenUp { .. }) => "it failed too often",
            Self::Backoff(BackoffError::Silent { .. }) => "it was silent when it was last started",
            Self::Unknown => "no such server is configured",
            Self::Over => "the session is over",
        }
    }
}

fn sets(setting: &str) -> String {
    match setting {
        "" => String::new(),
        name => format!("; {name} sets how long it may take"),
    }
}

/// A violation of the protocol by a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolViolation {
    /// A line above the limit.
    #[error("it sent a message of more than {limit} bytes")]
    LongLine {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Much that nobody asked for.
    #[error("it sent more than {limit} unrequested {what}")]
    Flood {
        /// How many.
        limit: u64,
        /// What it sent, such as messages.
        what: &'static str,
    },
    /// Lines that are no messages.
    #[error(
        "it printed {} on its standard output; the first is: {first}", stray_lines(*count)
    )]
    NoMessages {
        /// How many.
        count: u32,
        /// The first.
        first: String,
    },
}

/// Counts what a server printed that is no message.
pub(crate) fn stray_lines(count: u32) -> String {
    match count {
        1 => "1 line that is not a message".to_owned(),
        more => format!("{more} lines that are not messages"),
    }
}

struct QuotedWords<'a>(&'a str);

impl fmt::Display for QuotedWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "; its last words on standard error: {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use deputize_core::describe_error;

    use super::*;

    #[test]
    fn one_line_is_counted_as_one() {
        let violation = |count| ProtocolViolation::NoMessages { count, first: "x".into() };
        let ending = "on its standard output; the first is: x";
        let one = format!("it printed 1 line that is not a message {ending}");
        let many = format!("it printed 9 lines that are not messages {ending}");
        assert_eq!([violation(1).to_string(), violation(9).to_string()], [one, many]);
    }

    #[test]
    fn an_error_of_a_server_says_its_fault_once_and_what_is_behind_it() {
        let error = McpError::new("s", McpErrorKind::Over);
        assert_eq!(
            (error.to_string().as_str(), error.source().is_none()),
            ("mcp s: the session is over", true)
        );
        let error = McpError::new("s", LaunchError::Directory(std::io::Error::other("no room")));
        let expected = "mcp s: cannot create the start directory of its program: no room";
        assert_eq!(describe_error(&error), expected);
        assert_eq!(error.source().unwrap().to_string(), "no room");
    }
}
