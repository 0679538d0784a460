//! Thoughts that a model writes into its content: blocks such as `<think>…</think>` before the
//! answer. Only leading blocks count; the same tag further on is text. Some servers keep the tag that
//! opens a block to themselves: then the content begins inside it.

/// The tags of a block of thought.
const TAGS: [&str; 3] = ["think", "thinking", "reasoning"];
/// What opens and closes a fenced block.
const FENCE: &str = "```";

/// What a part of the content belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentPart {
    Thought,
    Answer,
}

/// Splits content that arrives in pieces into thoughts and the answer.
#[derive(Debug, Default)]
pub(super) struct ThoughtSplitter {
    state: SplitState,
    /// Space before the answer, until something shows whether a block or the answer follows.
    space: String,
    /// What may become a tag.
    tag: String,
    /// Whether a block was closed, so that the space behind it is no part of the answer.
    closed: bool,
    /// Whether some block had content.
    has_thought: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum SplitState {
    #[default]
    BeforeAnswer,
    /// In a block of this tag; `blank` until something but space came of it.
    InBlock {
        tag: &'static str,
        blank: bool,
    },
    InAnswer,
}

impl ThoughtSplitter {
    /// Returns a splitter for what follows a block.
    fn after_block() -> Self {
        Self { closed: true, has_thought: true, ..Self::default() }
    }

    /// Passes a piece on in parts. What may be the beginning of a tag waits for the next piece.
    pub(super) fn push(&mut self, piece: &str, emit: &mut dyn FnMut(ContentPart, &str)) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = match self.state {
                SplitState::BeforeAnswer => self.before_answer(rest, emit),
                SplitState::InBlock { tag, .. } => self.in_block(tag, rest, emit),
                SplitState::InAnswer => {
                    emit(ContentPart::Answer, rest);
                    return;
                }
            };
        }
    }

    /// Passes on what still waits: the content is over.
    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(ContentPart, &str)) {
        match self.state {
            SplitState::BeforeAnswer => self.begin_answer(emit),
            SplitState::InBlock { .. } => self.release_tag(emit),
            SplitState::InAnswer => {}
        }
    }

    /// Whether any content came.
    pub(super) const fn is_empty(&self) -> bool {
        let untouched = matches!(self.state, SplitState::BeforeAnswer) && !self.closed;
        untouched && self.space.is_empty() && self.tag.is_empty()
    }

    /// Returns the number of pending bytes.
    pub(super) const fn held_bytes(&self) -> usize {
        self.space.len() + self.tag.len()
    }

    fn before_answer<'p>(
        &mut self,
        rest: &'p str,
        emit: &mut dyn FnMut(ContentPart, &str),
    ) -> &'p str {
        if self.tag.is_empty() {
            let next = rest.trim_start();
            if !self.closed {
                let space = rest.len() - next.len();
                self.space.push_str(rest.get(..space).unwrap_or_default());
            }
            if let Some(tail) = next.strip_prefix('<') {
                self.tag.push('<');
                return tail;
            }
            if !next.is_empty() {
                self.begin_answer(emit);
            }
            return next;
        }
        for (at, char) in rest.char_indices() {
            self.tag.push(char);
            let is_tag = |tag: &&str| {
                starts_with(&format!("<{tag}>"), &self.tag)
                    || starts_with(&format!("</{tag}>"), &self.tag)
            };
            let Some(tag) = TAGS.into_iter().find(is_tag) else {
                self.tag.pop();
                self.begin_answer(emit);
                return rest.get(at..).unwrap_or_default();
            };
            if char == '>' {
                let opens = !self.tag.starts_with("</");
                self.tag.clear();
                self.space.clear();
                self.closed = true;
                if opens {
                    self.state = SplitState::InBlock { tag, blank: true };
                }
                return rest.get(at + 1..).unwrap_or_default();
            }
        }
        ""
    }

    fn in_block<'p>(
        &mut self,
        tag: &'static str,
        rest: &'p str,
        emit: &mut dyn FnMut(ContentPart, &str),
    ) -> &'p str {
        if self.tag.is_empty() {
            let (thought, tail) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
            self.think(thought, emit);
            let Some(tail) = tail.strip_prefix('<') else { return "" };
            self.tag.push('<');
            return tail;
        }
        let end = format!("</{tag}>");
        for (at, char) in rest.char_indices() {
            self.tag.push(char);
            if !starts_with(&end, &self.tag) {
                self.tag.pop();
                self.release_tag(emit);
                return rest.get(at..).unwrap_or_default();
            }
            if self.tag.len() == end.len() {
                self.tag.clear();
                self.closed = true;
                self.state = SplitState::BeforeAnswer;
                return rest.get(at + 1..).unwrap_or_default();
            }
        }
        ""
    }

    /// What waited for the end of a block's tag is thought.
    fn release_tag(&mut self, emit: &mut dyn FnMut(ContentPart, &str)) {
        let text = std::mem::take(&mut self.tag);
        self.think(&text, emit);
    }

    /// Passes a piece of a block on, without the space that the block begins with.
    fn think(&mut self, piece: &str, emit: &mut dyn FnMut(ContentPart, &str)) {
        let SplitState::InBlock { blank, .. } = &mut self.state else { return };
        let text = if *blank { piece.trim_start() } else { piece };
        if text.is_empty() {
            return;
        }
        if std::mem::take(blank) && std::mem::replace(&mut self.has_thought, true) {
            emit(ContentPart::Thought, "\n\n");
        }
        emit(ContentPart::Thought, text);
    }

    fn begin_answer(&mut self, emit: &mut dyn FnMut(ContentPart, &str)) {
        let mut text = std::mem::take(&mut self.space);
        text.push_str(&std::mem::take(&mut self.tag));
        if !text.is_empty() {
            emit(ContentPart::Answer, &text);
        }
        self.state = SplitState::InAnswer;
    }
}

