use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::clock::FixedClock;
use deputize_core::erase;
use deputize_core::sanitize::Secrets;
use deputize_core::setting_names::SettingNames;
use serde_json::json;

use super::*;
use crate::fixture::{ToolFixture, result, show};

/// The environment of this process.
fn env() -> BTreeMap<OsString, OsString> {
    std::env::vars_os().collect()
}

fn with(targets: impl IntoIterator<Item = (&'static str, MessageTarget)>) -> ToolFixture {
    let bench = ToolFixture::new();
    let mut secrets = Secrets::default();
    secrets.add("TEAM_TOKEN", "correct-horse");
    let targets = targets.into_iter().map(|(name, target)| (name.to_owned(), target));
    let settings = MessageSettings {
        targets: targets.collect(),
        clock: Arc::new(FixedClock(0)),
        env: env(),
        secrets,
        time_limit: Duration::from_secs(20),
        ..MessageSettings::default()
    };
    bench.cx.agent.session.settings.get_or_insert_with(|| settings);
    bench
}

fn command(script: &str) -> MessageTarget {
    MessageTarget::Command(["sh", "-c", script].map(str::to_owned).to_vec())
}

async fn send(bench: &ToolFixture, target: &str, text: &str) -> String {
    bench.call(SendMessage, json!({"target": target, "text": text})).await
}

#[tokio::test]
async fn a_command_reads_the_message_and_leaves_nothing_behind() {
    let out = tempfile::tempdir().unwrap();
    let script = format!("cat > {}/text; sleep 36001 & exit 0", out.path().display());
    let bench = with([("team", command(&script)), ("bad", command("echo no >&2; exit 3"))]);
    let actual = send(&bench, "team", "One,\ntwo;\x1b[2J $(touch x)").await;
    assert_eq!(actual, "delivered to team: its command ended with code 0");
    let text = std::fs::read_to_string(out.path().join("text")).unwrap();
    assert_eq!(text, "One,\ntwo; $(touch x)\n");
    let failed = result(&bench.cx, SendMessage, json!({"target": "bad", "text": "x"})).await;
    let Err(ToolError::Unavailable { text, source }) = failed else { panic!("{failed:?}") };
    let actual = text.as_str();
    assert!(actual.contains("it is not known whether the message reached `bad`"), "{actual}");
    assert!(actual.contains("its command: exit code 3"), "{actual}");
    assert_eq!(source.to_string(), "`bad`: its command: exit code 3: it printed: no");
}

#[tokio::test]
async fn a_question_says_where_a_message_goes_and_none_is_asked_about_one_that_cannot() {
    let hook = WebhookTarget::new("https://user:pass@hooks.example:8443/secret-path?token=1");
    let unusable = MessageTarget::Unusable("the variable `TEAM_URL` is not set".to_owned());
    let bench = with([
        ("team", command("cat")),
        ("log", MessageTarget::File("/var/log/agent".into())),
        ("hook", MessageTarget::Webhook(hook)),
        ("unset", unusable),
    ]);
    let call = |target: &str, text: &str| json!({"target": target, "text": text});
    let mut seen = String::new();
    for target in ["team", "log", "hook"] {
        let tool = erase(SendMessage);
        let arguments = call(target, "Done.");
        let details = tool.question_details(&arguments, &bench.cx.agent).await;
        seen += &format!("{}\n", Value::Object(details));
    }
    assert_eq!(
        seen,
        "{\"it goes\":\"to the input of sh\"}\n{\"it goes\":\"to the end of /var/log/agent\"}\n\
         {\"it goes\":\"out of this machine, to hooks.example:8443\"}\n"
    );
    assert_eq!(bench.check(SendMessage, &call("team", "Done.")).await, "accepted");
    for bad in [call("else", "x"), call("team", " "), call("team", "correct-horse")] {
        let checked = bench.check(SendMessage, &bad).await;
        assert!(checked.starts_with("refused: "), "{checked}");
        assert_eq!(bench.call(SendMessage, bad).await, checked);
    }
    let unset = bench.check(SendMessage, &call("unset", "x")).await;
    assert!(!unset.starts_with("accepted"), "{unset}");
}

#[tokio::test]
async fn only_names_of_targets_are_told() {
    let file = MessageTarget::File("/proc/none/log".into());
    let missing = MessageTarget::Command(vec!["no-such-program".to_owned()]);
    let hook = MessageTarget::Webhook(WebhookTarget::new("http://127.0.0.1:1/secret-path"));
    let unusable = MessageTarget::Unusable("the variable `TEAM_URL` is not set".to_owned());
    let bench = with([("file", file), ("gone", missing), ("hook", hook), ("unset", unusable)]);
    let decl = erase(SendMessage).declare(&bench.cx.agent).unwrap();
    let target = &decl.parameters.to_value()["properties"]["target"];
    assert_eq!(target["enum"], json!(["file", "gone", "hook", "unset"]));
    let mut seen = String::new();
    for target in ["file", "gone", "hook", "unset", "else"] {
        let arguments = json!({"target": target, "text": "x"});
        let text = match result(&bench.cx, SendMessage, arguments).await {
            // The source is the operator's.
            Err(ToolError::Unavailable { text, .. }) => text.as_str().to_owned(),
            result => show(&result),
        };
        seen += &(text + "\n");
    }
    for hidden in ["/proc", "no-such-program", "127.0.0.1", "secret-path", "TEAM_URL"] {
        assert!(!seen.contains(hidden), "{hidden}: {seen}");
    }
    assert!(seen.contains("nothing was sent to `file`"), "{seen}");
    assert!(seen.contains("there is no target `else`; targets: file, gone, hook"), "{seen}");
    let none = send(&with([]), "log", "x").await;
    assert_eq!(none, "refused: there is no target `log`; none is configured");
}

#[tokio::test]
async fn what_must_not_go_out_is_refused() {
    let bench = with([("team", command("exit 1"))]);
    let long = "x".repeat(MESSAGE_BYTES + 1);
    let mut seen = String::new();
    for text in [" ", &long, "the token is correct-horse", "[redacted:API_KEY] it is"] {
        seen += &(send(&bench, "team", text).await + "\n");
    }
    insta::assert_snapshot!(seen, @r"
    refused: the message is empty
    refused: the message has 16385 bytes, and 16384 is the most: shorten it
    refused: the message has TEAM_TOKEN in it, a secret that is not sent anywhere
    refused: the message has API_KEY in it, a secret that is not sent anywhere
    ");
}

#[tokio::test]
async fn a_command_that_does_not_end_may_have_sent_it() {
    let bench = with([("slow", command("cat > /dev/null; sleep 36002"))]);
    let settings = bench.cx.agent.session.settings.get_or_insert_with(MessageSettings::default);
    let settings = MessageSettings {
        time_limit: Duration::from_millis(200),
        ..MessageSettings::clone(&settings)
    };
    let (processes, cancel) = (Processes::default(), deputize_core::Cancel::new());
    let messenger = Messenger { settings: &settings, processes: &processes, cancel: &cancel };
    let error = messenger.send("slow", "x").await.unwrap_err();
    assert!(matches!(error, MessageError::Unsure { .. }), "{error}");
}

#[tokio::test]
async fn without_a_target_it_is_not_usable() {
    let bench = ToolFixture::new();
    let names = SettingNames::from_iter([("targets", "chat.targets")]);
    let settings = MessageSettings { setting_names: names, ..MessageSettings::default() };
    bench.cx.agent.session.settings.get_or_insert_with(|| settings);
    let why = "no target for messages is configured: set `chat.targets`".to_owned();
    let settings = &bench.cx.agent.session.settings;
    assert_eq!(SendMessage.availability(settings), Availability::No(why));
    assert!(send(&bench, "team", "x").await.contains("there is no target `team`"));
    let bench = with([("team", command("exit 0"))]);
    assert_eq!(SendMessage.availability(&bench.cx.agent.session.settings), Availability::Yes);
}
