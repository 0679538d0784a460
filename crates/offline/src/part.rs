//! Part of a file in a project, by its path alone.

use super::language::{LOCKS, file_name};

/// Part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The work itself.
    Main,
    /// Tests, and what they need.
    Test,
    /// Examples, benchmarks, and settings written as programs.
    Example,
    /// Written by a program, or by others and copied here.
    Foreign,
}

const VENDORED_FOLDERS: &[&str] = &[
    "vendor",
    "vendored",
    "node_modules",
    "third_party",
    "third-party",
    "thirdparty",
    "bower_components",
    "site-packages",
    "pods",
];
const GENERATED_FOLDERS: &[&str] = &["dist", "generated", "pregenerated"];
const GENERATED_ENDS: &[&str] = &[
    ".min.js",
    ".min.css",
    ".map",
    "_pb2.py",
    "_pb2_grpc.py",
    ".pb.go",
    ".pb.cc",
    ".pb.h",
    ".g.dart",
    ".designer.cs",
    ".generated.ts",
];
const TEST_FOLDERS: &[&str] = &[
    "test",
    "tests",
    "__tests__",
    "spec",
    "specs",
    "testdata",
    "test_data",
    "fixtures",
    "__mocks__",
    "e2e",
    "testsuite",
    "snapshots",
    "__snapshots__",
];
const TEST_ENDS: &[&str] = &[
    "_test.go",
    "_test.py",
    "_test.rs",
    "_test.dart",
    "_test.exs",
    "_test.rb",
    "_spec.rb",
    "_test.cc",
    "_test.cpp",
    "_test.c",
    "_tests.rs",
    "_unittest.cc",
];
/// The same, where case separates the word (`Latest.java`).
const TEST_CAMEL: &[&str] =
    &["Test.java", "Tests.java", "Test.kt", "Tests.cs", "Test.php", "Tests.swift"];
const EXAMPLE_FOLDERS: &[&str] = &[
    "example",
    "examples",
    "bench",
    "benches",
    "benchmark",
    "benchmarks",
    "demo",
    "demos",
    "fuzz",
    "fuzzing",
    "samples",
];

/// Folders of the work itself, where a file `test` is as likely a command of that name.
const SOURCE_FOLDERS: &[&str] = &["src", "lib", "cmd", "commands", "internal", "pkg"];

