//! What a file is, by its name alone: its language, and what part it plays.

/// What a language is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Programs.
    Code,
    /// Text for people.
    Prose,
    /// Pages and styles.
    Markup,
    /// Data and settings.
    Data,
    /// No language that we know.
    Other,
}

/// A language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Language {
    pub(super) name: &'static str,
    pub(super) class: Class,
    /// Extensions, in lower case, without the dot.
    extensions: &'static [&'static str],
    /// Whole file names.
    names: &'static [&'static str],
    /// How a line begins that is a comment.
    comments: &'static [&'static str],
}

const fn code(
    name: &'static str,
    extensions: &'static [&'static str],
    comments: &'static [&'static str],
) -> Language {
    Language { name, class: Class::Code, extensions, names: &[], comments }
}

const fn other(
    name: &'static str,
    class: Class,
    extensions: &'static [&'static str],
    names: &'static [&'static str],
) -> Language {
    Language { name, class, extensions, names, comments: &["#", "<!--", "//"] }
}

const fn named(
    name: &'static str,
    extensions: &'static [&'static str],
    names: &'static [&'static str],
) -> Language {
    Language { name, class: Class::Code, extensions, names, comments: HASH }
}

const SLASHES: &[&str] = &["//", "/*", "*"];
const HASH: &[&str] = &["#"];
const DASHES: &[&str] = &["--"];
const PERCENT: &[&str] = &["%"];
const SEMICOLON: &[&str] = &[";"];

/// What a file is whose name tells nothing.
pub(super) const UNKNOWN: Language = other("other", Class::Other, &[], &[]);

pub(super) const LANGUAGES: &[Language] = &[
    code("Rust", &["rs"], SLASHES),
    code("Python", &["py", "pyi", "pyx", "pyw"], HASH),
    code("TypeScript", &["ts", "tsx", "mts", "cts"], SLASHES),
    code("JavaScript", &["js", "jsx", "mjs", "cjs"], SLASHES),
    code("Go", &["go"], SLASHES),
    code("Java", &["java"], SLASHES),
    code("Kotlin", &["kt", "kts"], SLASHES),
    code("Scala", &["scala", "sc", "sbt"], SLASHES),
    code("Groovy", &["groovy", "gradle"], SLASHES),
    code("C", &["c", "h"], SLASHES),
    code("C++", &["cc", "cpp", "cxx", "c++", "hpp", "hh", "hxx", "ipp", "inl", "cu"], SLASHES),
    code("C#", &["cs"], SLASHES),
    code("F#", &["fs", "fsx", "fsi"], SLASHES),
    code("Swift", &["swift"], SLASHES),
    code("Objective-C", &["m", "mm"], SLASHES),
    code("Dart", &["dart"], SLASHES),
    code("Zig", &["zig"], SLASHES),
    code("PHP", &["php", "phtml"], &["//", "/*", "*", "#"]),
    named("Ruby", &["rb", "rake", "gemspec", "ru"], &["Gemfile", "Rakefile", "Vagrantfile"]),
    named("Shell", &["sh", "bash", "zsh", "fish", "ksh"], &["configure", ".bashrc", ".profile"]),
    code("PowerShell", &["ps1", "psm1"], HASH),
    code("Batch", &["bat", "cmd"], &["rem", "REM", "::"]),
    code("Perl", &["pl", "pm", "t"], HASH),
    code("Lua", &["lua"], DASHES),
    code("R", &["r"], HASH),
    code("Julia", &["jl"], HASH),
    code("Elixir", &["ex", "exs"], HASH),
    code("Erlang", &["erl", "hrl"], PERCENT),
    code("Haskell", &["hs", "lhs"], DASHES),
    code("OCaml", &["ml", "mli"], &["(*"]),
    code("Clojure", &["clj", "cljs", "cljc", "edn"], SEMICOLON),
    code("Lisp", &["lisp", "el", "scm", "rkt"], SEMICOLON),
    code("Nix", &["nix"], HASH),
    code("Assembly", &["s", "asm", "nasm"], &[";", "#", "//"]),
    code("Fortran", &["f", "f90", "f95", "for"], &["!"]),
    code("Solidity", &["sol"], SLASHES),
    code("Vue", &["vue"], SLASHES),
    code("Svelte", &["svelte"], SLASHES),
    code("SQL", &["sql"], DASHES),
    code("Terraform", &["tf", "hcl", "tfvars"], HASH),
    code("Protocol Buffers", &["proto"], SLASHES),
    code("GraphQL", &["graphql", "gql"], HASH),
    code("WebAssembly text", &["wat", "wast"], &[";;"]),
    code("GLSL", &["glsl", "vert", "frag", "wgsl", "hlsl"], SLASHES),
    code("Vim script", &["vim"], &["\""]),
    code("Starlark", &["bzl", "bazel", "star"], HASH),
    named("Make", &["mk", "mak"], &["Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"]),
    named("CMake", &["cmake"], &["CMakeLists.txt"]),
    named("Dockerfile", &["dockerfile"], &["Dockerfile", "Containerfile"]),
    other("HTML", Class::Markup, &["html", "htm", "xhtml", "ejs", "hbs", "jinja", "j2"], &[]),
    other("CSS", Class::Markup, &["css", "scss", "sass", "less"], &[]),
    other("SVG", Class::Markup, &["svg"], &[]),
    other("Markdown", Class::Prose, &["md", "markdown", "mdx"], &[]),
    other("reStructuredText", Class::Prose, &["rst"], &[]),
    other("AsciiDoc", Class::Prose, &["adoc", "asciidoc"], &[]),
    other("TeX", Class::Prose, &["tex", "bib", "sty", "cls"], &[]),
    other("Org", Class::Prose, &["org"], &[]),
    other(
        "Text",
        Class::Prose,
        &["txt", "text"],
        &["LICENSE", "LICENCE", "COPYING", "README", "AUTHORS", "NOTICE", "CHANGELOG", "CHANGES"],
    ),
    other("JSON", Class::Data, &["json", "jsonc", "json5", "geojson", "ipynb", "webmanifest"], &[]),
    other("JSON Lines", Class::Data, &["jsonl", "ndjson"], &[]),
    other("YAML", Class::Data, &["yaml", "yml"], &[]),
    other("TOML", Class::Data, &["toml"], &["Pipfile"]),
    other(
        "XML",
        Class::Data,
        &["xml", "xsd", "xsl", "xslt", "csproj", "fsproj", "props", "plist", "pom"],
        &[],
    ),
    other("CSV", Class::Data, &["csv", "tsv"], &[]),
    other(
        "INI",
        Class::Data,
        &["ini", "cfg", "conf", "properties", "env", "editorconfig"],
        &[".env"],
    ),
    other("Lock file", Class::Data, &["lock", "sum"], LOCKS),
    other("Patch", Class::Data, &["patch", "diff"], &[]),
    other("Snapshot", Class::Data, &["snap"], &[]),
    other("Log", Class::Data, &["log"], &[]),
];

