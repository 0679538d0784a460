//! Images that the person shows with a message.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use deputize_agent::image::{ImageError, ImageReader};
use deputize_core::image::Image;

/// Limit on the images of a message.
const MOST_IMAGES: usize = 20;

/// Why images cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageFileError {
    #[error("cannot read the image `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot show the image `{}`", path.display())]
    Image {
        path: PathBuf,
        #[source]
        source: ImageError,
    },
    #[error("there are {0} images, and a message has at most {MOST_IMAGES}: leave some out")]
    TooMany(usize),
    #[error(
        "the model `{0}` sees no images: leave out --image, or name a model that sees them; \
         `providers.NAME.vision` says that one does"
    )]
    NoVision(String),
    #[error("--image needs a message that the images go with")]
    NoMessage,
}

/// Reads images, decodes and checks them.
pub(crate) fn read_images(paths: &[PathBuf]) -> Result<Vec<Image>, ImageFileError> {
    if paths.len() > MOST_IMAGES {
        return Err(ImageFileError::TooMany(paths.len()));
    }
    let reader = ImageReader::default();
    paths.iter().map(|path| read_image(&reader, path)).collect()
}

fn read_image(reader: &ImageReader, path: &Path) -> Result<Image, ImageFileError> {
    let most = reader.limits().file_bytes;
    let failed = |source| ImageFileError::Read { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        // Opening a pipe would wait for a writer.
        return Err(failed(io::Error::other("it is not a regular file")));
    }
    let refused = |source| ImageFileError::Image { path: path.to_owned(), source };
    let bytes = usize::try_from(found.len()).unwrap_or(usize::MAX);
    if bytes > most {
        return Err(refused(ImageError::Bytes { bytes, most }));
    }
    let bytes = fs::read(path).map_err(failed)?;
    reader.read(&bytes).map(|read| read.image).map_err(refused)
}
