//! Formats the commands that hints ask a person to type.

use std::sync::OnceLock;

/// The file of `--config`, quoted for a shell; unset if the program was started without it.
static CONFIG_OPTION: OnceLock<String> = OnceLock::new();

/// Remembers the file of the command line's `--config`, quoted for a shell, for all later hints.
/// A process has one command line: a second call changes nothing.
pub fn set_config_option(quoted_file: String) {
    let _first_stays = CONFIG_OPTION.set(quoted_file);
}

/// Formats a command of this program as a person types it, with the `--config` that the program
/// was started with. The caller appends further arguments. Only for commands that have `--config`.
pub fn format_command(command: &str) -> String {
    format_command_with(command, CONFIG_OPTION.get().map(String::as_str))
}

/// Formats a command of this program with a `--config`, whose file is quoted for a shell.
///
/// ```
/// use deputize_config::hint::format_command_with;
///
/// assert_eq!(format_command_with("run", Some("a.yaml")), "deputize run --config a.yaml");
/// ```
pub fn format_command_with(command: &str, config_file: Option<&str>) -> String {
    match config_file {
        // As one word, such a name is not taken for an option.
        Some(file) if file.starts_with('-') => format!("deputize {command} --config={file}"),
        Some(file) => format!("deputize {command} --config {file}"),
        None => format!("deputize {command}"),
    }
}
