//! Sign-in to a remote server: the program, a server with an authorization server beside it, and a
//! browser that follows redirects.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::Arc;

use deputize_agent::mcp::oauth::{
    FileTokenStore, Login, OAuthClient, RedirectListener, StoredToken, StoredTokens, TokenLock,
    TokenStore, TokenStoreError,
};
use deputize_agent::mcp::{AccessTokens as _, ServerConfig, TokenSource};
use deputize_agent::{Agent, AgentModel};
use deputize_core::model::Reply;
use deputize_core::policy::ApprovalAnswer;
use deputize_runtime::SystemClock;
use deputize_testkit::{Barrier, MockAnswer, MockServer, ScriptedModel};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::Notify;

use super::real::blocking;
use super::sign_in_server::{IssuedTokens, answer};
use crate::program::{ChatRequest, Lab, ProgramEnd, RunningProgram, model};

mod hostile;

/// What a server does otherwise than it should, by path and answer.
pub(super) type TwistFn = fn(&str, &str) -> Option<MockAnswer>;

pub(super) struct SignInFixture {
    pub(super) lab: Lab,
    issued: Arc<Mutex<IssuedTokens>>,
    server: MockServer,
}

/// The head of the answer to a GET.
pub(super) fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

impl SignInFixture {
    pub(super) async fn new(twist: TwistFn) -> Self {
        let issued =
            Arc::new(Mutex::new(IssuedTokens { expires_in: 3600, ..IssuedTokens::default() }));
        let of = Arc::clone(&issued);
        let server = MockServer::start_with(move |request| {
            let base = format!("http://{}", request.header("host").unwrap_or_default());
            twist(&request.path, &base).unwrap_or_else(|| answer(request, &of))
        });
        let server = server.await.unwrap();
        let lab = Lab::new();
        fs::create_dir_all(lab.path("home")).unwrap();
        let address = format!("http://{}/mcp", server.address());
        let far = Self { lab, issued, server };
        far.configure(&address);
        far
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.server.address())
    }

    pub(super) fn configure(&self, address: &str) {
        let config = format!("mcp_servers:\n  far: {{ url: \"{address}\" }}\n");
        fs::write(self.lab.path("home/config.yaml"), config).unwrap();
    }

    pub(super) async fn mcp(&self, args: &[&str]) -> ProgramEnd {
        let args = [&["mcp"], args].concat();
        RunningProgram::start(self.lab.deputize(&args)).end().await
    }

    pub(super) async fn begin(&self) -> (RunningProgram, String) {
        self.begin_for("far").await
    }

    /// Begins a sign-in, and returns it with the address for the browser.
    async fn begin_for(&self, name: &str) -> (RunningProgram, String) {
        let mut command = self.lab.deputize(&["mcp", "login", name, "--no-browser"]);
        command.stdin(Stdio::piped());
        let login = RunningProgram::start(command);
        login.says("/authorize?").await;
        login.says("paste the address").await;
        let text = login.err_text();
        let address = text.lines().find(|line| line.contains("/authorize?")).unwrap();
        (login, address.trim().to_owned())
    }

    /// Where the browser is sent after the person has signed in.
    pub(super) async fn redirect(address: &str) -> String {
        let address = address.to_owned();
        let head = blocking(move || get(&address)).await;
        let to = head.lines().find_map(|line| line.strip_prefix("location: "));
        to.unwrap_or_else(|| panic!("{head}")).trim().to_owned()
    }

    pub(super) async fn sign_in(&self) -> ProgramEnd {
        self.sign_in_to("far").await
    }

    async fn sign_in_to(&self, name: &str) -> ProgramEnd {
        let (login, address) = self.begin_for(name).await;
        let redirect = Self::redirect(&address).await;
        let page = blocking(move || get(&redirect)).await;
        assert!(page.contains("You can close this page"), "{page}");
        login.end().await
    }

    /// Runs an agent that calls the tool, and returns what the model got.
    async fn call(&self) -> (String, ProgramEnd) {
        let model = model(|asked: &ChatRequest| {
            MockAnswer::reply(&match asked.replies() {
                0 => Reply::calls("mock", [("mcp__far__go", json!({}))]),
                _ => Reply::text("mock", asked.results().join("\n")),
            })
        })
        .await;
        let args = ["--approve", "auto", "--output", "events", "go"];
        let ended = self.lab.run(&model, &args).end().await.with_code(0);
        let text =
            ended.events("model.response").pop().unwrap()["text"].as_str().unwrap().to_owned();
        (text, ended)
    }

    pub(super) fn token_files(&self) -> Vec<String> {
        let folder = fs::read_dir(self.lab.path("home/mcp/oauth")).into_iter().flatten();
        let paths = folder.map(|entry| entry.unwrap().path());
        let tokens = paths.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let owned = |path| {
            let mode = fs::metadata(&path).map(|file| file.permissions().mode() & 0o777);
            assert_eq!(mode.unwrap(), 0o600);
            fs::read_to_string(path).unwrap()
        };
        tokens.map(owned).collect()
    }
}

