//! A shell command as a tree.

use std::rc::Rc;

/// A command of any kind.
#[derive(Debug)]
pub(crate) enum Command {
    Simple(SimpleCommand),
    /// One after the other.
    Sequence(Vec<Self>),
    /// The second runs as the first ended: behind `&&`, or behind `||`.
    Either(Box<Self>, Box<Self>),
    Pipeline(Vec<Self>),
    /// With `&` behind it.
    Background(Box<Self>),
    Group {
        body: Vec<Self>,
        is_subshell: bool,
    },
    Redirected {
        body: Box<Self>,
        redirects: Vec<Redirect>,
    },
    Function {
        name: String,
        body: Rc<Self>,
    },
    For {
        variable: String,
        words: Option<Vec<Word>>,
        body: Vec<Self>,
    },
    While {
        condition: Vec<Self>,
        body: Vec<Self>,
    },
    /// The conditions, or the subject of a `case`, and what runs by them.
    Branches {
        conditions: Vec<Vec<Self>>,
        bodies: Vec<Vec<Self>>,
    },
    /// Words that are only expanded: tests and arithmetic.
    Words(Vec<Word>),
}

/// Assignments, words and redirects.
#[derive(Debug, Default)]
pub(crate) struct SimpleCommand {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
}

#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// The text between brackets behind the name.
    pub(crate) index: Option<String>,
    pub(crate) appends: bool,
    pub(crate) value: AssignedValue,
}

#[derive(Debug)]
pub(crate) enum AssignedValue {
    One(Word),
    Array(Vec<Word>),
}

#[derive(Debug)]
pub(crate) enum Redirect {
    /// `<`
    Read(Word),
    /// `>`, `>>`, `&>`, `<>` and the like.
    Write(Word),
    /// A here-document or here-string: the text on standard input.
    Text(Word),
    /// `2>&1`, `<&3`, `>&-`.
    Duplicate(Word),
}

impl Redirect {
    /// Returns the commands of `> >(…)`.
    pub(crate) fn fed_process(&self) -> Option<&[Command]> {
        match self {
            Self::Write(word) => match word.pieces.as_slice() {
                [Piece::Process { body, reads: false }] => Some(body),
                _ => None,
            },
            _ => None,
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Word {
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// Text without quotes.
    Bare(String),
    Quoted(String),
    Parameter(Rc<Parameter>),
    /// The output of commands.
    Substitution {
        body: Rc<Vec<Command>>,
        is_quoted: bool,
    },
    /// The name of a file that is the output, or the input, of commands.
    Process {
        body: Rc<Vec<Command>>,
        reads: bool,
    },
    /// What is unknown, with the commands inside.
    Unknown {
        inside: Rc<Vec<Command>>,
    },
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) index: Option<String>,
    pub(crate) is_quoted: bool,
    pub(crate) operation: Operation,
}

/// What is done with the value of a parameter.
#[derive(Debug)]
pub(crate) enum Operation {
    None,
    /// `${x:-word}` and `${x:=word}`
    Default {
        word: Word,
        assigns: bool,
    },
    /// `${x:+word}`
    Alternative(Word),
    /// `${x#pattern}`, `${x%pattern}`, doubled for the longest.
    Remove {
        pattern: Word,
        is_suffix: bool,
        is_longest: bool,
    },
    Replace {
        pattern: Word,
        with: Word,
        is_all: bool,
    },
    Substring {
        offset: i64,
        length: Option<i64>,
    },
    Lower {
        is_all: bool,
    },
    Upper {
        is_all: bool,
    },
    Length,
    /// `${!x}`
    Indirect,
    /// `${x@Q}` and the like, and what has no meaning here.
    Other(Word),
}
