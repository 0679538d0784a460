//! `deputize mcp login` and `deputize mcp logout`.

use std::ffi::OsStr;
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use deputize_core::sanitize::for_terminal_line;
use deputize_mcp::oauth::{Login, OAuthError, RedirectListener, StoredToken};
use deputize_process::resolve_program;
use deputize_runtime::SystemClock;
use tokio::sync::mpsc;
use url::Url;

use super::{ConfiguredServer, ask, load_sources, missing};
use crate::args::{LoginArgs, Settings};
use crate::compose::sign_in::{client, forget, store_token};
use crate::config::{LoadedConfig, McpServer};
use crate::exit::CliError;
use crate::invocation::format_command;
use crate::process_env::ProcessEnv;
use crate::stdio::tell;

/// Why nobody is signed in or out.
#[derive(Debug, thiserror::Error)]
enum LoginError {
    #[error("mcp {0}: it is a program of this machine; only servers with a `url` have a sign-in")]
    Program(String),
    #[error("mcp {0}: its `headers` have an Authorization, which is sent instead of a sign-in")]
    Header(String),
    #[error("mcp {name}: nobody signed in within {seconds} s; nothing was changed")]
    Late { name: String, seconds: u32 },
    #[error("mcp {0}: it needs no sign-in: it answers without one")]
    NotNeeded(String),
    #[error("mcp {0}: nobody is signed in")]
    NotSignedIn(String),
    #[error("mcp {name}: cannot sign in to `{url}`")]
    SignIn {
        name: String,
        url: String,
        #[source]
        source: OAuthError,
    },
}

