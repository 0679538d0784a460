//! Makes images smaller.

use deputize_core::image::{Image, ImageFormat, ImageSize};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{DynamicImage, ExtendedColorType, ImageEncoder as _, RgbImage, RgbaImage, imageops};

use crate::error::ImageError;
use crate::limits::ImageLimits;

/// Quality of a JPEG file, of 100.
const QUALITY: u8 = 85;
/// How often an image is made smaller until it fits.
const ATTEMPTS: u32 = 4;

/// Returns an image within the limits on what is shown. A photo becomes a JPEG file. Anything else
/// becomes a PNG file, or a JPEG file on white if that fits and the PNG file does not.
pub(crate) fn shrink(
    pixels: DynamicImage,
    format: ImageFormat,
    limits: &ImageLimits,
) -> Result<Image, ImageError> {
    // One kind of pixels, so that there is one copy of the code that scales them.
    let mut pixels = pixels.into_rgba8();
    let mut side = limits.side;
    for _ in 0..ATTEMPTS {
        pixels = fit(pixels, side);
        let is_photo = format == ImageFormat::Jpeg;
        let png = (!is_photo).then(|| encode_png(&pixels)).flatten();
        let file = png.filter(|(_, bytes)| bytes.len() <= limits.shown_bytes);
        let file = file.or_else(|| encode_jpeg(&pixels));
        if let Some((format, bytes)) = file.filter(|(_, bytes)| bytes.len() <= limits.shown_bytes) {
            let size = ImageSize { width: pixels.width(), height: pixels.height() };
            return Ok(Image::new(format, size, &bytes));
        }
        side = side / 3 * 2;
    }
    Err(ImageError::Scaled { most: limits.shown_bytes })
}

/// Scales an image down so that no side is longer.
fn fit(pixels: RgbaImage, side: u32) -> RgbaImage {
    let (width, height) = pixels.dimensions();
    let longest = width.max(height);
    if longest <= side {
        return pixels;
    }
    let scaled = |length: u32| {
        let scaled = u64::from(length) * u64::from(side) / u64::from(longest);
        u32::try_from(scaled).unwrap_or(side).max(1)
    };
    imageops::thumbnail(&pixels, scaled(width), scaled(height))
}

fn encode_png(pixels: &RgbaImage) -> Option<(ImageFormat, Vec<u8>)> {
    let mut bytes = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut bytes, CompressionType::Default, FilterType::Adaptive);
    let (width, height) = pixels.dimensions();
    let is_opaque = pixels.pixels().all(|pixel| pixel.0[3] == u8::MAX);
    let written = if is_opaque {
        encoder.write_image(on_white(pixels).as_raw(), width, height, ExtendedColorType::Rgb8)
    } else {
        encoder.write_image(pixels.as_raw(), width, height, ExtendedColorType::Rgba8)
    };
    written.ok().map(|()| (ImageFormat::Png, bytes))
}

fn encode_jpeg(pixels: &RgbaImage) -> Option<(ImageFormat, Vec<u8>)> {
    let mut bytes = Vec::new();
    let (width, height) = pixels.dimensions();
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
    let written = encoder.encode(on_white(pixels).as_raw(), width, height, ExtendedColorType::Rgb8);
    written.ok().map(|()| (ImageFormat::Jpeg, bytes))
}

/// Returns the pixels on white, without transparency.
fn on_white(pixels: &RgbaImage) -> RgbImage {
    let (width, height) = pixels.dimensions();
    let mut opaque = RgbImage::new(width, height);
    for (to, from) in opaque.pixels_mut().zip(pixels.pixels()) {
        let [red, green, blue, alpha] = from.0.map(u32::from);
        let blend = |colour: u32| {
            let blended = (colour * alpha + 255 * (255 - alpha)) / 255;
            u8::try_from(blended).unwrap_or(u8::MAX)
        };
        to.0 = [blend(red), blend(green), blend(blue)];
    }
    opaque
}
