//! One request for an address, with its redirects: checked, resolved here, and connected to what was
//! checked.

use deputize_core::sanitize::for_terminal_line;
use deputize_core::{Cancel, ToolCx};
use deputize_http::{AddressPolicy, UrlDenial, checked_client, host_of};
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::fetch_error::FetchError;
use crate::settings::Settings;

/// Redirects of one fetch at most.
const REDIRECTS: usize = 5;
/// What is accepted, in the order in which it is liked.
const ACCEPTED: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/*;q=0.8, */*;q=0.5";

/// What came of a fetch.
#[derive(Debug)]
pub(crate) struct FetchedPage {
    /// The address after all redirects.
    pub(crate) url: Url,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body was longer than the limit, so that its end is missing.
    pub(crate) is_cut: bool,
}

/// A request for one fetch.
#[derive(Debug)]
pub(crate) struct FetchRequest {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// The body of a POST; `None` for a GET.
    pub(crate) body: Option<String>,
}

/// Fetches addresses under the settings of a session.
pub(crate) struct FetchClient<'c> {
    settings: &'c Settings,
    policy: &'c AddressPolicy,
    cancel: &'c Cancel,
    deadline: Instant,
}

impl<'c> FetchClient<'c> {
    /// Creates a client for one fetch, whose time begins now.
    pub(crate) fn new(settings: &'c Settings, policy: &'c AddressPolicy, cx: &'c ToolCx) -> Self {
        let deadline = Instant::now() + settings.fetch.timeout;
        Self { settings, policy, cancel: &cx.cancel, deadline }
    }

    /// Fetches an address and what it redirects to.
    pub(crate) async fn get(&self, text: &str) -> Result<FetchedPage, FetchError> {
        let mut url = self.policy.parse(text)?;
        for redirects in 0..=REDIRECTS {
            let request = FetchRequest { url: url.clone(), headers: accepting(), body: None };
            let response = self.in_time(&url, self.send(request)).await.map_err(|error| {
                if redirects == 0 { error } else { error.behind_redirect(&shown(&url)) }
            })?;
            match self.redirect(&url, &response)? {
                Some(next) => url = next,
                None => return self.in_time(&url, self.read(url.clone(), response)).await,
            }
        }
        Err(FetchError::Redirects(REDIRECTS, shown(&url)))
    }

    /// Sends one request and reads the answer. Redirects are not followed.
    pub(crate) async fn ask(&self, request: FetchRequest) -> Result<FetchedPage, FetchError> {
        let url = request.url.clone();
        let response = self.in_time(&url, self.send(request)).await?;
        self.in_time(&url, self.read(url.clone(), response)).await
    }

    /// Returns where a response redirects to; `None` if it does not.
    fn redirect(&self, from: &Url, response: &Response) -> Result<Option<Url>, FetchError> {
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let location = response.headers().get(LOCATION).map(|value| value.as_bytes());
        let location = location.and_then(|value| std::str::from_utf8(value).ok());
        let location = location.ok_or_else(|| FetchError::NoLocation(shown(from)))?;
        next_url(self.policy, from, location).map(Some)
    }

    async fn send(&self, request: FetchRequest) -> Result<Response, FetchError> {
        let FetchRequest { url, headers, body } = request;
        self.settings.check_secrets(&url)?;
        let host = host_of(&url).unwrap_or_default();
        let client = checked_client(self.policy, &url).await?;
        let request = match body {
            None => client.get(url),
            Some(body) => client.post(url).body(body),
        };
        let response = request.headers(headers).send().await;
        response.map_err(|error| FetchError::connection(&host, &error))
    }

    async fn read(&self, url: Url, mut response: Response) -> Result<FetchedPage, FetchError> {
        let limit = usize::try_from(self.settings.fetch.max_bytes).unwrap_or(usize::MAX);
        let status = response.status();
        if !status.is_success() {
            // What the server says beside it is foreign text, which has no place in an error.
            return Err(FetchError::Status { url: shown(&url), status: status.as_u16() });
        }
        if let Some(coding) = coding(response.headers()) {
            return Err(FetchError::Compressed { url: shown(&url), coding });
        }
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let host = host_of(&url).unwrap_or_default();
        let mut body = Vec::new();
        let mut is_cut = false;
        loop {
            let piece = response.chunk().await;
            let Some(piece) = piece.map_err(|error| FetchError::connection(&host, &error))? else {
                break;
            };
            let room = limit.saturating_sub(body.len());
            body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
            if piece.len() > room {
                is_cut = true;
                break;
            }
        }
        Ok(FetchedPage { url, content_type, body, is_cut })
    }

    /// Runs a part of the fetch until it ends, the time is over, or the call is cancelled.
    async fn in_time<T>(
        &self,
        url: &Url,
        part: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        let late = || FetchError::Timeout {
            url: shown(url),
            seconds: self.settings.fetch.timeout.as_secs(),
        };
        tokio::select! {
            () = self.cancel.cancelled() => Err(FetchError::Cancelled),
            done = timeout_at(self.deadline, part) => done.unwrap_or_else(|_| Err(late())),
        }
    }
}