/// The part that a file plays.
pub(super) fn part_of(path: &str) -> Part {
    let name = file_name(path);
    let lower = name.to_ascii_lowercase();
    // Below the sources of Maven and Gradle, folders are the names of packages.
    let packaged =
        ["src/main/java/", "src/main/kotlin/"].iter().find_map(|mark| path.split_once(mark));
    let place = match packaged {
        Some((place, _)) => place,
        None => path.rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    let folder = |names: &[&str]| {
        let mut folders = place.split('/');
        folders.any(|folder| names.contains(&folder.to_ascii_lowercase().as_str()))
    };
    let ends = |ends: &[&str]| ends.iter().any(|end| lower.ends_with(end));
    if folder(VENDORED_FOLDERS) || is_generated_path(path) || LOCKS.contains(&name) {
        return Part::Foreign;
    }
    let stem = lower.split('.').next().unwrap_or_default();
    let named_for_tests = place.split('/').any(|folder| {
        let folder = folder.to_ascii_lowercase();
        folder.starts_with("test-") || folder.ends_with("-test") || folder.ends_with("-tests")
    });
    if folder(TEST_FOLDERS)
        || named_for_tests
        || ends(TEST_ENDS)
        || TEST_CAMEL.iter().any(|end| name.ends_with(end))
        || lower.contains(".test.")
        || lower.contains(".spec.")
        || lower.starts_with("test_")
        || stem == "test" && !folder(SOURCE_FOLDERS)
        || matches!(
            stem,
            "tests" | "conftest" | "fixture" | "fixtures" | "testutil" | "test_util" | "testutils"
        )
    {
        return Part::Test;
    }
    let beside_the_work = place.split('/').any(|folder| {
        let folder = folder.to_ascii_lowercase();
        let last = folder.rsplit(['-', '_']).next().unwrap_or_default();
        last != folder && EXAMPLE_FOLDERS.contains(&last)
    });
    let settings =
        matches!(name, "setup.py" | "conf.py" | "noxfile.py") || lower.contains(".config.");
    let of_example = packaged.is_some_and(|(_, class)| is_in_example_package(class));
    if settings || beside_the_work || of_example || folder(EXAMPLE_FOLDERS) {
        Part::Example
    } else {
        Part::Main
    }
}

/// Whether a class, by its path, is in a package of examples within that of the project.
/// `example` may be the name of the project: `org.example` is for documents.
fn is_in_example_package(class: &str) -> bool {
    let (package, _) = class.rsplit_once('/').unwrap_or_default();
    package.split('/').skip(1).any(|name| name == "examples")
}

/// Whether a script is named for tests in a way that other scripts are too, so that only its calls
/// tell.
pub(super) fn may_be_test_script(path: &str) -> bool {
    let name = file_name(path);
    let Some((stem, extension)) = name.split_once('.') else { return false };
    let stem = stem.to_ascii_lowercase();
    let last = stem.rsplit(['_', '-']).next().unwrap_or_default();
    matches!(extension, "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts")
        && matches!(last, "test" | "tests" | "spec" | "specs")
        && part_of(path) == Part::Main
}

/// Whether a path lies in a folder of what others wrote.
pub(super) fn is_vendored(path: &str) -> bool {
    let (folders, _) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').any(|it| VENDORED_FOLDERS.contains(&it.to_ascii_lowercase().as_str()))
}

/// Whether a path is that of a file that a program writes.
pub(super) fn is_generated_path(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    folders.split('/').any(|folder| GENERATED_FOLDERS.contains(&folder))
        || GENERATED_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether a path is that of tests, not of data for tests or of what several tests share.
pub(super) fn is_test_file(path: &str) -> bool {
    let data = ["fixtures", "testdata", "test_data", "snapshots", "__snapshots__", "__mocks__"];
    let shared =
        ["__init__", "conftest", "fixture", "fixtures", "testutil", "test_util", "testutils"];
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or_default();
    part_of(path) == Part::Test
        && !shared.contains(&stem)
        && !folders.split('/').any(|folder| data.contains(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_the_part() {
        for (path, part) in [
            ("src/lib.rs", Part::Main),
            ("src/latest.rs", Part::Main),
            ("src/contest/a.py", Part::Main),
            ("tests/it/a.rs", Part::Test),
            ("src/tests.rs", Part::Test),
            ("pkg/a_test.go", Part::Test),
            ("web/a.spec.ts", Part::Test),
            ("src/test_frame.py", Part::Test),
            ("app/FooTest.java", Part::Test),
            ("app/Latest.java", Part::Main),
            ("examples/a.rs", Part::Example),
            ("crates/kite-bench/src/main.rs", Part::Example),
            ("workbench/src/main.rs", Part::Main),
            ("vendor/x/a.go", Part::Foreign),
            ("pregenerated/a.S", Part::Foreign),
            ("src/main/java/org/example/test/A.java", Part::Main),
            ("examples/x/src/main/java/A.java", Part::Example),
            ("src/main/java/org/kite/examples/A.java", Part::Example),
            ("src/main/java/examples/A.java", Part::Main),
            ("src/main/java/org/kite/example/A.java", Part::Main),
            ("kite/testing/run.py", Part::Main),
            ("test-crates/a/src/lib.rs", Part::Test),
            ("test.c", Part::Test),
            ("kite/test.py", Part::Test),
            ("src/cmd/test.rs", Part::Main),
            ("lib/commands/test.js", Part::Main),
            ("web/a.min.js", Part::Foreign),
            ("Cargo.lock", Part::Foreign),
        ] {
            assert_eq!(part_of(path), part, "{path}");
        }
        for (path, may_be) in [
            ("bindings/node/binding_test.js", true),
            ("web/Kite-spec.tsx", true),
            ("lib/test.mjs", true),
            ("lib/contest.js", false),
            ("test/kite_test.js", false),
            ("src/kite_test.rs", false),
        ] {
            assert_eq!(may_be_test_script(path), may_be, "{path}");
        }
    }
}
