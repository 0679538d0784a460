//! A model server on this machine that does as told.

mod answer;
mod connection;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::counter::Counter;
pub use answer::MockAnswer;
pub use connection::HttpRequest;

/// Connections that may wait to be taken.
const BACKLOG: u32 = 4096;

type Handler = dyn Fn(&HttpRequest) -> MockAnswer + Send + Sync;

/// A server on `127.0.0.1` that answers as told and keeps what it was asked. It ends when it
/// is dropped, with all its connections.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use deputize_core::{Cancel, Model as _, ModelOptions, Reply, Request, ToolChoice};
/// use deputize_providers::{Endpoint, OpenAiChat, http_client};
/// use deputize_testkit::{MockAnswer, FixedClock, MockServer};
///
/// let script = [MockAnswer::reply(&Reply::text("m", "Good day.")).pieces(3)];
/// let server = MockServer::start(script).await?;
///
/// let endpoint = Endpoint::new("mock", server.base_url());
/// let model = OpenAiChat::new(endpoint, &http_client(Arc::new(FixedClock(0))))?;
/// # let request = Request {
/// #     model: "m", system: &[], tools: &[], messages: &[],
/// #     tool_choice: ToolChoice::Auto, options: &ModelOptions::default(),
/// # };
/// let reply = model.reply(&request, &mut |_| {}, &Cancel::new()).await?;
/// assert_eq!(reply.text, "Good day.");
/// assert_eq!(server.requests()[0].path, "/v1/chat/completions");
/// # Ok(()) }
/// ```
pub struct MockServer {
    address: SocketAddr,
    shared: Arc<ServerShared>,
    /// Holds the accepting task, which holds one task a connection.
    _tasks: JoinSet<()>,
}

struct ServerShared {
    handler: Box<Handler>,
    /// Whether requests are kept.
    keeps: bool,
    requests: watch::Sender<Vec<HttpRequest>>,
    open: Counter,
}

impl fmt::Debug for MockServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MockServer({})", self.address)
    }
}

impl MockServer {
    /// Gives one answer after the other to each `POST`, whoever asks and on whatever path.
    /// When there are none left, and to all other requests, it answers with a status that
    /// tells so.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(script: impl IntoIterator<Item = MockAnswer>) -> io::Result<Self> {
        let script: Mutex<VecDeque<MockAnswer>> = Mutex::new(script.into_iter().collect());
        Self::start_with(move |request| {
            if request.method != "POST" {
                let said = format!("{} {} was not scripted", request.method, request.path);
                return MockAnswer::error(404, &said);
            }
            let next = script.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            next.unwrap_or_else(|| {
                MockAnswer::error(
                    400,
                    &format!("this request was not scripted: {}", request.text()),
                )
            })
        })
        .await
    }

    /// Answers by a rule.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start_with(
        handler: impl Fn(&HttpRequest) -> MockAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::listen(Box::new(handler), true)
    }

    /// Answers by a rule and keeps no request, so that it can serve any number of them.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start_forgetful(
        handler: impl Fn(&HttpRequest) -> MockAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::listen(Box::new(handler), false)
    }

    fn listen(handler: Box<Handler>, keeps: bool) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerShared {
            handler,
            keeps,
            requests: watch::Sender::new(Vec::new()),
            open: Counter::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _tasks: tasks })
    }

    /// `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far, in the order in which they were complete.
    #[must_use]
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.shared.requests.borrow().clone()
    }

    /// Waits until there were `n` requests or more.
    pub async fn until_requests(&self, n: usize) {
        // The sender is ours, so the channel cannot be closed.
        let mut requests = self.shared.requests.subscribe();
        let _never_closed = requests.wait_for(|requests| requests.len() >= n).await;
    }

    /// How many connections are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.open.count().now
    }

    /// How many connections there were in all.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.open.count().ever
    }

    /// Waits until no connection is open.
    pub async fn until_idle(&self) {
        self.shared.open.until(|count| count.now == 0).await;
    }
}

async fn accept(listener: TcpListener, shared: Arc<ServerShared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let shared = Arc::clone(&shared);
                    let open = shared.open.enter();
                    connections.spawn(async move {
                        // The client went away: nothing to tell.
                        let _gone = connection::serve(stream, &shared).await;
                        drop(open);
                    });
                }
                // Out of descriptors, or the peer was gone already: the others go on.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}
