//! Images for the models of Deputize agents: foreign bytes are decoded, checked and made small
//! enough for every provider.
//!
//! ```
//! use deputize_image::{ImageReader, ImageError};
//!
//! let error = ImageReader::default().read(b"no image").unwrap_err();
//! assert_eq!(error, ImageError::Format);
//! ```
//!
//! PNG, JPEG, WebP and GIF are read. The size of an image is known before it is decoded, and bounds
//! the memory that decoding takes. Metadata, such as the place of a photo, are cut. This crate
//! deliberately reads no other formats and shows no animations.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod error;
mod limits;
mod metadata;
mod reader;
mod scale;

pub use error::ImageError;
pub use limits::ImageLimits;
pub use reader::{ImageReader, ReadImage};
