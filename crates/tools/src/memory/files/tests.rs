use std::io::Read as _;
use std::sync::Arc;

use deputize_core::describe_error;

use super::*;

fn memory(dir: &Path) -> MemoryFiles {
    let mut secrets = Secrets::default();
    secrets.add("KEY", "correct-horse");
    MemoryFiles::new(dir.join("memory"), secrets)
}

#[test]
fn entries_are_added_replaced_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    assert_eq!(memory.snapshot(), None);
    memory.add(MemoryTopic::Work, "- Tests run\n  with \u{1b}[31mjust.", &[]).unwrap();
    memory.add(MemoryTopic::Work, "It is written in Rust.", &["web:a.example".into()]).unwrap();
    memory.add(MemoryTopic::User, "Likes tea.", &[]).unwrap();
    memory.replace(MemoryTopic::User, "tea", "Likes coffee.", &[]).unwrap();
    assert_eq!(
        memory.snapshot().unwrap().text,
        "# About the person\n- Likes coffee.\n\n# About the work\n- Tests run with just.\n- It \
         is written in Rust. [written after reading web:a.example]\n"
    );
    let removed = memory.remove(MemoryTopic::Work, "just").unwrap();
    assert_eq!(removed, "Tests run with just.");
    assert_eq!(memory.entries(MemoryTopic::Work).unwrap().len(), 1);
}

/// Whoever dies while it writes leaves the old file, and whoever reads meanwhile reads that whole.
#[test]
fn a_change_replaces_the_file_and_writes_nothing_into_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    let work = MemoryTopic::Work;
    memory.add(work, "Old.", &[]).unwrap();
    let mut old = File::open(dir.path().join("memory/work.md")).unwrap();
    memory.add(work, "New.", &[]).unwrap();
    memory.remove(work, "Old").unwrap();
    let mut text = String::new();
    old.read_to_string(&mut text).unwrap();
    assert_eq!(text, "# About the work\n- Old.\n");
    assert_eq!(memory.text(work).unwrap(), "# About the work\n- New.\n");
}

#[test]
fn an_entry_that_is_the_text_wins_over_those_that_have_it_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    let work = MemoryTopic::Work;
    for text in ["abcd", "abc", "x abc", "ab"] {
        memory.add(work, text, &[]).unwrap();
    }
    memory.add(work, "abc", &["web:a.example".into()]).unwrap();
    assert_eq!(memory.remove(work, "abc").unwrap(), "abc");
    let marked = "abc [written after reading web:a.example]";
    assert_eq!(memory.remove(work, "- abc").unwrap(), marked);
    assert_eq!(memory.replace(work, "- ab\n", "new", &[]).unwrap(), "new");
    let error = memory.remove(work, "abc").unwrap_err().to_string();
    assert!(error.starts_with("2 entries of `work` have `abc` in them"), "{error}");
    assert_eq!(memory.entries(work).unwrap(), ["abcd", "x abc", "new"]);
}

#[test]
fn the_mark_of_an_entry_outlives_its_text() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    let sources = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let work = MemoryTopic::Work;
    let first: Vec<String> = sources(&["web:b.example"]);
    memory.add(work, &"x".repeat(ENTRY_CHARS), &first).unwrap();
    let second: Vec<String> = sources(&["web:a.example"]);
    let entry = memory.replace(work, "xxx", "Short.", &second).unwrap();
    assert_eq!(entry, "Short. [written after reading web:a.example, web:b.example]");
    assert_eq!(memory.replace(work, "Short", "New.", &[]).unwrap(), entry.replace("Short", "New"));
    let many: Vec<String> = sources(&["web:1", "web:2", "web:3", "web:4", "web:5", "web:6"]);
    let entry = memory.add(work, "Many.", &many).unwrap();
    assert_eq!(entry, "Many. [written after reading web:1, web:2, web:3, web:4, 2 more]");
    let entry = memory.replace(work, "Many", "Fewer.", &sources(&["web:0"])).unwrap();
    assert_eq!(entry, "Fewer. [written after reading web:0, web:1, web:2, web:3, 3 more]");
    let read = SourceMark::split(&entry).1;
    let read: Vec<String> = read.into_sources().map(|source| source.to_string()).collect();
    assert_eq!(read, ["web:0", "web:1", "web:2", "web:3"]);
}

