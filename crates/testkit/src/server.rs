//! A local model server with scripted answers.

mod answer;
mod connection;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::counter::Counter;
pub use answer::MockAnswer;
pub use connection::HttpRequest;

/// Maximum number of connections waiting to be accepted.
const BACKLOG: u32 = 4096;

type Handler = dyn Fn(&HttpRequest) -> MockAnswer + Send + Sync;

/// A server on `127.0.0.1` that answers by a script and stores its requests. Dropping it closes all
/// its connections.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use deputize_core::{Cancel, Model as _};
/// use deputize_core::model::{ModelOptions, Reply, Request, ToolChoice};
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
    shared: Arc<ServerInner>,
    /// Holds the accepting task, which holds one task per connection.
    _tasks: JoinSet<()>,
}

struct ServerInner {
    handler: Box<Handler>,
    /// Whether requests are stored.
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
    /// Starts a server that answers each `POST` with the next answer of the script, whoever asks
    /// and on any path. Once the script is used up, and for all other methods, it responds with an
    /// error status that says so.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn start(script: impl IntoIterator<Item = MockAnswer>) -> io::Result<Self> {
        let script: Mutex<VecDeque<MockAnswer>> = Mutex::new(script.into_iter().collect());
        Self::start_with(move |request| {
            if request.method != "POST" {
                let said = format!("{} {} was not scripted", request.method, request.path);
                return MockAnswer::error(404, &said);
            }
            let next = script.lock().pop_front();
            next.unwrap_or_else(|| {
                MockAnswer::error(
                    400,
                    &format!("this request was not scripted: {}", request.text()),
                )
            })
        })
        .await
    }

    /// Starts a server that answers by a rule.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn start_with(
        handler: impl Fn(&HttpRequest) -> MockAnswer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::listen(Box::new(handler), true)
    }

    /// Starts a server that answers by a rule and stores no requests, so that it can serve any
    /// number.
    ///
    /// # Errors
    /// If it cannot listen.
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
        let shared = Arc::new(ServerInner {
            handler,
            keeps,
            requests: watch::Sender::new(Vec::new()),
            open: Counter::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _tasks: tasks })
    }

    /// Returns `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the address on which it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests so far, in the order in which they were complete.
    #[must_use]
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.shared.requests.borrow().clone()
    }

    /// Waits until there were at least `n` requests.
    pub async fn until_requests(&self, n: usize) {
        // This value owns the sender, so the channel cannot be closed.
        let mut requests = self.shared.requests.subscribe();
        let _never_closed = requests.wait_for(|requests| requests.len() >= n).await;
    }

    /// Returns the total number of connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.open.count().ever
    }

    /// Waits until no connection is open.
    pub async fn until_idle(&self) {
        self.shared.open.until(|count| count.now == 0).await;
    }
}

async fn accept(listener: TcpListener, shared: Arc<ServerInner>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let shared = Arc::clone(&shared);
                    let open = shared.open.enter();
                    connections.spawn(async move {
                        // The client disconnected; nothing to report.
                        let _gone = connection::serve(stream, &shared).await;
                        drop(open);
                    });
                }
                // No descriptors left, or the peer already disconnected: the others continue.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}
