//! The tools of the browser: a real Chromium against servers on this machine.

mod elements;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use deputize_agent::{Agent, AgentModel, BrowserSettings};
use deputize_core::model::Reply;
use deputize_requirements::{program, require, root};
use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{blocks, calls_in_order, results_read};
use crate::program::{ChatRequest, Lab, RunningProgram, model, soon};

/// Holds that Chromium runs here: it is in PATH, and the user may start its sandbox or is root.
fn chromium() -> Result<(), String> {
    program("chromium")?;
    let sandbox = Command::new("unshare").args(["--user", "true"]).status();
    if sandbox.is_ok_and(|status| status.success()) { Ok(()) } else { root() }
}

/// A site of several pages. A path `/page?…` is a page of the HTML behind it.
fn site(request: &HttpRequest) -> MockAnswer {
    let html = |body: &str| MockAnswer::body("text/html; charset=utf-8", body);
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    match path {
        "/tickets" => html(
            "<title>Tickets</title><h1>Buy a ticket</h1><form aria-label=Order action=/bought>\
             <label>Name <input name=name></label> <label>Class <select name=class>\
             <option>Second<option>First</select></label> <button>Buy</button></form>",
        ),
        "/bought" => html(&format!("<title>Bought</title><p>You bought: {query}")),
        "/page" => html(&decoded(query)),
        "/to" => html("").status(302).header("location", &decoded(query)),
        "/file" => MockAnswer::body("application/zip", "PK")
            .header("content-disposition", "attachment; filename=a.zip"),
        "/gone" => html("<p>Not here").status(404),
        _ => html("<p>other").status(404),
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn host(server: &MockServer) -> String {
    server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned()
}

/// The call that opens a page with this HTML.
fn open(site: &MockServer, html: &str) -> (&'static str, Value) {
    ("browser_open", json!({"url": format!("http://{}/page?{}", host(site), encoded(html))}))
}

fn click(element: u32) -> (&'static str, Value) {
    ("browser_click", json!({"element": element}))
}

fn type_text(element: u32, text: &str) -> (&'static str, Value) {
    ("browser_type", json!({"element": element, "text": text}))
}

/// The arguments of a run whose agents may use a browser and reach a site on this machine.
fn settings(site: &MockServer) -> Vec<String> {
    let allow = format!("fetch.allow_hosts=[\"{}\"]", host(site));
    ["--set", "browser.enabled=true", "--set", &allow].map(str::to_owned).into()
}

/// What a model reads of these calls, one after the other.
async fn results(
    lab: &Lab,
    site: &MockServer,
    more: &[&str],
    calls: Vec<(&'static str, Value)>,
) -> Vec<String> {
    let count = calls.len();
    let server = model(calls_in_order(calls)).await;
    let settings = settings(site);
    let mut args: Vec<&str> = settings.iter().map(String::as_str).collect();
    args.extend(more);
    args.push("Look at the pages.");
    let mut command = lab.run_command(&server, &args);
    fs::create_dir_all(lab.path("tmp")).unwrap();
    command.env("TMPDIR", lab.path("tmp"));
    RunningProgram::start(command).end().await.with_code(0);
    results_read(&server, count)
}

#[tokio::test]
async fn the_calls_of_the_page_buy_a_ticket() {
    require!(chromium());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/browser.md");
    let page = fs::read_to_string(page).unwrap();
    let site = MockServer::start_with(site).await.unwrap();
    let here = |text: &str| text.replace("localhost:8080", &host(&site));
    let calls = blocks(&page, "json call").into_iter().map(|(name, call)| {
        let names = ["browser_open", "browser_type", "browser_click"];
        let name = names.into_iter().find(|known| *known == name.trim()).unwrap();
        (name, serde_json::from_str(&here(call)).unwrap())
    });
    let calls: Vec<_> = calls.collect();
    let lab = Lab::new();
    let results = results(&lab, &site, &["--approve", "auto"], calls).await;
    let expected = blocks(&page, "text result");
    assert_eq!(results.len(), expected.len());
    for (result, (_, expected)) in results.iter().zip(&expected) {
        assert!(result.contains(&here(expected)), "{result}\n--- expected ---\n{expected}");
        assert!(result.starts_with("<web:127.0.0.1 "), "{result}");
    }
    assert_eq!(fs::read_dir(lab.path("tmp")).unwrap().count(), 0, "profiles are removed");
    assert_eq!(lab.processes(), [], "nothing is left");
}

#[tokio::test]
async fn private_addresses_are_refused_to_pages_and_their_parts() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let closed = MockServer::start_with(|_| MockAnswer::body("text/html", "<p>secret")).await;
    let closed = closed.unwrap();
    let private = format!("http://{}/", host(&closed));
    let name = format!("http://localhost:{}/", host(&closed).rsplit(':').next().unwrap());
    let parts = format!(
        "<p id=told>waiting<script>\
         const ask = (url) => fetch(url, {{mode: 'no-cors'}}).then((it) => it.text(), () => 'no');\
         Promise.all([ask('{private}'), ask('{name}'), ask('https://10.1.2.3/'), \
         ask('/to?{}'), ask('http://169.254.169.254/latest/')])\
         .then((texts) => told.textContent = 'told: ' + texts.map((text) => text || 'none'));\
         </script><img src='{private}img'><iframe src='{private}frame'></iframe>\
         <link rel=stylesheet href='{name}css'>",
        encoded(&private),
    );
    let at = |url: &str| ("browser_open", json!({"url": url}));
    let to = |url: &str| at(&format!("http://{}/to?{}", host(&site), encoded(url)));
    let calls = vec![
        open(&site, &parts),
        to(&private),
        to("http://169.254.169.254/latest/meta-data/"),
        to("file:///etc/passwd"),
        to("chrome://version/"),
        at(&private),
        at("http://169.254.169.254/"),
        at("file:///etc/passwd"),
        at("chrome://version/"),
        at("javascript:1"),
        open(&site, "<p>The browser lives."),
    ];
    let actual = results(&Lab::new(), &site, &[], calls).await;
    let wanted = [
        "told: ",
        "was not loaded: 127.0.0.1 resolves to a private address",
        "169.254.169.254 is the metadata service of a cloud",
        "was not loaded",
        "was not loaded",
        "denied: 127.0.0.1 resolves to a private address (127.0.0.1). The user can allow it in \
         fetch.allow_hosts.",
        "denied: 169.254.169.254 is the metadata service of a cloud",
        "only http and https addresses can be fetched, not `file:`",
        "not `chrome:`",
        "not `javascript:`",
        "The browser lives.",
    ];
    for (actual, wanted) in actual.iter().zip(wanted) {
        assert!(actual.contains(wanted), "{actual}\n--- wanted ---\n{wanted}");
        assert!(!actual.contains("secret") && !actual.contains("root:"), "{actual}");
    }
    for refused in [
        "[refused to the page: 127.0.0.1 resolves to a private address (127.0.0.1)]",
        "[refused to the page: localhost resolves to a private address",
        "[refused to the page: 10.1.2.3 resolves to a private address (10.1.2.3)]",
        "[refused to the page: 169.254.169.254 is the metadata service",
    ] {
        assert!(actual[0].contains(refused), "{}\n--- wanted ---\n{refused}", actual[0]);
    }
    assert_eq!(closed.connections(), 0, "{:?}", closed.requests());
}

#[tokio::test]
async fn what_only_chromium_itself_asks_is_refused_by_name() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let hosts = ["passwordsleakcheck-pa.googleapis.com", "update.googleapis.com"];
    let calls = hosts.map(|host| ("browser_open", json!({"url": format!("https://{host}/")})));
    let results = results(&Lab::new(), &site, &[], calls.to_vec()).await;
    for (result, host) in results.iter().zip(hosts) {
        let wanted = format!("/ was not loaded: only Chromium itself asks {host}: nothing is sent");
        assert!(result.contains(&wanted), "{result}\n--- wanted ---\n{wanted}");
        assert!(!result.contains("to the page: only Chromium"), "{result}");
    }
}

#[tokio::test]
async fn nothing_leaves_over_udp() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let stun = UdpSocket::bind("127.0.0.1:0").unwrap();
    stun.set_nonblocking(true).unwrap();
    let port = stun.local_addr().unwrap().port();
    let page = format!(
        "<p id=told>waiting<script>\
         const found = [];\
         const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{port}'}}]}});\
         peer.createDataChannel('x');\
         peer.onicecandidate = (event) => {{ if (event.candidate) found.push(event.candidate.candidate); }};\
         peer.onicegatheringstatechange = () => {{\
           if (peer.iceGatheringState === 'complete') \
             fetch('/done').then(() => {{ told.textContent = 'found: ' + found.length; }});\
         }};\
         peer.createOffer().then((offer) => peer.setLocalDescription(offer));\
         </script>"
    );
    // Without this option no Chromium asks a server of this machine, so that none could fail here.
    let lab = Lab::new();
    let script = lab.path("chromium");
    let start = "#!/bin/sh\nexec chromium --allow-loopback-in-peer-connection \"$@\"\n";
    fs::write(&script, start).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let program = format!("browser.program={}", script.display());
    let calls = vec![open(&site, &page), ("browser_snapshot", json!({}))];
    let actual = results(&lab, &site, &["--set", &program], calls).await;
    assert!(stun.recv(&mut [0; 100]).is_err(), "a datagram arrived: {actual:?}");
    assert!(actual[1].contains("found: 0"), "{}", actual[1]);
}

