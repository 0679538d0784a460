//! Which variables of an environment hold secrets.

use deputize_core::sanitize::Secrets;

/// How words of variables' names end whose values are secrets.
const SECRET_ENDINGS: [&str; 7] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"];
/// Last words of the names of variables that say where a secret is.
const LOCATION_WORDS: [&str; 4] = ["FILE", "PATH", "DIR", "URL"];

/// Returns whether a variable holds a secret, by its name.
///
/// ```
/// use deputize_agent::is_secret_name;
/// assert!(is_secret_name("OPENAI_API_KEY") && is_secret_name("SERVICE_KEY_2"));
/// assert!(!is_secret_name("SERVICE_KEY_FILE"));
/// ```
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let location = upper.rsplit('_').next().is_some_and(|last| LOCATION_WORDS.contains(&last));
    let mut words = upper.split(|c: char| !c.is_ascii_alphabetic());
    !location && words.any(|word| SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending)))
}

/// Adds the values of the variables that hold secrets.
pub fn add_secrets<'a>(
    secrets: &mut Secrets,
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    for (name, value) in variables.into_iter().filter(|(name, _)| is_secret_name(name)) {
        secrets.add(name, value);
    }
}
