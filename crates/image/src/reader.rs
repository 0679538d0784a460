//! From foreign bytes to an image that a model can be sent.

use std::fmt;
use std::io::Cursor;

use deputize_core::Resource;
use deputize_core::image::{Image, ImageFormat, ImageSize};
use deputize_core::sanitize::for_terminal_line;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, Limits};
use parking_lot::Mutex;

use crate::error::ImageError;
use crate::limits::ImageLimits;
use crate::metadata::without_metadata;
use crate::scale::shrink;

/// Characters of a decoder's words in an error.
const WHY_CHARS: usize = 200;

/// Reads images, one at a time: what decoding takes is taken once, however many agents read.
#[derive(Debug, Default)]
pub struct ImageReader {
    limits: ImageLimits,
    one: Mutex<()>,
}

impl Resource for ImageReader {}

/// An image as a model is shown it, and what it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadImage {
    /// The image.
    pub image: Image,
    /// The format of the file.
    pub format: ImageFormat,
    /// The size in the file, upright.
    pub size: ImageSize,
}

/// What it is, and how it is shown where that is another format or size.
impl fmt::Display for ReadImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} image, {} pixels", self.format.name(), self.size)?;
        let shown = (self.image.format(), self.image.size());
        match shown == (self.format, self.size) {
            true => Ok(()),
            false => write!(f, ", shown as {}, {}", shown.0.name(), shown.1),
        }
    }
}

impl ImageReader {
    /// Creates a reader with these limits.
    #[must_use]
    pub fn new(limits: ImageLimits) -> Self {
        Self { limits, one: Mutex::default() }
    }

    /// Returns its limits.
    #[must_use]
    pub const fn limits(&self) -> ImageLimits {
        self.limits
    }

    /// Decodes an image and makes it small enough. The picture of a whole file that is small already
    /// is kept as it is coded. Metadata never are. This takes up to a second and belongs on a thread that may block.
    ///
    /// # Errors
    /// When the bytes are no whole image of a known format, or above a limit.
    pub fn read(&self, bytes: &[u8]) -> Result<ReadImage, ImageError> {
        let most = self.limits.file_bytes;
        if bytes.len() > most {
            return Err(ImageError::Bytes { bytes: bytes.len(), most });
        }
        let format = ImageFormat::of_head(bytes).ok_or(ImageError::Format)?;
        let _alone = self.one.lock();
        let decoded = self.decode(format, bytes)?;
        let size = size_of(&decoded.pixels);
        let is_small = size.width.max(size.height) <= self.limits.side
            && bytes.len() <= self.limits.shown_bytes;
        let is_shown_so = is_small && decoded.upright && is_still(format, bytes);
        let cut = is_shown_so.then(|| without_metadata(format, bytes)).flatten();
        let image = match cut.filter(|cut| cut.len() <= bytes.len()) {
            Some(cut) => Image::new(format, size, &cut),
            None => shrink(decoded.pixels, format, &self.limits)?,
        };
        Ok(ReadImage { image, format, size })
    }

    fn decode(&self, format: ImageFormat, bytes: &[u8]) -> Result<DecodedImage, ImageError> {
        let broken = |error: image::ImageError| match error {
            image::ImageError::Limits(_) => ImageError::Memory { most: self.limits.memory },
            error => {
                let why = for_terminal_line(&error.to_string(), WHY_CHARS);
                ImageError::Broken { format, why }
            }
        };
        let mut limits = Limits::no_limits();
        limits.max_alloc = Some(self.limits.memory);
        let mut reader = image::ImageReader::with_format(Cursor::new(bytes), codec(format));
        reader.limits(limits);
        let mut decoder = reader.into_decoder().map_err(broken)?;
        let (width, height) = decoder.dimensions();
        let size = ImageSize { width, height };
        if size.pixels() > self.limits.pixels {
            return Err(ImageError::Pixels { size, most: self.limits.pixels });
        }
        let turn = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let mut pixels = DynamicImage::from_decoder(decoder).map_err(broken)?;
        pixels.apply_orientation(turn);
        Ok(DecodedImage { pixels, upright: turn == Orientation::NoTransforms })
    }
}

/// An image as pixels.
struct DecodedImage {
    pixels: DynamicImage,
    /// Whether the file has it upright, and not turned by its metadata.
    upright: bool,
}

fn size_of(pixels: &DynamicImage) -> ImageSize {
    ImageSize { width: pixels.width(), height: pixels.height() }
}