/// Chromium would send its maker a part of the hash of a password that a page is sent.
#[tokio::test]
async fn nobody_is_asked_about_a_password() {
    require!(chromium());
    let form = "<form action=/in method=post><input name=user autocomplete=username>\
        <input type=password name=pass autocomplete=current-password><button>Sign in</button>";
    // A proxy of the test stands in for that of the program, and answers for the site.
    let proxy = MockServer::start_with(move |request| {
        match request.path.strip_prefix("http://login.test") {
            Some("/") => MockAnswer::body("text/html", form),
            Some(path) => MockAnswer::body("text/html", format!("<p>Here is {path}")),
            None => MockAnswer::body("text/html", "").status(403),
        }
    });
    let proxy = proxy.await.unwrap();
    let lab = Lab::new();
    let script = lab.path("chromium");
    let start = format!(
        "#!/bin/sh\nfor it; do shift; case $it in --proxy-server=*) it=--proxy-server=http://{};; esac; \
         set -- \"$@\" \"$it\"; done\nexec chromium \"$@\"\n",
        host(&proxy)
    );
    fs::write(&script, start).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let program = format!("browser.program={}", script.display());
    let at = |path: &str| ("browser_open", json!({"url": format!("http://login.test{path}")}));
    let calls = vec![
        at("/"),
        type_text(1, "ann@example.com"),
        type_text(2, "Sup3rSecretPass!"),
        click(3),
        at("/next"),
        at("/last"),
        ("browser_snapshot", json!({})),
    ];
    let actual = results(&lab, &proxy, &["--set", &program, "--approve", "auto"], calls).await;
    assert!(actual[3].contains("Here is /in"), "{}", actual[3]);
    let requests = proxy.requests();
    let asked: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    assert!(asked.contains(&"update.googleapis.com:443"), "{asked:?}");
    assert!(!asked.iter().any(|path| path.contains("passwordsleakcheck")), "{asked:?}");
}

