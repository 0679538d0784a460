//! The tools for the web, against servers on this machine.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deputize_testkit::{HttpRequest, MockAnswer, MockServer};
use serde_json::{Value, json};

use super::{blocks, calls_in_order, results_read};
use crate::program::{ChatRequest, Lab, RunningProgram, model};

/// A PDF file with one page that has one line.
fn pdf(text: &str) -> Vec<u8> {
    let content = format!("BT /F1 24 Tf 72 720 Td ({text}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    let mut file = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        file += &format!("{} 0 obj\n{object}\nendobj\n", index + 1);
    }
    let table = file.len();
    file += "xref\n0 6\n0000000000 65535 f \n";
    for offset in offsets {
        file += &format!("{offset:010} 00000 n \n");
    }
    file += &format!("trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n");
    file.into_bytes()
}

/// A site of several documents.
pub(super) fn site(request: &HttpRequest) -> MockAnswer {
    let html = |body: &str| MockAnswer::body("text/html; charset=utf-8", body);
    match request.path.as_str() {
        "/page" => {
            html("<title>Kites</title><h1>Kites</h1><p>They <b>fly</b>.<script>bad()</script>")
        }
        "/data" => MockAnswer::json(&json!({"a": [1, 2]})),
        "/file" => MockAnswer::body("application/pdf", pdf("Kites in print")),
        "/broken" => MockAnswer::body("application/pdf", "%PDF-1.4 and then nothing"),
        "/plain" => MockAnswer::body("text/plain", "0123456789\n".repeat(20_000)),
        "/picture" => MockAnswer::body("image/png", "\u{1}PNG"),
        "/moved" => html("").status(302).header("location", "/page"),
        "/round" => html("").status(307).header("location", "/round"),
        "/gone" => html("<p>Not here").status(404),
        "/deep" => html(&"<div>".repeat(100_000)),
        "/endless" => html("<p>x").then_forever("<p>more", Duration::from_millis(1)),
        path if path.starts_with("/to?") => {
            html("").status(302).header("location", path.trim_start_matches("/to?"))
        }
        _ => html("").status(500),
    }
}

/// What a model reads of fetches of these addresses, one after the other.
async fn fetched(lab: &Lab, set: &[String], calls: Vec<Value>) -> Vec<String> {
    let count = calls.len();
    let calls = calls.into_iter().map(|call| ("web_fetch", call)).collect();
    let server = model(calls_in_order(calls)).await;
    let mut args: Vec<&str> = set.iter().flat_map(|set| ["--set", set.as_str()]).collect();
    args.push("Read them.");
    let mut command = lab.run_command(&server, &args);
    command.env("SITE_TOKEN", "tok-of-this-site");
    // A proxy would resolve names by itself, so none is asked. Nobody listens there.
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:9");
    }
    RunningProgram::start(command).end().await.with_code(0);
    results_read(&server, count)
}

pub(super) fn port(server: &MockServer) -> String {
    let base = server.base_url();
    base.trim_end_matches("/v1").rsplit(':').next().unwrap().to_owned()
}

pub(super) fn allowing(server: &MockServer) -> String {
    format!("fetch.allow_hosts=[\"127.0.0.1:{0}\",\"localhost:{0}\"]", port(server))
}

/// Each part is fetched anew, and may be one of another text.
#[tokio::test]
async fn a_part_of_a_page_that_has_changed_says_so() {
    let asked = AtomicUsize::new(0);
    let site = MockServer::start_with(move |_| {
        let line = match asked.fetch_add(1, Ordering::Relaxed) {
            0 => "0123456789\n",
            1 | 2 => "9876543210\n",
            _ => "x",
        };
        MockAnswer::body("text/plain", line.repeat(10_000))
    });
    let site = site.await.unwrap();
    let part = |offset: usize| json!({"url": format!("http://127.0.0.1:{}/log", port(&site)), "offset": offset});
    let calls = [0, 65_536, 65_536, 65_536, 0].map(part).to_vec();
    let read = fetched(&Lab::new(), &[allowing(&site)], calls).await;
    let note = "the page has changed since the part before: read it from its beginning";
    let noted: Vec<bool> = read.iter().map(|read| read.contains(note)).collect();
    assert_eq!(noted, [false, true, false, true, false], "{read:#?}");
    assert!(read[1].contains("bytes 65536 to 110000 of 110000"), "{}", read[1]);
}

