//! A plugin that panics, hangs and talks: what the tests of plugins load.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deputize_core::tool::spec_of;
use deputize_core::{Resource, ToolCallResult, ToolCx, ToolError, ToolOutput, ToolSpec, TypedTool};

deputize_core::tool_crate!();
deputize_plugin::export_plugin!();

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct NoArgs {}

/// How often something was asked in a session.
#[derive(Default)]
struct CallCounter(AtomicU32);

impl Resource for CallCounter {}

macro_rules! tool {
    ($name:ident, $word:literal, $about:literal, $limit:expr, |$cx:ident| $body:expr) => {
        struct $name;

        impl TypedTool for $name {
            type Args = NoArgs;

            fn spec() -> ToolSpec {
                let spec = ToolSpec::read_only(spec_of::<NoArgs>($word, $about));
                ToolSpec { time_limit: Some(Duration::from_millis($limit)), ..spec }
            }

            async fn run(&self, _: NoArgs, $cx: &ToolCx) -> ToolCallResult {
                $body
            }
        }

        deputize_core::register_tool!("trouble", $name);
    };
}

tool!(Panics, "trouble_panic", "Panic.", 60_000, |_cx| panic!("as it was told"));

tool!(Fine, "trouble_fine", "Say how often this was asked.", 60_000, |cx| {
    let asked = cx.agent.session.settings.get_or_insert_with(CallCounter::default);
    let count = asked.0.fetch_add(1, Ordering::Relaxed) + 1;
    Ok(ToolOutput::text(format!("asked {count} times")).note("a remark"))
});

tool!(Waits, "trouble_wait", "Wait until told to end.", 2_000, |cx| {
    cx.report_progress("waiting in the plugin");
    cx.cancel.cancelled().await;
    Err(ToolError::Cancelled(Box::new(ToolOutput::text("half of it"))))
});

tool!(Spins, "trouble_spin", "Never end.", 1_000, |_cx| loop {
    std::thread::sleep(Duration::from_secs(1));
});

tool!(Aborts, "trouble_abort", "Abort the process.", 60_000, |_cx| std::process::abort());

tool!(Meets, "trouble_meet", "Wait until the process has gone, and then say so.", 60_000, |cx| {
    let mark = cx.agent.spec.cwd.join(format!("met-{}", cx.call));
    if std::fs::File::create_new(mark).is_ok() {
        // For the first time: that of `trouble_meet_abort`.
        std::future::pending::<()>().await;
    }
    Ok(ToolOutput::text("met"))
});

tool!(Parts, "trouble_meet_abort", "Abort the process once two calls wait in it.", 60_000, |cx| {
    let waits = || {
        let entries = std::fs::read_dir(&cx.agent.spec.cwd).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("met-")).count()
    };
    while waits() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::process::abort()
});

tool!(Exits, "trouble_exit", "End the process.", 60_000, |_cx| {
    eprint_words();
    std::process::exit(7)
});

tool!(Overflows, "trouble_overflow", "Use up the stack.", 60_000, |_cx| {
    Ok(ToolOutput::text(deeper(0).to_string()))
});

tool!(Eats, "trouble_eat", "Take 256 MB of memory, one at a time.", 60_000, |_cx| {
    let eaten: Vec<Vec<u8>> = (0..256).map(|_| std::hint::black_box(vec![1; 1 << 20])).collect();
    Ok(ToolOutput::text(format!("ate {} MB", eaten.len())))
});

tool!(Sees, "trouble_env", "Name the variables of the environment.", 60_000, |_cx| {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let names: BTreeSet<String> = names.collect();
    Ok(ToolOutput::text(format!("{names:?}")))
});

tool!(Where, "trouble_where", "Say where it is and what it may do.", 60_000, |cx| {
    let agent = &cx.agent;
    let authority = &agent.authority;
    Ok(ToolOutput::text(format!(
        "session {} agent {} call {} cwd {:?} read {:?} write {:?} network {} pid {}",
        agent.session.id,
        agent.id(),
        cx.call,
        agent.spec.cwd,
        authority.read_roots(),
        authority.write_roots(),
        authority.network(),
        std::process::id(),
    )))
});

tool!(Prints, "trouble_print", "Print on standard output.", 60_000, |_cx| {
    print_words();
    Ok(ToolOutput::text("printed"))
});

#[expect(clippy::print_stderr, reason = "its last words")]
fn eprint_words() {
    eprintln!("the plugin says goodbye");
}

#[expect(clippy::print_stdout, reason = "what many libraries do")]
fn print_words() {
    println!("a line that is no answer");
}

#[expect(unconditional_recursion, reason = "what it is for")]
fn deeper(depth: u64) -> u64 {
    std::hint::black_box(deeper(std::hint::black_box(depth + 1)) + 1)
}