#[tokio::test]
async fn a_person_signs_in_and_agents_have_the_tools_until_they_sign_out() {
    let far = SignInFixture::new(|_, _| None).await;
    let refused = far.mcp(&["test", "far"]).await;
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.err.contains("HTTP 401 Unauthorized: a person has to sign in"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("deputize mcp login far"), "{}", refused.err);

    let signed_in = far.sign_in().await.with_code(0);
    assert!(signed_in.err.contains("signed in: mcp far"), "{}", signed_in.err);
    far.mcp(&["review", "far", "--yes"]).await.with_code(0);
    let listed = far.mcp(&["list"]).await.with_code(0);
    assert!(listed.out.contains("ready; signed in"), "{}", listed.out);

    let (actual, first) = far.call().await;
    assert!(actual.contains("gone with Bearer [redacted:mcp far]"), "{actual}");
    // The server refuses the token before its time: it is refreshed, and the call is made.
    far.issued.lock().token = 7;
    let file = far.lab.path("home/mcp/oauth");
    let file = fs::read_dir(file).unwrap().map(|entry| entry.unwrap().path());
    let file =
        file.into_iter().find(|path| path.extension().is_some_and(|end| end == "json")).unwrap();
    let stored = fs::read_to_string(&file).unwrap().replace("refresh-secret-1", "refresh-secret-7");
    fs::write(&file, stored).unwrap();
    let (actual, second) = far.call().await;
    assert!(actual.contains("gone with Bearer [redacted:mcp far]"), "{actual}");
    assert_eq!(far.issued.lock().refreshes, 1);
    for ended in [&signed_in, &first, &second] {
        for text in [&ended.out, &ended.err] {
            assert!(!text.contains("-secret-"), "{text}");
        }
    }
    let journal = fs::read_dir(far.lab.path("home/sessions")).unwrap();
    for entry in journal.filter(|entry| entry.as_ref().unwrap().path().is_file()) {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains("-secret-"), "{text}");
    }

    let out = far.mcp(&["logout", "far"]).await.with_code(0);
    assert!(out.err.contains("signed out: mcp far"), "{}", out.err);
    assert_eq!(far.token_files(), [""; 0]);
    let not_signed_in = "not signed in: deputize mcp login far";
    let listed = far.mcp(&["list"]).await.with_code(0);
    assert!(listed.out.trim_end().ends_with(not_signed_in), "{}", listed.out);
    assert!(!listed.out.contains("ready"), "{}", listed.out);
    let (_, without) = far.call().await;
    assert!(without.err.contains(&format!("mcp far: {not_signed_in}")), "{}", without.err);
    let again = far.mcp(&["logout", "far"]).await;
    assert!(again.err.contains("nobody is signed in"), "{}", again.err);
}

#[tokio::test]
async fn of_two_programs_one_refreshes_and_a_refused_refresh_ends_the_sign_in() {
    let far = SignInFixture::new(|_, _| None).await;
    far.issued.lock().expires_in = 0;
    far.sign_in().await.with_code(0);
    // The first token has expired at once.
    far.issued.lock().expires_in = 3600;
    let (one, two) = tokio::join!(far.mcp(&["test", "far"]), far.mcp(&["test", "far"]));
    assert_eq!((one.code, two.code), (Some(0), Some(0)), "{} {}", one.err, two.err);
    assert_eq!(far.issued.lock().refreshes, 1);

    far.issued.lock().token = 9;
    let ended = far.mcp(&["test", "far"]).await;
    assert!(ended.err.contains("deputize mcp login far"), "{}", ended.err);
    let listed = far.mcp(&["list"]).await.with_code(0);
    assert!(listed.out.contains("sign-in has expired"), "{}", listed.out);
}

/// The tokens of a server as another process has them, which tells when it waits for their lock.
struct WatchedStore {
    files: FileTokenStore,
    waits: Arc<Notify>,
}

