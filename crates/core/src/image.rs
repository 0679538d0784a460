//! Images in messages.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::resource::Resource;

/// Pixels that count as one token: the most that a provider counts, so that estimates are not low.
const PIXELS_PER_TOKEN: u64 = 750;
/// Bytes of text that count as one token.
const TEXT_BYTES_PER_TOKEN: u64 = 3;

/// The format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageFormat {
    /// GIF.
    Gif,
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
    /// WebP.
    Webp,
}

impl ImageFormat {
    /// Returns the format that the first bytes of a file say it has.
    ///
    /// ```
    /// use deputize_core::image::ImageFormat;
    ///
    /// assert_eq!(ImageFormat::of_head(b"GIF89a\x01\0"), Some(ImageFormat::Gif));
    /// assert_eq!(ImageFormat::of_head(b"GIF art"), None);
    /// ```
    #[must_use]
    pub fn of_head(head: &[u8]) -> Option<Self> {
        let riff = |head: &[u8]| head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
        match head {
            _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => Some(Self::Png),
            _ if head.starts_with(b"\xff\xd8\xff") => Some(Self::Jpeg),
            _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Some(Self::Gif),
            _ if riff(head) => Some(Self::Webp),
            _ => None,
        }
    }

    /// Returns the media type, such as `image/png`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Gif => "image/gif",
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
        }
    }

    /// Returns the name for people, such as `PNG`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gif => "GIF",
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::Webp => "WebP",
        }
    }
}

/// The width and height of an image in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSize {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

impl ImageSize {
    /// Returns the number of pixels.
    #[must_use]
    pub const fn pixels(self) -> u64 {
        self.width as u64 * self.height as u64
    }
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.width, self.height)
    }
}

/// An image that a model sees beside the text of a message. It is whole and small: whoever makes one
/// has decoded its bytes, because a provider refuses a conversation with a broken image for ever.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    format: ImageFormat,
    size: ImageSize,
    /// The bytes of the file in base64, as all providers take them.
    base64: Arc<str>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {}, {} bytes)", self.format.name(), self.size, self.base64.len())
    }
}

impl Image {
    /// Creates an image from the bytes of a file of this format and size.
    #[must_use]
    pub fn new(format: ImageFormat, size: ImageSize, bytes: &[u8]) -> Self {
        Self { format, size, base64: BASE64.encode(bytes).into() }
    }

    /// Returns its format.
    #[must_use]
    pub const fn format(&self) -> ImageFormat {
        self.format
    }

    /// Returns its size.
    #[must_use]
    pub const fn size(&self) -> ImageSize {
        self.size
    }

    /// Returns the bytes of its file in base64.
    #[must_use]
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// Returns it as an address with the scheme `data`.
    #[must_use]
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.format.media_type(), self.base64)
    }

    /// Returns the estimated number of tokens that it takes in a request.
    ///
    /// ```
    /// use deputize_core::image::{Image, ImageFormat, ImageSize};
    ///
    /// let size = ImageSize { width: 1000, height: 750 };
    /// assert_eq!(Image::new(ImageFormat::Png, size, b"").tokens(), 1000);
    /// ```
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.size.pixels().div_ceil(PIXELS_PER_TOKEN)
    }

    /// Returns the bytes of text that take as many tokens, by which requests are measured.
    #[must_use]
    pub const fn text_bytes(&self) -> u64 {
        self.tokens() * TEXT_BYTES_PER_TOKEN
    }
}

/// Whether the model of an agent sees images. Stored per agent, for tools that return some.
#[derive(Debug, Default)]
pub struct Vision(AtomicBool);

impl Resource for Vision {}

impl Vision {
    /// Sets whether the model sees images.
    pub fn set(&self, sees: bool) {
        self.0.store(sees, Ordering::Relaxed);
    }

    /// Returns whether the model sees images. By default it sees none.
    #[must_use]
    pub fn sees_images(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        let of = ImageFormat::of_head;
        assert_eq!(of(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), Some(ImageFormat::Png));
        assert_eq!(of(b"\xff\xd8\xff\xe0\0\x10JFIF"), Some(ImageFormat::Jpeg));
        assert_eq!(of(b"RIFF\x1a\0\0\0WEBPVP8L"), Some(ImageFormat::Webp));
        for other in [&b"RIFF\x1a\0\0\0WAVE"[..], b"\x89PNG", b"RIFF", b"", b"\xff\xd8"] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
