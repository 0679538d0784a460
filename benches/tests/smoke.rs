//! The benchmark runs: its smallest form, so that it cannot rot. No time is asserted.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_smallest_measurement_gives_every_figure() {
    let bench = env!("CARGO_BIN_EXE_deputize-bench");
    // It is the program that it measures, so that nothing else need be built.
    let smallest =
        "--runs 1 --children 2 --sessions 3 --files 60 --page-bytes 9000 --json".split(' ');
    let output = Command::new(bench).args(["--program", bench]).args(smallest).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");

    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let figures: Vec<_> = rows.iter().map(|row| row["figure"].as_str().unwrap()).collect();
    assert_eq!(
        figures,
        [
            "start to first request",
            "one answer: whole run",
            "one answer: CPU",
            "one answer: peak memory",
            "first request: system text and tools",
            "a step that reads a file",
            "20 such steps: CPU",
            "2 children: time",
            "2 children: CPU",
            "2 children: peak memory",
            "a waiting child of 2, first request",
            "a waiting child of 2, last request",
            "search_files over 60 files; the floor is ripgrep",
            "web_fetch of 0.0 MB",
            "program file",
            "a search over 3 sessions",
            "such a search for a word that is in most texts",
            "such a search after one of them went on",
            "the first such search, which builds the index",
            "a call: linked",
            "a call: a plugin in this process",
            "a call: an isolated plugin",
            "a call: an MCP server, stdio",
            "the first call: linked",
            "the first call: a plugin in this process",
            "the first call: an isolated plugin",
            "the first call: an MCP server, stdio",
        ]
    );
    for row in rows {
        let ours = row["ours"]["median"].as_f64().unwrap();
        let floor = &row["floor"];
        assert!(ours.is_finite(), "{row}");
        assert!(floor.is_null() || floor["min"].as_f64().unwrap() >= 0.0, "{row}");
    }
}
