//! `deputize config`.

use crate::args::Config;
use crate::config::{Sources, Verb, VerbError, run};
use crate::exit::CliError;
use crate::surroundings::{Surroundings, print, tell};

/// Runs one verb.
pub(crate) fn config(around: &Surroundings, command: &Config) -> Result<(), CliError> {
    let (verb, sources) = match command {
        Config::Path { settings } => (Verb::Path, around.sources(settings, Vec::new())?),
        Config::Check { settings } => (Verb::Check, around.sources(settings, Vec::new())?),
        Config::Schema => (Verb::Schema, Sources::default()),
        Config::Show { view } => {
            (Verb::Show { json: view.json }, around.sources(&view.settings, Vec::new())?)
        }
    };
    let result = run(verb, &sources);
    let warnings = match &result {
        Ok(output) => output.warnings.as_slice(),
        Err(VerbError::Config(error)) => error.warnings.as_slice(),
        Err(VerbError::NoHome) => &[],
    };
    warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    print(&result.map_err(CliError::usage)?.text)
}