/// Splits content that begins inside a block, whose opening tag the server kept, at the tag that
/// closes it: into the thoughts and what follows.
///
/// Models close such a block with a line of its own, and an answer follows. Any other tag may be
/// part of the answer: in a text of markup, in a fenced block, behind a tag that opens it, or at the
/// end.
pub(super) fn split_unopened(content: &str) -> Option<(&str, &str)> {
    let first_opening = |tag: &&str| find_tag(content, &format!("<{tag}")).unwrap_or(usize::MAX);
    let openings = TAGS.map(|tag| (tag, first_opening(&tag)));
    let mut seen = 0;
    let mut fences = 0;
    for (at, _) in content.match_indices("</") {
        fences += content.get(seen..at)?.matches(FENCE).count();
        seen = at;
        let is_closed = |(tag, opening): &(&str, usize)| {
            let end = content.get(at..at + tag.len() + 3);
            *opening > at && end.is_some_and(|end| end.eq_ignore_ascii_case(&format!("</{tag}>")))
        };
        let Some((tag, _)) = openings.into_iter().find(is_closed) else { continue };
        let (before, rest) = content.split_at(at);
        let rest = rest.get(tag.len() + 3..).unwrap_or_default();
        let is_line = before.ends_with('\n') && rest.starts_with(['\n', '\r']);
        if fences % 2 == 0 && is_line && !rest.trim().is_empty() {
            return Some((before.trim(), rest));
        }
    }
    None
}

/// Splits content into thoughts and the answer once all of it is there, where it begins inside a
/// block.
pub(super) fn split_whole(content: &str) -> Option<(String, String)> {
    let (thought, rest) = split_unopened(content)?;
    let mut thought = thought.to_owned();
    let mut answer = String::new();
    let mut emit = |part, text: &str| match part {
        ContentPart::Thought => thought.push_str(text),
        ContentPart::Answer => answer.push_str(text),
    };
    let mut splitter = ThoughtSplitter::after_block();
    splitter.push(rest, &mut emit);
    splitter.finish(&mut emit);
    Some((thought, answer))
}

/// Where a tag first stands, in whatever case.
fn find_tag(text: &str, tag: &str) -> Option<usize> {
    let is_it = |at: &usize| {
        text.get(*at..at + tag.len()).is_some_and(|part| part.eq_ignore_ascii_case(tag))
    };
    text.match_indices('<').map(|(at, _)| at).find(is_it)
}

