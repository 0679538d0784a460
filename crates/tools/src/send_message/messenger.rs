//! Delivers messages to targets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use deputize_core::Cancel;
use deputize_core::sanitize::{for_terminal, for_terminal_line};
use deputize_process::{
    Command, CommandOutcome, Exit, Owner, Stdin, base_env, drop_hooks, resolve_program,
};

use super::message_error::MessageError;
use super::message_file;
use super::notification::NotificationTerminal;
use super::settings::MessageSettings;
use super::target::MessageTarget;
use crate::processes::Processes;

/// The program that shows notifications where no terminal does.
const NOTIFY_SEND: &str = "notify-send";
/// What begins a notification.
const TITLE: &str = "Agent";
/// Variables by which a program finds the person's screen.
const SCREEN_VARIABLES: [&str; 4] =
    ["DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"];
/// Characters of a program's output in an error for the operator.
const OUTPUT_CHARS: usize = 400;

/// Delivers messages to the targets of some settings. Nothing is sent twice.
#[derive(Debug, Clone, Copy)]
pub struct Messenger<'a> {
    /// Targets and limits of messages.
    pub settings: &'a MessageSettings,
    /// Who owns the commands.
    pub processes: &'a Processes,
    /// Ends a delivery.
    pub cancel: &'a Cancel,
}

