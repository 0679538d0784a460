//! What the doctor says of servers: each is started, and none is used that was not approved.

use deputize_requirements::require;
use serde_json::{Value, json};

use super::fixture::{chain_was_complete, silent_chain};
use super::installed::everything;
use crate::program::{Lab, ProgramEnd, RunningProgram};

const SERVER: &str = env!("CARGO_BIN_EXE_deputize-mcp-faulty");

/// What is said of servers: how each is, and the words.
fn describe(ended: &ProgramEnd) -> Vec<(String, String)> {
    let rows: Value = serde_json::from_str(&ended.out).unwrap();
    let rows = rows.as_array().unwrap().iter().filter(|row| row["what"] == "mcp server");
    let word = |word: &Value| word.as_str().unwrap().to_owned();
    rows.map(|row| (word(&row["health"]), word(&row["found"]))).collect()
}

#[tokio::test]
async fn the_doctor_starts_each_server_side_by_side_and_says_how_it_is() {
    let lab = Lab::new();
    let everything = require!(everything().await);
    let does = lab.path("does");
    std::fs::write(&does, "none").unwrap();
    let mut silent = silent_chain(&lab, 2);
    silent.iter_mut().for_each(|entry| entry["start_timeout_seconds"] = json!(4));
    let servers = json!({
        "all": {"command": "node", "args": [everything, "stdio"]},
        "dies": {"command": SERVER, "args": ["exits at once"]},
        "far": {"url": "http://127.0.0.1:9/mcp"},
        "hangs": silent[0],
        "late": silent[1],
        "no": {"command": "no-such-program"},
        "w": {"command": SERVER, "args": [format!("@{}", does.display())]},
    });
    let set = format!("mcp_servers={servers}");
    let args = ["doctor", "-m", "offline", "--json", "--set", &set];
    let ended = RunningProgram::start(lab.deputize(&args)).end().await.with_code(1);
    let rows = describe(&ended);
    let words = [
        (
            "warn",
            "all: mcp-servers/everything",
            "you have not approved it yet: deputize mcp review all",
        ),
        ("fail", "mcp dies:", "no key: set WEATHER_KEY"),
        ("fail", "mcp far:", "Connection refused"),
        ("fail", "mcp hangs:", "it did not answer within 4 s after its start"),
        ("fail", "mcp late:", "it did not answer within 4 s after its start"),
        ("fail", "mcp no:", "program `no-such-program` not found in PATH"),
        ("warn", "w: faulty 1, 1 tool in ", "you have not approved it yet: deputize mcp review w"),
    ];
    assert_eq!(rows.len(), words.len(), "{rows:#?}");
    for ((health, found), (is, begins, holds)) in rows.iter().zip(words) {
        assert_eq!(health, is, "{found}");
        assert!(found.starts_with(begins) && found.contains(holds), "{begins} {holds}: {found}");
    }
    // None is told of twice.
    let words = ["mcp all:", "mcp no:", "mcp w:"].map(|name| ended.out.matches(name).count());
    assert_eq!(words, [0, 1, 0], "{}", ended.out);
    assert!(chain_was_complete(&lab), "they were started one after the other");
    assert_eq!(lab.processes(), []);

    // That it was looked at approves nothing. Once it is approved it is fine, until it changes.
    let set = format!("mcp_servers.w={}", servers["w"]);
    let args = ["doctor", "-m", "offline", "--json", "--set", &set];
    let review = ["mcp", "review", "w", "--yes", "--set", &set];
    let doctor =
        async || describe(&RunningProgram::start(lab.deputize(&args)).end().await.with_code(0));
    assert!(doctor().await[0].1.contains("you have not approved it yet"));
    RunningProgram::start(lab.deputize(&review)).end().await.with_code(0);
    let [(health, found)] = &doctor().await[..] else { panic!("one row") };
    assert!(health == "ok" && found.starts_with("w: faulty 1, 1 tool in "), "{found}");
    std::fs::write(&does, "a description with escapes").unwrap();
    let [(health, found)] = &doctor().await[..] else { panic!("one row") };
    let waits = "1 thing is not as you approved it: deputize mcp review w";
    assert!(health == "warn" && found.contains(waits), "{found}");
    let other = format!("mcp_servers.w={}", json!({"command": SERVER, "args": ["exits at once"]}));
    let args = ["doctor", "-m", "offline", "--json", "--set", &other];
    let held = describe(&RunningProgram::start(lab.deputize(&args)).end().await.with_code(0));
    let words = "w: it is not started: its arguments changed";
    assert!(held[0].0 == "warn" && held[0].1.starts_with(words), "{held:?}");
}
