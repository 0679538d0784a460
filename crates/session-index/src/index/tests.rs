use std::fs;
use std::sync::Barrier;

use deputize_core::source::Source;

use super::*;
use crate::entry::EntryKind;
use crate::fixture::{SessionFolder, called, compacted, fetched, replied, returned, said, started};
use crate::search::RESULTS_RANKED;

/// Two sessions, of which the second read a page.
fn two() -> SessionFolder {
    let folder = SessionFolder::new();
    folder.add(
        "s1",
        [
            started("s1", "Fix the flaky test"),
            said("[date]\nFix the flaky test"),
            called("terminal", r#"{"command": "cargo nextest run parser"}"#),
            replied("The parser waited for a clock.\nIt is deterministic now."),
        ],
    );
    folder.add(
        "s2",
        [
            started("s2", "Describe the parser"),
            fetched("web:a.example"),
            replied("Größe: 東京都の天気 and crates/core/src/parser_state.rs"),
        ],
    );
    folder
}

#[test]
fn words_are_found_by_their_beginning_in_any_script_and_case() {
    let folder = two();
    assert_eq!(folder.found("flaky"), ["s1#0 Fix the <flaky> test"]);
    assert_eq!(
        folder.found("DETERMIN clock"),
        ["s1#3 The parser waited for a <clock>. It is <deterministic> now."]
    );
    for (query, is_found) in [
        ("grosse", false),
        ("große", true),
        ("groẞe", true),
        ("grö", true),
        ("東京", true),
        ("京都", true),
        ("東都", false),
        ("天気", true),
        ("parser_state.rs", true),
        ("core/src", true),
        ("src/core", false),
        ("\"and crates\"", true),
        ("\"crates and\"", false),
        ("arser", false),
    ] {
        let found = folder.found(query);
        assert_eq!(
            found.iter().any(|line| line.starts_with("s2#2 ")),
            is_found,
            "{query}: {found:?}"
        );
    }
    assert_eq!(
        folder.found("京都"),
        ["s2#2 Größe: 東<京都>の天気 and crates/core/src/parser_state.rs"]
    );
}

#[test]
fn results_of_tools_are_found_after_what_was_said() {
    let folder = two();
    let long = format!("first {} last", "x ".repeat(5_000));
    folder.add("s3", [started("s3", "Other"), returned("error in the parser"), returned(&long)]);
    assert_eq!(folder.found("error"), ["s3#1 <error> in the parser"]);
    let results = folder.search("parser");
    let names: Vec<_> = results.sessions.iter().map(|it| it.session.to_string()).collect();
    assert_eq!(names, ["s2", "s1", "s3"]);
    assert_eq!(results.sessions[2].texts[0].kind, EntryKind::Result);
    assert!(results.sessions[0].texts.iter().all(|text| text.kind != EntryKind::Result));
    // Of a long one the ends are searched, and a conversation shows little of those around.
    assert_eq!((folder.found("first").len(), folder.found("last").len()), (1, 1));
    let page = folder.index().read_around(&"s3#1".parse().unwrap(), &Cancel::new()).unwrap();
    let kinds: Vec<_> = page.texts.iter().map(|text| text.kind.as_str()).collect();
    assert_eq!(kinds, ["prompt", "result", "result"]);
    assert_eq!(page.texts[2].text.len(), 300);
    // What is gone is found no more.
    folder.remove("s3");
    assert!(folder.found("error").is_empty());
}

#[test]
fn what_an_operator_would_be_is_a_word() {
    let folder = two();
    for query in [
        "flaky AND",
        "NOT flaky",
        "flaky OR test",
        "NEAR(flaky test)",
        "text:flaky",
        "flaky*",
        "^flaky",
        "flaky\"",
        "\"flaky",
        "-flaky",
        "+flaky",
        "(flaky",
        "{text}:flaky",
        "'flaky'",
        "flaky\0",
        "Ⓐ flaky",
        "½ flaky",
        "flaky; DROP TABLE entry",
        "\u{301} flaky",
    ] {
        let _found = folder.search(query);
    }
    assert_eq!(folder.found("flaky*").len(), 1);
    assert_eq!(folder.found("-flaky").len(), 1);
}

#[test]
fn without_a_text_with_all_words_those_with_some_are_found() {
    let folder = two();
    let results = folder.search("clock submarine");
    assert!(results.has_some_words);
    assert_eq!(results.sessions.len(), 1);
    let results = folder.search("parser");
    assert!(!results.has_some_words);
    let names: Vec<_> = results.sessions.iter().map(|it| it.session.to_string()).collect();
    assert_eq!(names, ["s2", "s1"]);
    assert_eq!(results.sessions[0].outside, [Source::web("a.example")].into());
    assert_eq!(folder.search("submarine").sessions, []);
}

#[test]
fn a_session_can_be_left_out_and_limits_are_said() {
    let folder = two();
    let search = |query: &str, except: Option<&str>, sessions| {
        let except = except.map(|name| SessionId::new(name.to_owned()).unwrap());
        let limits = SearchLimits { sessions, texts: 1 };
        let query = SearchQuery::parse(query).unwrap();
        folder.index().search(&query, except.as_ref(), limits, &Cancel::new()).unwrap()
    };
    let names = |results: &SearchResults| {
        results.sessions.iter().map(|it| it.session.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&search("parser", Some("s2"), 8)), ["s1"]);
    assert_eq!(names(&search("parser", Some("s9"), 8)), ["s2", "s1"]);
    for (sessions, has_more_sessions) in [(1, true), (2, false)] {
        let found = search("parser", None, sessions);
        assert!(found.has_more);
        assert_eq!(found.has_more_sessions, has_more_sessions, "{sessions}");
    }
    assert!(!search("clock", None, 1).has_more);
}

/// What a compaction took from the conversation is found, also by the session itself.
#[test]
fn of_a_session_that_is_left_out_what_stands_before_its_last_compaction_is_found() {
    let folder = SessionFolder::new();
    folder.add("s1", [started("s1", "Mend the kite"), replied("The first kite flew.")]);
    let except = SessionId::new("s1".to_owned()).unwrap();
    let found = || {
        let query = SearchQuery::parse("kite").unwrap();
        let limits = SearchLimits::default();
        let found = folder.index().search(&query, Some(&except), limits, &Cancel::new()).unwrap();
        let texts = found.sessions.into_iter().flat_map(|session| session.texts);
        let mut records: Vec<u64> = texts.map(|text| text.record).collect();
        records.sort_unstable();
        records
    };
    assert!(found().is_empty());
    let of_child = [("a".to_owned(), compacted())];
    folder.add_of("s1", of_child).unwrap();
    assert!(found().is_empty(), "the conversation of a child is another one");
    folder.add("s1", [compacted(), replied("A second kite.")]);
    assert_eq!(found(), [0, 1]);
    folder.add("s1", [compacted(), replied("A third kite.")]);
    assert_eq!(found(), [0, 1, 4]);
}

#[test]
fn a_long_session_that_is_left_out_hides_no_results_of_others() {
    let folder = SessionFolder::new();
    folder.add("s1", [started("s1", "Build"), returned("error: E0308")]);
    assert_eq!(folder.found("E0308").len(), 1);
    let results = (0..=RESULTS_RANKED).map(|_| returned("error: E0308"));
    folder.add("s2", [started("s2", "Build")].into_iter().chain(results));
    let query = SearchQuery::parse("E0308").unwrap();
    let except = SessionId::new("s2".to_owned()).unwrap();
    let limits = SearchLimits::default();
    let found = folder.index().search(&query, Some(&except), limits, &Cancel::new()).unwrap();
    let names: Vec<_> = found.sessions.iter().map(|it| it.session.as_str()).collect();
    assert_eq!(names, ["s1"]);
}

#[test]
fn only_what_is_new_is_read() {
    let folder = two();
    assert_eq!(folder.found("tomorrow"), [""; 0]);
    folder.add("s1", [said("And tomorrow?"), replied("Tomorrow too.")]);
    assert_eq!(folder.found("tomorrow").len(), 2);
    // What was read is not read again: it is not there any more, and is found.
    let path = folder.path("s1");
    folder.add("s1", [said("Later")]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("clock", "watch", 1)).unwrap();
    assert_eq!(folder.found("clock").len(), 1);
    assert_eq!(folder.found("later").len(), 1);
    folder.remove("s2");
    assert_eq!(folder.found("parser").len(), 2);
    fs::remove_dir_all(folder.index().folder()).unwrap();
    assert_eq!(folder.found("clock"), [""; 0]);
}

#[test]
fn sessions_that_cannot_be_read_are_named_and_the_rest_is_found() {
    let folder = two();
    fs::write(folder.path("s3"), "no header\n").unwrap();
    let newer = r#"{"format":99,"session":"s4","created":0,"secret":"00"}"#;
    fs::write(folder.path("s4"), newer).unwrap();
    for _ in 0..2 {
        let results = folder.search("flaky");
        assert_eq!(results.sessions.len(), 1);
        let unread: Vec<_> = results.unread.iter().map(|it| it.session.as_str()).collect();
        assert_eq!(unread, ["s3", "s4"]);
        assert!(results.unread[1].why.contains("use a newer version"), "{results:?}");
    }
    // What stands behind a broken record is not read.
    let text = fs::read_to_string(folder.path("s1")).unwrap();
    fs::write(folder.path("s1"), text.replacen("nextest", "nextbest", 1)).unwrap();
    fs::remove_dir_all(folder.index().folder()).unwrap();
    assert_eq!((folder.found("flaky").len(), folder.found("clock").len()), (1, 0));
    folder.remove("s3");
    folder.remove("s4");
    assert_eq!(folder.search("flaky").unread, []);
}

#[test]
fn a_broken_index_or_one_of_another_version_is_made_anew() {
    let folder = two();
    assert_eq!(folder.found("flaky").len(), 1);
    let file = folder.index().folder().join("index.sqlite");
    let whole = fs::read(&file).unwrap();
    let mut broken = whole.clone();
    broken[200..].fill(0xa5);
    let half = whole[..whole.len() / 2].to_vec();
    for bytes in [broken, half, b"not a database at all, but longer than its head".to_vec(), vec![]]
    {
        fs::write(&file, bytes).unwrap();
        assert_eq!(folder.found("flaky").len(), 1);
    }
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("DELETE FROM session; PRAGMA user_version = 77;").unwrap();
    drop(other);
    assert_eq!(folder.found("flaky").len(), 1);
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("DROP TABLE body; CREATE TABLE body(text);").unwrap();
    drop(other);
    assert_eq!(folder.found("flaky").len(), 1);
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("UPDATE session SET state = x'ff00', position = 7, size = 0").unwrap();
    drop(other);
    assert_eq!(folder.found("flaky").len(), 1);
}

#[test]
fn without_sessions_nothing_is_made() {
    let folder = SessionFolder::new();
    assert_eq!(folder.search("flaky").sessions, []);
    assert!(!folder.dir.path().exists());
    let place = "s1#1".parse().unwrap();
    let actual = folder.index().read_around(&place, &Cancel::new()).unwrap_err().to_string();
    assert_eq!(actual, "there is no session `s1`");
}

#[test]
fn sessions_that_cannot_be_read_are_not_blamed_on_the_index() {
    let folder = SessionFolder::new();
    fs::write(folder.dir.path(), "a file stands there").unwrap();
    let query = SearchQuery::parse("flaky").unwrap();
    let error =
        folder.index().search(&query, None, SearchLimits::default(), &Cancel::new()).unwrap_err();
    let told = deputize_core::describe_error(&error);
    assert!(told.starts_with("cannot read the sessions: cannot use folder `"), "{told}");
}

#[test]
fn an_index_that_cannot_be_written_is_an_error_that_names_it() {
    let folder = two();
    fs::write(folder.index().folder(), "a file stands there").unwrap();
    let query = SearchQuery::parse("flaky").unwrap();
    let error =
        folder.index().search(&query, None, SearchLimits::default(), &Cancel::new()).unwrap_err();
    let actual = deputize_core::describe_error(&error);
    assert!(actual.starts_with("cannot use the search index `"), "{actual}");
}

#[test]
fn a_cancelled_search_says_so_and_the_next_goes_on() {
    let folder = two();
    let cancel = Cancel::new();
    cancel.cancel(deputize_core::CancelReason::Interrupted);
    let query = SearchQuery::parse("flaky").unwrap();
    let found = folder.index().search(&query, None, SearchLimits::default(), &cancel);
    assert!(matches!(found, Err(IndexError::Cancelled)), "{found:?}");
    assert_eq!(folder.found("flaky").len(), 1);
}

#[test]
fn searches_side_by_side_find_the_same() {
    let folder = SessionFolder::new();
    for number in 0..20 {
        let name = format!("s{number}");
        folder.add(&name, [started(&name, &format!("Task {number}")), replied("Done at last.")]);
    }
    let threads = 8;
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                let results = folder.search("last");
                assert_eq!(results.sessions.len(), 8);
                assert!(results.has_more);
            });
        }
    });
}

