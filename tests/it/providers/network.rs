//! Whom a provider's connection trusts, and what it goes through: real TLS, real proxies.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use deputize_core::model::{FailureKind, ModelError, Reply};
use deputize_providers::{CaBundle, Endpoint, Key, Proxy};
use deputize_testkit::chat_sse;
use insta::assert_snapshot;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::{KEY, ask, model};
use crate::program::{Lab, ProgramEnd, RunningProgram};

/// An authority of its own, made anew for each test.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        Self::called("an authority")
    }

    fn called(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// What a server of that name shows. The certificate of one that is `expired` is.
    fn server(&self, name: &str, expired: bool) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if expired {
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = builder.with_single_cert(vec![certificate.der().clone()], key.into());
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }

    fn trusted(&self) -> Option<CaBundle> {
        Some(CaBundle { path: "/own/ca.pem".into(), pem: self.pem.clone().into_bytes() })
    }

    fn file(&self, lab: &Lab) -> PathBuf {
        let path = lab.path("ca.pem");
        fs::write(&path, &self.pem).unwrap();
        path
    }
}

/// A listener that serves each connection by a rule, until it is dropped.
struct RuleListener {
    port: u16,
    /// The first lines of what was asked.
    seen: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl RuleListener {
    async fn start<F>(serve: impl Fn(TcpStream, RequestLines) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let log = Arc::clone(&seen);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, RequestLines(Arc::clone(&log))));
            }
        });
        Self { port, seen, _tasks: tasks }
    }

    /// A model behind TLS.
    async fn tls(acceptor: TlsAcceptor) -> Self {
        Self::start(move |stream, seen| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, &seen).await;
                }
            }
        })
        .await
    }

    /// A proxy that passes tunnels on, and answers itself what is asked in the open.
    async fn proxy() -> Self {
        Self::start(|mut stream, seen| async move {
            let head = head(&mut stream).await;
            let Some(target) = head.strip_prefix("CONNECT ") else {
                seen.note(&head);
                return respond(stream, &head).await;
            };
            seen.note(&head);
            let target = target.split(' ').next().unwrap();
            let mut target = TcpStream::connect(target).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
            let _either_closed = tokio::io::copy_bidirectional(&mut stream, &mut target).await;
        })
        .await
    }

    /// A proxy that lets nobody through.
    async fn closed_proxy(status: &'static str) -> Self {
        Self::start(move |mut stream, seen| async move {
            seen.note(&head(&mut stream).await);
            let text = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            let _closed = stream.write_all(text.as_bytes()).await;
        })
        .await
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    fn at(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    fn endpoint(&self, scheme: &str) -> Endpoint {
        let mut endpoint = Endpoint::new("mock", format!("{}/v1", self.at(scheme)));
        endpoint.keys = vec![Key::new("MOCK_API_KEY", KEY)];
        endpoint
    }
}

struct RequestLines(Arc<Mutex<Vec<String>>>);

impl RequestLines {
    fn note(&self, head: &str) {
        self.0.lock().push(head.lines().next().unwrap_or_default().to_owned());
    }
}

/// The head of a request, and no byte more.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        head.push(byte);
    }
    String::from_utf8_lossy(&head).into_owned()
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: &RequestLines) {
    let head = head(&mut stream).await;
    seen.note(&head);
    respond(stream, &head).await;
}

async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, head: &str) {
    take_body(&mut stream, head).await;
    let body = chat_sse(&Reply::text("served", "Hello."));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let _closed = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _closed = stream.shutdown().await;
}

/// Answers all that is asked on a connection. The end of each body comes behind its end mark.
async fn respond_and_stay(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let body = chat_sse(&Reply::text("served", "Hello."));
    loop {
        let head = head(&mut stream).await;
        if head.is_empty() {
            return;
        }
        take_body(&mut stream, &head).await;
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = format!("{head}{:x}\r\n{body}\r\n", body.len());
        for part in [chunk.as_str(), "0\r\n\r\n"] {
            let _closed = stream.write_all(part.as_bytes()).await;
            let _closed = stream.flush().await;
            tokio::task::yield_now().await;
        }
    }
}

async fn take_body(stream: &mut (impl AsyncRead + Unpin), head: &str) {
    let length = head.to_ascii_lowercase();
    let length = length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    let _cut_short = stream.read_exact(&mut body).await;
}

