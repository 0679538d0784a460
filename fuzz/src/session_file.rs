//! Session files from inputs.

/// The file that an input stands for: the input, but for lines that begin with `+` or `*`. Those hold a
/// record alone, which is written as it should be; with `*` as one before which all others were durable.
#[must_use]
pub fn written(input: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * input.len());
    let mut seq = 0;
    for line in input.split_inclusive(|byte| *byte == b'\n') {
        let Some((b'+' | b'*', record)) = line.split_first() else {
            bytes.extend_from_slice(line);
            seq += u64::from(line.starts_with(b"{\"seq\""));
            continue;
        };
        let durable = if line.starts_with(b"*") { seq } else { 0 };
        let (record, end) = match record.strip_suffix(b"\n") {
            Some(record) => (record, "}\n"),
            None => (record, "}"),
        };
        let len = record.len();
        let crc = checksum(record, durable);
        let durable = if durable > 0 { format!("\"durable\":{durable},") } else { String::new() };
        let head =
            format!("{{\"seq\":{seq},{durable}\"len\":{len},\"crc\":\"{crc:08x}\",\"record\":");
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(record);
        bytes.extend_from_slice(end.as_bytes());
        seq += 1;
    }
    bytes
}

/// The CRC-32 of a record, and of the number of durable ones before it, where that is said.
#[must_use]
pub fn checksum(record: &[u8], durable: u64) -> u32 {
    let number = durable.to_le_bytes();
    crc32fast::hash(&[record, if durable > 0 { &number } else { &[] }].concat())
}