impl LoginError {
    /// Returns the error of a sign-in, with what to do where that is known.
    fn of(name: &str, url: &str, source: OAuthError) -> CliError {
        let hint = match &source {
            OAuthError::NoMetadata => Some(format!(
                "if it wants a key, put that into `mcp_servers.{name}.headers`; `{} {name}` shows \
                 what it answers",
                format_command("mcp test")
            )),
            OAuthError::Registration(_) => Some(format!(
                "get a client id from whoever runs the server, and put it into \
                 `mcp_servers.{name}.oauth.client_id`"
            )),
            _ => None,
        };
        // What stands behind it may be secret.
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let url = for_terminal_line(url, 200);
        let error = CliError::failed(Self::SignIn { name: name.to_owned(), url, source });
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// Returns whether nothing was found where a person signs in.
fn has_no_sign_in(error: &CliError) -> bool {
    let error = error.source_as::<LoginError>();
    matches!(error, Some(LoginError::SignIn { source: OAuthError::NoMetadata, .. }))
}

/// Returns whether a server says what it has as it is.
fn answers(env: &ProcessEnv, loaded: &LoadedConfig, name: &str, cwd: &Path) -> bool {
    let configured = ConfiguredServer::of(env, loaded, name);
    configured.is_ok_and(|configured| ask(env, &configured.server, cwd).is_ok())
}

/// Signs in to a server, and keeps the token.
pub(super) fn login(env: &ProcessEnv, args: &LoginArgs) -> Result<(), CliError> {
    let (sources, loaded) = load_sources(env, &args.settings)?;
    let name = &args.name;
    let entry = loaded.config.mcp_servers.get(name).ok_or_else(|| missing(name, &loaded))?;
    let Some(url) = &entry.url else {
        return Err(CliError::usage(LoginError::Program(name.clone())));
    };
    if entry.headers.keys().any(|header| header.eq_ignore_ascii_case("authorization")) {
        return Err(CliError::usage(LoginError::Header(name.clone())));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::failed)?;
    let limit = Duration::from_secs(args.timeout.into());
    let signed_in = runtime.block_on(async {
        let signed_in = tokio::time::timeout(limit, sign_in(env, args, entry, url)).await;
        let late = |_| LoginError::Late { name: name.clone(), seconds: args.timeout };
        signed_in.map_err(|error| CliError::failed(late(error))).flatten()
    });
    drop(runtime);
    let token = match signed_in {
        Err(error) if has_no_sign_in(&error) && answers(env, &loaded, name, &sources.cwd) => {
            return Err(CliError::usage(LoginError::NotNeeded(name.clone())));
        }
        signed_in => signed_in?,
    };
    store_token(name, &token, env)?;
    if let Ok(mut configured) = ConfiguredServer::of(env, &loaded, name) {
        configured.keep_wants_sign_in(name)?;
    }
    let scopes = match token.scopes() {
        [] => String::new(),
        scopes => format!(", for {}", for_terminal_line(&scopes.join(" "), 200)),
    };
    tell(&format!("signed in: mcp {name}{scopes}"));
    tell(&format!("note: `{} {name}` shows its tools", format_command("mcp review")));
    Ok(())
}

async fn sign_in(
    env: &ProcessEnv,
    args: &LoginArgs,
    entry: &McpServer,
    url: &str,
) -> Result<StoredToken, CliError> {
    let client = client(&args.name, entry, env)?;
    let listener = RedirectListener::bind(&client).await.map_err(CliError::failed)?;
    let failed = |error| LoginError::of(&args.name, url, error);
    let login = Login::start(url, &client, listener.url()).await.map_err(failed)?;
    tell(&format!("sign in at this address:\n{}", login.address()));
    if !args.no_browser && open_browser(env, login.address()) {
        tell("a browser was opened with it");
    }
    let reads_input = args.no_browser || env.terminals.stdin;
    if reads_input {
        tell(
            "if the browser is on another machine, its last page does not load: paste the address \
             of that page here",
        );
    }
    let mut pasted = if reads_input { pasted() } else { mpsc::channel(1).1 };
    let redirected = tokio::select! {
        url = listener.redirected(&login) => url,
        url = pasted_answer(&mut pasted, &login) => url,
    };
    login.finish(&redirected, &SystemClock).await.map_err(failed)
}

/// Waits for an address that is the answer to this sign-in.
async fn pasted_answer(pasted: &mut mpsc::Receiver<Url>, login: &Login) -> Url {
    while let Some(url) = pasted.recv().await {
        match login.check(&url) {
            Ok(()) => return url,
            Err(error) => tell(&format!("{error}; paste the address that the browser ended at")),
        }
    }
    std::future::pending().await
}

/// Receives the addresses that a person pastes. The thread ends with the program.
fn pasted() -> mpsc::Receiver<Url> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line.trim().is_empty() {
                continue;
            }
            let Ok(url) = Url::parse(line.trim()) else {
                tell("that is not an address; paste all of it, from `http` on");
                continue;
            };
            if sender.blocking_send(url).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Opens a browser with the opener of the platform. Returns whether there is one.
fn open_browser(env: &ProcessEnv, address: &Url) -> bool {
    let is_mac = cfg!(target_os = "macos");
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env.var(name).is_some());
    if !(is_mac || has_screen) {
        return false;
    }
    let path = env.os_env.get(OsStr::new("PATH")).map(|path| path.as_os_str());
    let opener = if is_mac { "open" } else { "xdg-open" };
    let Ok(program) = resolve_program(OsStr::new(opener), path) else { return false };
    let mut command = Command::new(program);
    // No shell sees the address.
    command.arg(address.as_str());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The browser is the person's, and stays open.
    command.spawn().is_ok()
}

/// Forgets the token of a server.
pub(super) fn logout(env: &ProcessEnv, name: &str, settings: &Settings) -> Result<(), CliError> {
    let (_, loaded) = load_sources(env, settings)?;
    let entry = loaded.config.mcp_servers.get(name);
    if forget(name, entry, env)? {
        if let Ok(mut configured) = ConfiguredServer::of(env, &loaded, name) {
            configured.keep_wants_sign_in(name)?;
        }
        tell(&format!(
            "signed out: mcp {name}; the server itself may keep the sign-in for a while"
        ));
        return Ok(());
    }
    if entry.is_some() {
        return Err(CliError::usage(LoginError::NotSignedIn(name.to_owned())));
    }
    Err(missing(name, &loaded))
}