#[test]
fn a_page_has_what_one_agent_said_around_a_place() {
    let folder = SessionFolder::new();
    let texts = (0..20).map(|number| (String::new(), replied(&format!("Reply {number}"))));
    folder
        .add_of("s1", [(String::new(), started("s1", "Count"))].into_iter().chain(texts))
        .unwrap();
    folder
        .add_of(
            "s1",
            [("1.0.0".to_owned(), replied("Of the child")), (String::new(), replied("x"))],
        )
        .unwrap();
    let read = |place: &str| {
        folder.index().read_around(&place.parse().unwrap(), &Cancel::new()).map(|page| {
            let records: Vec<u64> = page.texts.iter().map(|text| text.record).collect();
            (page.agent, records, page.has_earlier, page.has_later)
        })
    };
    let top = |records: std::ops::RangeInclusive<u64>| (String::new(), records.collect::<Vec<_>>());
    let is = |read: (String, Vec<u64>, bool, bool)| ((read.0, read.1), read.2, read.3);
    assert_eq!(is(read("s1").unwrap()), (top(0..=5), false, true));
    assert_eq!(is(read("s1#10").unwrap()), (top(5..=15), true, true));
    let (agent, records, earlier, later) = read("s1#21").unwrap();
    assert_eq!((agent.as_str(), records, earlier, later), ("1.0.0", vec![21], false, false));
    let (_, records, _, later) = read("s1#999999").unwrap();
    assert_eq!((records, later), (vec![16, 17, 18, 19, 20, 22], false));
    fs::write(folder.path("s2"), "").unwrap();
    folder.add("s3", []);
    let describe = |place| read(place).unwrap_err().to_string();
    assert_eq!(describe("s2"), "session `s2` has no text that is searched");
    assert_eq!(describe("s3"), "session `s3` has no text that is searched");
    assert_eq!(describe("s4"), "there is no session `s4`");
}
