//! HTTP over connections without TLS and without a proxy, each moved by the task of its request.
//!
//! With a task for each connection, as `reqwest` has it, every piece of an answer passes two tasks, and
//! of thousands of agents that start at once many open a second connection, because their first goes
//! to a neighbour.

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

use super::transport_error::TransportError;

/// Limits on the connections that nobody uses: their number, and their age.
const IDLE_CONNECTIONS: usize = 1024;
const IDLE_TIME: Duration = Duration::from_secs(90);
/// When a silent peer is asked whether it is still there, how often, and how long bytes may wait
/// for its receipt: the values of `reqwest`.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_TRIES: u32 = 3;
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const RECEIPT: Duration = Duration::from_secs(30);

/// What becomes of a connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionReuse {
    /// It serves the next request as well.
    Idle,
    /// It is closed.
    Nothing,
}

/// Sends requests to one server.
#[derive(Clone)]
pub(super) struct DirectClient {
    connector: HttpConnector,
    connect_timeout: Duration,
    /// The server's address, and its name as requests give it.
    server: Uri,
    host: HeaderValue,
    idle: Arc<IdleConnections>,
    reuse: ConnectionReuse,
}

impl DirectClient {
    /// Creates a client for the server with this host and port; `None` if they are none.
    pub(super) fn new(
        authority: &str,
        connect_timeout: Duration,
        reuse: ConnectionReuse,
    ) -> Option<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_timeout));
        connector.set_keepalive(Some(KEEPALIVE));
        connector.set_keepalive_interval(Some(KEEPALIVE));
        connector.set_keepalive_retries(Some(KEEPALIVE_TRIES));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        connector.set_tcp_user_timeout(Some(RECEIPT));
        Some(Self {
            connector,
            connect_timeout,
            server: format!("http://{authority}").parse().ok()?,
            host: HeaderValue::from_str(authority).ok()?,
            idle: Arc::default(),
            reuse,
        })
    }

    /// Sends a request until its answer begins. Its target is the path; this adds the host.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<DirectBody>, TransportError> {
        request.headers_mut().entry(HOST).or_insert_with(|| self.host.clone());
        let mut connection = match self.idle.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let answer = connection.send(request).await.map_err(TransportError::Exchange)?;
        let idle = (self.reuse == ConnectionReuse::Idle).then(|| Arc::clone(&self.idle));
        Ok(answer.map(|incoming| DirectBody { incoming, connection: Some(connection), idle }))
    }

    async fn connect(&self) -> Result<DirectConnection, TransportError> {
        let connecting = self.connector.clone().call(self.server.clone());
        // The connector's own limit does not hold for the lookup of a name.
        let stream = timeout(self.connect_timeout, connecting).await;
        let stream = stream.map_err(|_| TransportError::ConnectTimeout)?;
        let stream = stream.map_err(|error| TransportError::Connect(error.into()))?;
        let shaken = http1::handshake(stream).await;
        let (sender, driver) = shaken.map_err(TransportError::Exchange)?;
        Ok(DirectConnection { sender, driver: Some(Box::new(driver)) })
    }
}

type Driver = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// A connection, which moves only while somebody polls it.
struct DirectConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<Box<Driver>>,
}

