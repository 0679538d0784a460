//! The public surface of each library, as a list of its items: what a change adds, takes away or
//! makes otherwise is a change of a snapshot here.
//!
//! The compiler's description of a library is not stable; that of the toolchain in use is read by
//! the version of `public-api` that belongs to it. With another toolchain this test says so.

#![cfg(test)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cargo_metadata::{Metadata, MetadataCommand, Package};

/// Libraries whose front page says how stable they are. The others are examples and tests.
fn libraries(metadata: &Metadata) -> Vec<&Package> {
    let mut libraries: Vec<&Package> = metadata
        .workspace_packages()
        .into_iter()
        .filter(|package| {
            let page = package.manifest_path.with_file_name("src").join("lib.rs");
            fs::read_to_string(page).is_ok_and(|page| page.contains("\n//! Stability: "))
        })
        .collect();
    libraries.sort_by(|one, other| one.name.cmp(&other.name));
    libraries
}

/// Runs `cargo doc` on all libraries, and returns the folder of the descriptions.
fn describe(metadata: &Metadata) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // All at once and where the pages for people are made: that needs what this needs.
    cargo
        .args(["doc", "--quiet", "--workspace", "--no-deps", "--lib", "--locked", "--offline"])
        .current_dir(&metadata.workspace_root)
        // Only the tool that describes may do what is not stable: the same in the environment of
        // cargo would have the build scripts run again, and all that depends on them be built.
        .env("RUSTDOC", concat!(env!("CARGO_MANIFEST_DIR"), "/api/rustdoc"))
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow");
    deputize_requirements::remove_package_env(&mut cargo);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    metadata.target_directory.join("doc").into()
}

#[test]
fn the_public_surface_of_each_library_changes_only_on_purpose() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap();
    let described = describe(&metadata);
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for library in libraries(&metadata) {
            let file = described.join(format!("{}.json", library.name.replace('-', "_")));
            let surface = public_api::Builder::from_rustdoc_json(file)
                .omit_blanket_impls(true)
                .omit_auto_derived_impls(true)
                .omit_auto_trait_impls(true)
                .build()
                .unwrap_or_else(|error| panic!("{}: {error}", library.name));
            insta::assert_snapshot!(library.name.as_str(), surface.to_string());
        }
    });
}