impl TokenStore for WatchedStore {
    fn read(&self, server: &str, url: &str) -> Result<Option<StoredToken>, TokenStoreError> {
        self.files.read(server, url)
    }

    fn write(&self, server: &str, token: &StoredToken) -> Result<(), TokenStoreError> {
        self.files.write(server, token)
    }

    fn remove(&self, server: &str, url: &str) -> Result<bool, TokenStoreError> {
        self.files.remove(server, url)
    }

    fn try_lock(&self, server: &str, url: &str) -> Result<Option<TokenLock>, TokenStoreError> {
        let lock = self.files.try_lock(server, url)?;
        if lock.is_none() {
            self.waits.notify_one();
        }
        Ok(lock)
    }
}

#[tokio::test]
async fn who_comes_while_another_refreshes_waits_for_its_token() {
    let far = SignInFixture::new(|_, _| None).await;
    far.issued.lock().expires_in = 0;
    far.sign_in().await.with_code(0);
    let gate = Barrier::closed();
    {
        let mut issued = far.issued.lock();
        (issued.expires_in, issued.gate) = (3600, Some(gate.clone()));
    }
    let waits = Arc::new(Notify::new());
    let tokens = || {
        let files = FileTokenStore::new(far.lab.path("home/mcp/oauth"));
        let store = Arc::new(WatchedStore { files, waits: Arc::clone(&waits) });
        StoredTokens::new("far", far.url(), Vec::new(), store, Arc::new(SystemClock))
    };
    let (first, second) = (tokens(), tokens());
    let one_refreshes = async {
        gate.until_waiting(1).await;
        let mut second = second.token(None);
        tokio::select! {
            given = &mut second => panic!("it did not wait: {given:?}"),
            () = waits.notified() => gate.open(),
        }
        second.await
    };
    let (one, other) = tokio::join!(first.token(None), one_refreshes);
    let new = Some("access-secret-2".to_owned());
    assert_eq!((one.unwrap(), other.unwrap()), (new.clone(), new));
    assert_eq!(far.issued.lock().refreshes, 1);
}

#[tokio::test]
async fn a_server_that_wants_a_sign_in_is_added_and_the_next_steps_are_named() {
    let far = SignInFixture::new(|_, _| None).await;
    let add = ["add", "near", "--url", &far.url()];
    let unasked = far.mcp(&add).await.with_code(1);
    assert!(unasked.err.contains("--yes says yes beforehand"), "{}", unasked.err);
    let listed = far.mcp(&["list"]).await.with_code(0);
    assert!(!listed.out.contains("near"), "{}", listed.out);
    let added = far.mcp(&[&add[..], &["--yes"]].concat()).await.with_code(0);
    for words in ["added: mcp near, to ", "deputize mcp login near", "deputize mcp review near"] {
        assert!(added.err.contains(words), "{}", added.err);
    }
    // Nothing is approved yet.
    let listed = far.mcp(&["list"]).await.with_code(0);
    assert!(!listed.out.contains("ready"), "{}", listed.out);
    let near = listed.out.lines().find(|line| line.starts_with("near")).unwrap();
    assert!(near.ends_with("not signed in: deputize mcp login near"), "{near}");
    let doctor = RunningProgram::start(far.lab.deputize(&["doctor"])).end().await;
    assert!(doctor.out.contains("deputize mcp login near"), "{}", doctor.out);

    far.sign_in_to("near").await.with_code(0);
    far.mcp(&["review", "near", "--yes"]).await.with_code(0);
    let listed = far.mcp(&["list"]).await.with_code(0);
    assert!(listed.out.contains("ready; signed in"), "{}", listed.out);
    let doctor = RunningProgram::start(far.lab.deputize(&["doctor"])).end().await;
    assert!(doctor.out.contains("signed in"), "{}", doctor.out);

    // One that refuses the key in its headers has no sign-in, and is not added.
    let key = ["add", "key", "--url", &far.url(), "--header", "Authorization=Bearer no", "--yes"];
    let refused = far.mcp(&key).await;
    assert_ne!(refused.code, Some(0));
    assert!(!refused.err.contains("mcp login"), "{}", refused.err);
}

