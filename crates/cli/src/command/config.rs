//! `deputize config`.

use crate::args::Config;
use crate::compose::ca_file_fault;
use crate::config::{
    ConfigError, Loaded, Output, Problem, ProviderEntry, Sources, Verb, VerbError, load, run,
};
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
    let mut result = run(verb, &sources);
    if let (Verb::Check, Ok(loaded)) = (verb, load(&sources)) {
        result = with_files(result, &loaded, around);
    }
    let warnings = match &result {
        Ok(output) => output.warnings.as_slice(),
        Err(VerbError::Config(error)) => error.warnings.as_slice(),
        Err(VerbError::NoHome) => &[],
    };
    warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    print(&result.map_err(CliError::usage)?.text)
}

/// The result of a check with what is wrong with the files that the configuration names. A run
/// reads them only when it needs them.
fn with_files(
    result: Result<Output, VerbError>,
    loaded: &Loaded,
    around: &Surroundings,
) -> Result<Output, VerbError> {
    let fault = |(name, entry): (&String, &ProviderEntry)| {
        let fault = ca_file_fault(name, entry.ca_file.as_deref()?, around)?;
        let place = loaded.origins.get(&format!("providers.{name}.ca_file"))?;
        Some(Problem::new(place, fault))
    };
    let problems: Vec<Problem> = loaded.config.providers.iter().filter_map(fault).collect();
    if problems.is_empty() {
        return result;
    }
    Err(VerbError::Config(ConfigError { problems, warnings: loaded.warnings.clone() }))
}