#[test]
fn what_is_no_entry_is_refused_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    let add = |text: &str| memory.add(MemoryTopic::Work, text, &[]).unwrap_err().to_string();
    memory.add(MemoryTopic::Work, "Uses one thread.", &[]).unwrap();
    memory.add(MemoryTopic::Work, "Uses one disk.", &[]).unwrap();
    let before = fs::read(memory.path(MemoryTopic::Work)).unwrap();
    let refused = [
        add(" \n"),
        add(&"x".repeat(401)),
        add("Uses one disk."),
        add("the password is correct-horse"),
        add("the password is [redacted:KEY]"),
        add("use ghp_0123456789abcdef"),
        add("-----BEGIN RSA PRIVATE KEY-----"),
        memory.remove(MemoryTopic::Work, "Uses one").unwrap_err().to_string(),
        memory.replace(MemoryTopic::Work, "two", "x", &[]).unwrap_err().to_string(),
        memory.remove(MemoryTopic::Work, "").unwrap_err().to_string(),
        "us".parse::<MemoryTopic>().unwrap_err().to_string(),
    ];
    insta::assert_snapshot!(refused.join("\n"), @r"
    the entry has no text
    the entry has 401 characters, and 400 is the most: shorten it
    that is kept already
    the entry contains a secret (a key of this program): secrets are never saved
    the entry contains a secret (a key of this program): secrets are never saved
    the entry contains a secret (a key that begins with `ghp_`): secrets are never saved
    the entry contains a secret (a private key): secrets are never saved
    2 entries of `work` have `Uses one` in them, not one: give more of the entry
    no entry of `work` has `two` in it: give a part of an entry that is there
    no entry of `work` has `` in it: give a part of an entry that is there
    there is no memory `us`; there are `user` and `work`
    ");
    assert_eq!(fs::read(memory.path(MemoryTopic::Work)).unwrap(), before);
    let full =
        (0..100).map(|n| memory.add(MemoryTopic::User, &format!("{n} {}", "x".repeat(390)), &[]));
    let full: Vec<_> = full.collect();
    assert_eq!(full.iter().filter(|added| added.is_ok()).count(), 15);
    let error = full[99].as_ref().unwrap_err().to_string();
    assert!(error.starts_with("`user` would have 6"), "{error}");
}

#[test]
fn a_file_that_a_person_wrote_is_read_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    fs::create_dir_all(dir.path().join("memory")).unwrap();
    let text =
        "# About the person\nNotes\n\n## About\n- One\n  and a half\n  - below\n* Star\n- Two\n";
    fs::write(memory.path(MemoryTopic::User), text).unwrap();
    let entries = ["Notes", "## About", "One and a half", "below", "* Star", "Two"];
    assert_eq!(memory.entries(MemoryTopic::User).unwrap(), entries);
    memory.add(MemoryTopic::User, "New.", &[]).unwrap();
    assert_eq!(memory.entries(MemoryTopic::User).unwrap(), [&entries[..], &["New."]].concat());
    let before = memory.entries(MemoryTopic::User).unwrap();
    let all = |text| memory.replace_all(MemoryTopic::User, &before, text);
    let long = format!("- A\n\n-\n{}\n", "x".repeat(401));
    let error = describe_error(&all(&long).unwrap_err());
    assert_eq!(error, "line 4: the entry has 401 characters, and 400 is the most: shorten it");
    all("A\n- B [written after reading web:a.example]\n").unwrap();
    let now = ["A", "B [written after reading web:a.example]"];
    assert_eq!(memory.entries(MemoryTopic::User).unwrap(), now);
    let error = all("- C\n").unwrap_err().to_string();
    assert_eq!(error, "`user` was changed meanwhile: edit it again");
    assert_eq!(memory.entries(MemoryTopic::User).unwrap(), now);
}

