//! The output of commands as text for models.

use deputize_core::describe_error;
use deputize_process::{Output, Spill};

use crate::spill::SpillError;

/// Returns output as text, with a mark where some is left out.
pub(crate) fn output_text(written: &Output) -> String {
    let left_out = written.omitted();
    if left_out == 0 {
        let all = [written.head.as_slice(), &written.tail].concat();
        return String::from_utf8_lossy(&all).into_owned();
    }
    let head = whole_characters(&written.head);
    let tail = String::from_utf8_lossy(&written.tail);
    // The tail may begin inside a character.
    let tail = tail.trim_start_matches('\u{fffd}');
    format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
}

fn whole_characters(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\u{fffd}').to_owned()
}

/// Returns a note on where the omitted output is.
pub(crate) fn omitted_note(
    written: &Output,
    spill: Option<&Spill>,
    not_kept: Option<SpillError>,
) -> String {
    let head = format!("{} of {} bytes of output left out", written.omitted(), written.total);
    match spill {
        None => {
            let why =
                not_kept.map_or_else(String::new, |why| format!(": {}", describe_error(&why)));
            format!("{head}; they are not kept{why}")
        }
        Some(Spill { path, written, problem: None, .. }) => {
            format!("{head}; all {written} are in {}", path.display())
        }
        Some(Spill { path, written, problem: Some(problem), .. }) => {
            format!(
                "{head}; the first {written} are in {}: {}",
                path.display(),
                describe_error(problem)
            )
        }
    }
}
