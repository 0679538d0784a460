//! Decoders: escapes of `$'…'`, `printf` and `echo -e`, Base64, hexadecimal digits.

/// Returns a text with the escapes of `$'…'` replaced.
pub(crate) fn unescape_ansi_c(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            push_char(&mut bytes, c);
            continue;
        }
        let Some(kind) = chars.next() else {
            bytes.push(b'\\');
            break;
        };
        match kind {
            'x' => push_number(&mut bytes, &mut chars, (16, 2)),
            'u' => push_number(&mut bytes, &mut chars, (16, 4)),
            'U' => push_number(&mut bytes, &mut chars, (16, 8)),
            '0'..='7' => {
                let digits = kind.to_string() + chars.as_str();
                let count = digits.chars().take(if kind == '0' { 4 } else { 3 });
                let count = count.take_while(|it| it.is_digit(8)).count();
                let value = u32::from_str_radix(digits.get(..count).unwrap_or_default(), 8);
                bytes.push(u8::try_from(value.unwrap_or(0) & 0xff).unwrap_or(0));
                for _ in 1..count {
                    chars.next();
                }
            }
            'c' => {
                let control = chars.next().unwrap_or('@');
                bytes.push(u8::try_from(u32::from(control) & 0x1f).unwrap_or(0));
            }
            other => push_char(&mut bytes, simple_escape(other)),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn simple_escape(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'e' | 'E' => '\u{1b}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        other => other,
    }
}

fn push_char(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn push_number(bytes: &mut Vec<u8>, chars: &mut std::str::Chars<'_>, (radix, most): (u32, usize)) {
    let count = chars.clone().take(most).take_while(|it| it.is_digit(radix)).count();
    let digits: String = chars.by_ref().take(count).collect();
    let value = u32::from_str_radix(&digits, radix).unwrap_or(0);
    match u8::try_from(value) {
        Ok(byte) if most == 2 => bytes.push(byte),
        _ => push_char(bytes, char::from_u32(value).unwrap_or('\u{fffd}')),
    }
}

/// Returns what `printf` prints, as far as its format is a simple one.
pub(crate) fn print_format(format: &str, arguments: &[String]) -> String {
    let mut left = arguments;
    let mut printed = String::new();
    loop {
        let before = left.len();
        print_once(format, &mut left, &mut printed);
        if left.is_empty() || left.len() == before {
            return printed;
        }
    }
}

fn print_once(format: &str, left: &mut &[String], printed: &mut String) {
    let format = unescape_ansi_c(format);
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            printed.push(c);
            continue;
        }
        let kind = chars.by_ref().find(|it| it.is_ascii_alphabetic() || *it == '%');
        if kind == Some('%') {
            printed.push('%');
            continue;
        }
        let argument = left.split_first().map(|(first, rest)| {
            *left = rest;
            first.as_str()
        });
        let argument = argument.unwrap_or_default();
        match kind {
            Some('b') => printed.push_str(&unescape_ansi_c(argument)),
            Some('c') => printed.extend(argument.chars().next()),
            Some('x') => {
                printed.push_str(&number(argument).map_or(String::new(), |it| format!("{it:x}")))
            }
            Some('o') => {
                printed.push_str(&number(argument).map_or(String::new(), |it| format!("{it:o}")))
            }
            _ => printed.push_str(argument),
        }
    }
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Decodes Base64, with blanks in it; `None` if it is none.
pub(crate) fn from_base64(text: &str) -> Option<String> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for c in text.bytes().filter(|it| !it.is_ascii_whitespace() && *it != b'=') {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Decodes pairs of hexadecimal digits; `None` if there is anything else.
pub(crate) fn from_hex(text: &str) -> Option<String> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|it| !it.is_whitespace())
        .map(|it| it.to_digit(16))
        .collect::<Option<_>>()?;
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    let bytes: Vec<u8> = digits.chunks(2).map(byte).collect::<Option<_>>()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a text with the characters of one set replaced by those of another, as `tr` does.
pub(crate) fn translate(text: &str, from: &str, to: &str) -> String {
    let (from, to) = (set(from), set(to));
    let replace = |c: char| match from.iter().position(|it| *it == c) {
        Some(at) => to.get(at).or(to.last()).copied().unwrap_or(c),
        None => c,
    };
    text.chars().map(replace).collect()
}

/// Returns a text without the characters of a set.
pub(crate) fn without(text: &str, characters: &str) -> String {
    let characters = set(characters);
    text.chars().filter(|it| !characters.contains(it)).collect()
}

fn set(text: &str) -> Vec<char> {
    let text = match text {
        "[:lower:]" => "a-z".to_owned(),
        "[:upper:]" => "A-Z".to_owned(),
        other => unescape_ansi_c(other),
    };
    let chars: Vec<char> = text.chars().collect();
    let mut members = Vec::new();
    let mut rest = chars.as_slice();
    loop {
        match rest {
            [from, '-', to, behind @ ..] if from <= to && from.is_ascii() && to.is_ascii() => {
                members.extend(*from..=*to);
                rest = behind;
            }
            [first, behind @ ..] => {
                members.push(*first);
                rest = behind;
            }
            [] => return members,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoders_give_what_the_programs_print() {
        assert_eq!(unescape_ansi_c(r"\x72\155\u0020\n\'"), "rm \n'");
        assert_eq!(print_format("%s-%s\\n", &["a".into(), "b".into(), "c".into()]), "a-b\nc-\n");
        assert_eq!(print_format("\\162\\155", &[]), "rm");
        assert_eq!(print_format("%x%%", &["255".into()]), "ff%");
        assert_eq!(from_base64("cm0gLXJm\nIC8=").unwrap(), "rm -rf /");
        assert_eq!(from_base64("a b*"), None);
        assert_eq!(from_hex("72 6d20\n2d").unwrap(), "rm -");
        assert_eq!(from_hex("726"), None);
        assert_eq!(translate("ez -es /", "a-z", "n-za-m"), "rm -rf /");
        assert_eq!(without("rXmX", "X"), "rm");
    }
}
