//! Which licences a text is, by the words that only their texts have.

/// A licence, words of which its text has at least one group, and words that its text lacks.
struct LicenceText {
    name: &'static str,
    marks: &'static [&'static str],
    /// Words that the text has too.
    also: &'static [&'static str],
    /// Words by which the text is another licence.
    not: &'static [&'static str],
}

const fn text(name: &'static str, marks: &'static [&'static str]) -> LicenceText {
    LicenceText { name, marks, also: &[], not: &[] }
}

const PERMISSION: &[&str] = &[
    "permission is hereby granted, free of charge, to any person obtaining a copy of this software",
];
const NOTICE: &str = "shall be included in all copies";
const GOOD: &str = "shall be used for good, not evil";
const ANY_PURPOSE: &str = "this software for any purpose with or without fee is hereby granted";
const WITH_NOTICE: &str = "provided that the above copyright notice";
const REDISTRIBUTION: &str = "redistribution and use in source and binary forms";
const ENDORSEMENT: [&str; 2] = ["endorse or promote products", "neither the name of"];
const ADVERTISING: &str = "all advertising materials mentioning features";

const ORIGIN: &str = "the origin of this software must not be misrepresented";

/// Licences often name others, so the marks are titles with their dates, notices that refer to
/// the licence, and sentences of the text, not names.
const TEXTS: &[LicenceText] = &[
    text(
        "Apache-2.0",
        &[
            "apache license version 2.0, january 2004",
            "licensed under the apache license, version 2.0",
        ],
    ),
    text("AGPL-3.0", &["gnu affero general public license version 3, 19 november 2007"]),
    text("LGPL-3.0", &["gnu lesser general public license version 3, 29 june 2007"]),
    text("LGPL-2.1", &["gnu lesser general public license version 2.1, february 1999"]),
    text("LGPL-2.0", &["gnu library general public license version 2, june 1991"]),
    text("GPL-3.0", &["gnu general public license version 3, 29 june 2007"]),
    text("GPL-2.0", &["gnu general public license version 2, june 1991"]),
    text(
        "MPL-2.0",
        &[
            "mozilla public license version 2.0",
            "mozilla public license, version 2.0",
            "mozilla public license, v. 2.0",
        ],
    ),
    text("EPL-2.0", &["eclipse public license - v 2.0"]),
    text("Unlicense", &["this is free and unencumbered software released into the public domain"]),
    text("CC0-1.0", &["cc0 1.0 universal"]),
    text("BSL-1.0", &["boost software license - version 1.0"]),
    LicenceText { also: &[WITH_NOTICE], ..text("ISC", &[ANY_PURPOSE]) },
    LicenceText { not: &[WITH_NOTICE], ..text("0BSD", &[ANY_PURPOSE]) },
    LicenceText { also: &[ORIGIN], ..text("Zlib", &["alter it and redistribute it freely"]) },
    LicenceText { also: &[NOTICE], not: &[GOOD], ..text("MIT", PERMISSION) },
    LicenceText { also: &[NOTICE, GOOD], ..text("JSON", PERMISSION) },
    LicenceText { not: &[NOTICE], ..text("MIT-0", PERMISSION) },
];

/// Returns the licences whose texts a text has, in their order. Empty where none is known.
pub(super) fn licences_of(text: &str) -> Vec<&'static str> {
    let words = text.split_whitespace().map(|word| word.trim_matches(['*', '#', '/', '_', '`']));
    let text = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let text = text.to_ascii_lowercase();
    let mut out: Vec<(usize, &str)> = TEXTS.iter().filter_map(|it| place(it, &text)).collect();
    out.extend(bsd(&text));
    out.sort_unstable();
    out.into_iter().map(|(_, name)| name).collect()
}

/// Returns where a licence begins in a text in lower case, if it has it.
fn place(licence: &LicenceText, text: &str) -> Option<(usize, &'static str)> {
    let has = |word: &&str| text.contains(*word);
    if !licence.also.iter().all(has) || licence.not.iter().any(has) {
        return None;
    }
    let at = licence.marks.iter().filter_map(|mark| text.find(mark)).min()?;
    Some((at, licence.name))
}

/// Returns the licences of the BSD family, which differ by their clauses.
fn bsd(text: &str) -> Vec<(usize, &'static str)> {
    let mut out = Vec::new();
    let starts: Vec<usize> = text.match_indices(REDISTRIBUTION).map(|(at, _)| at).collect();
    for (number, start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(text.len());
        let clauses = text.get(*start..end).unwrap_or_default();
        let name = if clauses.contains(ADVERTISING) {
            "BSD-4-Clause"
        } else if clauses.contains(ORIGIN) {
            "bzip2-1.0.6"
        } else if ENDORSEMENT.iter().any(|words| clauses.contains(words)) {
            "BSD-3-Clause"
        } else {
            "BSD-2-Clause"
        };
        if !out.iter().any(|(_, known)| *known == name) {
            out.push((*start, name));
        }
    }
    out
}