/// Returns the address that a redirect leads to, if it may be asked.
fn next_url(policy: &AddressPolicy, from: &Url, location: &str) -> Result<Url, FetchError> {
    let next = from.join(location).map_err(|_| UrlDenial::Redirect)?;
    policy
        .check(&next)
        .map_err(|denial| FetchError::from(denial).behind_redirect(&shown(&next)))?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(UrlDenial::Downgrade { url: shown(&next) }.into());
    }
    Ok(next)
}

fn accepting() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, reqwest::header::HeaderValue::from_static(ACCEPTED));
    headers
}

/// Returns how a body is compressed, which nobody asked for; `None` if it is not.
fn coding(headers: &HeaderMap) -> Option<String> {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let codings = codings.map(|coding| String::from_utf8_lossy(coding.as_bytes()));
    let is_plain = |coding: &str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
    let mut real = codings.filter(|coding| !is_plain(coding.trim()));
    real.next().map(|coding| for_terminal_line(&coding, 40))
}

/// An address on one line of a sentence.
pub(crate) fn shown(url: &Url) -> String {
    for_terminal_line(url.as_str(), 500)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// What comes of a fetch from a server that sends this head and a byte, and then waits.
    async fn fetched(head: &'static str) -> String {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = server.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            write!(stream, "HTTP/1.1 {head}\r\n\r\nx").unwrap();
            // Until the client hangs up.
            let _closed = stream.read(&mut request);
        });
        let settings = Settings::default();
        let client = FetchClient {
            settings: &settings,
            policy: &AddressPolicy::new(vec![host.parse().unwrap()]),
            cancel: &Cancel::new(),
            deadline: Instant::now() + settings.fetch.timeout,
        };
        let page = client.get(&format!("http://{host}/")).await;
        let shown = page.map_or_else(
            |error| error.to_string(),
            |page| String::from_utf8_lossy(&page.body).into_owned(),
        );
        shown.replace(&host, "HOST")
    }

    #[tokio::test]
    async fn the_body_of_an_answer_that_failed_is_not_waited_for() {
        let head = "404 Not Found\r\ncontent-length: 1000000000";
        assert_eq!(fetched(head).await, "http://HOST/ answered 404");
    }

    #[tokio::test]
    async fn a_compressed_body_is_refused() {
        for coding in ["gzip", "br", "deflate", "identity\r\ncontent-encoding: gzip"] {
            let head = format!("200 OK\r\ncontent-length: 1\r\ncontent-encoding: {coding}");
            let coding = coding.rsplit(' ').next().unwrap();
            assert_eq!(
                fetched(head.leak()).await,
                format!(
                    "http://HOST/ sent its answer compressed ({coding}), which was not asked for and \
                     is not read: try another address"
                )
            );
        }
        let head = "200 OK\r\ncontent-length: 1\r\ncontent-encoding: Identity";
        assert_eq!(fetched(head).await, "x");
    }

    #[test]
    fn each_redirect_is_checked_as_a_new_address() {
        let policy = AddressPolicy::new(vec!["docs.internal".parse().unwrap()]);
        let from = |from: &str, location: &str| {
            let from = Url::parse(from).unwrap();
            next_url(&policy, &from, location)
                .map_or_else(|denied| denied.to_string(), |url| url.to_string())
        };
        let page = "https://example.org/a/b";
        insta::assert_snapshot!([
            from(page, "c"),
            from(page, "//other.example/x"),
            from(page, "http://example.org/a/b"),
            from("http://example.org/", "https://example.org/"),
            from(page, "https://127.0.0.1/"),
            from(page, "https://169.254.169.254/"),
            from(page, "https://me@example.org/"),
            from(page, "file:///etc/passwd"),
            from(page, "https://[::1]/"),
            from(page, "https://exa mple.org/"),
        ].join("\n"), @r"
        https://example.org/a/c
        https://other.example/x
        fetch denied: the redirect to http://example.org/a/b goes from https to http: fetch that address itself if it is meant
        https://example.org/
        fetch denied: the page redirects to https://127.0.0.1/: 127.0.0.1 resolves to a private address (127.0.0.1)
        fetch denied: the page redirects to https://169.254.169.254/: 169.254.169.254 is the metadata service of a cloud, which is never fetched
        fetch denied: the page redirects to https://me@example.org/: the address has a user name or a password in it: leave it out
        fetch denied: the page redirects to file:///etc/passwd: only http and https addresses can be fetched, not `file:`
        fetch denied: the page redirects to https://[::1]/: [::1] resolves to a private address (::1)
        fetch denied: the redirect leads to something that is no address
        ");
    }
}
