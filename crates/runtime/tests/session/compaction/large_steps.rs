//! Steps that take much of the context, or more than it has.

use super::*;

/// A model that looks at so many bytes a step, and is done after so many steps.
fn large_look(seen: &SentRequests, request: &Request<'_>, steps: usize, bytes: usize) -> Reply {
    let reply = seen.reply(request, usize::MAX);
    if asks_for_summary(request) {
        return reply;
    }
    let step = seen.steps.load(Ordering::SeqCst);
    let look = [("look", json!({"n": step, "command": bytes.to_string()}))];
    let next = if step <= steps { Reply::calls("m", look) } else { Reply::text("m", "done") };
    Reply { usage: reply.usage, ..next }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_larger_than_the_context_is_cut_and_answered() {
    // Where the context is not known, the provider refuses what is too long.
    for (is_known, steps) in [(true, 6), (false, 1)] {
        let test = CompactionTest::new();
        let seen = Arc::clone(&test.seen);
        let rule = move |_: usize, request: &Request<'_>| {
            // Of what a summary is asked for, too, nothing is beyond the context.
            if tokens(request) > u64::from(WINDOW) {
                assert!(!is_known, "{} tokens were sent", tokens(request));
                return Err(ModelError::new(FailureKind::ContextOverflow, "too long"));
            }
            Ok(large_look(&seen, request, steps, 60_000))
        };
        let mut config = config(&test.world, rule);
        if is_known {
            config.models.context_window("t/rule", WINDOW);
        }
        let outcome = test.run(config).await;
        assert_eq!(outcome.text.as_deref(), Some("done"), "{outcome:?}");
        // Each step but the first answers a result, of which it sees the beginning and the end.
        let own = test.seen.own.lock();
        assert_eq!(own.len(), steps + 1);
        for messages in own.iter().skip(1) {
            assert_paired(messages);
            let last = text(&messages[messages.len() - 1..]);
            for part in ["\"role\":\"tool\"", "The context is nearly full, so ", "session s keeps"]
            {
                assert!(last.contains(part), "{part}: {last}");
            }
        }
        let last = own.last().unwrap().clone();
        drop(own);
        assert!(compactions(&test.world).len() < steps);
        // The record keeps the whole results.
        let stored = SessionDir::new(test.folder.path()).read(&SessionId::literal("s")).unwrap();
        let said = stored.spoken_texts(&outcome.agent).unwrap();
        let whole = said.iter().filter(|one| {
            matches!(one, SpokenText::Message(it)
                if matches!(&**it, Message::Tool(result) if result.text.as_str().len() > 60_000))
        });
        assert_eq!(whole.count(), steps);
        // A resume has the same conversation.
        let records = test.world.records.lock();
        let is_cut = |event: &Event| matches!(event, Event::ResultsCut { .. });
        assert_eq!(records.iter().filter(|record| is_cut(&record.event)).count(), steps);
        let messages = stored.messages(&outcome.agent).unwrap();
        assert_eq!(text(&messages[..last.len()]), text(&last));
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fits_stays_whole_through_a_compaction() {
    let test = CompactionTest::new();
    let config = test.config(|seen, _, request| Ok(large_look(seen, request, 8, 6_500)));
    let outcome = test.run(config).await;
    assert_eq!(outcome.text.as_deref(), Some("done"), "{outcome:?}");
    assert!(compactions(&test.world).len() > 1);
    for messages in test.seen.own.lock().iter().skip(1) {
        let last = messages.last().unwrap();
        assert!(matches!(&**last, Message::Tool(it) if it.text.as_str().len() > 6_500));
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_cannot_be_made_smaller_ends_the_turn_after_three_compactions() {
    let test = CompactionTest::new();
    let config = test.config(|seen, _, request| {
        let reply = large_look(seen, request, usize::MAX, 10);
        if asks_for_summary(request) {
            return Ok(reply);
        }
        let usage = Usage { output: 5_100, ..reply.usage };
        Ok(Reply { usage, text: "A word too many. ".repeat(900), ..reply })
    });
    let outcome = test.run(config).await;
    assert_eq!(outcome.exit_reason, ExitReason::ContextOverflow, "{outcome:?}");
    assert_eq!(compactions(&test.world).len(), 3);
    assert!(outcome.error.unwrap().contains("or replaced what it had not answered"));
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_summary_fits_the_context_of_the_model_that_writes_it() {
    // Few large results, and many small ones.
    for bytes in [4_000, 300] {
        let test = CompactionTest::new();
        let steps = 24_000 / bytes;
        let mut config =
            test.config(move |seen, _, request| Ok(large_look(seen, request, steps, bytes)));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&sent);
        let small = move |_: usize, request: &Request<'_>| {
            assert!(asks_for_summary(request));
            log.lock().push((tokens(request), text(request.messages)));
            Ok(Reply::text("m", "## Task\nLook around."))
        };
        config.models.insert("t/small", "small", Arc::new(crate::fixture::RuleModel(small)));
        config.models.context_window("t/small", 3_000);
        config.requests.compaction.model = "t/small".into();
        let outcome = test.run(config).await;
        assert_eq!(outcome.text.as_deref(), Some("done"), "{outcome:?}");
        for (tokens, messages) in sent.lock().iter() {
            assert!((1_000..3_000).contains(tokens), "{tokens} tokens were sent");
            assert_eq!(messages.contains("The context is nearly full"), bytes == 4_000);
        }
        assert_eq!(sent.lock().len(), compactions(&test.world).len());
        assert!(!sent.lock().is_empty());
    }
}
