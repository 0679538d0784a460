//! A plugin and a host in one process, which see of each other only the exported table.
#![expect(unsafe_code, reason = "a host reads the table of a plugin through its C address")]

use std::sync::atomic::{AtomicUsize, Ordering};

use deputize_plugin::{
    CallAnswer, CallContext, CallHost, HostV1, Plugin, TableV1, Tools, View, export_plugin,
};

struct Sample;

/// Throws again when it is dropped.
struct PanicOnDrop;

impl Drop for PanicOnDrop {
    #[expect(clippy::panic, reason = "what it is for")]
    fn drop(&mut self) {
        panic!("dropped");
    }
}

impl Tools for Sample {
    fn describe() -> String {
        r#"{"name":"sample","version":"1.0.0","tools":[]}"#.into()
    }

    #[expect(clippy::panic, reason = "a tool that does")]
    fn call(tool: &str, arguments: &str, host: &CallHost<'_>) -> CallAnswer {
        match tool {
            "echo" => CallAnswer::Ok(arguments.into()),
            "panic" => panic!("a tool went wrong"),
            "grenade" => std::panic::panic_any(PanicOnDrop),
            "about" => CallAnswer::text(host.about()),
            "count" => {
                ["one", "two"].iter().for_each(|text| host.note(text));
                CallAnswer::Noted("2".into(), vec!["that is all".into()])
            }
            "fail" => CallAnswer::Failed("the disk said \"no\"".into()),
            "wait" => {
                let mut asked = 1;
                while !host.cancelled() {
                    asked += 1;
                }
                CallAnswer::Ok(asked.to_string())
            }
            "wait_in_threads" => std::thread::scope(|scope| {
                let wait = || while !host.cancelled() {};
                let threads = [scope.spawn(wait), scope.spawn(wait)];
                let ended = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
                CallAnswer::Ok(ended.filter(Result::is_ok).count().to_string())
            }),
            other => CallAnswer::Refused(format!("there is no tool `{other}`")),
        }
    }
}

export_plugin!(Sample);

/// The table as a host finds it: by name.
fn table() -> &'static TableV1 {
    unsafe extern "C" {
        #[link_name = concat!(
            "deputize_plugin_v1_round_trip_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH"),
        )]
        static TABLE: TableV1;
    }
    // SAFETY: this program exports it, just above.
    unsafe { &TABLE }
}

fn plugin() -> Plugin {
    // SAFETY: a static of this program.
    unsafe { Plugin::from_table(table()) }.unwrap_or_else(|error| unreachable!("{error}"))
}

fn call(tool: &str, arguments: &str) -> String {
    plugin().call(tool, arguments, &|| false).unwrap_or_else(|error| unreachable!("{error}"))
}

