//! Limits on images.

/// Limits on the images that are read and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Bytes of a file that is read.
    pub file_bytes: usize,
    /// Pixels, width × height, of an image that is read.
    pub pixels: u64,
    /// Bytes that decoding may take at once.
    pub memory: u64,
    /// Longest side of an image that is shown, in pixels. Providers scale longer ones down
    /// themselves, after they were paid for.
    pub side: u32,
    /// Bytes of an image that is shown.
    pub shown_bytes: usize,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self {
            file_bytes: 20 * 1024 * 1024,
            pixels: 50_000_000,
            memory: 256 * 1024 * 1024,
            side: 1568,
            shown_bytes: 1024 * 1024,
        }
    }
}
