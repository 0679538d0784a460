//! Plugins that break the contract: each is refused, in words that say what to do.

use std::fs;

use serde_json::{Value, json};

use super::{compiled, configure, ended, results, sha256};
use crate::program::{Lab, ProgramEnd};

pub(super) const SOURCE: &str = "tests/fixtures/plugins/rude.c";

/// What is said of a plugin that these flags make, and whether code of it ran.
async fn refusal(flags: &[&str]) -> (String, bool) {
    let lab = Lab::new();
    let trace = format!("-DTRACE=\"{}\"", lab.path("trace").display());
    let library = compiled(&lab, SOURCE, "librude", &[flags, &[trace.as_str()]].concat());
    configure(&lab, &[(&library, true)]);
    let table = ended(&lab, &["plugin", "list"]).await.with_code(1);
    let (rows, whys) = table.out.split_once("\n\n").unwrap();
    assert!(rows.lines().all(|row| !row.contains("SHA-256") && row.len() < 200), "{rows}");
    assert!(!whys.trim().is_empty(), "{}", table.out);
    let listed = ended(&lab, &["plugin", "list", "--json"]).await.with_code(1);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let why = listed[0]["why_not"].as_str().unwrap().to_owned();
    // A run does not go on without it.
    let ProgramEnd { code, err, .. } = ended(&lab, &["run", "-m", "offline", "Hello"]).await;
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains(&why), "{err}\n{why}");
    (why.replace(&*library.to_string_lossy(), "LIB"), lab.path("trace").exists())
}

/// What is refused by the bytes of the file is refused before any of its code runs.
#[tokio::test]
async fn another_version_or_a_short_table_is_refused_before_any_code_runs() {
    let rows: [(&[&str], &str); 7] = [
        (&["-DTABLE_ABI=7"], "speaks version 7 of the plugin ABI and this program version 1"),
        (
            &["-DTABLE_NAME=deputize_plugin_v2", "-DTABLE_ABI=2"],
            "speaks version 2 of the plugin ABI and this program version 1",
        ),
        (&["-DTABLE_SIZE=16"], "has 16 bytes and version 1 of the plugin ABI needs 40"),
        (&["-DTABLE_MAGIC=7"], "begins with 0x00000007 where 0x44505459 belongs"),
        (&["-DTABLE_NAME=other"], "does not export `deputize_plugin_v1`"),
        (
            &["-DSECOND_NAME=deputize_plugin_v1_other"],
            "holds 2 plugins (deputize_plugin_v1, deputize_plugin_v1_other)",
        ),
        (&["-DTABLE_NAME=deputize_plugin_v0_old"], "speaks version 0 of the plugin ABI"),
    ];
    for (flags, words) in rows {
        let (why, ran) = refusal(flags).await;
        assert!(why.contains(words), "{flags:?}: {why}");
        assert!(!ran, "{flags:?}: code of the plugin ran");
    }
}