#[tokio::test]
async fn documents_become_text_in_a_frame_that_names_their_host() {
    let site = MockServer::start_with(site).await.unwrap();
    let at = |path: &str| format!("http://127.0.0.1:{}{path}", port(&site));
    let paths =
        ["/page", "/data", "/file", "/moved", "/plain", "/picture", "/gone", "/broken", "/round"];
    let calls = paths.map(|path| json!({"url": at(path)})).to_vec();
    let read = fetched(&Lab::new(), &[allowing(&site)], calls).await;
    let [page, data, file, moved, plain, picture, gone, broken, round] = &read[..] else {
        panic!()
    };
    assert!(page.starts_with("<web:127.0.0.1 "), "{page}");
    assert!(page.contains("# Kites") && page.contains("They **fly**."), "{page}");
    assert!(!page.contains("bad()"), "{page}");
    assert!(page.contains(&format!("[final address: {}]", at("/page"))), "{page}");
    assert!(data.contains("{\n  \"a\": [\n    1,"), "{data}");
    assert!(file.contains("Kites in print"), "{file}");
    assert!(moved.contains(&format!("[final address: {}]", at("/page"))), "{moved}");
    assert!(
        plain.contains("[bytes 0 to 65536 of 220000; to read on, set offset to 65536]"),
        "{plain}"
    );
    assert!(picture.contains("is image/png, which is no text"), "{picture}");
    assert!(gone.contains("/gone answered 404"), "{gone}");
    assert!(broken.contains("/broken cannot be read as a PDF file"), "{broken}");
    assert!(round.contains("more than 5 redirects"), "{round}");
}

/// The pages of `fixtures/web`.
fn page_of_fixture(request: &HttpRequest) -> MockAnswer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/web");
    let page = fs::read(folder.join(format!("{}.html", request.path.trim_matches('/'))));
    page.map_or_else(
        |_| MockAnswer::body("text/plain", "").status(404),
        |page| MockAnswer::body("text/html; charset=utf-8", page),
    )
}

#[tokio::test]
async fn pages_become_what_people_see_of_them() {
    let site = MockServer::start_with(page_of_fixture).await.unwrap();
    let at = |name: &str| format!("http://127.0.0.1:{}/{name}", port(&site));
    let names = ["article", "docs", "forum", "hidden", "table"];
    let calls = names.map(|name| json!({"url": at(name)})).to_vec();
    let read = fetched(&Lab::new(), &[allowing(&site)], calls).await;
    for (name, text) in names.iter().zip(read) {
        // The first line and the last one of a frame have its boundary.
        let lines = text.lines().filter(|line| !line.starts_with(['<', '‹']));
        let text = lines.collect::<Vec<_>>().join("\n").replace(&at(""), "http://SITE/");
        insta::assert_snapshot!(format!("page_{name}"), text);
    }
}

#[tokio::test]
async fn a_long_text_is_read_on_and_a_page_as_a_whole() {
    let site = MockServer::start_with(site).await.unwrap();
    let url = format!("http://127.0.0.1:{}/plain", port(&site));
    let calls = [
        json!({"url": url, "offset": 219_995}),
        json!({"url": url, "offset": 220_000}),
        json!({"url": url}),
    ];
    let set = [allowing(&site), "fetch.max_bytes=2000".to_owned()];
    let cut = fetched(&Lab::new(), &set[..], calls[2..].to_vec()).await;
    assert!(cut[0].contains("[only the first 2000 bytes of the document were read]"), "{}", cut[0]);
    let read = fetched(&Lab::new(), &set[..1], calls[..2].to_vec()).await;
    assert!(read[0].contains("6789\n") && !read[0].contains("5678"), "{}", read[0]);
    assert!(read[0].contains("[bytes 219995 to 220000 of 220000]"), "{}", read[0]);
    assert!(read[1].contains("has 220000 bytes of text: begin before that"), "{}", read[1]);
}

