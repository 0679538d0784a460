//! Whatever happens to the session files, an index that is brought up to date is the one that would
//! be built from nothing.

use std::fs;

use proptest::prelude::*;
use rusqlite::Connection;

use crate::fixture::{SessionFolder, called, fetched, replied, said, started};

#[derive(Debug, Clone)]
enum Change {
    /// Records of a session, which begins if it is not there.
    Add { session: usize, texts: Vec<usize> },
    /// A session is deleted.
    Remove { session: usize },
    /// A session file loses its end: so many of a thousand parts are left.
    Cut { session: usize, parts: usize },
    /// Bytes stand behind the last record.
    Tear { session: usize },
    /// The index is brought up to date.
    Search,
}

const SESSIONS: [&str; 3] = ["s1", "s2", "s3"];

fn change() -> impl Strategy<Value = Change> {
    let session = 0..SESSIONS.len();
    prop_oneof![
        4 => (session.clone(), prop::collection::vec(0..5_usize, 1..4))
            .prop_map(|(session, texts)| Change::Add { session, texts }),
        1 => session.clone().prop_map(|session| Change::Remove { session }),
        2 => (session.clone(), 0..1000_usize)
            .prop_map(|(session, parts)| Change::Cut { session, parts }),
        1 => session.prop_map(|session| Change::Tear { session }),
        4 => Just(Change::Search),
    ]
}

fn apply(folder: &SessionFolder, change: &Change) {
    let name = |session: &usize| SESSIONS[*session];
    match change {
        Change::Add { session, texts } => {
            let name = name(session);
            let event = |text: &usize| match text {
                0 => started(name, "Look at alpha"),
                1 => said("Look at alpha"),
                2 => replied("It was beta."),
                3 => called("read_file", r#"{"path": "gamma.rs"}"#),
                _ => fetched("web:delta.example"),
            };
            // A damaged one takes no more.
            let _taken = folder.add_of(name, texts.iter().map(|it| (String::new(), event(it))));
        }
        Change::Remove { session } => {
            let _gone = fs::remove_file(folder.path(name(session)));
        }
        Change::Cut { session, parts } => {
            edit(folder, name(session), |text| text.truncate(text.len() * parts / 1000));
        }
        Change::Tear { session } => {
            edit(folder, name(session), |text| text.extend_from_slice(br#"{"seq":7,"len"#));
        }
        Change::Search => {
            folder.search("beta");
        }
    }
}

fn edit(folder: &SessionFolder, session: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let path = folder.path(session);
    if let Ok(mut bytes) = fs::read(&path) {
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
    }
}

/// Everything in an index but the times of files and the numbers that only it knows.
fn content(folder: &SessionFolder) -> Vec<String> {
    folder.search("beta");
    let file = folder.index().folder().join("index.sqlite");
    let connection = Connection::open(file).unwrap();
    let mut lines = Vec::new();
    for sql in [
        "SELECT concat_ws('|', name, size, position, state, fault) FROM session ORDER BY name",
        "SELECT concat_ws('|', session.name, seq, at, agent, kind, text)
            FROM entry JOIN session ON session.id = entry.session JOIN body ON body.rowid = entry.id
            ORDER BY session.name, seq",
        "SELECT 'texts ' || count(*) FROM body",
    ] {
        let mut rows = connection.prepare(sql).unwrap();
        let found = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
        lines.extend(found.map(Result::unwrap));
    }
    connection
        .execute("INSERT INTO body(body, rank) VALUES('integrity-check', 1)", [])
        .expect("the words in the index are those of its texts");
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_index_brought_up_to_date_is_the_one_built_from_nothing(
        changes in prop::collection::vec(change(), 1..25),
    ) {
        let folder = SessionFolder::new();
        folder.add("s1", [started("s1", "Look at alpha")]);
        for change in &changes {
            apply(&folder, change);
        }
        let kept = content(&folder);
        let found = ["alpha", "beta gamma", "gam"].map(|query| folder.search(query));
        fs::remove_dir_all(folder.index().folder()).unwrap();
        prop_assert_eq!(kept, content(&folder));
        prop_assert_eq!(found, ["alpha", "beta gamma", "gam"].map(|query| folder.search(query)));
    }
}
