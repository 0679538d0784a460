//! Scripts in the Python of this machine.

use std::fmt::Write as _;
use std::path::Path;

use deputize_core::{CancelReason, ToolCx};
use deputize_requirements::{program, require};
use serde_json::json;

use super::*;
use crate::fixture::{CatalogCaller, ToolFixture, result, show};
use crate::{CommandSettings, Settings};

fn settings(code: CodeLimits) -> Settings {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let hostile = [("PYTHONPATH", "/evil"), ("PYTHONSTARTUP", "/evil.py"), ("MY_KEY", "hush")];
    let env = hostile.map(|(name, value)| (name.into(), value.into()));
    let env = env.into_iter().chain([("PATH".into(), path)]).collect();
    let commands = CommandSettings { env, ..CommandSettings::default() };
    Settings { commands, code, ..Settings::default() }
}

fn bench_with(code: CodeLimits) -> ToolFixture {
    let bench = ToolFixture::with(settings(code));
    CatalogCaller::give(&bench.cx);
    bench
}

fn bench() -> ToolFixture {
    bench_with(CodeLimits::default())
}

async fn run(bench: &ToolFixture, code: &str) -> String {
    bench.call(ExecuteCode, json!({"code": code})).await
}

async fn close(bench: ToolFixture) {
    bench.cx.agent.store.close().await;
}

#[tokio::test]
async fn a_script_works_with_the_tools_and_only_what_it_prints_returns() {
    require!(program("python3"));
    let bench = bench();
    let mut long = String::new();
    for number in 1..=4500 {
        writeln!(long, "line {number}\twith a tab").unwrap();
    }
    bench.put("long.txt", &long).put("open.txt", "no end").put("empty.txt", "");
    let shown = run(
        &bench,
        "text = read_file('long.txt')\n\
         lines = text.splitlines()\n\
         print(len(lines), lines[2500], text.endswith('tab\\n'))\n\
         print(repr(read_file('open.txt')), repr(read_file('empty.txt')))\n\
         print(repr(read_file('long.txt', offset=3, limit=1)))\n\
         write_file('new.txt', 'one\\ntwo\\n')\n\
         print(edit_file('new.txt', 'two', 'three').count('three'))\n\
         print(search_files('thr..', glob='new*'))\n\
         done = terminal('echo out; exit 3')\n\
         print(done['exit_code'], done['output'].strip())\n\
         try:\n    read_file('missing.txt')\n\
         except ToolError as error:\n    print(error.status, str(error)[:36])\n",
    )
    .await;
    insta::assert_snapshot!(shown);
    assert_eq!(bench.get("new.txt"), b"one\nthree\n");
    close(bench).await;
}

#[tokio::test]
async fn a_failing_script_shows_the_end_of_its_messages_and_its_code() {
    require!(program("python3"));
    let bench = bench();
    let raised = "def work(n):\n    return n / 0\nprint('begun')\nwork(1)\n";
    for (code, wanted) in [
        (
            raised,
            "begun\n[stderr]\nTraceback (most recent call last):\n  File \"<script>\", line 4",
        ),
        (raised, "    return n / 0\n"),
        (raised, "ZeroDivisionError: division by zero\n"),
        (raised, "[exit code 1]"),
        ("import sys\nsys.exit(7)", "[exit code 7]"),
        ("import os\nos.abort()", "ended by signal 6"),
        ("print('a'", "[stderr]\n  File \"<script>\", line 1"),
        ("import sys\nprint('x' * 20000, file=sys.stderr)\nsys.exit(1)", "bytes left out …]\nxx"),
        ("import sys\nprint('warning', file=sys.stderr)", "[8 bytes on stderr, not shown]"),
        ("read_file('no')", "ToolError: read_file: "),
        ("read_file('no')", "it had made 1 call; what they changed stays"),
    ] {
        let shown = run(&bench, code).await;
        assert!(shown.contains(wanted), "{code}: {shown}");
        // Neither the module nor what starts it is in a trace.
        assert!(!shown.contains("start.py") && !shown.contains("_run"), "{shown}");
    }
    let refused = run(&bench, " \n").await;
    assert_eq!(refused, "refused: the code is empty");
}

