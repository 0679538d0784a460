//! What a result shows where there is no room for all of it.

use deputize_core::outcome::ChildInspection;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

#[test]
fn a_long_answer_keeps_both_ends_and_says_what_is_missing() {
    let text: String = (0..200).map(|n| format!("line {n:03}\n")).collect();
    let outcome = Outcome { text: Some(text), ..plain(0) };
    let output = fitted_report(&[outcome], &[], &[], caps(100));
    let value: Value = serde_json::from_str(&output.content).unwrap();
    insta::assert_snapshot!(value["results"][0]["summary"].as_str().unwrap(), @"
    <child:s1/2.0.0 zwbsig3ymrhq>
    line 000
    line 001
    line 002
    line 003
    line 004
    line 005
    line 006
    line 007
    </zwbsig3ymrhq>
    [1710 of 1800 bytes left out here; the whole answer: `deputize sessions show s1 --agent s1/2.0.0`]
    <child:s1/2.0.0 r534jcc5p3sq>
    line 198
    line 199
    </r534jcc5p3sq>
    ");
}

#[test]
fn no_entry_is_shorter_than_the_least() {
    let outcome = Outcome { text: None, model: String::new(), ..plain(0) };
    let share = ReportShare { bytes: 0, summary_bytes: 0 };
    assert!(fit::least_bytes(&outcome, observed(), share) > fit::LEAST_ENTRY);
}

#[test]
fn many_stale_files_are_counted_within_what_a_note_may_have() {
    let name = |n: u32| PathBuf::from(format!("/{n:03}{}", "x".repeat(5000)));
    let many: Vec<StaleFile> =
        (0..500).map(|n| StaleFile { path: name(n), by: Some(child(0)), gone: false }).collect();
    let output = fitted_report(&[plain(0)], &many, &[], caps(24_000));
    let [note] = output.notes.as_slice() else { panic!() };
    assert!(note.len() < 2000, "{}", note.len());
    let named = note.matches("(by ").count();
    assert!(note.contains(&format!(" and {} more (see `stale_paths`)", 500 - named)), "{note}");
}

#[test]
fn a_large_batch_stays_within_what_a_result_may_have() {
    let text = Some("x".repeat(24_000));
    let outcomes: Vec<Outcome> =
        (0..200).map(|n| Outcome { text: text.clone(), ..busy(n, 57) }).collect();
    let output = fitted_report(&outcomes, &[], &[], caps(0));
    assert!(output.content.len() < 512 * 1024, "{}", output.content.len());
    let value: Value = serde_json::from_str(&output.content).unwrap();
    assert_eq!(value["results"][199]["left_out"]["tool_trace"], 55);
}

proptest! {
    #[test]
    fn any_text_gives_one_line_of_json_within_its_bound(
        text in any::<String>(), long in 0..300_usize, most in 1..400_u32,
    ) {
        let text = text.repeat(long);
        let outcome = Outcome { text: Some(text.clone()), ..plain(0) };
        let output = fitted_report(&[outcome], &[], &[], caps(most));
        prop_assert!(!output.content.contains('\n'));
        let value: Value = serde_json::from_str(&output.content).unwrap();
        match value["results"][0]["summary"].as_str() {
            None => prop_assert!(text.is_empty()),
            // Two frames and a sentence around what is kept.
            Some(summary) => prop_assert!(summary.len() <= 3 * most as usize + 500),
        }
    }

    #[test]
    fn both_ends_are_of_the_text_and_do_not_overlap(
        (text, most) in ".{2,300}".prop_flat_map(|text| {
            let most = 1..text.len();
            (Just(text), most)
        }),
    ) {
        let (head, tail) = ends(&text, most);
        prop_assert!(text.starts_with(head) && text.ends_with(tail));
        prop_assert!(head.len() + tail.len() <= most);
    }
}

#[test]
fn a_parent_with_little_room_is_shown_less() {
    let long = || Outcome { text: Some("0123456789\n".repeat(2000)), ..plain(0) };
    let shown = |children: usize, room_bytes: Option<usize>| {
        let caps = ReportLimits { room_bytes, ..caps(24_000) };
        let outcomes: Vec<Outcome> = (0..children).map(|_| long()).collect();
        let layout = ReportLayout::new(&outcomes, observed(), caps).unwrap();
        let cut = layout.truncations()[0].summary;
        (cut, fitted_report(&outcomes, &[], &[], caps).content.len())
    };
    let (cut, bytes) = shown(1, None);
    assert!(!cut && bytes > 24_000, "{bytes}");
    for children in [1, 4] {
        let (cut, bytes) = shown(children, Some(40_000));
        assert!(cut && (18_500..=20_000).contains(&bytes), "{children}: {bytes}");
    }
    let (cut, bytes) = shown(4, Some(0));
    assert!(cut && (3_000..=4_000).contains(&bytes), "never nothing: {bytes}");
}

/// The bytes of a result as the runtime shows it.
fn size(output: &ToolOutput) -> usize {
    output.content.len() + output.notes.iter().map(|note| note.len() + 3).sum::<usize>()
}

#[test]
fn two_hundred_children_with_long_claims_are_all_reported_within_the_bound() {
    let outcomes: Vec<Outcome> = (0..200)
        .map(|n| {
            let mut outcome = Outcome { text: Some("An answer.\n".repeat(280)), ..plain(n) };
            let command = "\u{6f22}".repeat(400);
            outcome.receipts.commands = vec![(command, Some(0)); 3];
            let unseen = (0..20).map(|m| format!("{n}-{m}-{}.rs", "x".repeat(390)));
            outcome.inspection = Some(Box::new(ChildInspection {
                unseen_writes: unseen.collect(),
                ..ChildInspection::default()
            }));
            outcome
        })
        .collect();
    for (room_bytes, most) in [(None, 480 << 10), (Some(384_000), 192_000), (Some(0), 160_000)] {
        let seen = observed();
        let output =
            report(&outcomes, seen, 1, ReportLimits { room_bytes, ..caps(24_000) }).unwrap();
        assert!(size(&output) <= most, "{} of {most}", size(&output));
        let value: Value = serde_json::from_str(&output.content).unwrap();
        let entries = value["results"].as_array().unwrap();
        assert_eq!(entries.len(), 200);
        for entry in entries {
            let left_out = &entry["left_out"];
            if let Some(shown) = entry["receipts"]["commands"].as_array() {
                let shown = shown.len() as u64;
                assert_eq!(left_out["commands"].as_u64().unwrap() + shown, 3, "{entry}");
            }
            assert_eq!(entry.get("receipts").is_some(), most > 160_000, "{entry}");
            let shown = entry["unseen_writes"].as_array().map_or(0, Vec::len) as u64;
            assert_eq!(left_out["unseen_writes"].as_u64().unwrap() + shown, 20, "{entry}");
            assert!(entry["summary"].as_str().unwrap().contains("bytes left out here"), "{entry}");
        }
        let counted = "children more no write of files that they name was seen";
        assert!(output.notes.iter().any(|note| note.contains(counted)), "{:?}", output.notes);
    }
}

#[test]
fn where_there_is_hardly_room_the_report_says_how_each_child_ended() {
    let outcomes: Vec<Outcome> = (0..2000).map(|n| busy(n, 3)).collect();
    let output = fitted_report(&outcomes, &[], &["one", "two"], caps(24_000));
    assert!(size(&output) <= 480 << 10, "{}", size(&output));
    let value: Value = serde_json::from_str(&output.content).unwrap();
    assert_eq!(value["results"].as_array().unwrap().len(), 2000);
    insta::assert_snapshot!(value["results"][1999], @r#"{"task_index":1999,"status":"completed","summary":"<child:s1/2.0.1999 s76i6qev2yf6>\nThere are 7 tests.\n</s76i6qev2yf6>","exit_reason":"completed","agent":"s1/2.0.1999"}"#);
    insta::assert_snapshot!(output.notes.join("\n"), @"2000 of 2000 entries have room only for the status and part of the answer: `deputize sessions show s1 --agent AGENT` shows all of it");
}

/// Children of a session as the program names them, that wrote nothing and answer at length.
fn large_batch(children: u32, end: &Outcome) -> (Value, Vec<String>) {
    let root = AgentId::root(&SessionId::literal("20260102-030405-abcdef"));
    let named = |index| Outcome { agent: root.child(CallId::new(1, 0), index), ..end.clone() };
    let outcomes: Vec<Outcome> = (0..children).map(named).collect();
    let kept = |outcome: &Outcome| {
        let name = outcome.agent.as_str().replace('/', "~");
        let path = |ending: &str| {
            let folder = "/home/somebody/.local/state/deputize/sessions/20260102-030405-abcdef";
            Some(PathBuf::from(format!("{folder}/{name}.{ending}")))
        };
        SavedOutput {
            summary: path("summary.txt"),
            whole: path("result.json"),
            ..SavedOutput::default()
        }
    };
    let kept: Vec<SavedOutput> = outcomes.iter().map(kept).collect();
    let results = kept[0].whole.as_ref().unwrap().with_extension("jsonl");
    let seen = HostObservations { saved_outputs: &kept, results: Some(&results), ..observed() };
    let output = report(&outcomes, seen, 1, caps(0)).unwrap();
    assert!(size(&output) <= 480 << 10, "{}", size(&output));
    (serde_json::from_str(&output.content).unwrap(), output.notes)
}

#[test]
fn a_very_large_batch_tells_of_each_answer_what_there_is_room_for() {
    let long = Outcome { text: Some("A finding. ".repeat(300)), ..plain(0) };
    // Whether entries are whole, and how much of the answer they show at least.
    // docs/reference/delegation.md has these figures.
    for (children, whole, shown) in [(650, true, 13), (700, false, 35), (1000, false, 22)] {
        let (value, notes) = large_batch(children, &long);
        let last = &value["results"][children as usize - 1];
        let findings = last["summary"].as_str().unwrap_or_default().matches("A finding.").count();
        assert_eq!(last.get("receipts").is_some(), whole, "{children}: {last}");
        assert!(findings >= shown, "{children}: {last}");
        assert_eq!(notes.is_empty(), whole, "{children}: {notes:?}");
    }
    let (_, notes) = large_batch(700, &long);
    insta::assert_snapshot!(notes.join("\n"), @"700 of 700 entries have room only for the status and part of the answer: all of it is in `/home/somebody/.local/state/deputize/sessions/20260102-030405-abcdef/20260102-030405-abcdef~1.0.0.result.jsonl`, one child a line");
}

#[test]
fn a_value_and_an_error_come_before_the_words_where_there_is_hardly_room() {
    let value = serde_json::json!({"label": "spam"});
    let labelled = Outcome {
        text: Some(format!("{}{value}", "I think. ".repeat(300))),
        output: Some(value.clone()),
        ..plain(0)
    };
    let (actual, _) = large_batch(1200, &labelled);
    assert_eq!(
        (&actual["results"][0]["output"], &actual["results"][0]["summary"]),
        (&value, &Value::Null)
    );
    let failed = Outcome { text: labelled.text, ..failed(0, Status::Failed, ExitReason::Error) };
    let (actual, _) = large_batch(1200, &failed);
    let entry = &actual["results"][0];
    assert_eq!(entry["error"], "the provider said no red");
    assert!(entry["summary"].as_str().unwrap().contains("I think."), "{entry}");
}

#[test]
fn a_value_is_shown_whole_or_its_place_is() {
    let value = |bytes: usize| serde_json::json!({"list": "x".repeat(bytes)});
    let answering = |bytes: usize| {
        let output = value(bytes);
        Outcome { text: Some(output.to_string()), output: Some(output), ..plain(0) }
    };
    let kept =
        [SavedOutput { output: Some(PathBuf::from("/s/output.json")), ..SavedOutput::default() }];
    let seen = HostObservations { saved_outputs: &kept, ..observed() };
    let entry = |outcome: Outcome, caps: ReportLimits<'_>| {
        let output = report(std::slice::from_ref(&outcome), seen, 1, caps).unwrap();
        let outcomes = [outcome];
        let cut = ReportLayout::new(&outcomes, seen, caps).unwrap().truncations()[0];
        let value: Value = serde_json::from_str(&output.content).unwrap();
        assert_eq!(cut.output, value["results"][0]["output"].is_null());
        value["results"][0].clone()
    };
    let long = entry(answering(30_000), caps(24_000));
    assert_eq!(long.get("output"), None);
    assert_eq!(
        (&long["left_out"]["output_bytes"], &long["output_path"]),
        (&30_011.into(), &"/s/output.json".into())
    );
    let short = entry(answering(20_000), caps(24_000));
    assert_eq!(
        (&short["output"], short.get("left_out"), short.get("output_path")),
        (&value(20_000), None, None)
    );
    // Where there is no room for both, the value is what was asked for.
    let tight = entry(answering(20_000), ReportLimits { room_bytes: Some(50_000), ..caps(24_000) });
    assert_eq!(tight["output"], value(20_000));
    assert!(tight["summary"].as_str().unwrap().contains("bytes left out here"), "{tight}");
}

/// Any child that ended, and what was seen of it.
fn any_end() -> impl Strategy<Value = (Outcome, SavedOutput)> {
    let text = (".{0,8}|[\"\\\\<>\\[\\]A-Z|\\x{1b}\\x{202e}\u{6f22}\n]{0,12}", 0..500_usize);
    let text = text.prop_map(|(part, times)| part.repeat(times));
    let command = (".{0,6}", 1..300_usize).prop_map(|(part, times)| part.repeat(times));
    let lists = (0..40_u32, vec(command, 0..30), vec("[a-z\u{6f22}]{1,300}", 0..20));
    let words = (option::of(text), option::of(0..40_000_usize), option::of(".{0,700}"));
    let kept = option::of("(/[a-z\u{6f22}]{1,100}){1,4}");
    (lists, words, kept).prop_map(|((entries, commands, unseen), (text, output, error), kept)| {
        let mut outcome = Outcome { text, error, ..busy(0, entries) };
        outcome.output = output.map(|bytes| Value::String("\u{e9}".repeat(bytes / 2)));
        outcome.receipts.commands = commands.into_iter().map(|it| (it, None)).collect();
        outcome.status = if outcome.error.is_some() { Status::Failed } else { Status::Completed };
        let path = kept.map(PathBuf::from);
        let [summary, whole, output] = [path.clone(), path.clone(), path.clone()];
        let found = ChildInspection { unseen_writes: unseen, ..ChildInspection::default() };
        outcome.inspection = Some(Box::new(found));
        (outcome, SavedOutput { summary, whole, output, diagnostic: path })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn whatever_children_did_each_has_its_entry_and_all_is_within_the_bound(
        ends in vec(any_end(), 1..6),
        times in prop_oneof![Just(1_usize), 1..25_usize],
        room_bytes in option::of(0..400_000_usize),
        summary_bytes in prop_oneof![Just(0_u32), Just(24_000), 1..500_u32],
        warnings in vec(".{0,900}", 0..60),
    ) {
        let mut outcomes = Vec::new();
        let mut kept = Vec::new();
        for (index, (outcome, paths)) in (0..).zip(ends.iter().cycle().take(ends.len() * times)) {
            outcomes.push(Outcome { agent: child(index), ..outcome.clone() });
            kept.push(paths.clone());
        }
        let children = outcomes.len();
        let stale: Vec<StaleFile> = (0..children * 3)
            .map(|n| StaleFile { path: format!("/{n}").into(), by: Some(outcomes[n / 3].agent.clone()), gone: false })
            .collect();
        let seen = HostObservations { first: 0, stale: &stale, saved_outputs: &kept, warnings: &warnings, ..observed() };
        let caps = ReportLimits { room_bytes, ..caps(summary_bytes) };
        let output = report(&outcomes, seen, 1, caps).unwrap();
        let least = (children * 800).max(4000);
        let most = room_bytes.map_or(480 << 10, |room| (room / 2).max(least)).min(480 << 10);
        prop_assert!(size(&output) <= most, "{} of {}", size(&output), most);
        let value: Value = serde_json::from_str(&output.content).unwrap();
        let entries = value["results"].as_array().unwrap();
        prop_assert_eq!(entries.len(), children);
        for (index, (entry, outcome)) in entries.iter().zip(&outcomes).enumerate() {
            prop_assert_eq!(&entry["task_index"], &Value::from(index));
            prop_assert_eq!(&entry["agent"], outcome.agent.as_str());
            let silent = outcome.text.as_deref().is_none_or(str::is_empty);
            let bare = entry.get("tool_trace").is_none();
            prop_assert!(bare || entry["summary"].is_null() == silent, "{}", entry);
            prop_assert!(!silent || entry["summary"].is_null(), "{}", entry);
            let lists = ["tool_trace", "receipts"].map(|list| entry.get(list).is_some());
            prop_assert!(bare != lists[0] && lists[0] == lists[1], "{}", entry);
        }
    }
}
