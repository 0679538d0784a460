//! Reads patches in two forms: unified diffs, also with the headers of Git, and the form between
//! `*** Begin Patch` and `*** End Patch`.
//!
//! Line numbers and line counts of hunks are hints: models get them wrong. A hunk ends where no line
//! of it follows, and its place is where its lines stand in the file.

use super::hunk::{Hunk, HunkBody, HunkHeader, LineSign};

/// The changes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// The file, as the patch names it.
    pub(super) path: String,
    pub(super) change: PatchAction,
}

impl FilePatch {
    /// Returns the path of the file, and the one that it is renamed to.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let new_path = match &self.change {
            PatchAction::Update { new_path, .. } => new_path.as_deref(),
            PatchAction::Create { .. } | PatchAction::Remove { .. } => None,
        };
        [&*self.path].into_iter().chain(new_path)
    }
}

/// What a patch does with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatchAction {
    /// Creates it.
    Create { content: String },
    /// Removes it. Hunks name all its lines, if there are any.
    Remove { hunks: Vec<Hunk> },
    /// Changes its lines, or its path, or both.
    Update { hunks: Vec<Hunk>, new_path: Option<String> },
}

/// Why a text is no patch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {problem}")]
pub(super) struct PatchSyntaxError {
    line: usize,
    problem: String,
}

/// What the headers of Git say about one file.
#[derive(Debug, Default)]
struct GitHeader {
    path: Option<String>,
    creates: bool,
    removes: bool,
    renamed_to: Option<String>,
}

/// Headers of Git whose last word may be a mode.
const MODE_HEADERS: [&str; 5] =
    ["new file mode ", "deleted file mode ", "old mode ", "new mode ", "index "];

/// The mode that Git has for a symlink.
const SYMLINK_MODE: &str = "120000";

/// Reads a patch.
pub(super) fn parse(patch: &str) -> Result<Vec<FilePatch>, PatchSyntaxError> {
    let mut lines: Vec<&str> = patch.lines().collect();
    // The end of a code block around the patch.
    if lines.iter().rev().find(|line| !line.trim().is_empty()).is_some_and(|line| *line == "```") {
        let end = lines.iter().rposition(|line| *line == "```");
        lines.truncate(end.unwrap_or(lines.len()));
    }
    // Within a unified diff such a line is one of a file.
    let is_unified = |line: &&&str| line.starts_with("--- ") || line.starts_with("diff --git ");
    let mut head = lines.iter().take_while(|line| !is_unified(line));
    let begin = head.position(|line| line.trim_end() == "*** Begin Patch");
    let mut reader = PatchReader { at: begin.map_or(0, |at| at + 1), lines };
    let files = if begin.is_some() { reader.envelope()? } else { reader.parse_unified()? };
    if files.is_empty() {
        let problem =
            "no file is named: begin each file with `--- a/PATH` and `+++ b/PATH`, or with \
                       `*** Update File: PATH` after `*** Begin Patch`; then `@@`, and lines that \
                       begin with a space, `-` or `+`"
                .to_owned();
        return Err(PatchSyntaxError { line: begin.unwrap_or(0) + 1, problem });
    }
    Ok(files)
}

struct PatchReader<'p> {
    lines: Vec<&'p str>,
    /// The index of the next line.
    at: usize,
}