/// What came of it, without the ports.
fn describe(result: Result<Reply, ModelError>, served: &[&RuleListener]) -> String {
    let mut actual = match result {
        Ok(reply) => reply.text,
        Err(error) => format!("{:?}: {}", error.kind, error.message),
    };
    for served in served {
        actual = actual.replace(&served.port.to_string(), "PORT");
    }
    assert!(!actual.contains(KEY));
    actual
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_or_not_at_all() {
    let own = Authority::called("own");
    let other = Authority::called("other");
    let mut lines = Vec::new();
    for (what, acceptor, trusted) in [
        ("its authority is known", own.server("127.0.0.1", false), own.trusted()),
        ("nothing is known", own.server("127.0.0.1", false), None),
        ("another is known", own.server("127.0.0.1", false), other.trusted()),
        ("another name", own.server("other.example", false), own.trusted()),
        ("expired", own.server("127.0.0.1", true), own.trusted()),
    ] {
        let server = RuleListener::tls(acceptor).await;
        let mut endpoint = server.endpoint("https");
        endpoint.authorities = trusted;
        lines.push(format!("{what}: {}", describe(ask(&model(endpoint)).await, &[&server])));
        assert_eq!(server.seen().len(), usize::from(lines.len() == 1), "{lines:?}");
    }
    let actual = without_times(&lines.join("\n"));
    assert_snapshot!(actual, @r#"
    its authority is known: Hello.
    nothing is known: Unavailable: provider mock: https://127.0.0.1:PORT/v1/chat/completions is not trusted: invalid peer certificate: UnknownIssuer; ca_file names a PEM file of authorities to trust
    another is known: Unavailable: provider mock: https://127.0.0.1:PORT/v1/chat/completions is not trusted, also not with ca_file /own/ca.pem: invalid peer certificate: UnknownIssuer
    another name: Unavailable: provider mock: https://127.0.0.1:PORT/v1/chat/completions is not trusted, also not with ca_file /own/ca.pem: invalid peer certificate: certificate not valid for name "127.0.0.1"; certificate is only valid for DnsName("other.example")
    expired: Unavailable: provider mock: https://127.0.0.1:PORT/v1/chat/completions is not trusted, also not with ca_file /own/ca.pem: invalid peer certificate: certificate expired:
    "#);
}

#[tokio::test]
async fn a_connection_with_tls_serves_again() {
    let own = Authority::new();
    let acceptor = own.server("127.0.0.1", false);
    let server = RuleListener::start(move |stream, seen| {
        let acceptor = acceptor.clone();
        async move {
            seen.note("a connection");
            respond_and_stay(acceptor.accept(stream).await.unwrap()).await;
        }
    })
    .await;
    let mut endpoint = server.endpoint("https");
    endpoint.authorities = own.trusted();
    let model = model(endpoint);
    for _ in 0..3 {
        assert_eq!(ask(&model).await.unwrap().text, "Hello.");
    }
    assert_eq!(server.seen().len(), 1);
}

/// Removes the time of day from the message about an expired certificate.
fn without_times(text: &str) -> String {
    text.lines()
        .map(|line| line.split(" verification time").next().unwrap().to_owned() + "\n")
        .collect()
}

#[tokio::test]
async fn two_authorities_in_one_file_are_both_trusted() {
    let own = Authority::new();
    let other = Authority::new();
    let server = RuleListener::tls(own.server("127.0.0.1", false)).await;
    let mut endpoint = server.endpoint("https");
    let pem = format!("# ours\n{}\n{}", other.pem, own.pem).into_bytes();
    endpoint.authorities = Some(CaBundle { path: "/own/ca.pem".into(), pem });
    assert_eq!(ask(&model(endpoint)).await.unwrap().text, "Hello.");
}

#[tokio::test]
async fn a_file_that_holds_no_authority_is_refused() {
    let unusable = |pem: &str| {
        let mut endpoint = Endpoint::new("mock", "https://127.0.0.1:1/v1");
        endpoint.authorities =
            Some(CaBundle { path: "/own/ca.pem".into(), pem: pem.as_bytes().to_vec() });
        super::refused(endpoint)
    };
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let lines = ["", "hello", broken, "-----BEGIN CERTIFICATE-----\n"].map(unusable);
    assert_snapshot!(lines.join("\n"), @"
    provider mock: ca_file /own/ca.pem cannot be used: there is no certificate in it; it must be a PEM file
    provider mock: ca_file /own/ca.pem cannot be used: there is no certificate in it; it must be a PEM file
    provider mock: ca_file /own/ca.pem cannot be used: one of its certificates cannot be read (invalid peer certificate: BadEncoding)
    provider mock: ca_file /own/ca.pem cannot be used: invalid certificate encoding
    ");
}

#[tokio::test]
async fn what_speaks_no_tls_is_reported_as_such() {
    let server = RuleListener::start(|mut stream, _| async move {
        let _closed = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _the_hello = stream.read_u8().await;
    });
    let server = server.await;
    let result = ask(&model(server.endpoint("https"))).await;
    assert_snapshot!(describe(result, &[&server]), @"Unavailable: provider mock: https://127.0.0.1:PORT/v1/chat/completions does not speak TLS: received corrupt message of type InvalidContentType; is it http://?");
}

#[tokio::test]
async fn requests_go_through_the_proxy_that_is_named() {
    let own = Authority::new();
    let server = RuleListener::tls(own.server("127.0.0.1", false)).await;
    let proxy = RuleListener::proxy().await;
    let mut tunnel = server.endpoint("https");
    tunnel.authorities = own.trusted();
    tunnel.proxy = Proxy::At(proxy.at("http"));
    assert_eq!(ask(&model(tunnel)).await.unwrap().text, "Hello.");

    let mut open = Endpoint::new("mock", "http://models.example/v1");
    open.proxy = Proxy::At(proxy.at("http"));
    assert_eq!(ask(&model(open)).await.unwrap().text, "Hello.");
    let tunnel = format!("CONNECT 127.0.0.1:{} HTTP/1.1", server.port);
    let open = "POST http://models.example/v1/chat/completions HTTP/1.1".to_owned();
    assert_eq!(proxy.seen(), [tunnel, open]);
    assert_eq!(server.seen(), ["POST /v1/chat/completions HTTP/1.1"]);
}

#[tokio::test]
async fn a_proxy_that_does_not_serve_is_reported_by_its_address() {
    let mut lines = Vec::new();
    for status in ["407 Proxy Authentication Required", "403 Forbidden"] {
        let proxy = RuleListener::closed_proxy(status).await;
        let mut endpoint = Endpoint::new("mock", "https://models.example/v1");
        endpoint.proxy = Proxy::At(proxy.at("http"));
        lines.push(describe(ask(&model(endpoint)).await, &[&proxy]));
    }
    let gone = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let mut endpoint = Endpoint::new("mock", "https://models.example/v1");
    endpoint.proxy = Proxy::At(format!("http://{gone}"));
    let error = ask(&model(endpoint)).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Transient);
    lines.push(error.message.replace(&gone.to_string(), "GONE"));
    assert_snapshot!(lines.join("\n"), @"
    Unavailable: provider mock: the proxy http://127.0.0.1:PORT asks for a user name and a password (HTTP 407): name it with them in the environment, as HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT (HTTP_PROXY for http://), without the key `proxy`
    Transient: provider mock: the proxy http://127.0.0.1:PORT did not connect to models.example: it answered CONNECT with a status other than 200; look whether it is the right proxy and may reach models.example, or use none
    provider mock: connection refused; is the proxy running at http://GONE?
    ");
}

#[tokio::test]
async fn who_speaks_no_tls_to_a_server_that_does_is_asked_whether_it_does() {
    let own = Authority::new();
    let server = RuleListener::tls(own.server("127.0.0.1", false)).await;
    let error = ask(&model(server.endpoint("http"))).await.unwrap_err();
    assert!(error.message.ends_with("; is it https://?"), "{}", error.message);
}

#[tokio::test]
async fn a_model_that_is_not_there_without_a_key_has_no_hint_about_keys() {
    let server = RuleListener::closed_proxy("404 Not Found").await;
    let endpoint = Endpoint { keys: Vec::new(), ..server.endpoint("http") };
    let missing = describe(ask(&model(endpoint)).await, &[&server]);
    assert!(missing.ends_with("(HTTP 404); check the model's name and base_url"), "{missing}");
    let mut through = Endpoint::new("mock", "http://models.example/v1");
    let proxy = RuleListener::closed_proxy("407 Proxy Authentication Required").await;
    through.proxy = Proxy::At(proxy.at("http"));
    let asked = describe(ask(&model(through)).await, &[&proxy]);
    assert!(asked.contains("asks for a user name and a password (HTTP 407)"), "{asked}");
}

/// Runs the program against an address.
async fn run(lab: &Lab, base_url: &str, env: &[(&str, &str)], set: &[&str]) -> ProgramEnd {
    let address = format!("providers.local.base_url={base_url}");
    let mut args = vec!["run", "-q", "-m", "local/mock", "Hello", "--set", &address];
    args.extend(set.iter().flat_map(|set| ["--set", set]));
    let mut command = lab.deputize(&args);
    command.envs(env.iter().copied());
    RunningProgram::start(command).end().await
}

#[tokio::test]
async fn the_configuration_or_the_environment_names_authorities() {
    let own = Authority::new();
    let lab = Lab::new();
    let server = RuleListener::tls(own.server("127.0.0.1", false)).await;
    let url = format!("{}/v1", server.at("https"));
    let file = own.file(&lab).display().to_string();
    let set = format!("providers.local.ca_file={file}");
    for (env, set) in [(&[][..], &[set.as_str()][..]), (&[("SSL_CERT_FILE", file.as_str())], &[])] {
        assert_eq!(run(&lab, &url, env, set).await.with_code(0).out, "Hello.\n");
    }
    let home = "providers.local.ca_file=~/ca.pem";
    assert_eq!(run(&lab, &url, &[], &[home]).await.with_code(0).out, "Hello.\n");

    let untrusted = run(&lab, &url, &[], &[]).await.with_code(3);
    assert!(untrusted.err.contains("ca_file names a PEM file"), "{}", untrusted.err);
    let missing = "providers.local.ca_file=/nowhere/ca.pem";
    let missing = run(&lab, &url, &[], &[missing]).await.with_code(2);
    let expected = "providers.local.ca_file: /nowhere/ca.pem cannot be read";
    assert!(missing.err.contains(expected), "{}", missing.err);
}

#[tokio::test]
async fn a_file_of_authorities_that_is_no_file_holds_nothing_up() {
    let lab = Lab::new();
    let folder = TempDir::new().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let large = folder.path().join("large");
    fs::write(&large, vec![b'#'; 2 << 20]).unwrap();
    for path in [&fifo, &large, &PathBuf::from("/dev/zero"), &folder.path().to_owned()] {
        let set = format!("providers.local.ca_file={}", path.display());
        let ended = run(&lab, "https://127.0.0.1:1/v1", &[], &[&set]).await.with_code(2);
        assert!(ended.err.contains("providers.local.ca_file: "), "{}", ended.err);
    }
}

#[tokio::test]
async fn the_environments_proxy_is_used_but_not_for_this_machine_nor_against_the_configuration() {
    let lab = Lab::new();
    let proxy = RuleListener::proxy().await;
    let at = proxy.at("http");
    let gone = "http://127.0.0.1:1";
    let far = "http://models.example/v1";
    let from_environment = run(&lab, far, &[("http_proxy", &at)], &[]).await;
    assert_eq!(from_environment.with_code(0).out, "Hello.\n");
    let set = format!("providers.local.proxy={at}");
    run(&lab, far, &[("http_proxy", gone)], &[&set]).await.with_code(0);
    assert_eq!(proxy.seen(), ["POST http://models.example/v1/chat/completions HTTP/1.1"; 2]);

    let near =
        crate::program::model(|_| deputize_testkit::MockAnswer::reply(&Reply::text("m", "x")));
    let server = near.await;
    let near = server.base_url();
    run(&lab, &near, &[("http_proxy", gone), ("ALL_PROXY", gone)], &[]).await.with_code(0);
}

#[tokio::test]
async fn a_machine_without_authorities_still_reaches_what_needs_none() {
    let lab = Lab::new();
    let near =
        crate::program::model(|_| deputize_testkit::MockAnswer::reply(&Reply::text("m", "x")));
    let server = near.await;
    let near = server.base_url();
    let none = [("SSL_CERT_FILE", "/dev/null"), ("SSL_CERT_DIR", "/nowhere")];
    run(&lab, &near, &none, &[]).await.with_code(0);
}