#[tokio::test]
async fn private_addresses_are_refused_also_behind_a_redirect_and_a_name() {
    let open = MockServer::start_with(site).await.unwrap();
    let closed = MockServer::start_with(site).await.unwrap();
    let to = |url: String| json!({"url": format!("http://127.0.0.1:{}/to?{url}", port(&open))});
    let closed_at = |host: &str| format!("http://{host}:{}/page", port(&closed));
    let calls = vec![
        json!({"url": closed_at("127.0.0.1")}),
        json!({"url": closed_at("localhost")}),
        json!({"url": closed_at("2130706433")}),
        json!({"url": closed_at("[::ffff:127.0.0.1]")}),
        to(closed_at("127.0.0.1")),
        to(closed_at("localhost")),
        to("http://169.254.169.254/latest/meta-data/".to_owned()),
        to("file:///etc/passwd".to_owned()),
        json!({"url": format!("http://localhost:{}/page", port(&open))}),
        json!({"url": format!("http://127.0.0.1:{}/page?tok-of-%74his-site", port(&open))}),
        json!({"url": "http://no-such-host.invalid/"}),
        json!({"url": format!("http://127.0.0.1:{}/page?tok-of-this-site", port(&open))}),
    ];
    let read = fetched(&Lab::new(), &[allowing(&open)], calls).await;
    let denied = |host: &str| {
        format!(
            "{host} resolves to a private address (127.0.0.1). The user can allow it in \
             fetch.allow_hosts."
        )
    };
    assert!(read[0].contains(&format!("fetch denied: {}", denied("127.0.0.1"))), "{}", read[0]);
    let named = "localhost resolves to a private address (";
    assert!(read[1].contains(named), "{}", read[1]);
    assert!(read[2].contains(&denied("127.0.0.1")), "{}", read[2]);
    assert!(read[3].contains("resolves to a private address"), "{}", read[3]);
    assert!(read[4].contains(&denied("127.0.0.1")), "{}", read[4]);
    let named = format!("fetch denied: the page redirects to {}: {named}", closed_at("localhost"));
    assert!(read[5].contains(&named), "{}", read[5]);
    assert!(read[6].contains("the metadata service of a cloud"), "{}", read[6]);
    let leads =
        "fetch denied: the page redirects to file:///etc/passwd: only http and https addresses";
    assert!(read[7].contains(leads), "{}", read[7]);
    assert!(read[8].contains("They **fly**."), "an allowed name: {}", read[8]);
    assert!(read[9].contains("SITE_TOKEN in it, a secret"), "{}", read[9]);
    assert!(read[10].contains("no-such-host.invalid cannot be resolved"), "{}", read[10]);
    assert!(read[11].contains("SITE_TOKEN in it, a secret"), "{}", read[11]);
    assert_eq!(closed.requests().len(), 0, "nothing was sent there");
    let sent: Vec<String> = open.requests().iter().map(|it| it.path.clone()).collect();
    let secret = |path: &&String| path.contains("tok-of") || path.contains("redacted");
    assert_eq!(sent.iter().find(secret), None);
}

#[tokio::test]
async fn documents_that_do_harm_end_alone() {
    let site = MockServer::start_with(site).await.unwrap();
    let at = |path: &str| json!({"url": format!("http://127.0.0.1:{}{path}", port(&site))});
    let set = [
        allowing(&site),
        "fetch.timeout_seconds=2".to_owned(),
        "fetch.max_bytes=4000000".to_owned(),
    ];
    let read = fetched(&Lab::new(), &set, vec![at("/deep"), at("/endless"), at("/page")]).await;
    assert!(read[0].contains("final address") || read[0].contains("cannot be read"), "{}", read[0]);
    assert!(read[1].contains("took more than 2 s"), "{}", read[1]);
    assert!(read[2].contains("They **fly**."), "{}", read[2]);
}

/// A search engine that knows two pages, in the three formats.
pub(super) fn engine(request: &HttpRequest) -> MockAnswer {
    let hit = |n: u8, words: &str| json!({"title": format!("Page {n}"), "url": format!("https://example.org/{n}"), words: "Some words."});
    let hits = |words| [hit(1, words), hit(2, words)];
    MockAnswer::json(&match request.path.split('?').next().unwrap() {
        "/search" => json!({"results": hits("content")}),
        "/web/search" => json!({"query": {}, "web": {"results": hits("description")}}),
        other => panic!("{other}"),
    })
}

#[tokio::test]
async fn a_search_goes_to_the_engine_of_the_person() {
    let engine = MockServer::start_with(engine).await.unwrap();
    let base = format!("search.base_url=http://127.0.0.1:{}", port(&engine));
    for backend in ["searxng", "brave", "tavily"] {
        let lab = Lab::new();
        let search = json!({"query": "kites & strings", "limit": 2});
        let server = model(calls_in_order(vec![("web_search", search)])).await;
        let kind = format!("search.backend={backend}");
        let key = "search.api_key_env=ENGINE_KEY";
        let args = ["--set", &base, "--set", &kind, "--set", key, "Search."];
        let mut command = lab.run_command(&server, &args);
        command.env("ENGINE_KEY", "key-of-the-engine");
        let ended = RunningProgram::start(command).end().await.with_code(0);
        lab.holds_no("key-of-the-engine", &ended);
        let requests = server.requests();
        let last = ChatRequest::of(requests.last().unwrap());
        let found = last.results()[0];
        assert!(found.starts_with("<web:127.0.0.1 "), "{found}");
        let row = "2. Page 2\n   https://example.org/2\n   Some words.";
        assert!(found.contains(row), "{backend}: {found}");
        let asked = engine.requests();
        let asked = asked.last().unwrap();
        let header = |name: &str| asked.header(name).unwrap_or_default().to_owned();
        match backend {
            "searxng" => {
                assert_eq!(asked.path, "/search?q=kites+%26+strings&format=json");
                assert_eq!(header("authorization"), "Bearer key-of-the-engine");
            }
            "brave" => {
                assert_eq!(asked.path, "/web/search?q=kites+%26+strings&count=2");
                assert_eq!(header("x-subscription-token"), "key-of-the-engine");
            }
            _ => {
                assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/search"));
                assert_eq!(header("authorization"), "Bearer key-of-the-engine");
                assert_eq!(asked.json(), json!({"query": "kites & strings", "max_results": 2}));
            }
        }
    }
}

