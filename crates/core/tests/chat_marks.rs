//! Marks of chat formats, one per row: which become inert, and which text stays unchanged.

use deputize_core::sanitize::{InertText, clean, restore_marks, restored_whole};

/// A mark in each row, and after a tab the text that follows it.
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
            if before != "‹" {
                assert_eq!(restore_marks(&cleaned.text, &text).unwrap().text, text);
            }
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
        assert_eq!(restore_marks(row, row).unwrap().text, row);
    }
    assert!(ORDINARY.lines().count() > 250);
}

#[test]
fn marks_are_restored_but_for_those_of_which_the_original_has_the_inert_form() {
    let back =
        |text, original| restore_marks(text, original).map(|it| (it.text.into_owned(), it.marks));
    assert_eq!(back("‹s> ‹/s> ‹b>", "a"), Ok(("<s> </s> ‹b>".to_owned(), 2)));
    assert_eq!(back("‹s> ‹/s> ‹think>", "‹/s>"), Ok(("‹s> ‹/s> <think>".to_owned(), 1)));
    assert_eq!(back("‹ARGS] ‹|x|> ‹", ""), Ok(("[ARGS] <|x|> ‹".to_owned(), 2)));
    assert_eq!(back("‹s>", "<s> and ‹s>").unwrap_err().0, "‹s>");
    assert_eq!(restored_whole("‹s> ‹s>", "‹s>").unwrap_err().0, "‹s>");
    assert_eq!(restored_whole("‹s>", "‹s> ‹s>").unwrap().marks, 0);
}

#[test]
fn places_in_a_text_with_inert_marks_are_found_in_the_original() {
    let original = "é<s>a◁think▷b[INST]c";
    let shown = InertText::of(original);
    assert_eq!(shown.text, "é‹s>a‹think▷b‹INST]c");
    for part in ["é", "‹s>", "s>a", "a", "‹think▷b‹INST]", "INST]c", "c"] {
        let at = shown.text.find(part).unwrap();
        let range = shown.original(&(at..at + part.len()));
        assert_eq!(clean(&original[range]).text, clean(part).text, "{part}");
    }
}
