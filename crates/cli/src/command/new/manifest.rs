//! Values for the files of a new crate.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the crates of Deputize come from.
pub(super) enum CrateSource {
    Checkout(PathBuf),
    /// The registry, in the version of this program.
    Registry,
}

impl fmt::Display for CrateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkout(dir) => write!(f, "the checkout {}", dir.display()),
            Self::Registry => write!(f, "the published version {}", env!("CARGO_PKG_VERSION")),
        }
    }
}

impl CrateSource {
    /// A crate of Deputize as a manifest names it, by its folder in a checkout.
    fn dependency(&self, folder: &str) -> String {
        match self {
            Self::Checkout(_) => format!("{{ {} }}", self.place(folder)),
            Self::Registry => quote(env!("CARGO_PKG_VERSION")),
        }
    }

    /// The same beside other keys.
    fn place(&self, folder: &str) -> String {
        match self {
            Self::Checkout(dir) => {
                format!("path = {}", quote(&dir.join(folder).to_string_lossy()))
            }
            Self::Registry => format!("version = {}", quote(env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// Text as TOML has it.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A template with its slots filled.
pub(super) fn fill(template: &str, name: &str, source: &CrateSource, dir: &Path) -> String {
    let slots = [
        ("{{crate}}", name.to_owned()),
        ("{{ident}}", name.replace('-', "_")),
        ("{{rust_version}}", env!("CARGO_PKG_RUST_VERSION").to_owned()),
        ("{{core}}", source.dependency("crates/core")),
        ("{{deputize}}", source.dependency("crates/cli")),
        ("{{plugin}}", source.place("plugins/sdk")),
        ("{{testkit}}", source.dependency("crates/testkit")),
        ("{{tools}}", source.dependency("crates/tools")),
        ("{{workspace}}\n", workspace(dir)),
    ];
    slots.iter().fold(template.to_owned(), |text, (slot, value)| text.replace(slot, value))
}

/// A workspace of its own, where it stands inside another one that would claim it.
fn workspace(dir: &Path) -> String {
    let claims = |above: &&Path| {
        let manifest = fs::read_to_string(above.join("Cargo.toml"));
        manifest.is_ok_and(|text| text.contains("[workspace"))
    };
    match dir.ancestors().skip(1).find(claims) {
        None => String::new(),
        Some(above) => format!(
            "\n# Its own: {} does not name it. To be a member there, add it to `members` there\n\
             # and remove this.\n[workspace]\n",
            above.join("Cargo.toml").display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_the_checkout_or_the_published_version() {
        let template = include_str!("templates/Cargo.toml.txt");
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("my-tools");
        let checkout = CrateSource::Checkout("/src/deputize".into());
        insta::assert_snapshot!(fill(template, "my-tools", &checkout, &new));
        let registry = fill(template, "my-tools", &CrateSource::Registry, &new);
        assert!(registry.contains(concat!("deputize-core = \"", env!("CARGO_PKG_VERSION"), "\"")));
        assert!(!registry.contains("[workspace]") && !registry.contains("{{"), "{registry}");
        let plugin = include_str!("templates/plugin_Cargo.toml.txt");
        let plugin = |source: &CrateSource| fill(plugin, "my-tools", source, &new);
        let of = |text: &str| format!("deputize-plugin = {{ {text}, features = [\"tools\"] }}");
        let path = of("path = \"/src/deputize/plugins/sdk\"");
        assert!(plugin(&checkout).contains(&path), "{}", plugin(&checkout));
        let version = of(concat!("version = \"", env!("CARGO_PKG_VERSION"), "\""));
        assert!(
            plugin(&CrateSource::Registry).contains(&version),
            "{}",
            plugin(&CrateSource::Registry)
        );
        fs::write(dir.path().join("Cargo.toml"), "[workspace]\nmembers = []\n").unwrap();
        assert!(
            fill(template, "my-tools", &CrateSource::Registry, &new).ends_with("\n[workspace]\n")
        );
    }
}
