//! Marks of chat formats, in rows: what becomes inert, and what stays as it is.

use deputize_core::door::{clean, restored};

/// A mark in each row, and behind a tab what follows it.
const MARKS: &str = include_str!("chat_marks/marks.tsv");
/// A text without a mark in each row.
const ORDINARY: &str = include_str!("chat_marks/ordinary.txt");

#[test]
fn each_mark_becomes_inert_wherever_it_stands_and_loses_nothing() {
    let rows = MARKS.lines().map(|row| row.split_once('\t').unwrap());
    for (mark, tail) in rows.clone() {
        let rest = &mark[mark.chars().next().unwrap().len_utf8()..];
        for before in ["", " ", "a", "Vec", "\"", "<", "‹", "x\n"] {
            let text = format!("{before}{mark}{tail} end");
            let cleaned = clean(&text);
            assert_eq!(cleaned.text, format!("{before}‹{rest}{tail} end"), "{text:?}");
            assert_eq!(cleaned.marks, 1, "{text:?}");
            assert_eq!(clean(&cleaned.text).text, cleaned.text, "{text:?}: cleaned twice");
            assert_eq!(restored(&cleaned.text, &text), text);
        }
    }
    assert!(rows.count() > 300);
}

#[test]
fn a_mark_that_hidden_characters_split_is_one() {
    let rows = MARKS.lines().map(|row| row.split_once('\t').unwrap());
    for (mark, tail) in rows {
        let split: String = mark.chars().flat_map(|c| [c, '\u{200b}', '\u{1}']).collect();
        let text = format!("{split}{tail}");
        assert_eq!(clean(&text).text, clean(&format!("{mark}{tail}")).text, "{mark:?}");
    }
}

#[test]
fn ordinary_text_stays_as_it_is() {
    for row in ORDINARY.lines() {
        let cleaned = clean(row);
        assert_eq!((cleaned.text.as_ref(), cleaned.marks), (row, 0));
        assert_eq!(restored(row, row), row);
    }
    assert!(ORDINARY.lines().count() > 250);
}

#[test]
fn what_the_original_does_not_have_is_not_restored() {
    assert_eq!(restored("‹s> ‹/s> ‹b>", "a </s>"), "‹s> </s> ‹b>");
    assert_eq!(restored("‹s>", "<s> and ‹s>"), "‹s>");
    assert_eq!(restored("‹INST] ‹|x|> ‹", "[INST] <|x|>"), "[INST] <|x|> ‹");
}