#[test]
fn text_goes_there_and_back() {
    let described = r#"{"ok":{"name":"sample","version":"1.0.0","tools":[]}}"#;
    assert_eq!(plugin().describe().unwrap(), described);
    assert_eq!(call("echo", r#"{"a":[1,"é\u0000"]}"#), r#"{"ok":{"a":[1,"é\u0000"]}}"#);
    assert_eq!(call("fail", "{}"), r#"{"failed":"the disk said \"no\""}"#);
    assert_eq!(call("", ""), r#"{"refused":"there is no tool ``"}"#);
    let large = format!("\"{}\"", "x".repeat(8 << 20));
    assert_eq!(call("echo", &large), format!("{{\"ok\":{large}}}"));
}

/// Checks invariant I9.
#[test]
fn a_panic_is_one_failed_call() {
    assert_eq!(call("panic", "{}"), r#"{"panicked":true}"#);
    assert_eq!(call("echo", "1"), r#"{"ok":1}"#);
    assert_eq!(call("grenade", "{}"), r#"{"panicked":true}"#);
    assert_eq!(call("echo", "2"), r#"{"ok":2}"#);
    assert_eq!(mute().describe().unwrap(), r#"{"panicked":true}"#);
    assert_eq!(mute().call("", "", &|| false).unwrap(), r#"{"ok":null}"#);
}

/// A plugin that cannot say what it has.
fn mute() -> Plugin {
    struct PanickingTools;

    impl Tools for PanickingTools {
        #[expect(clippy::panic, reason = "a tool that does")]
        fn describe() -> String {
            panic!("not even that");
        }

        fn call(_: &str, _: &str, _: &CallHost<'_>) -> CallAnswer {
            CallAnswer::Ok("null".into())
        }
    }

    static TABLE: TableV1 = deputize_plugin::table::<PanickingTools>();
    // SAFETY: a static of this program.
    unsafe { Plugin::from_table(&raw const TABLE) }.unwrap_or_else(|error| unreachable!("{error}"))
}

#[test]
fn cancel_is_polled() {
    let asked = AtomicUsize::new(0);
    let third_time = || asked.fetch_add(1, Ordering::Relaxed) >= 2;
    assert_eq!(plugin().call("wait", "{}", &third_time).unwrap(), r#"{"ok":3}"#);
    assert_eq!(plugin().call("wait_in_threads", "{}", &|| true).unwrap(), r#"{"ok":2}"#);
}

#[test]
fn a_call_knows_what_it_is_about_and_tells_how_far_it_is() {
    struct Context(parking_lot::Mutex<Vec<String>>);

    impl CallContext for Context {
        fn cancelled(&self) -> bool {
            false
        }

        fn note(&self, text: &str) {
            self.0.lock().push(text.to_owned());
        }

        fn about(&self) -> &str {
            r#"{"cwd":"/"}"#
        }
    }

    let context = Context(parking_lot::Mutex::default());
    assert_eq!(plugin().call("about", "{}", &context).unwrap(), r#"{"ok":"{\"cwd\":\"/\"}"}"#);
    let counted = plugin().call("count", "{}", &context).unwrap();
    assert_eq!(counted, r#"{"ok":2,"notes":["that is all"]}"#);
    assert_eq!(*context.0.lock(), ["one", "two"]);
}

#[test]
fn calls_run_side_by_side() {
    let in_both = std::sync::Barrier::new(2);
    // Each call waits in its first question until the other one asks too.
    let both_are_in = || {
        in_both.wait();
        true
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                assert_eq!(plugin().call("wait", "{}", &both_are_in).unwrap(), r#"{"ok":1}"#)
            });
        }
    });
}

/// What a host in another language could do wrong is an answer, not a crash.
#[test]
fn a_careless_host_is_warned() {
    extern "C" fn nobody_asks(_: *const std::ffi::c_void) -> u32 {
        1
    }
    let size = u32::try_from(size_of::<HostV1>()).unwrap();
    let context = std::ptr::null();
    let view = |bytes: &'static [u8]| View { ptr: bytes.as_ptr(), len: bytes.len() };
    let about = view(b"{}");
    let host =
        HostV1 { size, reserved: 0, context, cancelled: Some(nobody_asks), about, note: None };
    let give = |tool: View, arguments: View, host: *const HostV1| {
        // SAFETY: the views are static, and the host outlives the call.
        let owned = unsafe { table().call.unwrap()(tool, arguments, host) };
        // SAFETY: just given by `call`.
        let bytes = unsafe { std::slice::from_raw_parts(owned.ptr, owned.len) };
        let answer = String::from_utf8(bytes.to_vec()).unwrap();
        // SAFETY: given back once.
        unsafe { table().free.unwrap()(owned) };
        answer
    };
    let echo = view(b"echo");
    let one = view(b"1");
    let nowhere = View { ptr: std::ptr::null(), len: 3 };
    let endless = View { len: usize::MAX, ..one };
    let short = HostV1 { size: 8, ..host };
    let silent = HostV1 { cancelled: None, ..host };
    // Its last fields are not there, whatever lies behind it.
    let older = HostV1 { size: 24, about: nowhere, ..host };
    let answers = [
        give(echo, one, &raw const host),
        give(echo, one, &raw const silent),
        give(view(b"about"), one, &raw const host),
        give(view(b"about"), one, &raw const older),
        give(view(b"count"), one, &raw const older),
        give(echo, View { len: 0, ..nowhere }, &raw const host),
        give(nowhere, one, &raw const host),
        give(echo, view(b"\"\xff\""), &raw const host),
        give(echo, one, std::ptr::null()),
        give(echo, one, &raw const short),
    ];
    insta::assert_snapshot!(answers.join("\n"), @r#"
    {"ok":1}
    {"ok":1}
    {"ok":"{}"}
    {"ok":""}
    {"ok":2,"notes":["that is all"]}
    {"ok":}
    {"failed":"the name of the tool: 3 bytes at 0x0, which cannot be"}
    {"failed":"the arguments: invalid utf-8 sequence of 1 bytes from index 1"}
    {"failed":"the host is at 0x0, which cannot be"}
    {"failed":"the host has 8 bytes and ABI version 1 needs 24"}
    "#);
    assert!(give(echo, endless, &raw const host).starts_with(r#"{"failed":"the arguments: 1844"#));
}
