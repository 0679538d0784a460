//! Documents are converted in a process of their own: a page or a PDF file that makes a parser hang,
//! overflow its stack or fill the memory ends that process and nothing else.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Resource as Limit, Rlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::convert::{Conversion, ConvertedText};

/// Bytes of address space that a conversion may take. A program's allocator may reserve one
/// gigabyte of it ahead, before it uses any.
const ADDRESS_SPACE: u64 = 2 * 1024 * 1024 * 1024;
/// Seconds of processor time that a conversion may take.
const CPU_SECONDS: u64 = 20;
/// Bytes of the answer of a conversion at most. Some pages have far more text than bytes, such as
/// tables whose columns are filled up.
const ANSWER_BYTES: u64 = 64 * 1024 * 1024;
/// Seconds that a conversion may take in all.
const SECONDS: u64 = 30;
/// Bytes of the stack of the thread that converts: pages may be nested deeply.
const STACK: usize = 256 * 1024 * 1024;

/// Where web pages and PDF files become text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Converter {
    /// On a thread of this process. A document that makes a parser overflow its stack ends the
    /// program.
    #[default]
    Thread,
    /// In a process of its own, with limits on time and memory: a program whose `main` calls
    /// [`converter_main`] when it is started with these arguments.
    Process {
        /// Path of the program.
        program: PathBuf,
        /// Arguments of the program.
        args: Vec<OsString>,
    },
}

impl Converter {
    pub(crate) async fn convert(
        &self,
        conversion: Conversion,
        document: Vec<u8>,
    ) -> Result<ConvertedText, String> {
        match self {
            Self::Thread => on_thread(conversion, document).await,
            Self::Process { program, args } => {
                let mut command = Command::new(program);
                command.args(args).env_clear().current_dir("/").kill_on_drop(true);
                in_process(command, &conversion, &document).await
            }
        }
    }
}

async fn on_thread(conversion: Conversion, document: Vec<u8>) -> Result<ConvertedText, String> {
    let done = tokio::task::spawn_blocking(move || convert_deep(conversion, document));
    let done = tokio::time::timeout(Duration::from_secs(SECONDS), done).await;
    match done {
        Ok(Ok(converted)) => converted,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it took more than {SECONDS} s")),
    }
}

async fn in_process(
    mut command: Command,
    conversion: &Conversion,
    document: &[u8],
) -> Result<ConvertedText, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error: std::io::Error| format!("the process that reads it cannot run: {error}");
    let mut child = command.spawn().map_err(failed)?;
    let mut head = serde_json::to_vec(conversion).map_err(|error| error.to_string())?;
    head.push(b'\n');
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let write = async {
        // A process that ended early says so by its output.
        if let Some(mut stdin) = stdin
            && stdin.write_all(&head).await.is_ok()
        {
            let _ended = stdin.write_all(document).await;
        }
    };
    let read = async {
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(ANSWER_BYTES + 1).read_to_end(&mut answer).await.map_err(failed)?;
        }
        Ok::<_, String>(answer)
    };
    let work = async {
        let answer = tokio::join!(write, read).1?;
        // Dropping the process ends it.
        if u64::try_from(answer.len()).is_ok_and(|bytes| bytes > ANSWER_BYTES) {
            return Err(format!("its text has more than {ANSWER_BYTES} bytes"));
        }
        let status = child.wait().await.map_err(failed)?;
        serde_json::from_slice::<Result<ConvertedText, String>>(&answer)
            .unwrap_or_else(|_| Err(format!("the process that reads it ended early ({status})")))
    };
    let converted = tokio::time::timeout(Duration::from_secs(SECONDS), work).await;
    converted.unwrap_or_else(|_| Err(format!("it took more than {SECONDS} s")))
}

/// Runs as the process of a [`Converter::Process`]: reads a document from standard input and writes
/// its text, or why there is none, to standard output.
#[must_use]
pub fn converter_main() -> ExitCode {
    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    // Where a limit cannot be set, the time limit of the other side is left.
    let _unlimited = setrlimit(Limit::As, limit(ADDRESS_SPACE));
    let _unlimited = setrlimit(Limit::Cpu, limit(CPU_SECONDS));
    let _unlimited = setrlimit(Limit::Core, limit(0));
    let written = serde_json::to_vec(&convert_stdin())
        .map_err(std::io::Error::other)
        .and_then(|bytes| std::io::stdout().lock().write_all(&bytes));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Converts the document that standard input has after one line with its [`Conversion`].
fn convert_stdin() -> Result<ConvertedText, String> {
    let mut input = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut input);
    read.map_err(|error| format!("the document did not arrive: {error}"))?;
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (head, document) = input.split_at(end);
    let conversion: Conversion = serde_json::from_slice(head)
        .map_err(|error| format!("the program that reads it expects another request: {error}"))?;
    let document = document.get(1..).unwrap_or_default().to_owned();
    convert_deep(conversion, document)
}

/// Converts on a thread of its own, whose stack is large enough for deeply nested pages.
fn convert_deep(conversion: Conversion, document: Vec<u8>) -> Result<ConvertedText, String> {
    let worker = std::thread::Builder::new().stack_size(STACK);
    let worker = worker.spawn(move || conversion.run(&document));
    let worker = worker.map_err(|error| format!("no thread to read it can be started: {error}"))?;
    worker.join().unwrap_or_else(|_| Err("the parser failed on it".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a document that this shell script reads.
    async fn converted_by(script: &str) -> Result<ConvertedText, String> {
        let args = ["-c", script].map(OsString::from).to_vec();
        let converter = Converter::Process { program: "/bin/sh".into(), args };
        let conversion = Conversion { pdf: false, url: String::new(), whole: false };
        converter.convert(conversion, b"<p>x".to_vec()).await
    }

    #[tokio::test]
    async fn an_answer_without_end_is_read_up_to_a_limit() {
        let found = converted_by("exec cat /dev/zero").await;
        assert_eq!(found.unwrap_err(), "its text has more than 67108864 bytes");
    }

    #[tokio::test]
    async fn a_process_that_answers_nothing_is_reported_with_its_status() {
        let found = converted_by("cat > /dev/null; exit 7").await;
        let expected = "the process that reads it ended early (exit status: 7)";
        assert_eq!(found.unwrap_err(), expected);
        let none = Converter::Process { program: "/no/such/program".into(), args: Vec::new() };
        let conversion = Conversion { pdf: false, url: String::new(), whole: false };
        let actual = none.convert(conversion, Vec::new()).await.unwrap_err();
        assert!(actual.starts_with("the process that reads it cannot run: "), "{actual}");
    }
}
