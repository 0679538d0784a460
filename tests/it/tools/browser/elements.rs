//! The numbers of elements, and what a person is told of them.

use std::io::Write as _;

use deputize_requirements::require;
use deputize_testkit::MockServer;
use serde_json::json;

use super::{chromium, click, host, open, results, settings, site, type_text};
use crate::program::{Lab, model, sees};
use crate::tools::{calls_in_order, results_read};

/// A number says nothing to a person, so a question has what the page calls the element. Nobody is
/// asked about a number that names none.
#[tokio::test]
async fn a_question_names_the_element_and_its_page() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let tickets = format!("http://{}/tickets", host(&site));
    let calls = vec![
        ("browser_open", json!({"url": tickets})),
        click(3),
        type_text(1, "Ann"),
        click(99),
        ("browser_close", json!({})),
        click(3),
    ];
    let count = calls.len();
    let server = model(calls_in_order(calls)).await;
    let lab = Lab::new();
    let settings = settings(&site);
    let mut args: Vec<&str> = settings.iter().map(String::as_str).collect();
    args.push("Buy a ticket.");
    let (mut person, running) = lab.on_terminal(&server, &args);
    for (call, element) in [
        (r#"browser_click {"element":3}"#, r#"button \"Buy\""#),
        (r#"browser_type {"element":1,"text":"Ann"}"#, r#"textbox \"Name\""#),
    ] {
        let question = sees(&person, "Run it? [y/N] ").await;
        let shown = format!("with element shown as: \"{element}\"\r\nwith page: \"{tickets}\"\r\n");
        for wanted in [format!("  | {call}\r\n"), shown] {
            assert!(question.contains(&wanted), "{question}\n--- wanted ---\n{wanted}");
        }
        person.write_all(b"n\n").unwrap();
    }
    running.end().await.with_code(0);
    let results = results_read(&server, count);
    assert!(results[3].contains("there is no element [99] on this page"), "{}", results[3]);
    assert!(results[5].contains("no page is open"), "{}", results[5]);
}

/// Elements of a page that are no buttons, links or fields by their kind.
#[tokio::test]
async fn what_takes_the_focus_or_can_be_edited_is_used_as_buttons_and_fields_are() {
    require!(chromium());
    let site = MockServer::start_with(site).await.unwrap();
    let html = "<title>Focus</title>\
        <div tabindex=0 onclick='this.textContent=`Pressed`'>Press <b>me</b></div>\
        <div contenteditable>old <i>text</i></div>\
        <span tabindex=-1 onclick='document.title=`Spanned`'>Span</span>\
        <iframe srcdoc='<body contenteditable>in a frame'></iframe>\
        <div onclick='1'>without a number</div>";
    let calls =
        vec![open(&site, html), click(1), type_text(2, "new"), click(3), type_text(4, "also new")];
    let actual = results(&Lab::new(), &site, &["--approve", "auto"], calls).await;
    for (actual, wanted) in actual.iter().zip([
        "page \"Focus\"\n[1] generic \"Press me\"\n[2] generic = \"old text\" (editable)\n\
         [3] generic \"Span\"\nframe\n [4] generic = \"in a frame\" (editable)\nwithout a number\n",
        "[1] generic \"Pressed\"",
        "[2] generic = \"new\" (focused) (editable)",
        "page \"Spanned\"\n",
        "[4] generic = \"also new\"",
    ]) {
        assert!(actual.contains(wanted), "{actual}\n--- wanted ---\n{wanted}");
    }
}
