//! Servers and redirects that want a token for somebody else.

use super::*;

/// What becomes of the address that a browser is sent to.
type ChangeFn = fn(&str) -> String;

#[tokio::test]
async fn a_token_goes_to_no_other_address() {
    let far = SignInFixture::new(|_, _| None).await;
    let other = MockServer::start_with(|_| MockAnswer::error(401, "who are you")).await.unwrap();
    far.sign_in().await.with_code(0);
    far.issued.lock().moved_to = Some(format!("http://{}/mcp", other.address()));
    assert_ne!(far.mcp(&["test", "far"]).await.code, Some(0));
    assert_eq!(other.requests().len(), 0, "a redirect is not followed");

    far.configure(&format!("http://{}/mcp", other.address()));
    let refused = far.mcp(&["test", "far"]).await;
    assert!(refused.err.contains("deputize mcp login far"), "{}", refused.err);
    assert!(!other.requests().is_empty());
    for request in other.requests() {
        assert_eq!(request.header("authorization"), None);
    }
}

#[tokio::test]
async fn a_redirect_that_answers_no_sign_in_of_ours_gives_no_token() {
    let far = SignInFixture::new(|_, _| None).await;
    let change: [(ChangeFn, &str); 4] = [
        (|url| url.replace("state=", "state=x"), "its state is another one"),
        (|url| url.replace("iss=http://127", "iss=http://126"), "issuer mismatch"),
        (|url| url.split("&iss=").next().unwrap().to_owned(), "does not name its issuer"),
        (
            |url| url.replace("code=code-1", "error=access_denied&error_description=%3Cb%3Eno"),
            "refused: access_denied: <b>no",
        ),
    ];
    for (change, words) in change {
        let (login, address) = far.begin().await;
        let redirect = change(&SignInFixture::redirect(&address).await);
        let page = blocking(move || get(&redirect)).await;
        assert!(page.contains("content-type: text/plain"), "{page}");
        if words.starts_with("refused") || words.contains("state") {
            let lead = "sign-in failed: the ";
            assert!(page.contains(lead) && page.contains(&format!("{words}\n")), "{page}");
            assert!(page.contains("Go back to the terminal"), "{page}");
            assert!(!page.contains("received"), "{page}");
        }
        let ended = login.end().await;
        let whole = format!("mcp far: cannot sign in to `{}`: ", far.url());
        assert!(ended.err.contains(&whole), "{}", ended.err);
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
        assert_ne!(ended.code, Some(0));
        assert_eq!(far.token_files(), [""; 0]);
    }
}

/// What an authorization server says of itself.
fn metadata(issuer: &str, authorize: &str, token: &str) -> MockAnswer {
    MockAnswer::json(&json!({
        "issuer": issuer, "authorization_endpoint": authorize, "token_endpoint": token,
    }))
}

#[tokio::test]
async fn what_a_hostile_server_names_is_not_asked() {
    const METADATA: &str = "/.well-known/oauth-authorization-server";
    const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
    let twists: [(TwistFn, &str); 7] = [
        (
            |path, _| (path == "/register").then(|| MockAnswer::error(403, "no")),
            "the authorization server does not register this client: ",
        ),
        (
            |path, base| {
                let authorize = format!("{base}/authorize");
                (path == METADATA).then(|| metadata(base, &authorize, "https://10.1.2.3/token"))
            },
            "10.1.2.3 resolves to a private address",
        ),
        (
            |path, base| {
                let token = format!("{base}/token");
                (path == METADATA).then(|| metadata(base, "file:///etc/passwd", &token))
            },
            "only https addresses are used",
        ),
        (
            |path, _| {
                let other = "https://other.example";
                (path == METADATA).then(|| metadata(other, other, other))
            },
            "issuer mismatch",
        ),
        (
            |path, base| {
                let other = json!({"resource": "https://other.example/mcp", "authorization_servers": [base]});
                (path == RESOURCE).then(|| MockAnswer::json(&other))
            },
            "other.example",
        ),
        (
            |path, _| {
                (path == METADATA)
                    .then(|| MockAnswer::body("application/json", "x".repeat(2_000_000)))
            },
            "answered with more than 1048576 bytes",
        ),
        (
            |path, _| {
                (path == METADATA).then(|| {
                    MockAnswer::body("text/plain", "").status(302).header("location", METADATA)
                })
            },
            "exceeded 10 redirects",
        ),
    ];
    for (twist, words) in twists {
        let far = SignInFixture::new(twist).await;
        let ended = far.mcp(&["login", "far", "--no-browser"]).await;
        assert_ne!(ended.code, Some(0), "{words}: {}", ended.err);
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
        assert_eq!(far.token_files(), [""; 0]);
    }
}