#[tokio::test]
async fn a_script_has_its_limits_and_says_which() {
    require!(program("python3"));
    let names = ["code_seconds", "code_calls", "code_output_bytes"].map(|name| (name, name));
    let limits = || CodeLimits {
        seconds: 1,
        calls: 3,
        output_bytes: 100,
        setting_names: names.into_iter().collect(),
    };
    let bench = bench_with(limits());
    bench.put("f", "text\n");
    let late = run(&bench, "print('begun', flush=True)\nimport time\ntime.sleep(600)").await;
    assert!(late.contains("timed out after 1 second (code_seconds); the script and"), "{late}");
    assert!(late.contains("begun"), "{late}");
    let many = "for n in range(5):\n    try:\n        print(n, read_file('f').strip())\n    \
                except ToolError as error:\n        print(n, error)\n";
    let bench = bench_with(CodeLimits { seconds: 300, output_bytes: 5000, ..limits() });
    bench.put("f", "text\n");
    let many = run(&bench, many).await;
    let refusal = "read_file: a script may make 3 calls (code_calls): print what you have";
    assert!(many.starts_with(&format!("0 text\n1 text\n2 text\n3 {refusal}\n4 ")), "{many}");
    let bench = bench_with(CodeLimits { seconds: 300, ..limits() });
    let long = run(&bench, "print('a' * 1000)\nprint('the end')").await;
    assert!(long.contains("at most 100 are shown (code_output_bytes)"), "{long}");
    assert!(long.contains("the end") && long.contains("all 1009 are in"), "{long}");
}

#[tokio::test]
async fn the_pages_of_a_file_that_one_call_reads_count_once() {
    require!(program("python3"));
    let bench = bench_with(CodeLimits { calls: 2, ..CodeLimits::default() });
    bench.put("long", "x\n".repeat(9000));
    let code = "print(len(read_file('long').split()))\nprint(len(read_file('long').split()))\n\
                try:\n    read_file('long', offset=2001)\nexcept ToolError as error:\n    \
                print(error)\n";
    let shown = run(&bench, code).await;
    assert_eq!(shown, "9000\n9000\nread_file: a script may make 2 calls: print what you have\n");
}

#[tokio::test]
async fn a_script_that_reads_and_writes_a_file_keeps_how_it_is_written_down() {
    require!(program("python3"));
    let bench = bench();
    let files: [(&str, &[u8]); 5] = [
        ("crlf", b"one\r\ntwo"),
        ("mark", b"\xef\xbb\xbfone\n"),
        ("latin", b"on\xe9\n"),
        ("wide", b"\xff\xfeo\0n\0"),
        ("mixed", b"one\r\ntwo\n"),
    ];
    for (path, content) in files {
        bench.put(path, content);
    }
    let code = "for path in ['crlf', 'mark', 'latin', 'wide', 'mixed']:\n    text = read_file(path)\n    \
                try:\n        write_file('./' + path, text.replace('o', '0'))\n        print(repr(text))\n    \
                except ToolError as error:\n        print(error)\n        \
                edit_file(path, 'on', '0n')\n";
    insta::assert_snapshot!(run(&bench, code).await, @r"
    'one\r\ntwo'
    write_file: ./mark would lose how it is written down: it begins with a byte order mark, not shown; edit_file keeps it: use edit_file
    write_file: ./latin would lose how it is written down: not UTF-8; decoded as windows-1252 (Latin-1), perhaps wrongly; edit_file keeps the bytes: use edit_file
    write_file: ./wide would lose how it is written down: decoded from UTF-16 LE; edit_file keeps that: use edit_file
    write_file: ./mixed would lose how it is written down: 1 of 2 lines end in CRLF, the others in LF: use edit_file
    ");
    let changed: [(&str, &[u8]); 5] = [
        ("crlf", b"0ne\r\ntw0"),
        ("mark", b"\xef\xbb\xbf0ne\n"),
        ("latin", b"0n\xe9\n"),
        ("wide", b"\xff\xfe0\0n\0"),
        ("mixed", b"0ne\r\ntwo\n"),
    ];
    for (path, content) in changed {
        assert_eq!(bench.get(path), content, "{path}");
    }
    close(bench).await;
}

/// 300 MB of output go to no memory, and of those the beginning is on disk.
#[tokio::test]
async fn output_without_end_is_counted() {
    require!(program("python3"));
    let bench = bench();
    let code = "import os\nfor _ in range(300):\n    os.write(1, b'x' * 1000000)\nprint('end')";
    let shown = run(&bench, code).await;
    assert!(shown.contains("of 300000004 bytes of output left out"), "{}", shown.len());
    assert!(shown.contains("end\n") && shown.len() < 60_000, "{}", shown.len());
}

/// Whether a process runs.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !(state.is_empty() || state.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn nothing_that_a_script_started_outlives_it() {
    require!(program("python3"));
    let daemon = "import os, signal, time\n\
                  r, w = os.pipe()\n\
                  if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        \
                  signal.signal(signal.SIGTERM, signal.SIG_IGN)\n        \
                  open('pid', 'w').write(str(os.getpid()))\n        os.write(w, b'x')\n        \
                  time.sleep(600)\n    os._exit(0)\n\
                  os.read(r, 1)\nprint('started')\n";
    for (end, limit) in [("", 300), ("import sys; sys.exit(3)", 300), ("time.sleep(600)", 2)] {
        let bench = bench_with(CodeLimits { seconds: limit, ..CodeLimits::default() });
        let shown = run(&bench, &format!("{daemon}{end}")).await;
        assert!(shown.contains("started"), "{shown}");
        let pid = String::from_utf8(bench.get("pid")).unwrap();
        assert!(!is_alive(&pid), "{end}: {shown}");
    }
}

