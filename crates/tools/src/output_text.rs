//! The output of commands as text for models.

use deputize_process::Output;

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