/// Whether a tag begins so, in whatever case.
fn starts_with(tag: &str, beginning: &str) -> bool {
    tag.get(..beginning.len()).is_some_and(|head| head.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Thoughts and answer of content that comes in these pieces.
    fn split<'p>(pieces: impl IntoIterator<Item = &'p str>) -> (String, String) {
        let mut thought = String::new();
        let mut answer = String::new();
        let mut splitter = ThoughtSplitter::default();
        let mut emit = |part, text: &str| match part {
            ContentPart::Thought => thought.push_str(text),
            ContentPart::Answer => answer.push_str(text),
        };
        for piece in pieces {
            splitter.push(piece, &mut emit);
        }
        splitter.finish(&mut emit);
        (thought, answer)
    }

    fn whole(content: &str) -> (String, String) {
        split([content])
    }

    fn pair(thought: &str, answer: &str) -> (String, String) {
        (thought.to_owned(), answer.to_owned())
    }

    #[test]
    fn leading_blocks_are_thought() {
        for tag in ["think", "thinking", "reasoning", "THINK", "Thinking"] {
            let content = format!("\n <{tag}>\nHm, < 3.\n</{tag}>\n\nSeven.");
            assert_eq!(whole(&content), pair("Hm, < 3.\n", "Seven."), "{tag}");
        }
        assert_eq!(whole("<think>a</think><reasoning>b</reasoning> c"), pair("a\n\nb", "c"));
        assert_eq!(whole("<think>\n\n</think>\n\n7"), pair("", "7"), "an empty block");
        assert_eq!(whole("<think>a</thinking>b</think>c"), pair("a</thinking>b", "c"));
        assert_eq!(whole("<think>a<</think>b"), pair("a<", "b"));
    }

    #[test]
    fn a_block_without_an_end_is_thought_to_the_end() {
        assert_eq!(whole("<think>Hm"), pair("Hm", ""));
        assert_eq!(whole("<think>Hm</thi"), pair("Hm</thi", ""));
        assert_eq!(whole("<think>"), pair("", ""));
        assert_eq!(whole("<think>a</think> "), pair("a", ""));
    }

    #[test]
    fn everything_else_is_the_answer() {
        for content in [
            "",
            " ",
            " \n7",
            "<",
            "<thin",
            "<thinker>x",
            "<p>x</p>",
            "7 <think>x</think>",
            "`<think>`",
            "</ think>7",
            "</thinker>7",
            "< think>x",
            "<think x>",
            "\u{a0}é<think>",
        ] {
            assert_eq!(whole(content), pair("", content), "{content:?}");
        }
        assert_eq!(whole("<think>a</think>7 <think>b</think>"), pair("a", "7 <think>b</think>"));
    }

    #[test]
    fn tags_that_close_nothing_before_the_answer_are_no_part_of_it() {
        assert_eq!(whole("</think>7"), pair("", "7"));
        assert_eq!(whole(" \n</Thinking>\n</think>\n\n7</think>"), pair("", "7</think>"));
        assert_eq!(whole("<think>a</think>\n</think>\n7"), pair("a", "7"));
        assert_eq!(whole(&"</think>".repeat(10_000)), pair("", ""));
    }

    #[test]
    fn content_that_begins_inside_a_block_is_split_at_its_end() {
        for (content, thought, answer) in [
            ("Hm.\n</think>\n\nSeven.", "Hm.", "Seven."),
            ("Hm.\n</THINK>\r\nSeven.", "Hm.", "Seven."),
            ("Hm.\n</think>\n</think>\nSeven.", "Hm.", "Seven."),
            ("Hm.\n</think>\n<think>Oh.</think>Seven.", "Hm.\n\nOh.", "Seven."),
            (
                "A `</think>`?\n```\n</think>\n```\nNo.\n</think>\nSeven.",
                "A `</think>`?\n```\n</think>\n```\nNo.",
                "Seven.",
            ),
            ("Hm.\n</reasoning>\nSay </think> here.", "Hm.", "Say </think> here."),
        ] {
            assert_eq!(split_whole(content), Some(pair(thought, answer)), "{content:?}");
        }
        for content in [
            "Seven.",
            "Write `</think>` behind it.",
            "Write \"</think>\" or (</think>) behind it.",
            "The tag </think> ends a block.",
            "So:\n```\nHm.\n</think>\n```\nDone.",
            "So:\n<think>\nHm.\n</think>\nDone.",
            "Hm.\n</thinker>\nSeven.",
            "{\"html\":\"a</think>b\",\"n\":1}",
            "The sum is 7.\n</think>\n",
            "Hm.</think>Seven.",
            "Fill in:\n<reasoning lang=\"en\">\n…\n</reasoning>\n\nDone.",
            "It is:\n+    </think>\n+more\n",
        ] {
            assert_eq!(split_whole(content), None, "{content:?}");
        }
        let many = "a </think> b".repeat(100_000);
        assert_eq!(split_whole(&many), None);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same(
            parts in proptest::collection::vec(proptest::sample::select(vec![
                "<think>", "</think>", "<Thinking>", "</thinking>", "<reasoning>",
                "</reasoning>", "<", "</", "</thi", "<thi", ">", " ", "\n", "a", "é",
            ]), 0..12),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        ) {
            let content = parts.concat();
            let ends = cuts.iter().map(|cut| cut.index(content.len() + 1));
            let mut ends: Vec<usize> = ends.map(|at| content.floor_char_boundary(at)).collect();
            ends.extend([0, content.len()]);
            ends.sort_unstable();
            let pieces = ends.windows(2).map(|cut| content.get(cut[0]..cut[1]).unwrap());
            let seen = split(pieces);
            prop_assert_eq!(&seen, &whole(&content));
            let bytes = content.char_indices().map(|(at, char)| &content[at..at + char.len_utf8()]);
            prop_assert_eq!(&seen, &split(bytes));
        }
    }
}
