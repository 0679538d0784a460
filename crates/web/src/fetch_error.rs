//! Why an address was not fetched.

use deputize_core::ToolError;
use deputize_core::setting_names::SettingNames;
use deputize_http::{CheckedClientError, ResolveError, UrlDenial, request_problem};

/// Why an address was not fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("fetch denied: {redirect}{denial}")]
    Denied {
        /// Says, if it is one, that a redirect led there.
        redirect: String,
        denial: UrlDenial,
    },
    #[error("{0}")]
    Resolve(String),
    #[error("{host} did not answer: {problem}")]
    Connection { host: String, problem: String },
    #[error("{url} took more than {seconds} s: try again later, or another address")]
    Timeout { url: String, seconds: u64 },
    #[error("{url} answered {status}")]
    Status { url: String, status: u16 },
    #[error(
        "{url} sent its answer compressed ({coding}), which was not asked for and is not read: try \
         another address"
    )]
    Compressed { url: String, coding: String },
    #[error("more than {0} redirects; the last one led to {1}")]
    Redirects(usize, String),
    #[error("{0} redirects without an address")]
    NoLocation(String),
    #[error("{url} is larger than {limit} bytes, and a {kind} is read whole or not at all")]
    TooLarge { url: String, limit: u64, kind: &'static str },
    #[error("{url} is {kind}, which is no text; nothing of it is shown")]
    NoText { url: String, kind: String },
    #[error("{url} cannot be read as {kind}: {problem}")]
    Unreadable { url: String, kind: &'static str, problem: String },
    #[error("{0}")]
    Client(String),
    #[error("cancelled")]
    Cancelled,
}

impl From<UrlDenial> for FetchError {
    fn from(denial: UrlDenial) -> Self {
        Self::Denied { redirect: String::new(), denial }
    }
}

impl From<ResolveError> for FetchError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Denied(denied) => denied.into(),
            error => Self::Resolve(error.to_string()),
        }
    }
}

impl From<CheckedClientError> for FetchError {
    fn from(error: CheckedClientError) -> Self {
        match error {
            CheckedClientError::Resolve(error) => error.into(),
            error => Self::Client(error.to_string()),
        }
    }
}

impl FetchError {
    pub(crate) fn connection(host: &str, error: &reqwest::Error) -> Self {
        let problem = request_problem(error);
        Self::Connection { host: host.to_owned(), problem }
    }

    /// Returns the same of an address to which a page redirects.
    pub(crate) fn behind_redirect(self, to: &str) -> Self {
        match self {
            // The address itself must not be shown.
            Self::Denied { denial: UrlDenial::Secret { .. }, .. } => self,
            Self::Denied { denial, .. } => {
                Self::Denied { redirect: format!("the page redirects to {to}: "), denial }
            }
            error => error,
        }
    }

    /// Returns the error of a call, with the host's name of a setting that would allow it.
    pub(crate) fn into_tool_error(self, names: &SettingNames) -> ToolError {
        match self {
            Self::Cancelled => ToolError::Cancelled(Box::default()),
            Self::Denied { redirect, denial } => {
                let denial = denial.with_remedy(names);
                ToolError::refused(format!("fetch denied: {redirect}{denial}"))
            }
            error => ToolError::refused(error.to_string()),
        }
    }
}
