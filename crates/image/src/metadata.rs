//! Cuts what says more than the picture out of image files: where and when a photo was taken, by
//! whom, with what.

use deputize_core::image::ImageFormat;

/// Chunks of a PNG file that make its picture and its colours, with the most bytes that they can
/// need.
const PNG_CHUNKS: [(&[u8], u32); 13] = [
    (b"IHDR", 13),
    (b"PLTE", 768),
    (b"IDAT", u32::MAX),
    (b"IEND", 0),
    (b"tRNS", 256),
    (b"gAMA", 4),
    (b"cHRM", 32),
    (b"sRGB", 1),
    (b"sBIT", 4),
    (b"bKGD", 6),
    (b"pHYs", 9),
    (b"iCCP", u32::MAX),
    (b"cICP", 4),
];
/// Chunks of a WebP file that make its picture and its colours.
const WEBP_CHUNKS: [&[u8]; 5] = [b"VP8X", b"ICCP", b"ALPH", b"VP8 ", b"VP8L"];
/// Bytes of the chunk `VP8X`.
const WEBP_HEAD: u32 = 10;
/// Flags of a WebP file that has EXIF or XMP data.
const WEBP_METADATA: u8 = 0b1100;

/// Returns the file with nothing but its picture and its colours; `None` if its parts cannot be
/// told apart. What follows the picture is cut too.
pub(crate) fn without_metadata(format: ImageFormat, bytes: &[u8]) -> Option<Vec<u8>> {
    match format {
        ImageFormat::Png => png(bytes),
        ImageFormat::Jpeg => jpeg(bytes),
        ImageFormat::Webp => webp(bytes),
        _ => None,
    }
}

fn png(bytes: &[u8]) -> Option<Vec<u8>> {
    let (signature, mut rest) = bytes.split_at_checked(8)?;
    let mut kept = signature.to_vec();
    loop {
        let length = u32::from_be_bytes(*rest.first_chunk()?);
        // Its length, its kind and its checksum are not counted.
        let whole = usize::try_from(length).ok()?.checked_add(12)?;
        let (chunk, next) = rest.split_at_checked(whole)?;
        let kind = chunk.get(4..8)?;
        if let Some((_, most)) = PNG_CHUNKS.iter().find(|(known, _)| *known == kind) {
            if length > *most {
                return None;
            }
            kept.extend_from_slice(chunk);
        }
        if kind == b"IEND" {
            return Some(kept);
        }
        rest = next;
    }
}

fn webp(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = bytes.split_at_checked(12)?;
    let size = u32::from_le_bytes(head.get(4..8)?.try_into().ok()?);
    // The letters `WEBP` are counted.
    let mut rest = rest.get(..usize::try_from(size).ok()?.checked_sub(4)?)?;
    let mut kept = head.to_vec();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?);
        let padded = usize::try_from(length).ok()?.checked_next_multiple_of(2)?;
        let (chunk, next) = rest.split_at_checked(padded.checked_add(8)?)?;
        let kind = chunk.get(..4)?;
        if WEBP_CHUNKS.contains(&kind) {
            let start = kept.len();
            kept.extend_from_slice(chunk);
            if kind == b"VP8X" {
                if length != WEBP_HEAD {
                    return None;
                }
                *kept.get_mut(start + 8)? &= !WEBP_METADATA;
            }
        }
        rest = next;
    }
    let size = u32::try_from(kept.len().checked_sub(8)?).ok()?;
    kept.get_mut(4..8)?.copy_from_slice(&size.to_le_bytes());
    Some(kept)
}

/// Markers of a JPEG file.
mod marker {
    /// The first kind that has a length.
    pub(super) const FIRST_SEGMENT: u8 = 0xc0;
    /// Frames and tables: `SOF0` to `SOF3`, `DHT`, `SOF5` to `SOF7`, `SOF9` to `SOF11`, `DAC`, `SOF13`
    /// to `SOF15`, `DQT`, `DNL`, `DRI`.
    pub(super) const PICTURE: [u8; 18] = [
        0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf,
        0xdb, 0xdc, 0xdd,
    ];
    pub(super) const RESTART: std::ops::RangeInclusive<u8> = 0xd0..=0xd7;
    pub(super) const START: u8 = 0xd8;
    pub(super) const END: u8 = 0xd9;
    pub(super) const SCAN: u8 = 0xda;
    /// The first kind of application data, in which JFIF is.
    pub(super) const APP0: u8 = 0xe0;
    pub(super) const APP2: u8 = 0xe2;
    /// How Adobe's files code colours.
    pub(super) const APP14: u8 = 0xee;
}

fn jpeg(bytes: &[u8]) -> Option<Vec<u8>> {
    let (start, mut rest) = bytes.split_at_checked(2)?;
    let mut kept = start.to_vec();
    loop {
        let kind = *rest.strip_prefix(b"\xff")?.first()?;
        if kind == 0xff {
            // A marker may be preceded by more of its first byte.
            rest = rest.get(1..)?;
            continue;
        }
        if kind == marker::END {
            kept.extend_from_slice(&[0xff, kind]);
            return Some(kept);
        }
        if kind < marker::FIRST_SEGMENT || kind == marker::START || marker::RESTART.contains(&kind)
        {
            return None;
        }
        let length = u16::from_be_bytes(rest.get(2..4)?.try_into().ok()?);
        let (segment, next) = rest.split_at_checked(usize::from(length).checked_add(2)?)?;
        keep_segment(&mut kept, kind, segment)?;
        rest = next;
        if kind == marker::SCAN {
            let (picture, next) = rest.split_at_checked(scan_length(rest)?)?;
            kept.extend_from_slice(picture);
            rest = next;
        }
    }
}

/// Keeps a segment of a JPEG file if its picture or its colours need it. A small picture beside the
/// picture is cut.
fn keep_segment(kept: &mut Vec<u8>, kind: u8, segment: &[u8]) -> Option<()> {
    let content = segment.get(4..)?;
    match kind {
        marker::APP0 if content.starts_with(b"JFIF\0") => {
            kept.extend_from_slice(&[0xff, kind, 0, 16]);
            kept.extend_from_slice(content.get(..12)?);
            kept.extend_from_slice(&[0, 0]);
        }
        marker::APP2 if content.starts_with(b"ICC_PROFILE\0") => kept.extend_from_slice(segment),
        marker::APP14 if content.starts_with(b"Adobe") => {
            kept.extend_from_slice(&[0xff, kind, 0, 14]);
            kept.extend_from_slice(content.get(..12)?);
        }
        marker::SCAN => kept.extend_from_slice(segment),
        kind if marker::PICTURE.contains(&kind) => kept.extend_from_slice(segment),
        _ => {}
    }
    Some(())
}

/// Returns how many bytes of a scan come before the next marker that is not a part of it.
fn scan_length(bytes: &[u8]) -> Option<usize> {
    let is_marker = |pair: &[u8]| match pair {
        [0xff, kind] => *kind != 0 && *kind != 0xff && !marker::RESTART.contains(kind),
        _ => false,
    };
    bytes.windows(2).position(is_marker)
}