#[tokio::test]
async fn what_a_page_does_beside_itself_is_stopped_and_told() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let html = "<script>alert('Hello\\nthere'); document.title = confirm('Sure?') + ' ' + prompt('Who?');\
        </script><a href=/bought target=_blank>new window</a><a href=/file>a file</a>\
        <input type=file aria-label=upload><a href='file:///etc/passwd'>local</a>\
        <button onclick=\"window.open('/bought?popup')\">pop</button>";
    let calls = vec![
        open(&site, html),
        click(1),
        click(2),
        click(3),
        type_text(3, "/etc/passwd"),
        click(4),
        click(5),
        ("browser_open", json!({"url": format!("http://{}/file", host(&site))})),
        ("browser_open", json!({"url": format!("http://{}/gone", host(&site))})),
    ];
    let actual = results(&Lab::new(), &site, &["--approve", "auto"], calls).await;
    let page = "page \"false null\"";
    for (actual, wanted) in actual.iter().zip([
        &["(alert \"Hello there\" was dismissed)", "(confirm \"Sure?\"", "(prompt \"Who?\"", page]
            [..],
        &["(a new window for http://127.0.0.1:", "/bought was closed", page],
        &["/file was refused)", page],
        &["(the page asked for a file and got none)", page],
        &["files cannot be given to pages"],
        &[page],
        &["/bought?popup was closed", page],
        &["it is a download, which is refused"],
        &["Not here", "[the server answered 404]"],
    ]) {
        for wanted in wanted {
            assert!(actual.contains(wanted), "{actual}\n--- wanted ---\n{wanted}");
        }
        assert!(!actual.contains("root:"), "{actual}");
    }
}