/// Returns whether a declaration, as a manifest has it, names a licence.
pub(super) fn names(declaration: &str, licence: &str) -> bool {
    let declaration = declaration.to_ascii_lowercase();
    let family = licence.split('-').next().unwrap_or(licence).to_ascii_lowercase();
    let long = match family.as_str() {
        "agpl" => "affero",
        "lgpl" => "lesser general public",
        "gpl" => "general public",
        "mpl" => "mozilla",
        "epl" => "eclipse",
        "bsl" => "boost",
        "cc0" => "creative commons zero",
        _ => family.as_str(),
    };
    declaration.contains(&family) || declaration.contains(long)
}

/// Whether a file name is that of a licence.
pub(super) fn is_licence(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let known = ["license", "licence", "copying", "unlicense", "licenses"];
    let stem = lower.split(['.', '-', '_']).next().unwrap_or_default();
    known.contains(&stem) && !lower.ends_with(".rs") && !lower.ends_with(".py")
}

/// Words of licences and of the notices that stand above sources.
const LEGAL: &[&str] = &[
    "copyright",
    "spdx-",
    "all rights reserved",
    "licensed under",
    "licensed to",
    "under the license",
    "under the licence",
    "under the terms",
    "mit license",
    "bsd license",
    "apache license",
    "public license",
    "public domain",
    "license:",
    "licence:",
    "redistribution and use",
    "is hereby granted",
    "permission to use, copy",
    "provided \"as is\"",
    "without warranty",
    "without any warranty",
    "this file is part of",
    "use of this source code",
];

/// Whether a text belongs to a licence or to a notice of copyright.
pub(crate) fn is_legal(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    LEGAL.iter().any(|words| lower.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIT: &str = "MIT License\n\nPermission is hereby granted, free of charge, to any person\nobtaining a copy of \
                       this software and associated\ndocumentation files. The above notice shall be included in all copies.\n";
    const GPL: &str = "GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007\n";

    #[test]
    fn a_licence_is_known_by_its_words() {
        let any = "Permission to use, copy, modify, and/or distribute this software for any\n\
                   purpose with or without fee is hereby granted";
        let isc = format!("{any}, provided that the above copyright notice and");
        let zero = format!("{any}.\n\nTHE SOFTWARE IS PROVIDED");
        let bsd = "Redistribution and use in source and binary forms\n";
        let three =
            format!("{bsd} * Neither the name of it may be used to endorse or promote products");
        let both = format!("{three}\n{bsd}");
        let mit_and_apache = format!(
            "Two licenses.\n\n{MIT}\n#### Apache\n\nLicensed under the Apache License,\nVersion 2.0 (the \"License\");"
        );
        let json = format!("{MIT} The Software shall be used for Good, not Evil.");
        let names_others = format!(
            "{GPL} 13. Use with the GNU Affero General Public License, version 3.\n\
             Use the GNU Lesser General Public License instead."
        );
        let lesser = "GNU LESSER GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007\n\
                      version 3 of the GNU General Public License";
        let mozilla = "Mozilla Public License Version 2.0\n means either the GNU General Public License, Version 2.0";
        let unicode = "Permission is hereby granted, free of charge, to any person obtaining a copy of data files";
        let cases: [(&str, &[&str]); 15] = [
            (MIT, &["MIT"]),
            ("   Apache License\n   Version 2.0, January 2004", &["Apache-2.0"]),
            (&mit_and_apache, &["MIT", "Apache-2.0"]),
            ("GNU GENERAL PUBLIC LICENSE\n Version 2, June 1991", &["GPL-2.0"]),
            (&names_others, &["GPL-3.0"]),
            (lesser, &["LGPL-3.0"]),
            (mozilla, &["MPL-2.0"]),
            (bsd, &["BSD-2-Clause"]),
            (&three, &["BSD-3-Clause"]),
            (&both, &["BSD-3-Clause", "BSD-2-Clause"]),
            (&isc, &["ISC"]),
            (&zero, &["0BSD"]),
            (&json, &["JSON"]),
            (unicode, &[]),
            ("All rights reserved.", &[]),
        ];
        for (text, names) in cases {
            assert_eq!(licences_of(text), names, "{text}");
        }
    }

    #[test]
    fn a_declaration_names_a_licence_in_several_ways() {
        for (declaration, licence, yes) in [
            ("MIT OR Apache-2.0", "Apache-2.0", true),
            ("Apache License, Version 2.0", "Apache-2.0", true),
            ("BSD License", "BSD-3-Clause", true),
            ("GNU General Public License v3", "GPL-3.0", true),
            ("Boost", "BSL-1.0", true),
            ("MIT", "BSD-3-Clause", false),
            ("ISC", "MIT", false),
        ] {
            assert_eq!(names(declaration, licence), yes, "{declaration}: {licence}");
        }
    }

    #[test]
    fn a_licence_file_is_known_by_its_name() {
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