#[tokio::test]
async fn a_cancelled_script_ends_with_what_it_printed_and_with_its_calls() {
    require!(program("python3"));
    let bench = bench();
    bench.fifo("begun");
    let mut cx = ToolCx { ..bench.cx.clone() };
    cx.cancel = bench.cx.cancel.child();
    let cancel = cx.cancel.clone();
    let begun = bench.path("begun");
    let wait = tokio::task::spawn_blocking(move || std::fs::read(begun));
    let stop = async {
        wait.await.unwrap().unwrap();
        cancel.cancel(CancelReason::Interrupted);
    };
    let code = "print('so far', flush=True)\nterminal('echo x > begun; sleep 600')";
    let call = result(&cx, ExecuteCode, json!({"code": code}));
    let (ended, ()) = tokio::join!(call, stop);
    let shown = show(&ended);
    assert!(matches!(ended, Err(ToolError::Cancelled(_))), "{shown}");
    assert!(shown.contains("so far") && shown.contains("it had made 1 call"), "{shown}");
    close(bench).await;
}

#[tokio::test]
async fn threads_call_side_by_side_and_a_fork_does_not() {
    require!(program("python3"));
    let bench = bench();
    for number in 0..40 {
        bench.put(&format!("f{number}"), format!("text {number}\n"));
    }
    let code = "from concurrent.futures import ThreadPoolExecutor\n\
                import agent_tools, os, sys\n\
                with ThreadPoolExecutor(8) as pool:\n    \
                texts = list(pool.map(lambda n: read_file(f'f{n}').strip(), range(40)))\n\
                print(texts == [f'text {n}' for n in range(40)])\n\
                sys.stdout.flush()\n\
                if os.fork() == 0:\n    try:\n        agent_tools.read_file('f1')\n    \
                except ToolError as error:\n        print(error, flush=True)\n    os._exit(0)\n\
                os.wait()\nprint(read_file('f2').strip())\n";
    let shown = run(&bench, code).await;
    let fork = "read_file: a forked process cannot call tools; call them before or after";
    assert_eq!(shown, format!("True\n{fork}\ntext 2\n"));
}

#[tokio::test]
async fn a_script_gets_nothing_of_this_program() {
    require!(program("python3"));
    let bench = bench();
    bench.put("json.py", "print('hijacked')").put("sitecustomize.py", "print('hijacked')");
    let code = "import json, os, subprocess, sys\n\
                hostile = ('PYTHONPATH', 'PYTHONSTARTUP', 'MY_KEY')\n\
                print([name for name in hostile if name in os.environ])\n\
                print(repr(sys.stdin.read()), sys.argv, __name__, '' in sys.path)\n\
                print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3])\n\
                def sockets(fds):\n    return [fd for fd in fds if fd[1].startswith('socket:')]\n\
                def look(of):\n    found = []\n    for fd in os.listdir(of):\n        try:\n            \
                found.append((fd, os.readlink(f'{of}/{fd}')))\n        except OSError:\n            \
                pass\n    return found\n\
                print(len(sockets(look('/proc/self/fd'))))\n\
                inner = 'import os; print([os.readlink(f\"/proc/self/fd/{fd}\") for fd in \
                os.listdir(\"/proc/self/fd\") if os.path.exists(f\"/proc/self/fd/{fd}\")])'\n\
                out = subprocess.run([sys.executable, '-c', inner], capture_output=True, text=True, \
                close_fds=False)\nprint('socket:' in out.stdout)\n";
    let shown = run(&bench, code).await;
    let wanted = "[]\n'' ['<script>'] __main__ False\n[0, 1, 2]\n1\nFalse\n";
    assert_eq!(shown, wanted);
}