#[tokio::test]
async fn elements_that_cannot_be_used_are_clear_errors() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let html = "<button disabled>Off</button><div><button id=under>Under</button></div>\
        <button onclick='this.remove()'>Once</button><input type=checkbox aria-label=box>\
        <textarea aria-label=notes>old</textarea>\
        <div contenteditable role=textbox aria-label=rich>old</div>\
        <input readonly value=fixed aria-label=fixed>\
        <iframe srcdoc='<button onclick=\"this.textContent=`Inner done`\">Inner</button>'></iframe>\
        <style>#over{position:fixed;background:red}</style><div id=over>Cookies?</div>\
        <script>const at = under.getBoundingClientRect();\
        Object.assign(over.style, {left: at.left + 'px', top: at.top + 'px', width: at.width + 'px', \
        height: at.height + 'px'});</script>";
    let calls = vec![
        open(&site, html),
        click(1),
        click(2),
        click(3),
        click(3),
        type_text(4, "x"),
        click(4),
        type_text(5, "line one\nline two"),
        type_text(6, "new"),
        type_text(7, "x"),
        click(8),
        click(99),
        open(&site, "<p>Next"),
        click(1),
        ("browser_close", json!({})),
        ("browser_snapshot", json!({})),
    ];
    let actual = results(&Lab::new(), &site, &["--approve", "auto"], calls).await;
    for (actual, wanted) in actual.iter().zip([
        "[1] button \"Off\" (disabled)",
        "button \"Off\" (disabled): it is disabled",
        "it is covered by div \"Cookies?\": deal with that first",
        "[2] button \"Under\"",
        "[3] is no longer on the page: take a new snapshot",
        "it takes no text: click it",
        "[4] checkbox \"box\" (checked)",
        "[5] textbox \"notes\" = \"line one line two\"",
        "[6] textbox \"rich\" = \"new\"",
        "it is disabled or cannot be changed",
        "[8] button \"Inner done\"",
        "there is no element [99] on this page",
        "Next",
        "[1] is an element of an earlier page",
        "closed",
        "no page is open: open one with an address",
    ]) {
        assert!(actual.contains(wanted), "{actual}\n--- wanted ---\n{wanted}");
    }
}

#[tokio::test]
async fn large_and_hostile_pages_are_read_in_parts_or_given_up() {
    require!(chromium());
    let site = MockServer::start_with(|request| match request.path.as_str() {
        "/long" => MockAnswer::body("text/html", "<p>0123456789 0123456789</p>".repeat(2_000)),
        "/deep" => MockAnswer::body("text/html", "<div>".repeat(5_000) + "<button>Deep</button>"),
        "/log" => MockAnswer::body("text/plain", "one  line\n  [7] of a log\n".repeat(2_000)),
        "/line" => {
            MockAnswer::body("text/html", format!("<p>{}", "[7] of one line ".repeat(2_000)))
        }
        path => site_with_loop(path),
    })
    .await
    .unwrap();
    let at = |path: &str| ("browser_open", json!({"url": format!("http://{}{path}", host(&site))}));
    let calls = vec![
        at("/long"),
        ("browser_snapshot", json!({"offset": 16_380})),
        ("browser_snapshot", json!({"offset": 99_000_000})),
        at("/deep"),
        at("/loop"),
        at("/fine"),
        at("/log"),
        at("/line"),
        ("browser_snapshot", json!({"offset": 16_384})),
    ];
    // Twice this time is the most that a page may take.
    let set = ["--set", "browser.timeout_seconds=4"];
    let actual = results(&Lab::new(), &site, &set, calls).await;
    assert!(actual[0].len() < 18_000, "{}", actual[0].len());
    assert!(actual[0].contains("; to read on, take a snapshot with offset 16"), "{}", actual[0]);
    assert!(
        actual[1].contains("0123456789") && actual[1].contains("[bytes 16380 to"),
        "{}",
        actual[1]
    );
    assert!(actual[2].contains("begin before that"), "{}", actual[2]);
    assert!(actual[3].contains("address: "), "{}", actual[3]);
    assert!(actual[4].contains("did not answer within 8 s and was ended"), "{}", actual[4]);
    assert!(actual[5].contains("Fine."), "{}", actual[5]);
    let lines = "one  line\n\"  [7] of a log\"\none  line\n";
    assert!(actual[6].len() > 16_000 && actual[6].contains(lines), "{}", actual[6]);
    assert!(actual[6].contains("; to read on, take a snapshot with offset 16"), "{}", actual[6]);
    assert!(actual[7].contains("; to read on, take a snapshot with offset 16384"), "{}", actual[7]);
    assert!(actual[8].contains(">\n…"), "{}", actual[8]);
    assert!(actual[8].contains("of one line\"\n"), "{}", actual[8]);
}

