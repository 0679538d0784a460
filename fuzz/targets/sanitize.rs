//! Any text at the four ways out.
#![no_main]

use deputize_core::sanitize::{
    FrameSecret, Secrets, clean, for_question, for_terminal, for_terminal_line, frame_for_model,
    frame_quote,
};
use deputize_core::source::Source;
use deputize_core::{AgentId, CallId, SessionId};
use deputize_fuzz::meter::MemoryLimit;
use libfuzzer_sys::fuzz_target;

const LIMIT: MemoryLimit = MemoryLimit { base: 4 * 1024, each: 16 };

/// What a secret of a test is; longer than any other text that is looked for.
const SECRET: &str = "hush-hush-0123456789";

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let cleaned = LIMIT.during(text.len(), || clean(&text).text.into_owned());
    assert_eq!(clean(&cleaned).text, cleaned, "cleaned twice is cleaned once");
    visible(&cleaned);
    let shown = for_terminal(&text);
    visible(&shown);
    assert_eq!(clean(&shown).text, cleaned, "a screen differs in the marks of chat formats alone");
    framed(&text);
    let line = for_terminal_line(&text, 60);
    visible(&line);
    assert!(line.chars().count() <= 60 && !line.contains(['\n', '\t']), "{line:?}");
    let question = for_question(&text);
    visible(&question);
    assert_eq!(question.matches('\n').count(), text.matches('\n').count());
    scrubbed(&text);
});

/// No control but newline and tab, and so no terminal sequence.
fn visible(text: &str) {
    let hidden = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!text.contains(hidden), "{text:?}");
}

/// The content of a frame cannot end it, and what is said after it is ours.
fn framed(text: &str) {
    let agent = AgentId::root(&SessionId::literal("s"));
    let secret = FrameSecret::new(&[7; 16]);
    let source = Source::tool(&text);
    let framed = frame_for_model(&secret, &agent, CallId::new(1, 0), &source, text);
    for framed in [framed, frame_quote(&source, text)] {
        let framed = framed.as_str();
        let (head, rest) = framed.split_once(">\n").expect("a first line");
        let (_, boundary) = head.split_once(' ').expect("a boundary");
        assert_eq!(boundary.len(), 12, "{framed:?}");
        // Nobody outside knows it; here the comparisons below tell it to the fuzzer.
        if clean(text).text.contains(boundary) {
            continue;
        }
        let end = format!("</{boundary}>");
        let (content, notes) = rest.rsplit_once(&end).expect("an end");
        assert!(!content.contains(&end), "{framed:?}");
        assert_eq!(content.trim_end_matches('\n'), clean(text).text.trim_end_matches('\n'));
        let expected =
            clean(text).notes().iter().map(|note| format!("\n[{note}]")).collect::<String>();
        assert_eq!(notes, expected);
    }
}

/// No secret is left, wherever it stands.
fn scrubbed(text: &str) {
    let mut secrets = Secrets::default();
    secrets.add("KEY", SECRET);
    let middle = text.floor_char_boundary(text.len() / 2);
    let (before, after) = text.split_at(middle);
    let with = format!("{before}{SECRET}{after}{SECRET}");
    assert!(!secrets.scrub(&with).contains(SECRET));
    for end in 0..SECRET.len() {
        let begun = secrets.partial_len(&format!("{text} {}", &SECRET[..end]));
        assert_eq!(begun, end);
    }
}
