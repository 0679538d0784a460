//! `deputize new`: projects that build and pass their tests at once.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use deputize_core::server_names::server_of_toolset;

use crate::args::{NewCommand, Project};
use crate::compose::toolset_names;
use crate::exit::CliError;
use crate::process_env::ProcessEnv;
use crate::stdio::print;

mod manifest;

use manifest::CrateSource;

/// The files of a project, with their content.
type ProjectFiles = &'static [(&'static str, &'static str)];

const GITIGNORE: (&str, &str) = (".gitignore", include_str!("new/templates/gitignore.txt"));

const TOOL_CRATE: ProjectFiles = &[
    ("Cargo.toml", include_str!("new/templates/Cargo.toml.txt")),
    GITIGNORE,
    ("src/lib.rs", include_str!("new/templates/lib.rs.txt")),
    ("examples/agent.rs", include_str!("new/templates/agent.rs.txt")),
    ("tests/agent.rs", include_str!("new/templates/agent_test.rs.txt")),
    (
        "tests/snapshots/agent__what_a_model_is_sent.snap",
        include_str!("new/templates/snapshot.txt"),
    ),
];

const PLUGIN: ProjectFiles = &[
    ("Cargo.toml", include_str!("new/templates/plugin_Cargo.toml.txt")),
    GITIGNORE,
    ("src/lib.rs", include_str!("new/templates/plugin_lib.rs.txt")),
];

/// Keywords of Rust, strict and reserved, which cannot be names.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Names that Deputize's own crates have.
const TAKEN: [&str; 13] = [
    "test",
    "core",
    "std",
    "alloc",
    "proc-macro",
    "deputize",
    "deputize-core",
    "deputize-plugin",
    "deputize-testkit",
    "deputize-tools",
    "schemars",
    "serde",
    "serde-json",
];

#[derive(Debug, thiserror::Error)]
enum NewError {
    #[error("`{0}` is not a crate name: use letters, digits, - and _, and begin with a letter")]
    Name(String),
    #[error("a crate cannot be named `{0}`: Rust or a crate that it builds on has that name")]
    Taken(String),
    #[error(
        "a crate cannot be named `{0}`: its tools would be in the toolset of that name, which is \
         another one's; toolsets `mcp-…` are those of MCP servers"
    )]
    Toolset(String),
    #[error("`{}` is not empty: give a new or empty directory", .0.display())]
    NotEmpty(PathBuf),
    #[error("`{}` is not a checkout of Deputize: it has no crates/core/Cargo.toml", .0.display())]
    NoCheckout(PathBuf),
    #[error("cannot tell which Deputize to build `{}` with: this is not a checkout", .0.display())]
    NoSource(PathBuf),
    #[error("cannot write `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Writes a project.
pub(crate) fn new(env: &ProcessEnv, command: &NewCommand) -> Result<(), CliError> {
    match command {
        NewCommand::ToolCrate(args) => tool_crate(env, args),
    }
}

fn tool_crate(env: &ProcessEnv, args: &Project) -> Result<(), CliError> {
    let (name, source) = project(env, args, TOOL_CRATE)?;
    let shown = args.dir.display();
    print(&format!(
        "{shown}: crate `{name}` with the tool `count_words`, from {source}\n\n  cd {shown}\n  \
         cargo test                                   # no network, no key\n  cargo run --example \
         agent -- tools list      # a program with the tool\n\nIn a program of your own, write \
         #![deny(unused_crate_dependencies)]: without it, a tool crate\nthat Cargo.toml names and \
         no code uses is silently left out.\n"
    ))
}

/// Writes a tool crate that is also a plugin.
pub(crate) fn plugin(env: &ProcessEnv, args: &Project) -> Result<(), CliError> {
    let (name, source) = project(env, args, PLUGIN)?;
    let start = std::env::consts::DLL_PREFIX;
    let end = std::env::consts::DLL_SUFFIX;
    let built = format!("target/release/{start}{}{end}", name.replace('-', "_"));
    let shown = args.dir.display();
    print(&format!(
        "{shown}: crate `{name}` with the tool `count_words`, which is also a plugin, from \
         {source}\n\n  cd {shown}\n  cargo test\n  cargo build --release\n  \
         deputize plugin check {built}\n\n\
         The check prints its entry for the configuration.\n"
    ))
}

