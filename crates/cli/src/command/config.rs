//! `deputize config`.

use crate::args::Config;
use crate::config::{Sources, Verb, run};
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
    let output = run(verb, &sources).map_err(CliError::usage)?;
    output.warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    print(&output.text)
}