const fn codec(format: ImageFormat) -> image::ImageFormat {
    match format {
        ImageFormat::Gif => image::ImageFormat::Gif,
        ImageFormat::Jpeg => image::ImageFormat::Jpeg,
        ImageFormat::Webp => image::ImageFormat::WebP,
        // A new format is read as a PNG file until it has its line here, and refused.
        _ => image::ImageFormat::Png,
    }
}

/// Whether all providers take the file: none takes every animation. The beginning of a GIF does not
/// say whether it is animated.
fn is_still(format: ImageFormat, bytes: &[u8]) -> bool {
    const ANIMATED: u8 = 0b10;
    let extended = bytes.get(12..16) == Some(b"VP8X");
    match format {
        ImageFormat::Gif => false,
        ImageFormat::Webp => !extended || bytes.get(20).is_some_and(|flags| flags & ANIMATED == 0),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;
    use image::{ImageFormat as Codec, Rgb, RgbImage, Rgba, RgbaImage};
    use proptest::prelude::*;

    use super::*;

    /// A file with an image of this format.
    fn file(image: impl Into<DynamicImage>, codec: Codec) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.into().write_to(&mut bytes, codec).unwrap();
        bytes.into_inner()
    }

    /// An image whose left upper quarter is red, and the rest blue.
    fn corner(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| match x < width / 2 && y < height / 2 {
            true => Rgb([255, 0, 0]),
            false => Rgb([0, 0, 255]),
        })
    }

    fn noise(width: u32, height: u32) -> RgbaImage {
        let mut state = 1_u32;
        RgbaImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [red, green, blue, _] = state.to_be_bytes();
            Rgba([red, green, blue, 255])
        })
    }

    fn read(bytes: &[u8]) -> ReadImage {
        ImageReader::default().read(bytes).unwrap()
    }

    fn bytes_of(read: &ReadImage) -> Vec<u8> {
        BASE64.decode(read.image.base64().as_bytes()).unwrap()
    }

    fn pixels_of(read: &ReadImage) -> RgbImage {
        image::load_from_memory(&bytes_of(read)).unwrap().into_rgb8()
    }

    #[test]
    fn a_small_image_is_shown_as_it_is() {
        for codec in [Codec::Png, Codec::Jpeg, Codec::WebP] {
            let bytes = file(corner(80, 60), codec);
            let read = read(&bytes);
            assert_eq!(bytes_of(&read), bytes, "{codec:?}");
            assert_eq!((read.size.width, read.size.height), (80, 60));
        }
        assert_eq!(
            read(&file(corner(80, 60), Codec::Png)).to_string(),
            "PNG image, 80 × 60 pixels"
        );
    }

    #[test]
    fn a_gif_is_shown_as_a_png_file_of_its_first_picture() {
        let read = read(&file(corner(80, 60), Codec::Gif));
        assert_eq!(read.to_string(), "GIF image, 80 × 60 pixels, shown as PNG, 80 × 60");
        assert_eq!(pixels_of(&read).get_pixel(5, 5), &Rgb([255, 0, 0]));
    }

    #[test]
    fn a_large_image_is_scaled_with_its_proportions() {
        for (codec, shown) in [(Codec::Png, "PNG"), (Codec::Jpeg, "JPEG"), (Codec::WebP, "PNG")] {
            let read = read(&file(corner(3000, 1500), codec));
            assert!(read.to_string().ends_with(&format!("shown as {shown}, 1568 × 784")), "{read}");
            let pixels = pixels_of(&read);
            let [red, _, blue] = pixels.get_pixel(10, 10).0;
            assert!(red > 200 && blue < 60, "{red} {blue}");
        }
        let thin = read(&file(corner(4000, 1), Codec::Png));
        assert_eq!((thin.image.size().width, thin.image.size().height), (1568, 1));
    }

    #[test]
    fn an_image_that_stays_long_becomes_a_jpeg_file_and_smaller() {
        let read = read(&file(noise(1600, 1600), Codec::Png));
        assert_eq!(read.image.format(), ImageFormat::Jpeg);
        assert!(bytes_of(&read).len() <= ImageLimits::default().shown_bytes);
        let few = ImageLimits { shown_bytes: 300, ..ImageLimits::default() };
        let error = ImageReader::new(few).read(&file(noise(64, 64), Codec::Png)).unwrap_err();
        assert_eq!(error, ImageError::Scaled { most: 300 });
    }

    #[test]
    fn what_is_transparent_stays_so_or_is_white() {
        let clear = RgbaImage::from_pixel(2000, 20, Rgba([0, 0, 0, 0]));
        let shown = read(&file(clear.clone(), Codec::Png));
        let pixels = image::load_from_memory(&bytes_of(&shown)).unwrap().into_rgba8();
        assert_eq!(pixels.get_pixel(0, 0).0[3], 0);
        let jpeg = shrink(clear.into(), ImageFormat::Jpeg, &ImageLimits::default()).unwrap();
        let pixels = image::load_from_memory(&BASE64.decode(jpeg.base64().as_bytes()).unwrap());
        assert_eq!(pixels.unwrap().into_rgb8().get_pixel(3, 3), &Rgb([255, 255, 255]));
    }

    #[test]
    fn a_photo_that_its_metadata_turn_is_shown_upright() {
        // The tag of the orientation with the value 6: a quarter to the right.
        let exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let read = read(&with_segment(&file(corner(80, 60), Codec::Jpeg), 0xe1, exif));
        assert_eq!((read.size.width, read.size.height), (60, 80));
        let [red, _, blue] = pixels_of(&read).get_pixel(50, 5).0;
        assert!(red > 200 && blue < 60, "the red corner is on the right: {red} {blue}");
    }

    /// A JPEG file with a segment of this kind after its first two bytes.
    fn with_segment(jpeg: &[u8], kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len() + 2).unwrap().to_be_bytes();
        [&jpeg[..2], &[0xff, kind], &length, content, &jpeg[2..]].concat()
    }

    fn png_chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        let counted = [&kind[..], content].concat();
        [&length[..], &counted, &crc32(&counted).to_be_bytes()].concat()
    }

    /// A WebP file with EXIF and XMP data that name a place.
    fn webp_of_a_place(webp: &[u8]) -> Vec<u8> {
        let chunk = |kind: &[u8; 4], content: &[u8]| {
            let length = u32::try_from(content.len()).unwrap().to_le_bytes();
            [&kind[..], &length, content].concat()
        };
        let head = chunk(b"VP8X", &[0b1100, 0, 0, 0, 79, 0, 0, 59, 0, 0]);
        let body = [
            b"WEBP".to_vec(),
            head,
            webp[12..].to_vec(),
            chunk(b"EXIF", b"II*\0\x08\0\0\0\0\0\0\0\0\0A place!"),
            chunk(b"XMP ", b"<x>A place!</x>."),
        ]
        .concat();
        [b"RIFF", &u32::try_from(body.len()).unwrap().to_le_bytes()[..], &body].concat()
    }

    #[test]
    fn what_a_file_says_beside_its_picture_is_not_shown() {
        let jpeg = file(corner(80, 60), Codec::Jpeg);
        let png = file(corner(80, 60), Codec::Png);
        let webp = file(corner(80, 60), Codec::WebP);
        let exif = b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0A place!";
        let (head, data) = png.split_at(33);
        let text = png_chunk(b"tEXt", b"Author\0A place!");
        let places = [
            (with_segment(&jpeg, 0xe1, exif), &jpeg),
            (with_segment(&jpeg, 0xfe, b"A place!"), &jpeg),
            (with_segment(&jpeg, 0xed, b"Photoshop 3.0\0A place!"), &jpeg),
            (with_segment(&jpeg, 0xf7, b"A place!"), &jpeg),
            (with_segment(&jpeg, 0xc8, b"A place!"), &jpeg),
            ([&jpeg[..], b"A place!"].concat(), &jpeg),
            ([head, &text, data].concat(), &png),
            ([head, &png_chunk(b"eXIf", b"II*\0\x08\0\0\0A place!"), data].concat(), &png),
            ([&png[..], b"A place!"].concat(), &png),
        ];
        for (place, picture) in places {
            assert_eq!(&bytes_of(&read(&place)), picture);
        }
        let shown = read(&webp_of_a_place(&webp));
        let bytes = bytes_of(&shown);
        assert!(!bytes.windows(7).any(|window| window == b"A place"));
        assert_eq!(shown.image.format(), ImageFormat::Webp);
        assert_eq!(pixels_of(&shown), pixels_of(&read(&webp)));
    }

    #[test]
    fn what_stands_in_a_part_of_the_picture_is_not_shown() {
        let jpeg = file(corner(80, 60), Codec::Jpeg);
        let png = file(corner(80, 60), Codec::Png);
        let (head, data) = png.split_at(33);
        let end = png.len() - 12;
        let adobe = b"Adobe\0\x64\0\0\0\0\x01A place!";
        let places = [
            with_segment(&jpeg, 0xee, adobe),
            [head, &png_chunk(b"pHYs", b"\0\0\0\x01\0\0\0\x01\0A place!"), data].concat(),
            [&png[..end], &png_chunk(b"IEND", b"A place!")].concat(),
        ];
        for (number, place) in places.iter().enumerate() {
            let bytes = bytes_of(&read(place));
            assert!(!bytes.windows(7).any(|window| window == b"A place"), "{number}");
        }
    }

    #[test]
    fn a_photo_in_several_scans_keeps_its_picture_and_its_colours() {
        // Several scans, restart markers, a colour profile, EXIF data with a place, a comment.
        let bytes = include_bytes!("../tests/progressive.jpg");
        let shown = read(bytes);
        assert!(bytes_of(&shown).len() < bytes.len());
        assert!(bytes_of(&shown).windows(11).any(|window| window == b"ICC_PROFILE"));
        let as_it_was = image::load_from_memory(bytes).unwrap().into_rgb8();
        assert_eq!(pixels_of(&shown), as_it_was);
    }

    #[test]
    fn an_animation_is_no_still() {
        let extended = |flags| [b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0".as_slice(), &[flags]].concat();
        assert!(is_still(ImageFormat::Webp, &extended(0b1_0000)));
        assert!(!is_still(ImageFormat::Webp, &extended(0b1_0010)));
        assert!(is_still(ImageFormat::Webp, b"RIFF\0\0\0\0WEBPVP8L"));
    }

    #[test]
    fn what_is_no_image_or_too_large_is_refused() {
        let refused = |bytes: &[u8]| ImageReader::default().read(bytes).unwrap_err().to_string();
        assert_eq!(refused(b"BM"), "it is neither PNG, JPEG, WebP nor GIF");
        for codec in [Codec::Png, Codec::Jpeg, Codec::WebP, Codec::Gif] {
            let mut bytes = file(corner(80, 60), codec);
            bytes.truncate(bytes.len() / 2);
            let error = ImageReader::default().read(&bytes);
            assert!(matches!(error, Err(ImageError::Broken { .. })), "{codec:?}: {error:?}");
            let said = error.unwrap_err().to_string();
            assert!(
                said.ends_with(" data are damaged or cut off: get a whole copy of it"),
                "{said}"
            );
        }
        let little = ImageLimits { memory: 10, ..ImageLimits::default() };
        let error = ImageReader::new(little).read(&file(corner(80, 60), Codec::Png)).unwrap_err();
        let said = "decoding it takes more than 10 bytes of memory: make it smaller";
        assert_eq!(error.to_string(), said);
        let few = ImageLimits { file_bytes: 10, ..ImageLimits::default() };
        let error = ImageReader::new(few).read(&[0; 11]).unwrap_err();
        assert_eq!(error.to_string(), "it has 11 bytes; at most 10 are read");
    }

    #[test]
    fn a_file_that_says_it_is_huge_is_refused_before_it_is_decoded() {
        let mut bytes = file(corner(8, 8), Codec::Png);
        bytes[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
        let sum = crc32(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&sum.to_be_bytes());
        let error = ImageReader::default().read(&bytes).unwrap_err().to_string();
        assert_eq!(error, "it has 30000 × 30000 pixels; at most 50000000 are read");
    }

    /// The checksum of a chunk of a PNG file.
    fn crc32(bytes: &[u8]) -> u32 {
        let step = |sum: u32, byte: &u8| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| match sum & 1 {
                1 => (sum >> 1) ^ 0xedb8_8320,
                _ => sum >> 1,
            })
        };
        !bytes.iter().fold(u32::MAX, step)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_damaged_file_is_shown_or_refused(
            which in 0..4_usize,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        ) {
            let codec = [Codec::Png, Codec::Jpeg, Codec::WebP, Codec::Gif][which];
            let mut bytes = file(corner(40, 30), codec);
            for (place, byte) in damage {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let limits = ImageLimits { pixels: 1_000_000, ..ImageLimits::default() };
            if let Ok(read) = ImageReader::new(limits).read(&bytes) {
                prop_assert!(read.image.size().width <= limits.side);
                prop_assert!(image::load_from_memory(&bytes_of(&read)).is_ok());
            }
        }
    }
}
