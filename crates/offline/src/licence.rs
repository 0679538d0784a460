//! Which licence a text is, by the words that only it has.

/// Names of licences, and words that their texts have.
const TEXTS: [(&str, &[&str]); 17] = [
    ("Apache-2.0", &["apache license", "version 2.0"]),
    ("AGPL-3.0", &["gnu affero general public license", "version 3"]),
    ("LGPL-3.0", &["gnu lesser general public license", "version 3"]),
    ("LGPL-2.1", &["gnu lesser general public license", "version 2.1"]),
    ("GPL-3.0", &["gnu general public license", "version 3"]),
    ("GPL-2.0", &["gnu general public license", "version 2"]),
    ("MPL-2.0", &["mozilla public license", "2.0"]),
    ("EPL-2.0", &["eclipse public license", "2.0"]),
    ("Unlicense", &["this is free and unencumbered software released into the public domain"]),
    ("CC0-1.0", &["cc0 1.0 universal"]),
    ("BSL-1.0", &["boost software license", "version 1.0"]),
    ("BSD-3-Clause", &["redistribution and use in source and binary forms", "neither the name"]),
    ("BSD-2-Clause", &["redistribution and use in source and binary forms"]),
    ("ISC", &["permission to use, copy, modify, and/or distribute this software for any"]),
    ("ISC", &["permission to use, copy, modify, and distribute this software for any"]),
    ("Zlib", &["the origin of this software must not be misrepresented"]),
    ("MIT", &["permission is hereby granted, free of charge, to any person obtaining a copy"]),
];

/// Returns the licence of a text. `None` for one that is not known.
pub(super) fn licence_of(text: &str) -> Option<&'static str> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let fits = |words: &[&str]| words.iter().all(|word| text.contains(word));
    TEXTS.iter().find(|(_, words)| fits(words)).map(|(name, _)| *name)
}

/// Whether a file name is that of a licence.
pub(super) fn is_licence(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let known = ["license", "licence", "copying", "unlicense", "licenses"];
    let stem = lower.split(['.', '-', '_']).next().unwrap_or_default();
    known.contains(&stem) && !lower.ends_with(".rs") && !lower.ends_with(".py")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_known_by_its_words() {
        for (text, name) in [
            (
                "MIT License\n\nPermission is hereby granted, free of charge, to any person\nobtaining a copy of",
                Some("MIT"),
            ),
            ("   Apache License\n   Version 2.0, January 2004", Some("Apache-2.0")),
            ("GNU GENERAL PUBLIC LICENSE\n Version 2, June 1991", Some("GPL-2.0")),
            (
                "Redistribution and use in source and binary forms\n * Neither the name of",
                Some("BSD-3-Clause"),
            ),
            ("All rights reserved.", None),
        ] {
            assert_eq!(licence_of(text), name);
        }
        for (name, yes) in [
            ("LICENSE", true),
            ("LICENSE-MIT", true),
            ("COPYING.LIB", true),
            ("licensing.md", false),
        ] {
            assert_eq!(is_licence(name), yes, "{name}");
        }
    }
}
