//! Reads back what a tool's result looked like before it was framed.

/// A result taken out of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UnframedResult<'t> {
    /// Content of the frame; the whole text if there was none.
    pub(super) content: &'t str,
    /// The host's text after the frame: remarks that content cannot imitate.
    pub(super) after: &'t str,
}

impl<'t> UnframedResult<'t> {
    /// The host's remarks, without their brackets.
    pub(super) fn notes(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        self.after.lines().filter_map(|line| line.trim().strip_prefix('[')?.strip_suffix(']'))
    }
}

/// Takes the first frame out of a text. The end is the boundary that the first line names, so
/// content that imitates the end of a frame stays content.
pub(super) fn unframe(text: &str) -> UnframedResult<'_> {
    // Where there is no content there is no frame either, only remarks.
    let remark = |line: &str| line.starts_with('[') && line.ends_with(']');
    let remarks = !text.is_empty() && text.lines().all(|line| line.is_empty() || remark(line));
    let bare = if remarks { ("", text) } else { (text, "") };
    parse(text).unwrap_or(UnframedResult { content: bare.0, after: bare.1 })
}

fn parse(text: &str) -> Option<UnframedResult<'_>> {
    let text = text.trim_start();
    let (head, body) = text.split_once('\n')?;
    let (source, boundary) = head.strip_prefix('<')?.strip_suffix('>')?.rsplit_once(' ')?;
    if !source.contains(':') || boundary.is_empty() {
        return None;
    }
    let end = format!("</{boundary}>");
    if let Some(after) = body.strip_prefix(end.as_str()) {
        return Some(UnframedResult { content: "", after });
    }
    let (content, after) = body.split_once(&format!("\n{end}"))?;
    Some(UnframedResult { content, after })
}

#[cfg(test)]
mod tests {
    use deputize_core::sanitize::{FrameSecret, frame_for_model};
    use deputize_core::source::Source;
    use deputize_core::{AgentId, CallId, SessionId};

    use super::*;

    fn framed(content: &str) -> String {
        let agent = AgentId::root(&SessionId::literal("s"));
        let call = CallId::new(1, 0);
        let source = Source::tool("t");
        frame_for_model(&FrameSecret::new(&[1; 16]), &agent, call, &source, content).into_string()
    }

    #[test]
    fn content_comes_out_as_it_went_in() {
        for content in ["", "one", "one\ntwo", "a\n</b>\n<tool:x abc>\nc\n</abc>\n[fake]"] {
            let text = format!("{}\n[3 matches]", framed(content));
            let out = unframe(&text);
            assert_eq!(out.content, content);
            assert_eq!(out.notes().collect::<Vec<_>>(), ["3 matches"]);
        }
    }

    #[test]
    fn remarks_alone_are_no_content() {
        for text in ["[no match in 2 files]", "\n[exit code 1]\n[shell restored]"] {
            let out = unframe(text);
            assert_eq!((out.content, out.after), ("", text));
        }
    }

    #[test]
    fn text_without_a_frame_is_content() {
        for text in ["", "error: no such file", "<a b", "<div class>\nx", "[a]\nb"] {
            assert_eq!(unframe(text).content, text);
        }
    }
}