impl Messenger<'_> {
    /// Delivers a message, and returns in words what was done.
    ///
    /// # Errors
    /// If it was not delivered, or it is not known whether it was.
    pub async fn send(&self, target: &str, text: &str) -> Result<String, MessageError> {
        let to = self.settings.check(target, text)?;
        if self.cancel.is_cancelled() {
            return Err(MessageError::not_sent(target, "cancelled"));
        }
        match to {
            MessageTarget::Unusable(why) => {
                Err(MessageError::not_sent(target, "it is not set up").because(why.clone()))
            }
            #[cfg(feature = "web")]
            MessageTarget::Webhook(webhook) => self.post(target, webhook, text).await,
            #[cfg(not(feature = "web"))]
            MessageTarget::Webhook(_) => {
                Err(MessageError::not_sent(target, "this program sends nothing over the network"))
            }
            MessageTarget::File(path) => self.append(target, path.clone(), text).await,
            MessageTarget::Command(argv) => self.run(target, argv, text).await,
            MessageTarget::Notification(terminal) => {
                self.notify(target, terminal.as_deref(), text).await
            }
        }
    }

    /// Says whether a target looks reachable. Nothing is sent.
    ///
    /// # Errors
    /// If it does not: why, for the person.
    pub async fn probe(&self, target: &str) -> Result<String, String> {
        let path = self.settings.env.get(OsStr::new("PATH")).map(|path| path.as_os_str());
        let found = |name: &str| resolve_program(name.as_ref(), path);
        match self.settings.targets.get(target) {
            None => Err("there is no such target".to_owned()),
            Some(MessageTarget::Unusable(why)) => Err(why.clone()),
            #[cfg(feature = "web")]
            Some(MessageTarget::Webhook(webhook)) => {
                let url = webhook.url.parse().map_err(|_| "its address is none".to_owned())?;
                let checked = deputize_http::check_post(&url, self.settings.time_limit).await;
                checked.map_err(|error| error.to_string())?;
                Ok("its server takes connections".to_owned())
            }
            #[cfg(not(feature = "web"))]
            Some(MessageTarget::Webhook(_)) => Err("this program has no webhooks".to_owned()),
            Some(MessageTarget::File(path)) => match message_file::check(path) {
                Ok(()) => Ok(format!("{} can be written", path.display())),
                Err(error) => Err(format!("{}: {error}", path.display())),
            },
            Some(MessageTarget::Command(argv)) => {
                let found = found(argv.first().map_or("", String::as_str));
                found.map(|path| path.display().to_string()).map_err(|error| error.to_string())
            }
            Some(MessageTarget::Notification(Some(_))) => {
                Ok("by the terminal, if it shows notifications".to_owned())
            }
            Some(MessageTarget::Notification(None)) => {
                let found = found(NOTIFY_SEND).map_err(|error| format!("no terminal, and {error}"));
                found.map(|path| path.display().to_string())
            }
        }
    }

    #[cfg(feature = "web")]
    async fn post(
        &self,
        target: &str,
        webhook: &super::target::WebhookTarget,
        text: &str,
    ) -> Result<String, MessageError> {
        use deputize_http::PostError;

        let url = webhook.url.parse();
        let url = url.map_err(|_| MessageError::not_sent(target, "its address is none"))?;
        let mut document = serde_json::Map::new();
        document.insert(webhook.text_key.clone(), text.into());
        let request = deputize_http::PostRequest {
            url,
            headers: webhook.headers.clone(),
            body: serde_json::Value::Object(document).to_string(),
            timeout: self.settings.time_limit,
        };
        let why = match deputize_http::post_json(&request, self.cancel).await {
            Ok(status) => {
                return Ok(format!("delivered to {target}: the server answered {status}"));
            }
            Err(why) => why,
        };
        Err(match why {
            PostError::Denied(_) => {
                MessageError::not_sent(target, "its address may not be asked").because(why)
            }
            PostError::NotSent(_) => {
                MessageError::not_sent(target, "its server does not take connections").because(why)
            }
            PostError::Status(status) if (400..500).contains(&status) => MessageError::not_sent(
                target,
                format!("the server refused it with status {status}"),
            ),
            PostError::Status(status) => {
                MessageError::unsure(target, format!("the server answered {status}"))
            }
            why => MessageError::unsure(target, "the server did not answer").because(why),
        })
    }

    async fn append(
        &self,
        target: &str,
        path: PathBuf,
        text: &str,
    ) -> Result<String, MessageError> {
        let text = text.to_owned();
        let now = self.settings.clock.now_ms();
        let limit = self.settings.time_limit;
        let append = move || message_file::append(&path, &text, now, limit);
        let written = tokio::task::spawn_blocking(append).await;
        match written.map_err(std::io::Error::other).flatten() {
            Ok(()) => Ok(format!("written to {target}")),
            Err(error) => {
                Err(MessageError::not_sent(target, format!("its file cannot be written: {error}")))
            }
        }
    }

    async fn run(&self, target: &str, argv: &[String], text: &str) -> Result<String, MessageError> {
        let (program, args) = argv
            .split_first()
            .ok_or_else(|| MessageError::not_sent(target, "its command is empty"))?;
        let mut command = Command::new(program, "/");
        command.args = args.iter().map(OsString::from).collect();
        command.stdin = Stdin::Bytes(format!("{}\n", for_terminal(text.trim_end())).into_bytes());
        command.env = base_env(&self.settings.env);
        let done = self.command(target, command).await?;
        let limit = self.settings.time_limit.as_secs();
        match done.exit {
            Exit::Code(0) => Ok(format!("delivered to {target}: its command ended with code 0")),
            Exit::TimedOut => Err(MessageError::unsure(
                target,
                format!("its command did not end within {limit} s, and was killed"),
            )),
            exit => Err(MessageError::unsure(target, format!("its command: {exit}"))
                .because(output_of(&done))),
        }
    }

    async fn notify(
        &self,
        target: &str,
        terminal: Option<&NotificationTerminal>,
        text: &str,
    ) -> Result<String, MessageError> {
        if let Some(terminal) = terminal
            && terminal.notify(TITLE, text).is_ok()
        {
            return Ok(format!(
                "sent to {target}: the terminal has it, and shows it if it shows notifications"
            ));
        }
        let mut command = Command::new(NOTIFY_SEND, "/");
        command.args = vec!["--".into(), TITLE.into(), for_terminal(text).into()];
        command.env = self.screen_env();
        let done = self.command(target, command).await?;
        match done.exit {
            Exit::Code(0) => Ok(format!("shown to {target}")),
            exit => Err(MessageError::not_sent(target, format!("no notification: {exit}"))
                .because(output_of(&done))),
        }
    }

    fn screen_env(&self) -> BTreeMap<OsString, OsString> {
        let mut env = base_env(&self.settings.env);
        let screen = SCREEN_VARIABLES.map(OsString::from);
        let given = screen.into_iter().filter_map(|name| {
            let value = self.settings.env.get(&name)?.clone();
            Some((name, value))
        });
        env.extend(given);
        let _dropped = drop_hooks(&mut env);
        env
    }

    /// Runs a command with an owner of its own, which leaves nothing behind.
    async fn command(
        &self,
        target: &str,
        mut command: Command,
    ) -> Result<CommandOutcome, MessageError> {
        command.time_limit = self.settings.time_limit;
        let not_sent = |why: &str| MessageError::not_sent(target, why);
        let supervisor = self.processes.shared();
        let supervisor =
            supervisor.map_err(|error| not_sent("no command can run").because(error))?;
        let owner: Owner = supervisor.owner();
        let done = owner.run(command, self.cancel.token()).await;
        let _gone_with_the_program = owner.end().await;
        done.map_err(|error| not_sent("its program cannot be started").because(error))
    }
}

/// What a command said last.
fn output_of(done: &CommandOutcome) -> String {
    let output = if done.output.tail.is_empty() { &done.output.head } else { &done.output.tail };
    let said = for_terminal_line(String::from_utf8_lossy(output).trim(), OUTPUT_CHARS);
    if said.is_empty() { "it printed nothing".to_owned() } else { format!("it printed: {said}") }
}