impl<'p> PatchReader<'p> {
    fn peek(&self) -> Option<&'p str> {
        self.lines.get(self.at).copied()
    }

    fn error(&self, problem: impl Into<String>) -> PatchSyntaxError {
        // What is missing behind the last line is told of that line.
        let line = (self.at + 1).min(self.lines.len()).max(1);
        PatchSyntaxError { line, problem: problem.into() }
    }

    fn parse_unified(&mut self) -> Result<Vec<FilePatch>, PatchSyntaxError> {
        let mut files = Vec::new();
        while let Some(line) = self.peek() {
            if line.starts_with("diff --git ") {
                let header = self.git_header()?;
                files.push(self.git_file(header)?);
            } else if self.is_file_header() {
                files.push(self.file(GitHeader::default())?);
            } else if line.starts_with("@@") {
                return Err(self
                    .error("a hunk without a file: put `--- a/PATH` and `+++ b/PATH` before it"));
            } else {
                // Words around the diffs, such as those of a commit.
                self.at += 1;
            }
        }
        Ok(files)
    }

    /// Returns whether the lines that name a file come next.
    fn is_file_header(&self) -> bool {
        let next = self.lines.get(self.at + 1);
        self.peek().is_some_and(|line| line.starts_with("--- "))
            && next.is_some_and(|line| line.starts_with("+++ "))
    }

    fn git_header(&mut self) -> Result<GitHeader, PatchSyntaxError> {
        let mut header = GitHeader::default();
        let names = self.peek().and_then(|line| line.strip_prefix("diff --git "));
        header.path = names.and_then(same_path).map(str::to_owned);
        self.at += 1;
        while let Some(line) = self.peek() {
            if line.starts_with("diff --git ") || line.starts_with("@@") || self.is_file_header() {
                break;
            }
            let word = |name: &str| line.strip_prefix(name).map(str::trim);
            let mode = MODE_HEADERS.into_iter().find_map(word);
            if mode.and_then(|it| it.split(' ').next_back()) == Some(SYMLINK_MODE) {
                return Err(self.error(
                    "this is a symlink, and a patch changes no symlinks: take it out, and use a \
                     command for it",
                ));
            }
            if let Some(mode) = word("new file mode ") {
                header.creates = true;
                self.plain_mode(mode)?;
            } else if word("deleted file mode ").is_some() {
                header.removes = true;
            } else if let Some(mode) = word("new mode ") {
                return Err(self.error(format!(
                    "a change of the file's mode to {mode} is not possible here: take it out, and \
                     use a command for it"
                )));
            } else if let Some(path) = word("rename from ") {
                header.path = Some(path.to_owned());
            } else if let Some(path) = word("rename to ") {
                header.renamed_to = Some(path.to_owned());
            } else if word("copy to ").is_some() {
                return Err(
                    self.error("copies are not possible: create the file with all its lines")
                );
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                return Err(self.error("binary files cannot be patched: leave this file out"));
            }
            self.at += 1;
        }
        Ok(header)
    }

    fn plain_mode(&self, mode: &str) -> Result<(), PatchSyntaxError> {
        match mode {
            "100644" => Ok(()),
            other => Err(self.error(format!(
                "a new file of mode {other} is not possible here: use 100644, and a command for \
                 the mode"
            ))),
        }
    }

    /// The file of Git's headers, which may have no hunks.
    fn git_file(&mut self, header: GitHeader) -> Result<FilePatch, PatchSyntaxError> {
        if self.is_file_header() {
            return self.file(header);
        }
        let GitHeader { path, creates, removes, renamed_to } = header;
        let path =
            path.ok_or_else(|| self.error("the file of this header is not clear: name it"))?;
        let change = match renamed_to {
            _ if creates => PatchAction::Create { content: String::new() },
            _ if removes => PatchAction::Remove { hunks: Vec::new() },
            Some(new_path) => PatchAction::Update { hunks: Vec::new(), new_path: Some(new_path) },
            None => return Err(self.error("nothing of this file is changed")),
        };
        Ok(FilePatch { path, change })
    }

    /// A file that begins with `---` and `+++`.
    fn file(&mut self, header: GitHeader) -> Result<FilePatch, PatchSyntaxError> {
        let mut name = |prefix: &str| {
            let line = self.peek().unwrap_or_default();
            let name = line.strip_prefix(prefix).unwrap_or_default();
            let name = name.split('\t').next().unwrap_or_default().trim();
            if name.starts_with('"') {
                return Err(self.error("quoted paths are not read: write the path as it is"));
            }
            self.at += 1;
            Ok((name != "/dev/null").then(|| name.to_owned()))
        };
        let old = name("--- ")?;
        let new = name("+++ ")?;
        let (old, new) = without_prefixes(old, new);
        let first = self.at;
        let hunks = self.hunks()?;
        match (old, new) {
            (_, Some(path)) if header.creates => self.created_file(path, hunks, first),
            (None, Some(path)) => self.created_file(path, hunks, first),
            (Some(path), None) => Ok(FilePatch { path, change: PatchAction::Remove { hunks } }),
            (Some(path), Some(_)) if header.removes => {
                Ok(FilePatch { path, change: PatchAction::Remove { hunks } })
            }
            (Some(_), Some(path)) if hunks.is_empty() && header.renamed_to.is_none() => {
                Err(self.error(format!("no hunk for {path}: begin each with `@@`")))
            }
            (Some(_), Some(new)) => {
                let new_path = header.renamed_to;
                let path = header.path.filter(|_| new_path.is_some()).unwrap_or(new);
                Ok(FilePatch { path, change: PatchAction::Update { hunks, new_path } })
            }
            (None, None) => Err(self.error("both names are /dev/null: name the file")),
        }
    }

    fn created_file(
        &self,
        path: String,
        hunks: Vec<Hunk>,
        first: usize,
    ) -> Result<FilePatch, PatchSyntaxError> {
        if hunks.iter().any(|hunk| !hunk.old.is_empty()) {
            let problem = format!("{path} is new, so each of its lines begins with `+`");
            return Err(PatchSyntaxError { line: first + 1, problem });
        }
        let content = hunks.into_iter().map(|hunk| hunk.added).collect();
        Ok(FilePatch { path, change: PatchAction::Create { content } })
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, PatchSyntaxError> {
        let mut hunks = Vec::new();
        while let Some(line) = self.peek() {
            if line.starts_with("@@") {
                hunks.push(self.hunk()?);
            } else if line.trim().is_empty() {
                self.at += 1;
            } else {
                break;
            }
        }
        Ok(hunks)
    }

    /// A hunk with its line that begins with `@@`.
    fn hunk(&mut self) -> Result<Hunk, PatchSyntaxError> {
        let at = self.at + 1;
        let header = HunkHeader::parse(self.peek().unwrap_or_default());
        self.at += 1;
        let body = self.body(&header)?;
        let hunk = Hunk { at, line: header.line, anchor: header.anchor, ..body };
        self.changing(hunk)
    }

    fn changing(&self, hunk: Hunk) -> Result<Hunk, PatchSyntaxError> {
        if hunk.signs.iter().all(|sign| *sign == LineSign::Keep) {
            let problem = "this hunk changes nothing: its lines begin with a space, and no line \
                           with `+` or `-`"
                .to_owned();
            return Err(PatchSyntaxError { line: hunk.at, problem });
        }
        Ok(hunk)
    }

    fn body(&mut self, header: &HunkHeader) -> Result<Hunk, PatchSyntaxError> {
        let mut body = HunkBody::default();
        while let Some(line) = self.peek() {
            let complete = header.counts == Some(body.counts());
            let ends = line.starts_with("@@")
                || line.starts_with("diff --git ")
                || line.starts_with("*** ")
                || (complete && (self.is_file_header() || line == "-- "))
                || (self.is_file_header()
                    && self.lines.get(self.at + 2).is_some_and(|next| next.starts_with("@@")));
            if ends {
                break;
            }
            if !body.push(line) {
                if complete {
                    break;
                }
                return Err(self.error(
                    "a line of a hunk begins with a space, `+` or `-`, and this one does not",
                ));
            }
            self.at += 1;
        }
        Ok(body.into_hunk(header.counts))
    }

    fn envelope(&mut self) -> Result<Vec<FilePatch>, PatchSyntaxError> {
        let mut files = Vec::new();
        while let Some(line) = self.peek() {
            let line = line.trim_end();
            if line == "*** End Patch" {
                return Ok(files);
            }
            let named = |what: &str| line.strip_prefix(what).map(|path| path.trim().to_owned());
            let file = if let Some(path) = named("*** Add File:") {
                self.at += 1;
                FilePatch { path, change: PatchAction::Create { content: self.parse_added()? } }
            } else if let Some(path) = named("*** Delete File:") {
                self.at += 1;
                FilePatch { path, change: PatchAction::Remove { hunks: Vec::new() } }
            } else if let Some(path) = named("*** Update File:") {
                self.at += 1;
                self.parse_update(path)?
            } else if line.is_empty() {
                self.at += 1;
                continue;
            } else {
                return Err(self.error(
                    "expected `*** Add File: PATH`, `*** Update File: PATH`, `*** Delete File: \
                     PATH` or `*** End Patch`",
                ));
            };
            files.push(file);
        }
        Err(self.error("the patch is cut off: there is no `*** End Patch`; give all of it"))
    }

    /// The lines of a new file.
    fn parse_added(&mut self) -> Result<String, PatchSyntaxError> {
        let mut content = String::new();
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            let Some(line) = line.strip_prefix('+') else {
                return Err(self.error("each line of a new file begins with `+`"));
            };
            content.push_str(line);
            content.push('\n');
            self.at += 1;
        }
        Ok(content)
    }

    fn parse_update(&mut self, path: String) -> Result<FilePatch, PatchSyntaxError> {
        let moved = self.peek().and_then(|line| line.strip_prefix("*** Move to:"));
        let new_path = moved.map(|path| path.trim().to_owned());
        self.at += usize::from(new_path.is_some());
        let mut hunks = Vec::new();
        while let Some(line) = self.peek() {
            if line.trim_end() == "*** End of File" || line.is_empty() {
                self.at += 1;
            } else if line.starts_with("*** ") {
                break;
            } else if line.starts_with("@@") {
                hunks.push(self.hunk()?);
            } else {
                let at = self.at + 1;
                let body = self.body(&HunkHeader::default())?;
                hunks.push(self.changing(Hunk { at, ..body })?);
            }
        }
        if hunks.is_empty() && new_path.is_none() {
            return Err(self.error(format!("no hunk for {path}: begin each with `@@`")));
        }
        Ok(FilePatch { path, change: PatchAction::Update { hunks, new_path } })
    }
}

/// Takes `a/` and `b/` from the names of a file, where Git has put them.
fn without_prefixes(old: Option<String>, new: Option<String>) -> (Option<String>, Option<String>) {
    let has = |name: &Option<String>, prefix| {
        name.as_deref().is_none_or(|name: &str| name.starts_with(prefix))
    };
    if !has(&old, "a/") || !has(&new, "b/") {
        return (old, new);
    }
    let rest = |name: Option<String>| name.map(|name| name.get(2..).unwrap_or_default().to_owned());
    (rest(old), rest(new))
}

/// The path that both names of `a/PATH b/PATH` have.
fn same_path(names: &str) -> Option<&str> {
    let middle = names.len().checked_sub(1)? / 2;
    let old = names.get(..middle)?;
    let new = names.get(middle + 1..)?;
    let old = old.strip_prefix("a/")?;
    let new = new.strip_prefix("b/")?;
    (old == new).then_some(old)
}

#[cfg(test)]
mod tests;
