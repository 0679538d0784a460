//! Who signs out or in beside a refresh, and servers that need no sign-in.

use deputize_agent::mcp::oauth::{FileTokenStore, TokenStore as _};
use deputize_testkit::{MockAnswer, MockServer};
use serde_json::json;

use super::login::{SignInFixture, get};
use super::real::blocking;
use crate::program::RunningProgram;

#[tokio::test]
async fn who_signs_out_while_another_refreshes_waits_and_no_token_comes_back() {
    let far = SignInFixture::new(|_, _| None).await;
    far.sign_in().await.with_code(0);
    let store = FileTokenStore::new(far.lab.path("home/mcp/oauth"));
    let refreshes = store.try_lock("far", &far.url()).unwrap().unwrap();
    let token = store.read("far", &far.url()).unwrap().unwrap();
    let logout = RunningProgram::start(far.lab.deputize(&["mcp", "logout", "far"]));
    logout.says("another program refreshes the sign-in").await;
    store.write("far", &token).unwrap();
    drop(refreshes);
    logout.end().await.with_code(0);
    assert_eq!(far.token_files(), [""; 0]);
    // Who signs in waits, too.
    let refreshes = store.try_lock("far", &far.url()).unwrap().unwrap();
    let (login, address) = far.begin().await;
    let redirect = SignInFixture::redirect(&address).await;
    blocking(move || get(&redirect)).await;
    login.says("another program refreshes the sign-in").await;
    assert_eq!(far.token_files(), [""; 0]);
    drop(refreshes);
    login.end().await.with_code(0);
    assert_eq!(far.token_files().len(), 1);
}

#[tokio::test]
async fn a_server_that_needs_no_sign_in_says_so() {
    let server = MockServer::start_with(|request| {
        if request.method != "POST" || request.path != "/mcp" {
            return MockAnswer::error(404, "nothing here");
        }
        let asked = request.json();
        let result = match asked["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "1"},
            }),
            "tools/list" => json!({"tools": []}),
            _ if asked["id"].is_null() => return MockAnswer::body("text/plain", "").status(202),
            _ => return MockAnswer::error(400, "no such method"),
        };
        MockAnswer::json(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
    });
    let server = server.await.unwrap();
    let far = SignInFixture::new(|_, _| None).await;
    far.configure(&format!("http://{}/mcp", server.address()));
    let ended = far.mcp(&["login", "far", "--no-browser"]).await.with_code(2);
    let words = "mcp far: it needs no sign-in: it answers without one";
    assert!(ended.err.contains(words), "{}", ended.err);
    // One that does not answer has no sign-in to be found.
    far.configure(&format!("http://{}/other?key=hush", server.address()));
    let ended = far.mcp(&["login", "far", "--no-browser"]).await.with_code(1);
    let whole = format!("cannot sign in to `http://{}/other`: ", server.address());
    assert!(ended.err.contains(&whole), "{}", ended.err);
    assert!(ended.err.contains("hint: if it wants a key"), "{}", ended.err);
    assert!(!ended.err.contains("hush"), "{}", ended.err);
}
