//! Images of results, for models that see them.

#[cfg(feature = "images")]
use std::sync::Arc;

use deputize_core::ToolCx;
use deputize_core::image::Image;
#[cfg(feature = "images")]
use deputize_core::image::Vision;
#[cfg(feature = "images")]
use deputize_image::ImageReader;

/// Shows images to one agent's model.
#[derive(Clone)]
pub(crate) struct ImageShower {
    #[cfg(feature = "images")]
    reader: Arc<ImageReader>,
}

impl ImageShower {
    /// Returns `None` if the agent's model sees no images, or this program reads none.
    #[cfg(feature = "images")]
    pub(crate) fn of(cx: &ToolCx) -> Option<Self> {
        let vision = cx.agent.store.get_or_insert_with(Vision::default);
        let reader = || cx.agent.session.settings.get_or_insert_with(ImageReader::default);
        vision.sees_images().then(|| Self { reader: reader() })
    }

    #[cfg(not(feature = "images"))]
    pub(crate) const fn of(_: &ToolCx) -> Option<Self> {
        None
    }

    /// Returns an image, and what it is in words; or else why it cannot be shown.
    #[cfg(feature = "images")]
    pub(crate) fn show(&self, bytes: &[u8]) -> Result<(Image, String), String> {
        let read = self.reader.read(bytes).map_err(|why| why.to_string())?;
        let about = read.to_string();
        Ok((read.image, about))
    }

    #[cfg(not(feature = "images"))]
    pub(crate) fn show(&self, _: &[u8]) -> Result<(Image, String), String> {
        Err("this program reads no images".to_owned())
    }
}
