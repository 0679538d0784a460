//! Each model of the configuration: how it is reached, whether its keys are there, and whether
//! its provider answers.

use std::sync::Arc;
use std::time::Duration;

use deputize_core::model::ModelError;
use deputize_core::wording::count;
use deputize_providers::{Endpoint as Address, HttpClient, ModelListing, Proxy, http_client};
use deputize_runtime::SystemClock;
use tokio::task::JoinSet;

use super::{Check, Health};
use crate::args::Doctor;
use crate::command::run::overrides;
use crate::compose::{AssembledProgram, ModelUse, name, whole_endpoint};
use crate::config::{Endpoint, HttpEndpoint, ModelChoice};
use crate::exit::CliError;
use crate::process_env::ProcessEnv;

/// Time limit for a provider to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Time limit for a provider to answer. All are asked side by side.
const ANSWER: Duration = Duration::from_secs(10);

/// Message for a server that cannot list its models.
const NO_LIST: &str = "answers, but has no list of models: name and base_url are not checked";

/// A model and its purpose.
struct CheckedModel {
    choice: ModelChoice,
    used: ModelUse,
}

/// Checks each model that a run would use.
pub(super) fn checks(
    composition: &AssembledProgram,
    env: &ProcessEnv,
    args: &Doctor,
) -> Result<Vec<Check>, CliError> {
    let asked = match composition.asked(&overrides(&args.model)) {
        Ok(asked) => asked,
        Err(error) => return Ok(vec![Check::new("model", Err(error.chain()))]),
    };
    let unpriced = composition.unpriced(&asked, env);
    let unpriced = unpriced.into_iter().map(|why| Check::new("budget", Err(why.to_string())));
    let subject = |(choice, used)| CheckedModel { choice, used };
    let subjects: Vec<CheckedModel> = asked.choices.into_iter().map(subject).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CliError::failed)?;
    let answers = runtime.block_on(answers(&subjects, env));
    // A name that is still being looked up would be waited for.
    runtime.shutdown_background();
    let answered = subjects.iter().zip(answers);
    let answered = answered.flat_map(|(subject, answer)| subject.checks(answer, env));
    Ok(answered.chain(unpriced).collect())
}

/// The answer of a provider: its models, and whether it also lists them without a key. `None` if
/// there was nothing to ask.
type ProviderAnswer = Option<Result<(Vec<ModelListing>, bool), String>>;

/// Asks the providers of all models side by side.
async fn answers(subjects: &[CheckedModel], env: &ProcessEnv) -> Vec<ProviderAnswer> {
    let http = http_client(Arc::new(SystemClock));
    let mut tasks = JoinSet::new();
    let mut answers: Vec<ProviderAnswer> = subjects.iter().map(|_| None).collect();
    for (number, (subject, answer)) in subjects.iter().zip(&mut answers).enumerate() {
        let Endpoint::Http(at) = &subject.choice.endpoint else { continue };
        if lacks_key(at, env) {
            continue;
        }
        match whole_endpoint(&subject.choice, at, env) {
            Err(error) => *answer = Some(Err(error.chain())),
            Ok(mut endpoint) => {
                endpoint.timeouts.connect = endpoint.timeouts.connect.min(CONNECT);
                let wire = at.api;
                let http: HttpClient = http.clone();
                let bare = Address { keys: Vec::new(), ..endpoint.clone() };
                let keyed = !endpoint.keys.is_empty();
                tasks.spawn(async move {
                    let seen = wire.look(endpoint, &http, ANSWER).await;
                    let open = keyed
                        && seen.as_ref().is_ok_and(|all| all.iter().any(|one| one.models.is_ok()))
                        && wire
                            .look(bare, &http, ANSWER)
                            .await
                            .is_ok_and(|all| all.iter().any(|one| one.models.is_ok()));
                    (number, seen.map(|all| (all, open)))
                });
            }
        }
    }
    while let Some(joined) = tasks.join_next().await {
        if let Ok((number, seen)) = joined
            && let Some(answer) = answers.get_mut(number)
        {
            *answer = Some(seen.map_err(|error| error.to_string()));
        }
    }
    answers
}

fn lacks_key(at: &HttpEndpoint, env: &ProcessEnv) -> bool {
    let variables = at.keys.variables();
    let set = |variable: &String| env.var(variable).is_some();
    !variables.is_empty() && !variables.iter().any(set)
}

