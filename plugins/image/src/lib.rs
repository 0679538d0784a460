//! Describes an image file: its format, its size, and the camera's data in it.
//!
//! Linked, `Cli::new().tools(deputize_plugin_image::LINK)`; loaded, the library that `cargo build`
//! makes of this crate.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use deputize_core::tool::spec_of;
use deputize_core::{
    Example, ToolCallResult, ToolCx, ToolError, ToolKind, ToolOutput, ToolSpec, TypedTool,
};
use deputize_plugin::readable;
use exif::{Exif, In, Tag};

deputize_core::tool_crate!();
deputize_plugin::export_plugin!();

/// The start of a file, in which its format and size stand.
const HEAD_BYTES: u64 = 1 << 20;
/// Limit on a file that is searched for camera data, in bytes.
const EXIF_BYTES: u64 = 256 << 20;
/// Limit on a value of the camera data, in characters.
const VALUE_CHARS: usize = 120;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Args {
    /// The image file.
    path: PathBuf,
}

struct ImageFacts;

impl TypedTool for ImageFacts {
    type Args = Args;

    fn spec() -> ToolSpec {
        let about = "Tell the facts of an image file: format, width and height in pixels, bytes, \
                     and from a photo's EXIF data when, with which camera and where it was taken. \
                     It does not look at the picture itself.";
        ToolSpec {
            examples: vec![Example {
                title: "How large a picture is",
                arguments: serde_json::json!({"path": "sample.png"}),
            }],
            ..ToolSpec::read_only(spec_of::<Args>("image_facts", about))
                .about(ToolKind::Read, "path")
        }
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> ToolCallResult {
        let path = readable(cx, &args.path)?;
        let facts = tokio::task::spawn_blocking(move || facts(&path));
        facts.await.map_err(ToolError::failed)?
    }
}

deputize_core::register_tool!("image", ImageFacts);

fn facts(path: &Path) -> ToolCallResult {
    let refused = |why: String| ToolError::refused(format!("`{}`: {why}", path.display()));
    let unreadable = |error: io::Error| refused(format!("cannot be read: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(refused("is not a file".to_owned()));
    }
    let mut head = Vec::new();
    (&file).take(HEAD_BYTES).read_to_end(&mut head).map_err(unreadable)?;
    let kind = imagesize::image_type(&head)
        .map_err(|_| refused("is no image of a known format".to_owned()))?;
    let size = imagesize::blob_size(&head)
        .map_err(|error| refused(format!("is broken: its size cannot be read ({error})")))?;
    let mut lines = vec![
        format!("format: {}", format!("{kind:?}").to_lowercase()),
        format!("width: {}", size.width),
        format!("height: {}", size.height),
        format!("bytes: {}", meta.len()),
    ];
    if meta.len() <= EXIF_BYTES {
        let reopened = File::open(path).map_err(unreadable)?;
        let read = exif::Reader::new().read_from_container(&mut BufReader::new(reopened));
        // Most images have none.
        lines.extend(read.ok().into_iter().flat_map(|exif| photo(&exif)));
    }
    Ok(ToolOutput::text(lines.join("\n")))
}

/// Returns a camera's data, a line each.
fn photo(exif: &Exif) -> Vec<String> {
    let tags = [
        ("taken", Tag::DateTimeOriginal),
        ("camera maker", Tag::Make),
        ("camera", Tag::Model),
        ("lens", Tag::LensModel),
        ("exposure", Tag::ExposureTime),
        ("aperture", Tag::FNumber),
        ("sensitivity", Tag::PhotographicSensitivity),
        ("orientation", Tag::Orientation),
        ("latitude", Tag::GPSLatitude),
        ("longitude", Tag::GPSLongitude),
    ];
    let line = |(name, tag): (&str, Tag)| {
        let field = exif.get_field(tag, In::PRIMARY)?;
        let value = field.display_value().with_unit(exif).to_string();
        let value: String = value.trim_matches('"').chars().take(VALUE_CHARS).collect();
        // What cannot be printed is escaped in it.
        Some(format!("{name}: {value}"))
    };
    tags.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use deputize_testkit::ToolHarness;
    use serde_json::json;

    use super::*;

    /// A picture of 3 by 2 pixels: its head is all that is read.
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0";

    async fn describe(dir: &Path, path: &str) -> String {
        match ToolHarness::new(dir).call("image_facts", json!({ "path": path })).await {
            Ok(output) => output.content,
            Err(error) => error.to_string(),
        }
    }

    /// A JPEG of 4 by 3 pixels with what a camera would write of itself.
    fn photo() -> Vec<u8> {
        let field = exif::Field {
            tag: Tag::Model,
            ifd_num: In::PRIMARY,
            value: exif::Value::Ascii(vec![b"Box \x1b1".to_vec()]),
        };
        let mut tiff = io::Cursor::new(Vec::new());
        let mut writer = exif::experimental::Writer::new();
        writer.push_field(&field);
        writer.write(&mut tiff, false).unwrap();
        let tiff = tiff.into_inner();
        let mut jpeg = b"\xff\xd8\xff\xe1".to_vec();
        jpeg.extend(u16::try_from(tiff.len() + 8).unwrap().to_be_bytes());
        jpeg.extend(b"Exif\0\0");
        jpeg.extend(tiff);
        jpeg.extend(b"\xff\xc0\0\x0b\x08\0\x03\0\x04\x01\x01\x11\0\xff\xd9");
        jpeg
    }

    #[tokio::test]
    async fn an_image_is_known_by_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), PNG).unwrap();
        std::fs::write(dir.path().join("b.jpg"), photo()).unwrap();
        let bytes = PNG.len();
        assert_eq!(
            describe(dir.path(), "a.txt").await,
            format!("format: png\nwidth: 3\nheight: 2\nbytes: {bytes}")
        );
        let photo = describe(dir.path(), "b.jpg").await;
        assert!(photo.contains("format: jpeg\nwidth: 4\nheight: 3\n"), "{photo}");
        assert!(photo.ends_with("camera: Box \\x1b1"), "{photo}");
    }

    #[tokio::test]
    async fn what_is_no_image_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("text"), "hello").unwrap();
        std::fs::write(dir.path().join("half.png"), &PNG[..18]).unwrap();
        for (path, word) in [
            ("text", "is no image of a known format"),
            ("half.png", "is broken"),
            (".", "is not a file"),
            ("..", "outside of what this agent may read"),
        ] {
            let refused = describe(dir.path(), path).await;
            assert!(refused.contains(word), "{path}: {refused}");
        }
    }
}