/// Files that say which versions of dependencies are used.
pub(super) const LOCKS: &[&str] = &[
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "Pipfile.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
    "mix.lock",
    "pubspec.lock",
    "flake.lock",
    "Package.resolved",
    "packages.lock.json",
    "gradle.lockfile",
    "conda-lock.yml",
    "deno.lock",
];

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The language of a file.
pub(super) fn of(path: &str) -> &'static Language {
    let name = file_name(path);
    if LOCKS.contains(&name) {
        return by_name("Lock file");
    }
    if let Some(language) = LANGUAGES.iter().find(|language| language.names.contains(&name)) {
        return language;
    }
    if name.starts_with("Dockerfile.") {
        return by_name("Dockerfile");
    }
    let extension = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension.to_ascii_lowercase(),
        Some(_) | None => return &UNKNOWN,
    };
    let known = |language: &&Language| language.extensions.contains(&extension.as_str());
    LANGUAGES.iter().find(known).unwrap_or(&UNKNOWN)
}

/// A language by its name in the table.
pub(super) fn by_name(name: &str) -> &'static Language {
    LANGUAGES.iter().find(|language| language.name == name).unwrap_or(&UNKNOWN)
}

/// Whether a word is a file's name rather than a directory's.
pub(super) fn is_file_name(word: &str) -> bool {
    of(word).class != Class::Other
}

impl Language {
    /// Name patterns that find all files of it.
    pub(super) fn globs(&self) -> Vec<String> {
        let extensions = self.extensions.iter().map(|extension| format!("*.{extension}"));
        extensions.chain(self.names.iter().map(|&name| name.to_owned())).collect()
    }

    /// Whether a line that begins like this goes on in a comment.
    pub(super) fn in_comment(&self, before: &str) -> bool {
        let opens = |mark: &&&str| mark.len() > 1 || **mark == "#";
        // A mark after an odd number of quotes stands in a string.
        let outside = |at: usize| {
            before.get(..at).is_some_and(|text| text.matches('"').count().is_multiple_of(2))
        };
        let begun = |mark: &&str| before.find(*mark).is_some_and(outside);
        self.is_comment(before) || self.comments.iter().filter(opens).any(begun)
    }

    /// Whether a line is nothing but a comment.
    pub(super) fn is_comment(&self, line: &str) -> bool {
        let line = line.trim_start();
        self.comments.iter().any(|mark| line.starts_with(mark))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_tells_the_language() {
        for (path, language) in [
            ("a/b.rs", "Rust"),
            ("B.PY", "Python"),
            ("x.d.ts", "TypeScript"),
            ("Makefile", "Make"),
            ("Dockerfile.dev", "Dockerfile"),
            ("package-lock.json", "Lock file"),
            ("Cargo.lock", "Lock file"),
            ("a/LICENSE", "Text"),
            (".gitignore", "other"),
            ("a.b/noext", "other"),
            ("photo.png", "other"),
        ] {
            assert_eq!(of(path).name, language, "{path}");
        }
    }

    #[test]
    fn a_comment_begins_outside_of_strings() {
        for (path, before, yes) in [
            ("a.rs", "    // ", true),
            ("a.rs", "f(\"x\"); // ", true),
            ("a.rs", "put(\"// ", false),
            ("a.rs", "let todo = ", false),
            ("a.py", "x = 1  # ", true),
            ("a.py", "x = '", false),
        ] {
            assert_eq!(of(path).in_comment(before), yes, "{before}");
        }
    }

    #[test]
    fn no_extension_belongs_to_two_languages() {
        let mut seen = BTreeSet::new();
        for extension in LANGUAGES.iter().flat_map(|language| language.extensions) {
            assert!(seen.insert(extension), "{extension}");
        }
    }
}
