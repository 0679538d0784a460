//! Language and part of a file, by its name alone.

/// Use of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Sources of programs.
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

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Language {
    pub(super) name: &'static str,
    pub(super) class: Class,
    /// Extensions, in lower case, without the dot.
    extensions: &'static [&'static str],
    /// Whole file names.
    names: &'static [&'static str],
}

const fn code(name: &'static str, extensions: &'static [&'static str]) -> Language {
    Language { name, class: Class::Code, extensions, names: &[] }
}

const fn other(
    name: &'static str,
    class: Class,
    extensions: &'static [&'static str],
    names: &'static [&'static str],
) -> Language {
    Language { name, class, extensions, names }
}

const fn language(
    name: &'static str,
    extensions: &'static [&'static str],
    names: &'static [&'static str],
) -> Language {
    Language { name, class: Class::Code, extensions, names }
}

/// The language of a file whose name says nothing.
pub(super) const UNKNOWN: Language = other("other", Class::Other, &[], &[]);

pub(super) const LANGUAGES: &[Language] = &[
    code("Rust", &["rs"]),
    code("Python", &["py", "pyi", "pyx", "pyw"]),
    code("TypeScript", &["ts", "tsx", "mts", "cts"]),
    code("JavaScript", &["js", "jsx", "mjs", "cjs"]),
    code("Go", &["go"]),
    code("Java", &["java"]),
    code("Kotlin", &["kt", "kts"]),
    code("Scala", &["scala", "sc", "sbt"]),
    code("Groovy", &["groovy", "gradle"]),
    code("C", &["c", "h"]),
    code("C++", &["cc", "cpp", "cxx", "c++", "hpp", "hh", "hxx", "ipp", "inl", "cu"]),
    code("C#", &["cs"]),
    code("F#", &["fs", "fsx", "fsi"]),
    code("Swift", &["swift"]),
    code("Objective-C", &["m", "mm"]),
    code("Dart", &["dart"]),
    code("Zig", &["zig"]),
    code("PHP", &["php", "phtml"]),
    language("Ruby", &["rb", "rake", "gemspec", "ru"], &["Gemfile", "Rakefile", "Vagrantfile"]),
    language("Shell", &["sh", "bash", "zsh", "fish", "ksh"], &["configure", ".bashrc", ".profile"]),
    code("PowerShell", &["ps1", "psm1"]),
    code("Batch", &["bat", "cmd"]),
    code("Perl", &["pl", "pm", "t"]),
    code("Lua", &["lua"]),
    code("R", &["r"]),
    code("Julia", &["jl"]),
    code("Elixir", &["ex", "exs"]),
    code("Erlang", &["erl", "hrl"]),
    code("Haskell", &["hs", "lhs"]),
    code("OCaml", &["ml", "mli"]),
    code("Clojure", &["clj", "cljs", "cljc", "edn"]),
    code("Lisp", &["lisp", "el", "scm", "rkt"]),
    code("Nix", &["nix"]),
    code("Assembly", &["s", "asm", "nasm"]),
    code("Fortran", &["f", "f90", "f95", "for"]),
    code("Solidity", &["sol"]),
    code("Vue", &["vue"]),
    code("Svelte", &["svelte"]),
    code("SQL", &["sql"]),
    code("Terraform", &["tf", "hcl", "tfvars"]),
    code("Protocol Buffers", &["proto"]),
    code("GraphQL", &["graphql", "gql"]),
    code("WebAssembly text", &["wat", "wast"]),
    code("GLSL", &["glsl", "vert", "frag", "wgsl", "hlsl"]),
    code("Vim script", &["vim"]),
    code("Starlark", &["bzl", "bazel", "star"]),
    language("Make", &["mk", "mak"], &["Makefile", "makefile", "GNUmakefile"]),
    language("Just", &["just"], &["justfile", "Justfile", ".justfile"]),
    language("CMake", &["cmake"], &["CMakeLists.txt"]),
    language("Dockerfile", &["dockerfile"], &["Dockerfile", "Containerfile"]),
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
            ("a/justfile", "Just"),
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
    fn no_extension_belongs_to_two_languages() {
        let mut seen = BTreeSet::new();
        for extension in LANGUAGES.iter().flat_map(|language| language.extensions) {
            assert!(seen.insert(extension), "{extension}");
        }
    }
}
