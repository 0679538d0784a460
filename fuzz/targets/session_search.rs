//! Any bytes as a query and a session file: the search is never an error of the index, and an index that
//! met the file half written finds the same as one that met it whole.
//!
//! The input: the query on the first line, then a file as `session_open` takes it.
#![no_main]

use deputize_core::{Cancel, SessionId};
use deputize_fuzz::one_line;
use deputize_fuzz::session_file::written;
use deputize_runtime::SessionDir;
use deputize_session_index::{
    ConversationPage, IndexError, SearchLimits, SearchQuery, SearchResults, SessionIndex,
    SessionPlace,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (query, rest) = input.split_at(end);
    let file = written(rest.get(1..).unwrap_or_default());
    let query = match SearchQuery::parse(&String::from_utf8_lossy(query)) {
        Ok(query) => query,
        Err(IndexError::NoWords | IndexError::Long { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let dir = SessionDir::new(folder.path());
    let path = dir.file(&SessionId::literal("s"));
    let index = SessionIndex::new(dir);
    std::fs::write(&path, &file[..file.len() / 2]).expect("a file");
    search(&index, &query);
    std::fs::write(&path, &file).expect("a file");
    let found = search(&index, &query);
    let page = read(&index);
    std::fs::remove_dir_all(index.folder()).expect("an index");
    assert_eq!(found, search(&index, &query), "other than an index from nothing");
    assert_eq!(page, read(&index));
});

fn search(index: &SessionIndex, query: &SearchQuery) -> SearchResults {
    let found = index.search(query, None, SearchLimits::default(), &Cancel::new());
    let found = found.expect("a result");
    for session in &found.sessions {
        one_line(&session.goal, 200);
        assert!(!session.texts.is_empty(), "a session without a text");
        for text in &session.texts {
            one_line(&text.agent, 200);
            one_line(&text.snippet.marked("", ""), 100_000);
        }
    }
    found
}

fn read(index: &SessionIndex) -> Option<ConversationPage> {
    let place: SessionPlace = "s#1".parse().expect("a place");
    match index.read_around(&place, &Cancel::new()) {
        Ok(page) => Some(page),
        Err(IndexError::NoText(_)) => None,
        Err(error) => panic!("{error}"),
    }
}
