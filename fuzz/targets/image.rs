//! Any bytes as an image for a model.
#![no_main]

use deputize_core::image::ImageFormat;
use deputize_fuzz::meter::MemoryLimit;
use deputize_image::{ImageLimits, ImageReader};
use libfuzzer_sys::fuzz_target;

/// A few bytes may say that they are many pixels, up to the limits of the reader.
const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024 * 1024, each: 64 };
const LIMITS: ImageLimits = ImageLimits {
    file_bytes: 64 * 1024,
    pixels: 256 * 256,
    memory: 4 * 1024 * 1024,
    side: 64,
    shown_bytes: 8 * 1024,
};
/// Characters of an error.
const LINE_CHARS: usize = 400;

fuzz_target!(|input: &[u8]| {
    let reader = ImageReader::new(LIMITS);
    let read = match LIMIT.during(input.len(), || reader.read(input)) {
        Ok(read) => read,
        Err(error) => return deputize_fuzz::one_line(&error.to_string(), LINE_CHARS),
    };
    deputize_fuzz::one_line(&read.to_string(), LINE_CHARS);
    let size = read.image.size();
    assert!(size.width.max(size.height) <= LIMITS.side, "{size}");
    assert!(read.image.base64().len() <= LIMITS.shown_bytes.div_ceil(3) * 4);
    assert!(read.size.pixels() <= LIMITS.pixels, "{}", read.size);
    assert_eq!(ImageFormat::of_head(input), Some(read.format));
});