#[tokio::test]
async fn a_missing_function_or_a_wrong_description_is_refused() {
    let rows: [(&[&str], &str); 5] = [
        (&["-DCALL=NULL"], "the plugin's table has no `call` function"),
        (&["-DDESCRIBED=\"garbage\""], "it is not JSON as agreed"),
        (&["-DDESCRIBED=\"{}\""], "it says neither ok"),
        (
            &[r#"-DDESCRIBED="{\"ok\":{\"name\":\"rude\",\"version\":\"1\",\"tools\":[]}}""#],
            "it has no tools: its author",
        ),
        (&["-DHANG"], "did not describe itself within 10 s"),
    ];
    for (flags, words) in rows {
        let unused = ["-Wno-unused-function", "-Wno-unused-variable"];
        let (why, ran) = refusal(&[flags, &unused].concat()).await;
        assert!(why.contains(words), "{flags:?}: {why}");
        assert!(ran, "{flags:?}: this is found out by its code");
    }
}

#[tokio::test]
async fn a_check_says_of_a_crash_what_to_look_at_and_warns_of_keys_that_are_not_known() {
    let lab = Lab::new();
    let tool = json!({"name": "rude", "description": "Falls.", "efects": "read_only",
        "parameters": {"type": "object"}, "examples": [{"arguments": {"how": "segv"}}]});
    let said = json!({"ok": {"name": "rude", "version": "1", "tools": [tool]}}).to_string();
    let flag = format!("-DDESCRIBED={}", Value::from(said));
    let library = compiled(&lab, SOURCE, "librude", &[&flag]);
    let args = ["plugin", "check", library.to_str().unwrap()];
    let checked = ended(&lab, &args).await.with_code(1);
    let warned = "tool `rude` has a key `efects` that is not known; perhaps `effects` is meant";
    assert!(checked.out.contains(warned), "{}", checked.out);
    for words in ["SIGSEGV", "about to fall", "look at what its code does in this call"] {
        assert!(checked.out.contains(words), "{words}: {}", checked.out);
    }
    assert!(!checked.out.contains("empty directory"), "{}", checked.out);
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_pinned_is_not_loaded() {
    let lab = Lab::new();
    let library = compiled(&lab, SOURCE, "librude", &[]);
    configure(&lab, &[(&library, false)]);
    ended(&lab, &["tools", "list"]).await.with_code(0);
    let before = sha256(&lab, &library);
    let trace = format!("-DTRACE=\"{}\"", lab.path("trace").display());
    compiled(&lab, SOURCE, "librude", &[&trace]);
    let refused = ended(&lab, &["run", "-m", "offline", "Hello"]).await.with_code(2);
    let after = sha256(&lab, &library);
    assert!(refused.err.contains("is not the file that was pinned"), "{}", refused.err);
    assert_eq!(refused.err.matches("plugin `").count(), 1, "{}", refused.err);
    assert!(refused.err.contains(&before) && refused.err.contains(&after), "{}", refused.err);
    assert!(refused.err.contains("deputize plugin check"), "{}", refused.err);
    assert!(!lab.path("trace").exists(), "code of the plugin ran");

    // The same file under another name, and no file at all.
    fs::remove_file(&library).unwrap();
    let refused = ended(&lab, &["tools", "list"]).await.with_code(2);
    assert!(refused.err.contains("cannot be read"), "{}", refused.err);
}

#[tokio::test]
async fn only_the_persons_own_file_names_plugins() {
    let lab = Lab::new();
    let trace = format!("-DTRACE=\"{}\"", lab.path("trace").display());
    let library = compiled(&lab, SOURCE, "librude", &[&trace]);
    configure(&lab, &[(&library, false)]);
    let text = fs::read_to_string(lab.path("home/config.yaml")).unwrap();
    fs::remove_file(lab.path("home/config.yaml")).unwrap();
    fs::create_dir_all(lab.work(".deputize")).unwrap();
    fs::write(lab.work(".deputize/config.yaml"), text).unwrap();
    let ignored = ended(&lab, &["tools", "list"]).await.with_code(0);
    assert!(!ignored.out.contains("rude") && ignored.err.contains("ignored"), "{ignored:#?}");

    let mut command = lab.deputize(&["tools", "list"]);
    let path = library.display();
    let sha256 = sha256(&lab, &library);
    command.env("DEPUTIZE__PLUGINS", format!("[{{path: {path}, sha256: {sha256}}}]"));
    let refused = crate::program::RunningProgram::start(command).end().await.with_code(2);
    assert!(refused.err.contains("not read from the environment"), "{}", refused.err);
    assert!(!lab.path("trace").exists(), "code of the plugin ran");
}

#[tokio::test]
async fn an_answer_that_is_none_is_one_failed_call() {
    let rows = [
        ("garbage", "it is not JSON as agreed"),
        ("not_text", "not UTF-8 from byte 7 on"),
        ("nothing", "it is not JSON as agreed"),
        ("nowhere", "7 bytes at a null pointer"),
        ("huge", "67108865 bytes, and the limit is 67108864"),
        ("two", "it says two things at once"),
    ];
    for isolated in [true, false] {
        let lab = Lab::new();
        let library = compiled(&lab, SOURCE, "librude", &[]);
        configure(&lab, &[(&library, isolated)]);
        let mut calls: Vec<(&str, Value)> =
            rows.iter().map(|(how, _)| ("rude", json!({ "how": how }))).collect();
        calls.push(("rude", json!({"how": "flood"})));
        let (results, ended) = results(&lab, &calls, &["-v"]).await;
        for ((how, words), result) in rows.iter().zip(&results) {
            assert!(result.contains("the tool failed"), "{how}: {result}");
            assert!(ended.err.contains(words), "{how}: {}", ended.err);
        }
        assert!(results[6].contains("fine"), "{results:?}");
        // A flood of notes is cut, and is text.
        let notes = ended.events("tool.progress");
        assert_eq!(notes.len(), 1000, "isolated: {isolated}");
        assert!(!ended.err.contains('\u{1b}'), "a note steers the terminal");
    }
}

#[tokio::test]
async fn a_segmentation_fault_is_reported_with_its_last_words() {
    let lab = Lab::new();
    let library = compiled(&lab, SOURCE, "librude", &[]);
    configure(&lab, &[(&library, true)]);
    let calls = [("rude", json!({"how": "segv"})), ("rude", json!({}))];
    let (results, ended) = results(&lab, &calls, &[]).await;
    assert!(
        ended
            .err
            .contains("died of a segmentation fault (SIGSEGV) (its last words: about to fall)"),
        "{}",
        ended.err
    );
    assert!(results[1].contains("fine"), "{results:?}");
}

#[tokio::test]
async fn what_is_no_plugin_is_reported_by_its_check() {
    let lab = Lab::new();
    fs::write(lab.work("text"), "no library").unwrap();
    for (path, words) in [
        ("text", "is not a dynamic library"),
        ("missing.so", "cannot be read"),
        (".", "it is not a regular file"),
    ] {
        let refused = ended(&lab, &["plugin", "check", path]).await.with_code(2);
        assert!(refused.err.contains(words), "{path}: {}", refused.err);
        let hint = "hint: build the crate, and give its library, such as target/release/lib";
        assert!(refused.err.contains(hint), "{path}: {}", refused.err);
    }
}

#[tokio::test]
async fn what_a_run_would_refuse_is_refused_by_the_check_too() {
    for (name, toolset, words) in [
        ("read_file", "rude", "`read_file`"),
        ("delegate_task", "rude", "`delegate_task`"),
        ("rude", "file", "another one's"),
        ("mcp__a__b", "rude", "those of MCP servers"),
        ("rude", "mcp-a", "those of MCP servers"),
    ] {
        let described = json!({"ok": {"name": "rude", "version": "1", "tools": [{
            "name": name, "toolset": toolset, "description": "Takes a name.",
            "effects": "read_only", "parameters": {"type": "object"},
        }]}});
        let lab = Lab::new();
        let flag = format!("-DDESCRIBED={}", Value::String(described.to_string()));
        let library = compiled(&lab, SOURCE, "librude", &[flag.as_str()]);
        let checked = ended(&lab, &["plugin", "check", library.to_str().unwrap()]).await;
        let checked = checked.with_code(2);
        assert!(checked.err.contains(words) && checked.out.is_empty(), "{name}: {}", checked.err);
        configure(&lab, &[(&library, true)]);
        let run = ended(&lab, &["run", "-m", "offline", "Hello"]).await.with_code(2);
        assert!(run.err.contains(words), "{name}: {}", run.err);
    }
}

#[tokio::test]
async fn a_session_that_goes_on_without_its_plugin_says_which_tools_are_gone() {
    let lab = Lab::new();
    let library = compiled(&lab, SOURCE, "librude", &[]);
    configure(&lab, &[(&library, true)]);
    let calls = [("rude", json!({}))];
    results(&lab, &calls, &[]).await;
    let session = lab.session();
    let (_, again) = results(&lab, &calls, &["--resume", &session]).await;
    assert!(!again.err.contains("not there now"), "{}", again.err);
    fs::write(lab.path("home/config.yaml"), "").unwrap();
    let (_, without) = results(&lab, &calls, &["--resume", &session]).await;
    assert!(without.err.contains("will be refused: rude; put back"), "{}", without.err);
}

#[tokio::test]
async fn two_plugins_with_one_tool_are_reported_by_the_list_as_by_a_run() {
    let described = |tool: &str, toolset: &str| {
        let described = json!({"ok": {"name": "rude", "version": "1", "tools": [{
            "name": tool, "toolset": toolset, "description": "Takes a name.",
            "effects": "read_only", "parameters": {"type": "object"},
        }]}});
        format!("-DDESCRIBED={}", Value::String(described.to_string()))
    };
    let lab = Lab::new();
    let made = |name, tool, toolset| compiled(&lab, SOURCE, name, &[&*described(tool, toolset)]);
    let first = made("first", "one", "rude");
    for (tool, toolset, words) in
        [("one", "other", "two tools are called `one`"), ("two", "rude", "which is another one's")]
    {
        let second = made("second", tool, toolset);
        // It may have what the refused one would have had.
        let third = made("third", "two", "other");
        configure(&lab, &[(&first, true), (&second, true), (&third, true)]);
        let listed = ended(&lab, &["plugin", "list", "--json"]).await.with_code(1);
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        let usable: Vec<&Value> =
            listed.as_array().unwrap().iter().map(|row| &row["usable"]).collect();
        assert_eq!(usable, [true, false, true], "{listed}");
        let why = listed[1]["why_not"].as_str().unwrap();
        assert!(why.contains(words) && why.contains("first.so"), "{why}");
        let run = ended(&lab, &["run", "-m", "offline", "Hello"]).await.with_code(2);
        assert!(run.err.contains(why), "{}", run.err);
    }
}