#[tokio::test]
async fn what_is_no_call_ends_the_calls_and_not_the_script() {
    require!(program("python3"));
    let bench = bench();
    bench.put("f", "text\n");
    let after = "try:\n    print(read_file('f'))\nexcept ToolError as error:\n    print(error)\n";
    let closed = "the connection with the agent is closed: no more calls\n";
    let raw = "import agent_tools, os, socket\nraw = agent_tools._connection._socket\n";
    for (script, note) in [
        ("raw.sendall(b'nonsense\\n')\n", "a line that is no call (`nonsense`)"),
        ("raw.sendall(b'{\"id\": 1}\\n')\n", "missing field `tool`"),
        (
            "try:\n    raw.sendall(b'x' * 10_000_000)\nexcept OSError:\n    pass\n",
            "a line of more than 1048576 bytes",
        ),
        ("raw.shutdown(socket.SHUT_RDWR)\n", ""),
        ("os.close(raw.fileno())\n", ""),
    ] {
        let shown = run(&bench, &format!("{raw}{script}{after}")).await;
        assert!(shown.starts_with(closed), "{script}: {shown}");
        assert!(shown.contains(note), "{script}: {shown}");
    }
    let other = "raw.sendall(b'{\"id\": 9, \"tool\": \"clarify\", \"arguments\": {}}\\n')\n\
                 print(agent_tools._connection._reader.readline().decode())\n";
    let shown = run(&bench, &format!("{raw}{other}{after}")).await;
    assert!(shown.contains("a script cannot call clarify, only read_file, write_file"), "{shown}");
    assert!(shown.ends_with("text\n\n"), "{shown}");
    let large = "try:\n    write_file('big', 'x' * 10_000_000)\nexcept ToolError as error:\n    \
                 print(error)\nprint(read_file('f').strip(), len('y' * 10_000_000))\n";
    let shown = run(&bench, large).await;
    assert!(shown.contains("bytes and 1048576 is the most: send less at once"), "{shown}");
    assert!(shown.ends_with("text 10000000\n"), "{shown}");
    let all = run(&bench, "import os\nos.closerange(0, 100)").await;
    assert_eq!(all, "");
}

/// Replies that nobody reads hold up the calls, and nothing else.
#[tokio::test]
async fn a_script_that_reads_no_replies_is_not_served_without_end() {
    require!(program("python3"));
    let bench = bench_with(CodeLimits { seconds: 2, ..CodeLimits::default() });
    let code = "import agent_tools\nraw = agent_tools._connection._socket\n\
                line = b'{\"id\": 1, \"tool\": \"' + b'x' * 1000 + b'\", \"arguments\": {}}\\n'\n\
                while True:\n    raw.sendall(line)\n";
    let shown = run(&bench, code).await;
    assert!(shown.contains("timed out after 2 seconds"), "{shown}");
}

#[test]
fn without_python_the_tool_is_not_usable_and_says_what_to_do() {
    let settings = ResourceMap::default();
    settings.get_or_insert_with(Settings::default);
    let why = "no `python3` in PATH: install Python 3.7 or later".to_owned();
    assert_eq!(ExecuteCode.availability(&settings), Availability::No(why));
}

#[test]
fn a_python_is_looked_up_once() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3");
    std::fs::write(&python, "#!/bin/sh\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&python, mode).unwrap();
    let env = [("PATH".into(), folder.path().into())].into();
    let commands = CommandSettings { env, ..CommandSettings::default() };
    let settings = ResourceMap::default();
    settings.get_or_insert_with(|| Settings { commands, ..Settings::default() });
    assert_eq!(find_python(&settings).as_deref(), Ok(&*python));
    std::fs::remove_file(&python).unwrap();
    assert_eq!(find_python(&settings).as_deref(), Ok(Path::new(&python)));
}
