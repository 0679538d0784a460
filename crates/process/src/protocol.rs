//! Messages between the runtime and the reaper, as bytes.
//!
//! A frame is the length of its body and the body, numbers least byte first. Both ends are the
//! same program, so there is one version; a reader takes any bytes and never more than
//! [`FRAME_LIMIT`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use crate::containment::Containment;
use crate::process_tag::{ProcessTag, TagCodec};
use crate::scope::Scope;
use crate::termination_report::TerminationReport;

/// Bytes that a frame may have: far more than the arguments that a system takes.
pub(crate) const FRAME_LIMIT: usize = 16 * 1024 * 1024;
/// By this a program is known that is a helper.
const GREETING: &[u8] = b"deputize-process helper 1";

/// A request from the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReaperRequest {
    /// The first one.
    ReaperConfig(ReaperConfig),
    /// Start a command. Three descriptors come with it: its input, output and errors.
    Start(StartCommand),
    /// End these and report.
    End {
        /// Names the request in its report.
        ticket: u64,
        /// Who is to end.
        scope: Scope,
    },
    /// Tell by which means trees are held.
    Probe,
    /// End everything, then leave. The end of the stream says the same.
    Close,
}

/// Configuration of a reaper, sent before the first command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReaperConfig {
    pub(crate) codec: TagCodec,
    /// The soft limit of open files that commands get, if not the one of this program.
    pub(crate) open_files: Option<u64>,
    /// Whether PID namespaces are to be made where they can.
    pub(crate) namespaces: bool,
}

/// A command to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartCommand {
    pub(crate) tag: ProcessTag,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Whether descriptor 0 is a terminal that the command's session gets as its own.
    pub(crate) terminal: bool,
}

/// A report from the reaper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReaperReport {
    /// The first one.
    Ready,
    /// The command runs.
    Started(ProcessTag),
    /// It does not; the system's error number.
    Refused(ProcessTag, i32),
    /// Its first process has ended, with this status as the system gives it, if it did.
    Exited(ProcessTag, Option<i32>),
    /// A request to end is done.
    Ended(u64, TerminationReport),
    /// By which means trees are held.
    Holds(Containment),
}

impl ReaperRequest {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut to = Frame::new();
        match self {
            Self::ReaperConfig(hello) => {
                to.number(0);
                to.text(hello.codec.instance.as_ref());
                to.number(hello.codec.salt.into());
                to.option(hello.codec.bit.map(u64::from));
                to.option(hello.open_files);
                to.number(hello.namespaces.into());
            }
            Self::Start(start) => {
                to.number(1);
                to.tag(start.tag);
                to.text(start.program.as_os_str());
                to.texts(start.args.iter());
                to.text(start.cwd.as_os_str());
                to.texts(start.env.iter().flat_map(|(name, value)| [name, value]));
                to.number(start.terminal.into());
            }
            Self::End { ticket, scope } => {
                to.number(2);
                to.number(*ticket);
                match scope {
                    Scope::Command(tag) => {
                        to.number(0);
                        to.tag(*tag);
                    }
                    Scope::Owner(owner) => {
                        to.number(1);
                        to.number((*owner).into());
                    }
                }
            }
            Self::Probe => to.number(3),
            Self::Close => to.number(4),
        }
        to.done()
    }

    /// Reads a body; `None` if it is not one.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let mut from = Body(body);
        let request = match from.number()? {
            0 => {
                let instance = from.text()?.into_string().ok()?;
                let salt = from.small()?;
                let bit = from.option()?.map(u32::try_from).transpose().ok()?;
                // Above it, the value of a limit could not carry it.
                if bit.is_some_and(|bit| bit >= u64::BITS) {
                    return None;
                }
                let open_files = from.option()?;
                let namespaces = from.number()? != 0;
                let codec = TagCodec { instance, salt, bit };
                Self::ReaperConfig(ReaperConfig { codec, open_files, namespaces })
            }
            1 => Self::Start(from.start()?),
            2 => Self::End {
                ticket: from.number()?,
                scope: match from.number()? {
                    0 => Scope::Command(from.tag()?),
                    1 => Scope::Owner(from.small()?),
                    _ => return None,
                },
            },
            3 => Self::Probe,
            4 => Self::Close,
            _ => return None,
        };
        from.0.is_empty().then_some(request)
    }
}

