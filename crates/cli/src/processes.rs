//! Who starts and ends the commands of this program, and who holds its plugins: this program
//! again, in processes of their own.

use std::ffi::OsStr;

use deputize_process::{Containment, Helper, OpenFiles, Supervisor, SupervisorConfig, helper_main};

/// With this as its only argument, the program is that process. No one types it.
const HELPER: &str = "__supervise";
/// And with this it is the process of a plugin.
pub(crate) const PLUGIN_HOST: &str = "__plugin-host";
/// And with this it turns a document of the web into text.
pub(crate) const CONVERTER: &str = "__convert-document";
/// Fewer open files than this are soon too few for many agents at once.
const FEW_OPEN_FILES: u64 = 4096;
/// Open files that a run needs for itself: standard streams, its threads' wake-ups, signals, the
/// session, a connection to a model, the helper, and the pipes of one command.
const LEAST_OPEN_FILES: u64 = 32;

/// Nothing can be run with so few.
#[derive(Debug, thiserror::Error)]
#[error("{found} files may be open at most, and a run needs {LEAST_OPEN_FILES}")]
pub(crate) struct TooFewOpenFiles {
    found: u64,
}

/// Checks that enough files may be open for a run.
pub(crate) fn enough_open_files(found: Option<OpenFiles>) -> Result<(), TooFewOpenFiles> {
    match found {
        Some(OpenFiles { now, .. }) if now < LEAST_OPEN_FILES => {
            Err(TooFewOpenFiles { found: now })
        }
        _ => Ok(()),
    }
}

/// Runs the helper, if the program was started as one.
pub(crate) fn helper(arguments: &[impl AsRef<OsStr>]) -> Option<std::process::ExitCode> {
    let [_, only] = arguments else { return None };
    if only.as_ref() == HELPER {
        return Some(helper_main());
    }
    if only.as_ref() == CONVERTER {
        return Some(deputize_web::converter_main());
    }
    (only.as_ref() == PLUGIN_HOST).then(deputize_plugin_host::host_main)
}

/// How commands are started.
pub(crate) fn setup(open_files: Option<OpenFiles>) -> SupervisorConfig {
    SupervisorConfig {
        helper: Helper::this_program([HELPER]),
        open_files: open_files.map(|files| files.before),
        ..SupervisorConfig::default()
    }
}

/// Describes for people how commands are ended on this machine; an error if they cannot be started.
pub(crate) fn containment(setup: SupervisorConfig) -> Result<String, String> {
    let supervisor = Supervisor::with(setup).map_err(|error| error.to_string())?;
    let held = match supervisor.containment().map_err(|error| error.to_string())? {
        Containment::PidNamespace => "each agent's are in a PID namespace",
        Containment::ProcessTable => {
            "found by walking the process table; a program that forks without pause can outrun it"
        }
        Containment::ProcessGroups => {
            "found by process group; a process that leaves its group is missed"
        }
    };
    Ok(format!("commands end with this program, even after kill -9: {held}"))
}

/// Describes the limit on open files; an error if it is low.
pub(crate) fn open_files(found: Option<OpenFiles>) -> Result<String, String> {
    let Some(OpenFiles { before, now }) = found else {
        return Err("the limit cannot be raised".to_owned());
    };
    let raised = if now > before { format!("; commands have {before}") } else { String::new() };
    if now < FEW_OPEN_FILES {
        return Err(format!(
            "{now} at most, few for many agents at once; raise the hard limit (ulimit -Hn){raised}"
        ));
    }
    Ok(format!("{now} at most{raised}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_open_files_are_said() {
        let files = |before, now| open_files(Some(OpenFiles { before, now }));
        assert_eq!(files(20_000, 20_000), Ok("20000 at most".to_owned()));
        assert_eq!(files(1024, 4096), Ok("4096 at most; commands have 1024".to_owned()));
        let few = "1024 at most, few for many agents at once; raise the hard limit (ulimit -Hn)";
        assert_eq!(files(1024, 1024), Err(few.to_owned()));
    }

    #[test]
    fn only_the_one_argument_makes_a_helper() {
        for arguments in
            [&["deputize"][..], &["deputize", "run", HELPER], &["deputize", HELPER, "x"]]
        {
            assert!(helper(arguments).is_none());
        }
    }
}