fn site_with_loop(path: &str) -> MockAnswer {
    match path {
        "/loop" => {
            MockAnswer::body("text/html", "<p>x<script>setTimeout(() => { for (;;); })</script>")
        }
        _ => MockAnswer::body("text/html", "<p>Fine."),
    }
}

#[tokio::test]
async fn opening_asks_nothing_and_acting_does() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let calls = vec![
        open(&site, "<input aria-label=name><button>Go</button>"),
        type_text(1, "x"),
        click(2),
        ("browser_snapshot", json!({})),
    ];
    let actual = results(&Lab::new(), &site, &[], calls).await;
    assert!(actual[0].contains("[2] button \"Go\""), "{}", actual[0]);
    for actual in &actual[1..3] {
        assert!(actual.contains("denied"), "{actual}");
    }
    assert!(actual[3].contains("[1] textbox \"name\""), "{}", actual[3]);
}

#[tokio::test]
async fn a_child_has_its_own_browser_and_only_as_many_run_as_are_allowed() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let lab = Lab::new();
    let page = open(&site, "<p>Own page");
    let of_child = page.clone();
    let task = json!({"goal": "Look.", "toolsets": ["browser"]});
    let server = model(move |asked| match asked.system().contains("YOUR TASK:") {
        true => calls_in_order(vec![("browser_snapshot", json!({})), of_child.clone()])(asked),
        false => calls_in_order(vec![
            page.clone(),
            ("delegate_task", task.clone()),
            ("browser_close", json!({})),
            ("delegate_task", task.clone()),
        ])(asked),
    })
    .await;
    let settings = settings(&site);
    let mut args: Vec<&str> = settings.iter().map(String::as_str).collect();
    args.extend(["--set", "browser.max_browsers=1", "Go"]);
    lab.run(&server, &args).end().await.with_code(0);
    let requests = server.requests();
    let requests: Vec<_> = requests.iter().map(ChatRequest::of).collect();
    let of_children = requests.iter().filter(|it| it.system().contains("YOUR TASK:"));
    let whole: Vec<_> = of_children.map(ChatRequest::results).filter(|it| it.len() == 2).collect();
    let [first, second] = &whole[..] else { panic!("{whole:?}") };
    assert!(first[0].contains("no page is open"), "{first:?}");
    assert!(first[1].contains("1 browser of this session runs already"), "{first:?}");
    assert!(second[1].contains("Own page"), "{second:?}");
}

#[tokio::test]
async fn a_browser_ends_with_a_program_that_is_killed() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let lab = Lab::new();
    fs::create_dir_all(lab.path("tmp")).unwrap();
    let opened = open(&site, "<p>Open");
    let server = model(move |asked| match asked.results().len() {
        0 => calls_in_order(vec![opened.clone()])(asked),
        _ => MockAnswer::reply(&Reply::text("served-1", "Later."))
            .after(std::time::Duration::from_secs(600)),
    })
    .await;
    let settings = settings(&site);
    let mut args: Vec<&str> = settings.iter().map(String::as_str).collect();
    args.push("Go");
    let mut command = lab.run_command(&server, &args);
    command.env("TMPDIR", lab.path("tmp"));
    let program = RunningProgram::start(command);
    soon("the second request", server.until_requests(2)).await;
    let is_browser = |found: &[(rustix::process::Pid, String)]| {
        found.iter().any(|(_, arguments)| arguments.contains("--user-data-dir"))
    };
    assert!(is_browser(&lab.processes()));
    program.signal(Signal::KILL);
    program.end().await;
    let gone = async {
        while !lab.processes().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon("the end of the browser", gone).await;
    assert_eq!(fs::read_dir(lab.path("tmp")).unwrap().count(), 1, "the profile is left");
    results(&lab, &site, &[], vec![open(&site, "<p>Again")]).await;
    assert_eq!(
        fs::read_dir(lab.path("tmp")).unwrap().count(),
        0,
        "and removed by the next browser"
    );
}