impl DirectConnection {
    /// Does what can be done now.
    fn advance(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && Pin::new(&mut **driver).poll(cx).is_ready()
        {
            // How it failed is told to who waits for an answer or for its rest.
            self.driver = None;
        }
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let mut answer = pin!(self.sender.send_request(request));
        poll_fn(|cx| {
            self.advance(cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// Returns whether it can take a request now.
    fn is_ready(&mut self, cx: &mut Context<'_>) -> bool {
        self.advance(cx);
        self.driver.is_some() && self.sender.is_ready()
    }
}

/// Connections that wait for a request; the last one that was used is the first to be used again.
#[derive(Default)]
struct IdleConnections(Mutex<VecDeque<(Instant, DirectConnection)>>);

impl IdleConnections {
    fn take(&self) -> Option<DirectConnection> {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let (since, mut connection) = self.0.lock().pop_back()?;
            // The server may have closed it meanwhile.
            if since.elapsed() < IDLE_TIME && connection.is_ready(&mut cx) {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection, and returns those that have waited for too long, to be closed.
    fn put(&self, connection: DirectConnection) -> Vec<DirectConnection> {
        let mut idle = self.0.lock();
        idle.push_back((Instant::now(), connection));
        let over = idle.len().saturating_sub(IDLE_CONNECTIONS);
        let old = idle.iter().take_while(|(since, _)| since.elapsed() >= IDLE_TIME).count();
        idle.drain(..over.max(old)).map(|(_, connection)| connection).collect()
    }
}

/// The rest of an answer. Who reads it moves the connection.
pub(super) struct DirectBody {
    incoming: Incoming,
    /// `None` when the answer has ended.
    connection: Option<DirectConnection>,
    /// Where the connection goes at the end; `None`: it is closed.
    idle: Option<Arc<IdleConnections>>,
}

impl DirectBody {
    fn give_back(&mut self, cx: &mut Context<'_>) {
        let Some(mut connection) = self.connection.take() else { return };
        if let Some(idle) = &self.idle
            && connection.is_ready(cx)
        {
            drop(idle.put(connection));
        }
    }
}

impl Body for DirectBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let mut frame = Pin::new(&mut this.incoming).poll_frame(cx);
        if frame.is_pending()
            && let Some(connection) = &mut this.connection
        {
            connection.advance(cx);
            frame = Pin::new(&mut this.incoming).poll_frame(cx);
        }
        if let Poll::Ready(None) = frame {
            this.give_back(cx);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio::task::JoinSet;

    use super::*;

    /// Reads up to the end of a head; `None` at the end of the connection.
    async fn read_head(stream: &mut TcpStream) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        Some(String::from_utf8_lossy(&head).into_owned())
    }

    struct MockServer {
        client: DirectClient,
        numbers: mpsc::UnboundedReceiver<usize>,
        _tasks: JoinSet<()>,
    }

    /// A server that answers so many requests on its connections, one after the other, and then closes
    /// each; tells the number of each connection that brings a request.
    async fn server(answers: &'static [usize]) -> MockServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let (seen, numbers) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for (number, answers) in answers.iter().enumerate() {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, *answers, number, seen.clone()));
            }
            connections.join_all().await;
        });
        let client = DirectClient::new(&authority, Duration::from_secs(9), ConnectionReuse::Idle);
        MockServer { client: client.unwrap(), numbers, _tasks: tasks }
    }

    async fn serve(
        mut stream: TcpStream,
        answers: usize,
        number: usize,
        seen: mpsc::UnboundedSender<usize>,
    ) {
        for _ in 0..answers {
            let Some(head) = read_head(&mut stream).await else { return };
            assert!(head.contains("\r\nhost: 127.0.0.1:"), "{head}");
            seen.send(number).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
            stream.write_all(answer).await.unwrap();
        }
    }

    async fn ask(client: &DirectClient) -> Response<DirectBody> {
        client.send(Request::new(Full::default())).await.unwrap()
    }

    async fn read(answer: Response<DirectBody>) {
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "body");
    }

    #[tokio::test]
    async fn a_connection_serves_again_when_its_answer_was_read_to_the_end() {
        let MockServer { client, mut numbers, _tasks } = server(&[9, 9]).await;
        read(ask(&client).await).await;
        read(ask(&client).await).await;
        // Two at once need two, and an answer that is let go takes its connection along.
        let (one, other) = (ask(&client).await, ask(&client).await);
        drop(one);
        read(other).await;
        read(ask(&client).await).await;
        let mut seen = Vec::new();
        while let Ok(number) = numbers.try_recv() {
            seen.push(number);
        }
        assert_eq!(seen, [0, 0, 0, 1, 1]);
        assert_eq!(client.idle.0.lock().len(), 1);
    }

    #[tokio::test]
    async fn an_idle_connection_that_its_server_closed_is_not_used() {
        let MockServer { client, mut numbers, _tasks } = server(&[0, 1]).await;
        let mut closed = client.connect().await.unwrap();
        poll_fn(|cx| {
            closed.advance(cx);
            if closed.driver.is_some() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        assert!(client.idle.put(closed).is_empty());
        read(ask(&client).await).await;
        assert_eq!(numbers.recv().await, Some(1));
    }

    #[tokio::test]
    async fn idle_connections_have_a_limit_in_number_and_time() {
        let server = server(&[1, 1, 1]).await;
        let client = &server.client;
        for _ in 0..2 {
            let connection = client.connect().await.unwrap();
            assert!(client.idle.put(connection).is_empty());
        }
        client.idle.0.lock()[0].0 -= IDLE_TIME;
        let connection = client.connect().await.unwrap();
        assert_eq!(client.idle.put(connection).len(), 1, "the old one is closed");
        assert!(client.idle.take().is_some() && client.idle.take().is_some());
        assert!(client.idle.take().is_none());
    }
}
