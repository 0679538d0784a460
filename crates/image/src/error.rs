//! Why an image cannot be shown to a model.

use deputize_core::image::{ImageFormat, ImageSize};

/// Why an image cannot be shown to a model. The text is for models and people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes are of no format that is read.
    #[error("it is neither PNG, JPEG, WebP nor GIF")]
    Format,
    /// The file is too long.
    #[error("it has {bytes} bytes; at most {most} are read")]
    Bytes {
        /// Bytes of the file.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// It has too many pixels.
    #[error("it has {size} pixels; at most {most} are read")]
    Pixels {
        /// Width and height of the image, in pixels.
        size: ImageSize,
        /// The limit on width × height.
        most: u64,
    },
    /// It cannot be decoded.
    #[error("its {} data are damaged or cut off: get a whole copy of it", format.name())]
    Broken {
        /// The format that its first bytes name.
        format: ImageFormat,
        /// What the decoder says, for a log.
        why: String,
    },
    /// Decoding it takes too much memory.
    #[error("decoding it takes more than {most} bytes of memory: make it smaller")]
    Memory {
        /// The limit in bytes.
        most: u64,
    },
    /// It cannot be made small enough.
    #[error("it stays above {most} bytes however small it is made")]
    Scaled {
        /// The limit in bytes.
        most: usize,
    },
}
