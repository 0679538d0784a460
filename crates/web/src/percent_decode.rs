//! Reads escapes in addresses.

/// Decodes `%` escapes once; bytes that are no UTF-8 are replaced.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = rest.clone().take(2).map(char::from).collect::<String>();
        match u8::from_str_radix(&digits, 16) {
            Ok(decoded) if byte == b'%' && digits.len() == 2 => {
                bytes.push(decoded);
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decoded_once() {
        assert_eq!(percent_decoded("a%41%zz%2525%"), "aA%zz%25%");
    }
}