#[test]
fn a_prompt_has_no_more_than_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    fs::create_dir_all(dir.path().join("memory")).unwrap();
    let path = memory.path(MemoryTopic::User);
    fs::write(&path, format!("- {}\n", "x".repeat(990)).repeat(10)).unwrap();
    let text = memory.prompt_text().text.unwrap();
    assert_eq!(text.matches("- x").count(), 6);
    assert!(text.ends_with("[4 more entries are left out here]\n"), "{text}");
    fs::write(&path, format!("- {}\n", "x".repeat(990)).repeat(7)).unwrap();
    let text = memory.prompt_text().text.unwrap();
    assert!(text.ends_with("[1 more entry is left out here]\n"), "{text}");
    // One that is too long alone leaves room for those after it.
    fs::write(&path, format!("- {}\n- a\n", "x".repeat(7_000))).unwrap();
    let prompt = memory.prompt_text();
    let text = prompt.text.unwrap();
    assert_eq!(text, "# About the person\n- a\n\n[1 more entry is left out here]\n");
    let fault = prompt.faults[0].to_string();
    assert!(
        fault.ends_with(
            "user.md: prompts have no room for 1 of its entries: 6000 bytes are the most"
        )
    );
    // Adding the text up anew for each entry that is left out would never end.
    fs::write(&path, "- a\n".repeat(250_000)).unwrap();
    let text = memory.prompt_text().text.unwrap();
    let (kept, note) = text.split_at(text.rfind("\n[").unwrap() + 1);
    assert_eq!(kept.trim_end().len() + 1, MEMORY_BYTES - 1, "one more has 4 bytes");
    assert_eq!(note, "[248505 more entries are left out here]\n");
    fs::write(&path, "x".repeat(2_000_000)).unwrap();
    assert_eq!(memory.prompt_text().faults.len(), 1);
    assert!(memory.add(MemoryTopic::User, "New.", &[]).is_err());
    assert_eq!(fs::metadata(&path).unwrap().len(), 2_000_000);
}

#[test]
fn a_file_that_is_no_text_is_named_and_kept_and_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    memory.add(MemoryTopic::Work, "Written in Rust.", &[]).unwrap();
    let path = memory.path(MemoryTopic::User);
    for bytes in [&b"- Likes tea.\n- Caf\xe9\n"[..], b"- One\n- \0two\n"] {
        fs::write(&path, bytes).unwrap();
        let prompt = memory.prompt_text();
        assert_eq!(prompt.text.unwrap(), "# About the work\n- Written in Rust.\n");
        let [fault] = prompt.faults.as_slice() else { panic!("{:?}", prompt.faults) };
        let fault = describe_error(fault);
        assert!(
            fault.ends_with("memory/user.md cannot be used: line 2 is not UTF-8 text"),
            "{fault}"
        );
        assert!(memory.entries(MemoryTopic::User).is_err());
        assert!(memory.add(MemoryTopic::User, "New.", &[]).is_err());
        assert!(memory.remove(MemoryTopic::User, "Likes").is_err());
        assert!(memory.replace_all(MemoryTopic::User, &[], "- New.\n").is_err());
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(memory.snapshot().unwrap().text, "# About the work\n- Written in Rust.\n");
    }
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let start = Arc::new(std::sync::Barrier::new(8));
    let threads = (0..8).map(|thread| {
        // Each has a handle of its own, as a process has.
        let (memory, start) = (memory(dir.path()), Arc::clone(&start));
        std::thread::spawn(move || {
            start.wait();
            for number in 0..20 {
                let text = format!("{thread} {number}");
                memory.add(MemoryTopic::Work, &text, &[]).unwrap();
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(memory(dir.path()).entries(MemoryTopic::Work).unwrap().len(), 160);
}

#[test]
fn a_link_stays_one_and_what_a_killed_process_left_goes() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory(dir.path());
    let mine = dir.path().join("mine.md");
    fs::create_dir_all(dir.path().join("memory")).unwrap();
    std::os::unix::fs::symlink("../mine.md", memory.path(MemoryTopic::Work)).unwrap();
    fs::write(dir.path().join(".mine.md.new"), "half").unwrap();
    for (text, entries) in [("First.", 1), ("Second.", 2)] {
        memory.add(MemoryTopic::Work, text, &[]).unwrap();
        assert!(memory.path(MemoryTopic::Work).is_symlink());
        assert_eq!(fs::read_to_string(&mine).unwrap().matches("\n- ").count(), entries);
        assert!(!dir.path().join(".mine.md.new").exists());
    }
}
