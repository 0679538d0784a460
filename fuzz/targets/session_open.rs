//! Any bytes as a session file: it is read, taken up again, and read once more.
//!
//! The input: the file, but for lines that begin with `+` or `*`. Those hold a record alone, which
//! is written as it should be, so that what is inside of records is reached as well; with `*` as
//! one before which all others were durable.
#![no_main]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deputize_core::authority::Grant;
use deputize_core::clock::FixedClock;
use deputize_core::model::{Delta, ModelError, Reply, Request};
use deputize_core::{
    Authority, BoxFuture, Cancel, Catalog, Event, Message, Model, Record, SessionId,
};
use deputize_delegate::{DelegateTool, DelegationConfig};
use deputize_fuzz::meter::MemoryLimit;
use deputize_fuzz::session_file::{checksum, written};
use deputize_runtime::{
    Continue, FileTail, Header, Session, SessionConfig, SessionDir, SessionError, StoredSession,
    SyncMode,
};
use libfuzzer_sys::fuzz_target;

/// A record of a few bytes more than its names fills structures of some hundred bytes.
const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 200 };
const MODEL: &str = "fuzz/model";

fuzz_target!(|input: &[u8]| {
    let bytes = written(input);
    let folder = tempfile::tempdir().expect("a folder");
    let dir = SessionDir::new(folder.path());
    let id = SessionId::literal("s");
    std::fs::write(dir.file(&id), &bytes).expect("a file");
    let expected = ExpectedFile::of(&bytes);
    let stored = match LIMIT.during(bytes.len(), || dir.read(&id)) {
        Ok(stored) => stored,
        Err(error) => {
            assert!(!expected.header, "{error}");
            return;
        }
    };
    expected.hold_for(&stored);
    for record in &stored.records {
        if let Some(messages) = stored.messages(&record.agent) {
            assert!(has_prefill(&stored) || is_paired(&messages), "{messages:?}");
        }
    }
    let _start = stored.last_start();
    let _spec = stored.root_spec();
    taken_up(&dir, &stored, &bytes, folder.path());
});

/// What must be read of a file, by the form in which records are written.
struct ExpectedFile {
    header: bool,
    /// Good records before the first line that is none.
    records: Vec<Record>,
    /// Whether a line behind them is a record that must not be thrown away.
    more: bool,
}

impl ExpectedFile {
    fn of(bytes: &[u8]) -> Self {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let header = lines.next().unwrap_or_default();
        let header = serde_json::from_slice::<Header>(header);
        let mut this = Self {
            header: header.is_ok_and(|header| header.format <= 1),
            records: Vec::new(),
            more: false,
        };
        // The first line that is no record: whether a power cut may have left it.
        let mut broken: Option<bool> = None;
        for line in lines {
            let count = this.records.len() as u64;
            match (RecordLine::of(line), broken) {
                (Some(written), Some(cut)) => this.more |= !cut || written.durable > count,
                (Some(written), None) if written.seq == count => {
                    match serde_json::from_slice(written.record) {
                        Ok(record) => this.records.push(record),
                        // One of a newer program.
                        Err(_) => {
                            this.more = true;
                            break;
                        }
                    }
                }
                (_, None) => broken = Some(line.contains(&0)),
                (None, Some(_)) => {}
            }
        }
        this
    }

    fn hold_for(&self, stored: &StoredSession) {
        let read = stored.records.get(..self.records.len());
        assert_eq!(read, Some(self.records.as_slice()), "a good record is lost");
        if self.more && stored.records.len() == self.records.len() {
            assert!(stored.damage.is_some(), "a record behind a broken one would be thrown away");
        }
        assert!(stored.damage.is_none() || stored.tail == FileTail::Whole);
    }
}

/// A line that is as records are written.
struct RecordLine<'l> {
    seq: u64,
    durable: u64,
    record: &'l [u8],
}

impl<'l> RecordLine<'l> {
    fn of(line: &'l [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"}\n")?;
        let at = line.windows(10).position(|part| part == b",\"record\":")?;
        let head = std::str::from_utf8(&line[..at]).ok()?;
        let record = &line[at + 10..];
        let (seq, rest) = head.strip_prefix("{\"seq\":")?.split_once(',')?;
        let (durable, rest) = match rest.strip_prefix("\"durable\":") {
            Some(rest) => rest.split_once(',')?,
            None => ("0", rest),
        };
        let (len, crc) = rest.strip_prefix("\"len\":")?.split_once(",\"crc\":\"")?;
        let seq = number(seq)?;
        let durable = number(durable)?;
        let whole = number(len)? == record.len() as u64
            && crc.strip_suffix('"')? == format!("{:08x}", checksum(record, durable))
            // Nothing is written around a record.
            && serde_json::from_slice::<&serde_json::value::RawValue>(record)
                .is_ok_and(|raw| raw.get().len() == record.len());
        whole.then_some(Self { seq, durable, record })
    }
}