impl ReaperReport {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut to = Frame::new();
        match self {
            Self::Ready => {
                to.number(0);
                to.text(OsStr::from_bytes(GREETING));
            }
            Self::Started(tag) => {
                to.number(1);
                to.tag(*tag);
            }
            Self::Refused(tag, errno) => {
                to.number(2);
                to.tag(*tag);
                to.number(errno.cast_unsigned().into());
            }
            Self::Exited(tag, status) => {
                to.number(3);
                to.tag(*tag);
                to.option(status.map(|status| status.cast_unsigned().into()));
            }
            Self::Ended(ticket, ended) => {
                to.number(4);
                to.number(*ticket);
                to.number(ended.restless.into());
                to.number(ended.groups_only.into());
                to.number(ended.left.len() as u64);
                ended.left.iter().for_each(|pid| to.number(u64::from(pid.cast_unsigned())));
            }
            Self::Holds(containment) => {
                to.number(5);
                to.number(match containment {
                    Containment::PidNamespace => 0,
                    Containment::ProcessTable => 1,
                    Containment::ProcessGroups => 2,
                });
            }
        }
        to.done()
    }

    /// Reads a body; `None` if it is not one.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let mut from = Body(body);
        let report = match from.number()? {
            0 => (from.bytes()? == GREETING).then_some(Self::Ready)?,
            1 => Self::Started(from.tag()?),
            2 => Self::Refused(from.tag()?, from.read_signed()?),
            3 => {
                let tag = from.tag()?;
                let status = from.option()?;
                let status = status.map(u32::try_from).transpose().ok()?;
                Self::Exited(tag, status.map(u32::cast_signed))
            }
            4 => {
                let ticket = from.number()?;
                let restless = from.number()? != 0;
                let groups_only = from.number()? != 0;
                let mut left = Vec::new();
                for _ in 0..from.number()? {
                    left.push(from.read_signed()?);
                }
                Self::Ended(ticket, TerminationReport { left, restless, groups_only })
            }
            5 => Self::Holds(match from.number()? {
                0 => Containment::PidNamespace,
                1 => Containment::ProcessTable,
                2 => Containment::ProcessGroups,
                _ => return None,
            }),
            _ => return None,
        };
        from.0.is_empty().then_some(report)
    }
}

/// A frame being written.
struct Frame(Vec<u8>);

impl Frame {
    fn new() -> Self {
        Self(vec![0; size_of::<u32>()])
    }

    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn option(&mut self, number: Option<u64>) {
        self.number(number.is_some().into());
        self.number(number.unwrap_or_default());
    }

    fn tag(&mut self, tag: ProcessTag) {
        self.number(tag.owner.into());
        self.number(tag.command.into());
    }

    fn text(&mut self, text: &OsStr) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    fn texts<'a>(&mut self, texts: impl Iterator<Item = &'a OsString> + Clone) {
        self.number(texts.clone().count() as u64);
        texts.for_each(|text| self.text(text));
    }

    fn done(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - size_of::<u32>()).unwrap_or(u32::MAX);
        if let Some(place) = self.0.first_chunk_mut() {
            *place = length.to_le_bytes();
        }
        self.0
    }
}