#[tokio::test]
async fn a_program_that_is_killed_while_it_refreshes_leaves_the_token_as_it_was() {
    let far = SignInFixture::new(|_, _| None).await;
    far.issued.lock().expires_in = 0;
    far.sign_in().await.with_code(0);
    let before = far.token_files();
    let gate = Barrier::closed();
    {
        let mut issued = far.issued.lock();
        (issued.expires_in, issued.gate) = (3600, Some(gate.clone()));
    }
    let refreshing = RunningProgram::start(far.lab.deputize(&["mcp", "test", "far"]));
    gate.until_waiting(1).await;
    refreshing.signal(Signal::KILL);
    assert_eq!(refreshing.end().await.code, None);
    assert_eq!(far.token_files(), before);
    // The server had not done it yet.
    {
        let mut issued = far.issued.lock();
        (issued.token, issued.gate) = (1, None);
    }
    far.mcp(&["test", "far"]).await.with_code(0);
    assert_eq!(far.issued.lock().refreshes, 2);
    assert_ne!(far.token_files(), before);
}

#[tokio::test]
async fn a_call_that_is_given_up_while_it_refreshes_loses_no_token() {
    let far = SignInFixture::new(|_, _| None).await;
    far.issued.lock().expires_in = 0;
    far.sign_in().await.with_code(0);
    let gate = Barrier::closed();
    {
        let mut issued = far.issued.lock();
        (issued.expires_in, issued.gate) = (3600, Some(gate.clone()));
    }
    let store = Arc::new(FileTokenStore::new(far.lab.path("home/mcp/oauth")));
    let tokens = StoredTokens::new("far", far.url(), Vec::new(), store, Arc::new(SystemClock));
    tokio::select! {
        given = tokens.token(None) => panic!("{given:?}"),
        () = gate.until_waiting(1) => {}
    }
    gate.open();
    // The server has replaced the token: the old one would be refused.
    assert_eq!(tokens.token(None).await.unwrap(), Some("access-secret-2".to_owned()));
    assert_eq!(far.issued.lock().refreshes, 1);
    assert!(far.token_files()[0].contains("refresh-secret-2"));
}

// What an agent is built from is asked while the runtime's thread waits.
#[tokio::test(flavor = "multi_thread")]
async fn an_embedder_signs_in_and_its_agent_has_the_tools_without_their_tokens() {
    let far = SignInFixture::new(|_, _| None).await;
    far.issued.lock().expires_in = 0;
    let store = Arc::new(FileTokenStore::new(far.lab.path("oauth")));
    let client = OAuthClient { name: "My agent".into(), ..OAuthClient::default() };
    let listener = RedirectListener::bind(&client).await.unwrap();
    let login = Login::start(&far.url(), &client, listener.url()).await.unwrap();
    let redirect = SignInFixture::redirect(login.address().as_str()).await;
    let browser = blocking(move || get(&redirect));
    let (redirected, _page) = tokio::join!(listener.redirected(&login), browser);
    let token = login.finish(&redirected, &SystemClock).await.unwrap();
    store.write("far", &token).unwrap();

    let tokens = StoredTokens::new("far", far.url(), Vec::new(), store, Arc::new(SystemClock));
    let server = ServerConfig::url("far", far.url(), BTreeMap::new());
    let model = Arc::new(ScriptedModel::turns([
        Reply::calls("scripted", [("mcp__far__go", json!({}))]),
        Reply::text("scripted", "done"),
    ]));
    let agent = Agent::builder()
        .model(AgentModel::shared("scripted", model.clone()))
        .workspace(far.lab.path("work"))
        .mcp_servers([server.with_tokens(TokenSource::new(tokens))])
        .approve(|_| ApprovalAnswer::yes("this test"))
        .build()
        .unwrap();
    let outcome = agent.run("go").await;
    assert_eq!(outcome.text.as_deref(), Some("done"));
    // Each request had a new token, which the session did not know when it began.
    assert!(far.issued.lock().refreshes > 2);
    let seen = format!("{:?}", model.requests());
    assert!(seen.contains("gone with Bearer [redacted:mcp far]"), "{seen}");
    assert!(!seen.contains("-secret-"), "{seen}");
}

#[tokio::test]
async fn a_pasted_address_signs_in_where_the_browser_is_elsewhere() {
    let far = SignInFixture::new(|_, _| None).await;
    let (mut login, address) = far.begin().await;
    let redirect = SignInFixture::redirect(&address).await;
    let mut input = login.stdin();
    tokio::io::AsyncWriteExt::write_all(
        &mut input,
        format!("no address\n{address}\n{redirect}\n").as_bytes(),
    )
    .await
    .unwrap();
    let ended = login.end().await.with_code(0);
    assert!(ended.err.contains("that is not an address"), "{}", ended.err);
    assert!(ended.err.contains("it leads to another address; paste"), "{}", ended.err);
    assert_eq!(far.token_files().len(), 1);
}