/// A number in the one form that JSON has for it.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

/// Goes on with the session. Whatever comes of it, what was there stays.
fn taken_up(dir: &SessionDir, stored: &StoredSession, bytes: &[u8], folder: &Path) {
    let id = SessionId::literal("s");
    let unpaired = Arc::new(AtomicBool::new(false));
    let (config, model) = session_config(stored, &unpaired);
    let session = match Session::open(dir, id.clone(), config) {
        Ok((session, recovery)) => {
            assert!(stored.damage.is_none());
            let torn = FileTail::Torn { bytes: recovery.dropped_bytes };
            assert!(recovery.dropped_bytes == 0 || stored.tail == torn);
            session
        }
        Err(SessionError::File(error)) => {
            assert!(stored.damage.is_some(), "{error}");
            let kept = std::fs::read(dir.file(&id)).expect("the file");
            assert_eq!(kept, bytes, "a damaged file is left as it is");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
    let authority = Authority::root(session.catalog(), &Grant::default());
    let how = Continue { message: Some("go on".into()), model, ..Continue::default() };
    let outcome = runtime.block_on(session.resume(how, authority, &Cancel::new()));
    drop((session, runtime));
    assert!(!unpaired.load(Ordering::SeqCst), "a request with calls and results unpaired");
    let after = dir.read(&id).expect("still a session");
    assert!(
        after.damage.is_none() && after.tail == FileTail::Whole,
        "{:?} {outcome:?}",
        after.damage
    );
    assert_eq!(after.records.get(..stored.records.len()), Some(stored.records.as_slice()));
    assert!(outcome.is_err() || after.records.len() > stored.records.len());
    let strays = std::fs::read_dir(folder).expect("the folder").count();
    assert_eq!(strays, 1, "nothing but the file");
}

/// A program that can answer all models of the session, with `delegate_task` as its only tool.
fn session_config(
    stored: &StoredSession,
    unpaired: &Arc<AtomicBool>,
) -> (SessionConfig, Option<String>) {
    let mut catalog = Catalog::default();
    let delegate = DelegateTool::new(DelegationConfig::default(), Arc::new(FixedClock(0)));
    catalog.insert(delegate.expect("a tool").into_entry()).expect("one tool");
    let mut config =
        SessionConfig { clock: Arc::new(FixedClock(0)), ..SessionConfig::new(catalog) };
    config.record.sync = SyncMode::Never;
    let unpaired = (!has_prefill(stored)).then(|| Arc::clone(unpaired));
    let model: Arc<dyn Model> = Arc::new(AgreeableModel { unpaired });
    config.models.insert(MODEL, "model", model);
    (config, Some(MODEL.to_owned()))
}

/// What comes before the first message is the configuration's own and is sent as it is.
fn has_prefill(stored: &StoredSession) -> bool {
    let starts = stored.records.iter();
    starts.into_iter().any(|record| match &record.event {
        Event::AgentStart(start) => !start.spec.prefill.is_empty(),
        _ => false,
    })
}

/// Whether each call is followed by its result, in order, and there is no other result.
fn is_paired(messages: &[Arc<Message>]) -> bool {
    let mut open = Vec::new();
    let mut paired = true;
    for message in messages {
        match &**message {
            Message::Tool(result) => {
                paired &= !open.is_empty() && open.remove(0) == result.call;
            }
            Message::Assistant(reply) => {
                paired &= open.is_empty();
                open = reply.calls.iter().map(|call| call.id).collect();
            }
            Message::User(_) => paired &= open.is_empty(),
        }
    }
    paired
}

/// Answers everything, and looks at what it is asked.
struct AgreeableModel {
    unpaired: Option<Arc<AtomicBool>>,
}

impl Model for AgreeableModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let open = matches!(request.messages.last().map(|it| &**it), Some(Message::Assistant(reply)) if !reply.calls.is_empty());
            if let Some(unpaired) = &self.unpaired
                && (open || !is_paired(request.messages))
            {
                unpaired.store(true, Ordering::SeqCst);
            }
            Ok(Reply::text("model", "Done."))
        })
    }
}