#[tokio::test]
async fn an_agent_of_another_program_uses_a_browser() {
    require!(chromium());
    let lab = Lab::new();
    let calls = vec![("browser_open", json!({"url": "http://127.0.0.1:1024/"}))];
    let server = model(calls_in_order(calls)).await;
    let agent = Agent::builder()
        .model(AgentModel::at(server.base_url(), "m"))
        .workspace(lab.work(""))
        .sessions(lab.path("sessions"))
        .browser(BrowserSettings::enabled())
        .build()
        .unwrap();
    assert_eq!(agent.run("Go").await.text.as_deref(), Some("Done."));
    let requests = server.requests();
    let last = ChatRequest::of(requests.last().unwrap());
    let mut tools = last.tools();
    tools.sort_unstable();
    let own = ["click", "close", "open", "snapshot", "type"].map(|name| format!("browser_{name}"));
    assert_eq!(tools, own);
    assert!(last.results()[0].contains("denied: 127.0.0.1 resolves to a private address"));
}

#[tokio::test]
async fn without_a_browser_the_tools_are_not_sent() {
    let lab = Lab::new();
    let list = async |more: &[&str]| {
        let mut args = vec!["tools", "list"];
        args.extend(more);
        RunningProgram::start(lab.deputize(&args)).end().await.with_code(0).out
    };
    let off = list(&[]).await;
    let row = off.lines().find(|line| line.starts_with("browser_open ")).unwrap();
    assert!(row.contains("no: the browser is off; the user can turn it on (browser.enabled)"));
    let sent = lab.deputize(&["prompt", "--json", "-m", "offline", "Look."]);
    let sent = RunningProgram::start(sent).end().await.with_code(0).out;
    assert!(sent.contains("read_file") && !sent.contains("browser_"), "{sent}");
    let named = ["toolsets", "list", "--set", "toolsets=[browser]"];
    let named = RunningProgram::start(lab.deputize(&named)).end().await.with_code(0);
    assert!(named.err.contains("toolset `browser` is off: set `browser.enabled`"), "{}", named.err);
    let args = ["doctor", "--set", "browser.enabled=true", "--set", "browser.program=/no/such"];
    let doctor = RunningProgram::start(lab.deputize(&args)).end().await;
    assert!(doctor.out.contains("program `/no/such` does not exist"), "{}", doctor.out);
    // What a script that starts the browser says beside the version is no part of it.
    let script = lab.path("chromium");
    fs::write(
        &script,
        "#!/bin/sh\necho 'a complaint' >&2\necho 'Chromium 999.9'\necho 'a note of the script'\n",
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let program = format!("browser.program={}", script.display());
    let args = ["doctor", "--set", "browser.enabled=true", "--set", &program];
    let doctor = RunningProgram::start(lab.deputize(&args)).end().await;
    let version = format!(" Chromium 999.9, {}", script.display());
    assert!(doctor.out.contains(&version), "{}", doctor.out);
    let missing =
        list(&["--set", "browser.enabled=true", "--set", "browser.program=/no/such"]).await;
    assert!(
        missing.contains("the browser (browser.program): program `/no/such` does not exist"),
        "{missing}"
    );
    let wrong = RunningProgram::start(lab.deputize(&[
        "tools",
        "list",
        "--set",
        "browser.program=chromium",
    ]));
    let wrong = wrong.end().await.with_code(2);
    assert!(
        wrong.err.contains("`browser.program`: `chromium` is not an absolute path"),
        "{}",
        wrong.err
    );
}
