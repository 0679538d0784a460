//! Interface to the host program: sessions, and turns in them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::authority::ApproverMode;
use deputize_core::source_set::SourceSet;
use deputize_core::{Approver, BoxFuture, Cancel, Catalog, Observer, Outcome, Record, SessionId};

/// The sessions of a program.
pub trait SessionHost: Send + Sync {
    /// A new session, or a stored one to go on with. No model is asked yet.
    fn open(
        &self,
        place: SessionRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn Conversation>, HostError>>;

    /// The stored sessions, newest first: those of one directory, or all.
    fn list(&self, cwd: Option<PathBuf>) -> BoxFuture<'_, Result<Vec<SessionListing>, HostError>>;

    /// Returns whether messages may hold images, as editors are told at the start: whether the model of
    /// a new session in the program's directory sees them.
    fn takes_images(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    /// Removes a stored session. One that does not exist is none.
    fn delete(&self, id: SessionId) -> BoxFuture<'_, Result<(), HostError>>;
}

/// One session: turns, one after the other.
pub trait Conversation: Send + Sync {
    /// Returns the fixed facts of the open session.
    fn facts(&self) -> &SessionFacts;

    /// Its records until now; none of one that has not begun.
    fn records(&self) -> BoxFuture<'_, Result<Vec<Record>, HostError>>;

    /// Takes a message and works to the end of the turn. When this returns, nothing that the
    /// turn started still runs, but for what belongs to the session.
    fn turn(&self, turn: TurnRequest) -> BoxFuture<'_, Result<Outcome, HostError>>;

    /// The editor has done with it: what belongs to the session ends.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Where a session is to be.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// Which one, if it is to go on.
    pub stored: Option<SessionId>,
    /// The MCP servers that the editor wants it to have.
    pub servers: Vec<McpServerSpec>,
}

/// An MCP server that an editor names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerSpec {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub way: McpTransport,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program, on its standard streams.
    Stdio {
        /// Path of the program.
        command: PathBuf,
        /// Arguments of the program.
        args: Vec<String>,
        /// Variables beside those it would have.
        env: Vec<(String, String)>,
    },
    /// An address, over streamable HTTP.
    Http {
        /// URL of the server.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

/// Fixed facts of an open session.
#[derive(Clone)]
pub struct SessionFacts {
    /// ID of the session.
    pub id: SessionId,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// The program's tools.
    pub catalog: Arc<Catalog>,
    /// How the top agent's questions are answered until the editor says otherwise.
    pub mode: ApproverMode,
    /// Whether its messages may hold images: its model sees them.
    pub takes_images: bool,
    /// Notes for the person before the first turn.
    pub notes: Vec<String>,
}

impl fmt::Debug for SessionFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionFacts({}, {})", self.id, self.cwd.display())
    }
}

/// An image in a message of the person, as the editor sent it: nothing of it is checked.
#[derive(Clone, PartialEq, Eq)]
pub struct EditorImage {
    /// The bytes of its file in base64, at most 32 MiB.
    pub base64: String,
}

impl fmt::Debug for EditorImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EditorImage({} bytes)", self.base64.len())
    }
}

/// One message of the person, and who watches the turn that it begins.
pub struct TurnRequest {
    /// The person's message, with `[image 1]` where the first image stands.
    pub text: String,
    /// Its sources, beside the person.
    pub sources: SourceSet,
    /// Its images; none unless [`SessionFacts::takes_images`].
    pub images: Vec<EditorImage>,
    /// Who sees the records.
    pub observer: Arc<dyn Observer>,
    /// Who is asked. The top agent's mode is `ask`: who answers knows the mode that the editor
    /// chose.
    pub approver: Arc<dyn Approver>,
    /// Is cancelled when the turn must end.
    pub cancel: Cancel,
}

impl fmt::Debug for TurnRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TurnRequest({} bytes)", self.text.len())
    }
}

/// A stored session in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionListing {
    /// ID of the session.
    pub id: SessionId,
    /// Path of the working directory.
    pub cwd: PathBuf,
    /// Title of the session.
    pub title: String,
    /// When something last happened in it, in RFC 3339.
    pub updated: String,
}

/// Why something cannot be done, for the person at the editor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is no such session.
    #[error("there is no session `{0}`")]
    NoSession(String),
    /// Its files were removed while it was open.
    #[error("session `{0}` was deleted while it was open here: start a new one")]
    Deleted(String),
    /// The request is invalid.
    #[error("{0}")]
    Asked(String),
    /// The provider wants a key or a login.
    #[error("{0}")]
    Login(String),
    /// Something failed.
    #[error("{0}")]
    Failed(String),
}
