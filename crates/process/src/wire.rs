//! What the runtime and the warden say to each other, as bytes.
//!
//! A frame is the length of its body and the body, numbers least byte first. Both ends are the
//! same program, so there is one version; a reader takes any bytes and never more than
//! [`FRAME_LIMIT`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use crate::mark::{Mark, Seal};
use crate::registry::Scope;
use crate::supervisor::{Containment, Ended};

/// Bytes that a frame may have: far more than the arguments that a system takes.
pub(crate) const FRAME_LIMIT: usize = 16 * 1024 * 1024;
/// By this a program is known that is a helper.
const GREETING: &[u8] = b"deputize-process helper 1";

/// What the runtime asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The first one.
    Hello(Hello),
    /// Start a command. Three descriptors come with it: its input, output and errors.
    Start(Start),
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

/// What a warden must know before the first command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) seal: Seal,
    /// The soft limit of open files that commands get, if not the one of this program.
    pub(crate) open_files: Option<u64>,
    /// Whether PID namespaces are to be made where they can.
    pub(crate) namespaces: bool,
}

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) mark: Mark,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
}

/// What the warden reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The first one.
    Ready,
    /// The command runs.
    Started(Mark),
    /// It does not; the system's error number.
    Refused(Mark, i32),
    /// Its first process has ended, with this status as the system gives it, if it did.
    Exited(Mark, Option<i32>),
    /// A request to end is done.
    Ended(u64, Ended),
    /// By which means trees are held.
    Holds(Containment),
}

impl Request {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut to = Frame::new();
        match self {
            Self::Hello(hello) => {
                to.number(0);
                to.text(hello.seal.instance.as_ref());
                to.number(hello.seal.salt.into());
                to.option(hello.seal.bit.map(u64::from));
                to.option(hello.open_files);
                to.number(hello.namespaces.into());
            }
            Self::Start(start) => {
                to.number(1);
                to.mark(start.mark);
                to.text(start.program.as_os_str());
                to.texts(start.args.iter());
                to.text(start.cwd.as_os_str());
                to.texts(start.env.iter().flat_map(|(name, value)| [name, value]));
            }
            Self::End { ticket, scope } => {
                to.number(2);
                to.number(*ticket);
                match scope {
                    Scope::Command(mark) => {
                        to.number(0);
                        to.mark(*mark);
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
                let seal = Seal { instance, salt, bit };
                Self::Hello(Hello { seal, open_files, namespaces })
            }
            1 => Self::Start(from.start()?),
            2 => Self::End {
                ticket: from.number()?,
                scope: match from.number()? {
                    0 => Scope::Command(from.mark()?),
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

impl Report {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut to = Frame::new();
        match self {
            Self::Ready => {
                to.number(0);
                to.text(OsStr::from_bytes(GREETING));
            }
            Self::Started(mark) => {
                to.number(1);
                to.mark(*mark);
            }
            Self::Refused(mark, errno) => {
                to.number(2);
                to.mark(*mark);
                to.number(errno.cast_unsigned().into());
            }
            Self::Exited(mark, status) => {
                to.number(3);
                to.mark(*mark);
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
                    Containment::Namespace => 0,
                    Containment::Walk => 1,
                    Containment::Groups => 2,
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
            1 => Self::Started(from.mark()?),
            2 => Self::Refused(from.mark()?, from.signed()?),
            3 => {
                let (mark, status) = (from.mark()?, from.option()?);
                let status = status.map(u32::try_from).transpose().ok()?;
                Self::Exited(mark, status.map(u32::cast_signed))
            }
            4 => {
                let ticket = from.number()?;
                let (restless, groups_only) = (from.number()? != 0, from.number()? != 0);
                let mut left = Vec::new();
                for _ in 0..from.number()? {
                    left.push(from.signed()?);
                }
                Self::Ended(ticket, Ended { left, restless, groups_only })
            }
            5 => Self::Holds(match from.number()? {
                0 => Containment::Namespace,
                1 => Containment::Walk,
                2 => Containment::Groups,
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

    fn mark(&mut self, mark: Mark) {
        self.number(mark.owner.into());
        self.number(mark.command.into());
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

/// What is left of a body being read.
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

    fn signed(&mut self) -> Option<i32> {
        Some(self.small()?.cast_signed())
    }

    fn option(&mut self) -> Option<Option<u64>> {
        let (is_some, number) = (self.number()?, self.number()?);
        Some((is_some != 0).then_some(number))
    }

    fn mark(&mut self) -> Option<Mark> {
        Some(Mark { owner: self.small()?, command: self.small()? })
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

    fn start(&mut self) -> Option<Start> {
        let mark = self.mark()?;
        let (program, args, cwd) = (self.text()?.into(), self.texts()?, self.text()?.into());
        let mut env = Vec::new();
        let mut texts = self.texts()?.into_iter();
        while let Some(name) = texts.next() {
            env.push((name, texts.next()?));
        }
        Some(Start { mark, program, args, cwd, env })
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

    fn requests() -> Vec<Request> {
        let mark = Mark { owner: u32::MAX, command: 7 };
        let seal = Seal { instance: "00ff".into(), salt: 5, bit: Some(62) };
        let start = Start {
            mark,
            program: "/bin/sh".into(),
            args: vec!["-c".into(), OsString::from_vec(vec![0xff, b'\n'])],
            cwd: "/tmp/a b".into(),
            env: vec![("A".into(), "1=2".into()), ("B".into(), "".into())],
        };
        vec![
            Request::Hello(Hello { seal, open_files: Some(1024), namespaces: true }),
            Request::Start(start),
            Request::End { ticket: u64::MAX, scope: Scope::Command(mark) },
            Request::End { ticket: 0, scope: Scope::Owner(3) },
            Request::Probe,
            Request::Close,
        ]
    }

    fn reports() -> Vec<Report> {
        let mark = Mark { owner: 1, command: 2 };
        let ended = Ended { left: vec![1, -1, i32::MAX], restless: true, groups_only: false };
        vec![
            Report::Ready,
            Report::Started(mark),
            Report::Refused(mark, 24),
            Report::Exited(mark, Some(-5)),
            Report::Exited(mark, None),
            Report::Ended(9, ended),
            Report::Ended(9, Ended::default()),
            Report::Holds(Containment::Namespace),
            Report::Holds(Containment::Walk),
            Report::Holds(Containment::Groups),
        ]
    }

    #[test]
    fn what_is_written_is_read_and_nothing_shorter_is() {
        for request in requests() {
            let frame = request.frame();
            assert_eq!(Request::read(body(&frame)), Some(request.clone()));
            for cut in 0..body(&frame).len() {
                assert_eq!(Request::read(&body(&frame)[..cut]), None, "{request:?} {cut}");
            }
        }
        for report in reports() {
            let frame = report.frame();
            assert_eq!(Report::read(body(&frame)), Some(report.clone()));
            for cut in 0..body(&frame).len() {
                assert_eq!(Report::read(&body(&frame)[..cut]), None, "{report:?} {cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>, at in 0..300_usize, with: u8) {
            let _ = Request::read(&bytes);
            let _ = Report::read(&bytes);
            for frame in requests().iter().map(Request::frame) {
                let mut changed = body(&frame).to_vec();
                let place = at % changed.len();
                changed[place] = with;
                let _ = Request::read(&changed);
                let _ = Report::read(&changed);
            }
        }
    }
}