#[tokio::test]
async fn a_search_with_a_secret_is_sent_nowhere() {
    let engine = MockServer::start_with(engine).await.unwrap();
    let base = format!("search.base_url=http://127.0.0.1:{}", port(&engine));
    for backend in ["searxng", "tavily"] {
        let lab = Lab::new();
        let search = json!({"query": "who has tok-of-this-site"});
        let server = model(calls_in_order(vec![("web_search", search)])).await;
        let kind = format!("search.backend={backend}");
        let key = "search.api_key_env=ENGINE_KEY";
        let args = ["--set", &base, "--set", &kind, "--set", key, "Search."];
        let mut command = lab.run_command(&server, &args);
        command.env("ENGINE_KEY", "key-of-the-engine").env("SITE_TOKEN", "tok-of-this-site");
        RunningProgram::start(command).end().await.with_code(0);
        let requests = server.requests();
        let last = ChatRequest::of(requests.last().unwrap());
        let expected = "the query has SITE_TOKEN in it, a secret that is not sent anywhere";
        assert!(last.results()[0].contains(expected), "{backend}: {}", last.results()[0]);
    }
    assert_eq!(engine.requests().len(), 0);
}

#[tokio::test]
async fn without_an_engine_a_search_is_not_offered_and_it_is_said_why() {
    let lab = Lab::new();
    let server = model(calls_in_order(vec![("web_search", json!({"query": "x"}))])).await;
    lab.run(&server, &["-t", "web", "Go"]).end().await.with_code(0);
    let requests = server.requests();
    assert_eq!(ChatRequest::of(&requests[0]).tools(), ["web_fetch"]);
    let last = ChatRequest::of(requests.last().unwrap());
    let why = "no search engine is configured: set `search.backend`";
    assert!(last.results()[0].contains(why), "{}", last.results()[0]);
    for (set, why) in [
        ("search.backend=none", why),
        ("search.backend=searxng", "is not known: set `search.base_url`"),
        ("search.backend=brave", "the variable `BRAVE_API_KEY` with its key is not set"),
        (
            "search={backend: tavily, base_url: 'http://127.0.0.1:1'}",
            "needs a key: set `search.api_key_env`",
        ),
    ] {
        let shown =
            lab.deputize(&["tools", "list", "--json", "--set", set]).output().await.unwrap();
        let tools: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let tool = tools.as_array().unwrap().iter().find(|it| it["name"] == "web_search").unwrap();
        assert!(tool["why_not"].as_str().unwrap().contains(why), "{tool}");
    }
}

#[tokio::test]
async fn the_settings_of_the_page_are_right_and_mistakes_in_them_are_found() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/tools/web.md");
    let page = fs::read_to_string(page).unwrap();
    let settings = blocks(&page, "yaml config");
    assert_eq!(settings.len(), 3);
    let lab = Lab::new();
    fs::create_dir_all(lab.path("home")).unwrap();
    for (_, text) in settings {
        fs::write(lab.path("home/config.yaml"), text).unwrap();
        let checked = lab.deputize(&["config", "check"]).output().await.unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
    for (text, fault) in [
        ("fetch: {allow_hosts: ['http://a']}", "is not a host"),
        ("search: {base_url: nowhere}", "`search.base_url` is not a URL"),
        ("search: {backend: google}", "`search.backend`"),
    ] {
        fs::write(lab.path("home/config.yaml"), text).unwrap();
        let checked = lab.deputize(&["config", "check"]).output().await.unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned()
            + &String::from_utf8_lossy(&checked.stdout);
        assert!(!checked.status.success() && said.contains(fault), "{said}");
    }
    for (more, warned) in [("", true), (", base_url: ''", true), (", base_url: 'http://a'", false)]
    {
        let text = format!("search: {{backend: searxng{more}}}");
        fs::write(lab.path("home/config.yaml"), text).unwrap();
        let checked = lab.deputize(&["config", "check"]).output().await.unwrap();
        let said = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(said.contains("`search.backend`: set `search.base_url`"), warned, "{said}");
    }
}