impl CheckedModel {
    fn checks(&self, answer: ProviderAnswer, env: &ProcessEnv) -> Vec<Check> {
        let what = self.used.word();
        let Endpoint::Http(at) = &self.choice.endpoint else {
            return vec![Check::new(what, Ok("offline: by rule, no network".to_owned()))];
        };
        let mut checks = vec![Check::new(what, Ok(reach_text(&self.choice, at)))];
        checks.extend(self.keys(at, env));
        match answer {
            None => {
                let found = "not asked without its key".to_owned();
                checks.push(Check::less("provider", found));
            }
            Some(Err(error)) => checks.push(self.fault_of("provider", error)),
            Some(Ok((all, open))) => {
                // With one key that is taken a run can go.
                let taken = all.iter().any(|seen| seen.models.is_ok());
                let seen_checks = all.into_iter().map(|seen| self.seen(seen, open));
                checks.extend(
                    seen_checks.map(|check| if taken { check.at_worst_less() } else { check }),
                );
            }
        }
        checks
    }

    fn fault_of(&self, what: &'static str, found: String) -> Check {
        // A run can go without the others.
        let health = if self.used.is_required() { Health::Bad } else { Health::Less };
        Check { what, health, found }
    }

    /// One line for each variable that may hold a key.
    fn keys(&self, at: &HttpEndpoint, env: &ProcessEnv) -> Vec<Check> {
        let variables = at.keys.variables();
        if variables.is_empty() {
            return vec![Check::new("key", Ok("none is sent".to_owned()))];
        }
        if lacks_key(at, env) {
            return vec![self.fault_of("key", format!("set {}", variables.join(" or ")))];
        }
        let one = |variable: &String| match env.var(variable) {
            Some(_) => Check::new("key", Ok(format!("in {variable}"))),
            None => Check::less("key", format!("{variable} is not set and is passed over")),
        };
        variables.iter().map(one).collect()
    }

    /// Judges the provider, the key and the model's name by an answer.
    fn seen(&self, seen: ModelListing, open: bool) -> Check {
        let with =
            seen.variable.map_or(String::new(), |variable| format!(" the key in {variable}"));
        let model = &self.choice.model;
        match seen.models {
            Ok(models) if models.is_empty() => Check::less("provider", NO_LIST.to_owned()),
            Ok(models) if models.iter().any(|listed| is_named(listed, model)) => {
                let taken = match with.as_str() {
                    "" => String::new(),
                    _ if open => {
                        format!(", but also without a key:{with} is not checked by it")
                    }
                    _ => format!(", and takes{with}"),
                };
                Check::new("provider", Ok(format!("answers{taken}")))
            }
            Ok(models) => {
                let models = count(models.len(), "model");
                let found = format!("answers, but `{model}` is not among its {models}");
                Check::less("provider", found)
            }
            Err(ModelError { status: None, message, .. }) => self.fault_of("provider", message),
            Err(ModelError { status: Some(401 | 403), message, .. }) => {
                let refused =
                    if with.is_empty() { " to answer without a key".to_owned() } else { with };
                self.fault_of("provider", format!("refuses{refused} ({message})"))
            }
            Err(ModelError { status: Some(404 | 405 | 501), message, .. }) => {
                Check::less("provider", format!("{NO_LIST} ({message})"))
            }
            Err(ModelError { message, .. }) => {
                Check::less("provider", format!("answers with a failure ({message})"))
            }
        }
    }
}

/// Returns whether a list's entry is the model: by name, as its latest version, or as a dated one.
fn is_named(listed: &str, model: &str) -> bool {
    listed.strip_prefix(model).is_some_and(|rest| {
        let dated = |date: &str| date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit());
        matches!(rest, "" | ":latest") || rest.strip_prefix('-').is_some_and(dated)
    })
}

/// The model and the way to it.
fn reach_text(choice: &ModelChoice, at: &HttpEndpoint) -> String {
    let mut text = format!("{} at {} by {}", name(choice), at.base_url, at.api.name());
    match &at.proxy {
        Proxy::Environment => {}
        Proxy::None => text.push_str(", without a proxy"),
        Proxy::At(proxy) => text.push_str(&format!(", through the proxy {proxy}")),
    }
    if let Some(file) = &at.ca_file {
        text.push_str(&format!(", trusting {file}"));
    }
    if !at.body.streaming {
        text.push_str(", not as a stream");
    }
    text
}
