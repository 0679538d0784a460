//! A server that wants a sign-in, and its authorization server.

use data_encoding::BASE64URL_NOPAD;
use deputize_testkit::{Barrier, HttpRequest, MockAnswer};
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// What the authorization server has issued.
#[derive(Default)]
pub(super) struct IssuedTokens {
    pub(super) challenge: String,
    /// Number of the token that is valid; 0 for none.
    pub(super) token: u32,
    pub(super) refreshes: u32,
    /// Seconds that tokens are valid.
    pub(super) expires_in: u64,
    /// Holds the answers to refreshes, if it is there.
    pub(super) gate: Option<Barrier>,
    /// Where the server itself sends its clients, if it does.
    pub(super) moved_to: Option<String>,
}

fn parameter(query: &str, name: &str) -> String {
    let found = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = found.filter(|(key, _)| *key == name).map(|(_, value)| value).next();
    let mut bytes = Vec::new();
    let mut rest = value.unwrap_or_default().bytes();
    while let Some(byte) = rest.next() {
        let hex: String = rest.clone().take(2).map(char::from).collect();
        match u8::from_str_radix(&hex, 16) {
            Ok(decoded) if byte == b'%' => {
                bytes.push(decoded);
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

pub(super) fn answer(request: &HttpRequest, issued: &Mutex<IssuedTokens>) -> MockAnswer {
    let base = format!("http://{}", request.header("host").unwrap());
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    match path {
        "/.well-known/oauth-protected-resource/mcp" => MockAnswer::json(&json!({
            "resource": format!("{base}/mcp"), "authorization_servers": [base],
        })),
        "/.well-known/oauth-authorization-server" => MockAnswer::json(&json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        })),
        "/register" => {
            let mut client = request.json();
            client["client_id"] = json!("client-1");
            MockAnswer::json(&client).status(201)
        }
        "/authorize" => {
            assert_eq!(parameter(query, "client_id"), "client-1");
            assert_eq!(parameter(query, "resource"), format!("{base}/mcp"));
            assert_eq!(parameter(query, "code_challenge_method"), "S256");
            issued.lock().challenge = parameter(query, "code_challenge");
            let redirect = parameter(query, "redirect_uri");
            let state = parameter(query, "state");
            let to = format!("{redirect}?code=code-1&state={state}&iss={base}");
            MockAnswer::body("text/plain", "").status(302).header("location", &to)
        }
        "/token" => token(&request.text(), &base, issued),
        "/mcp" => served(request, &base, issued),
        _ => MockAnswer::error(404, "nothing here"),
    }
}

fn token(form: &str, base: &str, issued: &Mutex<IssuedTokens>) -> MockAnswer {
    let mut issued = issued.lock();
    let sent = |name: &str| parameter(form, name);
    assert_eq!(sent("resource"), format!("{base}/mcp"), "{form}");
    let is_good = match sent("grant_type").as_str() {
        "authorization_code" => {
            let sum = Sha256::digest(sent("code_verifier"));
            sent("code") == "code-1" && BASE64URL_NOPAD.encode(&sum) == issued.challenge
        }
        "refresh_token" => {
            issued.refreshes += 1;
            sent("refresh_token") == format!("refresh-secret-{}", issued.token)
        }
        _ => false,
    };
    if !is_good {
        return MockAnswer::json(&json!({"error": "invalid_grant"})).status(400);
    }
    issued.token += 1;
    let answer = MockAnswer::json(&json!({
        "access_token": format!("access-secret-{}", issued.token),
        "refresh_token": format!("refresh-secret-{}", issued.token),
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
    }));
    match &issued.gate {
        Some(gate) => answer.held_by(gate),
        None => answer,
    }
}

fn served(request: &HttpRequest, base: &str, issued: &Mutex<IssuedTokens>) -> MockAnswer {
    let valid = format!("Bearer access-secret-{}", issued.lock().token);
    if request.header("authorization") != Some(&valid) {
        let place = format!("{base}/.well-known/oauth-protected-resource/mcp");
        let challenge = format!("Bearer resource_metadata=\"{place}\"");
        return MockAnswer::error(401, "who are you").header("www-authenticate", &challenge);
    }
    if let Some(place) = &issued.lock().moved_to {
        return MockAnswer::body("text/plain", "").status(307).header("location", place);
    }
    if request.method != "POST" {
        return MockAnswer::error(405, "no stream");
    }
    let asked = request.json();
    let result = match asked["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}),
        // It repeats the token, which nobody may see.
        "tools/call" => {
            json!({"content": [{"type": "text", "text": format!("gone with {valid}")}]})
        }
        _ if asked["id"].is_null() => return MockAnswer::body("text/plain", "").status(202),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return MockAnswer::json(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}));
        }
    };
    MockAnswer::json(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
}