/// The unread rest of a body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn read_signed(&mut self) -> Option<i32> {
        Some(self.small()?.cast_signed())
    }

    fn option(&mut self) -> Option<Option<u64>> {
        let is_some = self.number()?;
        let number = self.number()?;
        Some((is_some != 0).then_some(number))
    }

    fn tag(&mut self) -> Option<ProcessTag> {
        Some(ProcessTag { owner: self.small()?, command: self.small()? })
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<OsString> {
        Some(OsString::from_vec(self.bytes()?.to_vec()))
    }

    fn texts(&mut self) -> Option<Vec<OsString>> {
        let mut texts = Vec::new();
        for _ in 0..self.number()? {
            texts.push(self.text()?);
        }
        Some(texts)
    }

    fn start(&mut self) -> Option<StartCommand> {
        let tag = self.tag()?;
        let program = self.text()?.into();
        let args = self.texts()?;
        let cwd = self.text()?.into();
        let mut env = Vec::new();
        let mut texts = self.texts()?.into_iter();
        while let Some(name) = texts.next() {
            env.push((name, texts.next()?));
        }
        let terminal = self.number()? != 0;
        Some(StartCommand { tag, program, args, cwd, env, terminal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(frame: &[u8]) -> &[u8] {
        let (length, body) = frame.split_first_chunk().unwrap();
        assert_eq!(u32::from_le_bytes(*length) as usize, body.len());
        body
    }

    fn requests() -> Vec<ReaperRequest> {
        let tag = ProcessTag { owner: u32::MAX, command: 7 };
        let codec = TagCodec { instance: "00ff".into(), salt: 5, bit: Some(62) };
        let start = StartCommand {
            tag,
            program: "/bin/sh".into(),
            args: vec!["-c".into(), OsString::from_vec(vec![0xff, b'\n'])],
            cwd: "/tmp/a b".into(),
            env: vec![("A".into(), "1=2".into()), ("B".into(), "".into())],
            terminal: true,
        };
        vec![
            ReaperRequest::ReaperConfig(ReaperConfig {
                codec,
                open_files: Some(1024),
                namespaces: true,
            }),
            ReaperRequest::Start(start),
            ReaperRequest::End { ticket: u64::MAX, scope: Scope::Command(tag) },
            ReaperRequest::End { ticket: 0, scope: Scope::Owner(3) },
            ReaperRequest::Probe,
            ReaperRequest::Close,
        ]
    }

    fn reports() -> Vec<ReaperReport> {
        let tag = ProcessTag { owner: 1, command: 2 };
        let ended =
            TerminationReport { left: vec![1, -1, i32::MAX], restless: true, groups_only: false };
        vec![
            ReaperReport::Ready,
            ReaperReport::Started(tag),
            ReaperReport::Refused(tag, 24),
            ReaperReport::Exited(tag, Some(-5)),
            ReaperReport::Exited(tag, None),
            ReaperReport::Ended(9, ended),
            ReaperReport::Ended(9, TerminationReport::default()),
            ReaperReport::Holds(Containment::PidNamespace),
            ReaperReport::Holds(Containment::ProcessTable),
            ReaperReport::Holds(Containment::ProcessGroups),
        ]
    }

    #[test]
    fn what_is_written_is_read_and_nothing_shorter_is() {
        for request in requests() {
            let frame = request.frame();
            assert_eq!(ReaperRequest::read(body(&frame)), Some(request.clone()));
            for cut in 0..body(&frame).len() {
                assert_eq!(ReaperRequest::read(&body(&frame)[..cut]), None, "{request:?} {cut}");
            }
        }
        for report in reports() {
            let frame = report.frame();
            assert_eq!(ReaperReport::read(body(&frame)), Some(report.clone()));
            for cut in 0..body(&frame).len() {
                assert_eq!(ReaperReport::read(&body(&frame)[..cut]), None, "{report:?} {cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>, at in 0..300_usize, with: u8) {
            let _ = ReaperRequest::read(&bytes);
            let _ = ReaperReport::read(&bytes);
            for frame in requests().iter().map(ReaperRequest::frame) {
                let mut changed = body(&frame).to_vec();
                let place = at % changed.len();
                changed[place] = with;
                let _ = ReaperRequest::read(&changed);
                let _ = ReaperReport::read(&changed);
            }
        }
    }
}
