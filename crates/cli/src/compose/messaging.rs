//! The targets of messages, as the configuration has them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::Clock;
use deputize_core::sanitize::Secrets;
use deputize_core::setting_names::SettingNames;
use deputize_tools::{MessageSettings, MessageTarget, NotificationTerminal, WebhookTarget};

use crate::config::{Config, MessageTargetEntry};
use crate::process_env::ProcessEnv;
use crate::runtime::own;

/// Returns the targets. The secrets of a session are added later.
pub(super) fn settings(
    config: &Config,
    env: &ProcessEnv,
    clock: &Arc<dyn Clock>,
) -> MessageSettings {
    let targets = &config.messaging.targets;
    let targets = targets.iter().map(|(name, entry)| (name.clone(), target(entry, env)));
    MessageSettings {
        targets: targets.collect(),
        time_limit: Duration::from_secs(config.messaging.timeout_seconds.into()),
        clock: Arc::clone(clock),
        env: env.os_env.clone(),
        secrets: Secrets::default(),
        setting_names: SettingNames::from_iter([("targets", "messaging.targets")]),
    }
}

fn target(entry: &MessageTargetEntry, env: &ProcessEnv) -> MessageTarget {
    if entry.url.is_some() || entry.url_env.is_some() {
        return match webhook(entry, env) {
            Ok(webhook) => MessageTarget::Webhook(webhook),
            Err(variable) => {
                MessageTarget::Unusable(format!("the variable `{variable}` is not set"))
            }
        };
    }
    if let Some(file) = &entry.file {
        return match (file.strip_prefix("~/"), env.var("HOME")) {
            (None, _) => MessageTarget::File(PathBuf::from(file)),
            (Some(rest), Some(home)) => MessageTarget::File(PathBuf::from(home).join(rest)),
            (Some(_), None) => MessageTarget::Unusable("the variable `HOME` is not set".to_owned()),
        };
    }
    if entry.notification {
        return MessageTarget::Notification(terminal(env));
    }
    MessageTarget::Command(entry.command.clone())
}

/// Returns a webhook, or the name of a variable that it needs and that is not set.
fn webhook(entry: &MessageTargetEntry, env: &ProcessEnv) -> Result<WebhookTarget, String> {
    let url = match (&entry.url, &entry.url_env) {
        (Some(url), _) => url.clone(),
        (None, variable) => {
            let name = variable.as_deref().unwrap_or_default();
            env.var(name).ok_or(name)?.to_owned()
        }
    };
    let header = |(name, value): (&String, &crate::config::Secret)| {
        let value = env.expand(value.expose()).map_err(str::to_owned)?;
        Ok((name.clone(), value))
    };
    let headers = entry.headers.iter().map(header).collect::<Result<_, String>>();
    Ok(WebhookTarget { url, text_key: entry.text_key.clone(), headers: headers? })
}

/// Returns the person's terminal; `None` if neither output is one.
fn terminal(env: &ProcessEnv) -> Option<Arc<NotificationTerminal>> {
    let terminals = env.terminals;
    let file = match (terminals.stderr, terminals.stdout) {
        (true, _) => own(io::stderr()),
        (false, true) => own(io::stdout()),
        (false, false) => return None,
    };
    let term = env.var("TERM").filter(|term| *term != "dumb")?;
    let in_tmux = env.var("TMUX").is_some();
    Some(Arc::new(NotificationTerminal::new(file.ok()?, term, in_tmux)))
}

/// Adds the addresses and headers that come from the environment.
pub(super) fn secrets(config: &Config, env: &ProcessEnv, secrets: &mut Secrets) {
    for (name, entry) in &config.messaging.targets {
        if let Some(variable) = &entry.url_env
            && let Some(url) = env.var(variable)
        {
            secrets.add(variable, url);
        }
        for (key, value) in &entry.headers {
            if let Ok(value) = env.expand(value.expose()) {
                let name = format!("messaging.targets.{name}.{key}");
                secrets.add(&name, &value);
                // A header's value has its scheme before it.
                if let Some((_, value)) = value.split_once(' ') {
                    secrets.add(&name, value.trim());
                }
            }
        }
    }
}