/// Writes the files of a project: its name, and where the crates of Deputize come from.
fn project(
    env: &ProcessEnv,
    args: &Project,
    files: ProjectFiles,
) -> Result<(String, CrateSource), CliError> {
    let cwd = env.cwd(None)?;
    let dir = cwd.join(&args.dir);
    let name = name(&dir, args.name.as_deref()).map_err(|error| {
        CliError::usage(error).hint("`--name NAME` names the crate otherwise than its directory")
    })?;
    let source = source(&cwd, args)?;
    if fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(CliError::usage(NewError::NotEmpty(dir)));
    }
    for (path, text) in files {
        let text = manifest::fill(text, &name, &source, &dir);
        write(&dir.join(path), text.as_bytes())?;
    }
    if let CrateSource::Checkout(checkout) = &source
        && let Ok(lock) = fs::read(checkout.join("Cargo.lock"))
    {
        // The versions that the checkout is built and tested with.
        write(&dir.join("Cargo.lock"), &lock)?;
    }
    Ok((name, source))
}

/// Returns the name of the crate: the given one, or that of its directory.
fn name(dir: &Path, wanted: Option<&str>) -> Result<String, NewError> {
    let of_dir = dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = wanted.map(str::to_owned).or(of_dir).unwrap_or_default();
    let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    // A toolset has at most 64 characters.
    let good = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(known);
    let taken =
        TAKEN.contains(&name.replace('_', "-").as_str()) || KEYWORDS.contains(&name.as_str());
    // The crate's tools are in a toolset of its name.
    let is_toolset = server_of_toolset(&name).is_some() || toolset_names().contains(&name);
    match good {
        false => Err(NewError::Name(name)),
        true if taken => Err(NewError::Taken(name)),
        true if is_toolset => Err(NewError::Toolset(name)),
        true => Ok(name),
    }
}

/// Returns the source of Deputize's crates: a checkout that is named or surrounds the directory, or
/// the registry with `--published`.
fn source(cwd: &Path, args: &Project) -> Result<CrateSource, CliError> {
    let is_checkout = |dir: &Path| {
        let manifest = fs::read_to_string(dir.join("crates/core/Cargo.toml"));
        manifest.is_ok_and(|text| text.contains("name = \"deputize-core\""))
    };
    if let Some(path) = &args.path {
        let path = cwd.join(path);
        let path = path.canonicalize().unwrap_or(path);
        if !is_checkout(&path) {
            return Err(CliError::usage(NewError::NoCheckout(path)));
        }
        return Ok(CrateSource::Checkout(path));
    }
    if args.published {
        return Ok(CrateSource::Registry);
    }
    match cwd.ancestors().find(|dir| is_checkout(dir)) {
        Some(checkout) => Ok(CrateSource::Checkout(checkout.to_owned())),
        // Not every version is published: a project that does not build helps nobody.
        None => Err(CliError::usage(NewError::NoSource(args.dir.clone())).hint(format!(
            "`--path CHECKOUT` takes a checkout of Deputize, `--published` version {} of the \
             registry, if it is there",
            env!("CARGO_PKG_VERSION")
        ))),
    }
}

/// Writes a new file. Never overwrites one.
fn write(path: &Path, text: &[u8]) -> Result<(), CliError> {
    let done = (|| {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text)
    })();
    done.map_err(|source| CliError::failed(NewError::Write { path: path.to_owned(), source }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_as_its_directory_or_as_given() {
        let named =
            |dir: &str, dir_name| name(Path::new(dir), dir_name).map_err(|error| error.to_string());
        assert_eq!(named("/a/my-tools", None).unwrap(), "my-tools");
        assert_eq!(named("/a/my tools", Some("mine")).unwrap(), "mine");
        for wrong in ["/a/my tools", "/a/7up", "/"] {
            assert!(named(wrong, None).unwrap_err().contains("is not a crate name"), "{wrong}");
        }
        for taken in ["/a/core", "/a/deputize_tools", "/a/async", "/a/match", "/a/serde_json"] {
            assert!(named(taken, None).unwrap_err().contains("cannot be named"), "{taken}");
        }
        for toolset in ["/a/mcp-words", "/a/file", "/a/delegation"] {
            assert!(
                named(toolset, None).unwrap_err().contains("toolset of that name"),
                "{toolset}"
            );
        }
    }
}
