//! Any bytes as the file of a profile.
#![no_main]

use deputize_documents::{DocumentOrigin, ProfileDocument, ToolAliases};
use deputize_fuzz::meter::MemoryLimit;
use libfuzzer_sys::fuzz_target;

/// A short value may be used by many aliases, up to limits of their own.
const LIMIT: MemoryLimit = MemoryLimit { base: 16 * 1024 * 1024, each: 8 * 1024 };
/// Characters of an error or of a note.
const LINE_CHARS: usize = 2_000;
const ALIASES: ToolAliases = ToolAliases {
    names: &[("Bash", &["terminal"]), ("Read", &["read_file"]), ("Write", &["write_file"])],
    denials: &[("Write", &["edit_file", "write_file"])],
    has_servers: true,
};

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let origin = DocumentOrigin::Project;
    for parse in [ProfileDocument::parse, ProfileDocument::parse_foreign] {
        match LIMIT.during(text.len(), || parse("stem", &text, origin, ALIASES)) {
            Ok(document) => check(&text, document),
            Err(error) => deputize_fuzz::one_line(&error.to_string(), LINE_CHARS),
        }
    }
});

fn check(text: &str, document: ProfileDocument) {
    document.notes.iter().for_each(|note| deputize_fuzz::one_line(note, LINE_CHARS));
    let profile = document.profile;
    assert!(profile.from_project && !profile.name.is_empty());
    assert!(text.contains(profile.instructions.trim()));
    for tool in profile.tools.only.iter().flatten() {
        let is_known = ALIASES
            .names
            .iter()
            .chain(ALIASES.denials)
            .any(|(_, tools)| tools.contains(&tool.as_str()));
        assert!(is_known || tool.as_str().starts_with("mcp__"), "{tool}");
    }
}
