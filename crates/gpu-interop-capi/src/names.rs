//! Names of Rust in the messages of the library, as C has them.

use gpu_interop_core::with_names;

/// Names inside messages, as whole words. A longer text is before one that it contains.
const NAMES: [(&str, &str); 30] = [
    (" (MemoryHandle::opaque_from_raw_fd, classify_fd)", ""),
    (" (gpu_interop::vulkan::SharedHeap)", ""),
    ("map_image_bytes", "gpi_memory_map_image_bytes"),
    ("map_mipmapped_array", "gpi_memory_map_array"),
    ("declare one submitted through ash (OwnedSemaphore::assume_signalled)", "leave out the wait"),
    ("declare one or a presentation submitted through ash (OwnedSemaphore::assume_waited)", "leave out the signal"),
    ("ArrayUsage::SURFACE_LOAD_STORE", "GPI_ARRAY_SURFACE_LOAD_STORE"),
    ("`ExportableMemory::size`", "the size of gpi_buffer_get_info"),
    ("`ImportedImage`", "an image in another process"),
    ("MemoryImport::trusted_peer", "GPI_IMPORT_TRUSTED_PEER"),
    ("MemoryPlacement::HostVisible", "GPI_VULKAN_HOST_VISIBLE"),
    ("ModuleImage::Builtin", "GPI_MODULE_BUILTIN"),
    ("OwnedImage::subresource_layout", "gpi_vulkan_image_get_row_layout"),
    ("`OwnedSemaphore::timeline`", "gpi_exported_semaphore_create_vulkan"),
    ("Stream::signal", "gpi_stream_signal"),
    ("Stream::signal_timeline", "gpi_stream_signal"),
    ("Stream::wait", "gpi_stream_wait"),
    ("Stream::wait_timeline", "gpi_stream_wait"),
    ("TimelineStrategy::HostBridge", "GPI_TIMELINE_BRIDGE"),
    ("Timeline::wait", "gpi_timeline_wait"),
    ("`Timeline`", "gpi_timeline"),
    ("VkApplicationInfo::apiVersion", "VkApplicationInfo.apiVersion"),
    ("VkMemoryAllocateInfo::allocationSize", "VkMemoryAllocateInfo.allocationSize"),
    ("VulkanInterop::optional_device_extensions", "gpi_vulkan_get_extension"),
    ("`dedicated`", "GPI_IMPORT_DEDICATED"),
    ("`native`", "GPI_IMPORT_NATIVE"),
    // Functions of earlier errors.
    ("BackendDevice::", "backend "),
    ("Device::", "gpi_device_"),
    ("Stream::", "gpi_stream_"),
    ("Timeline::", "gpi_timeline_"),
];

/// A message with the names of C.
pub(crate) fn in_c(message: &str) -> String {
    with_names(message, &NAMES)
}

/// The failed function: the driver's, or `function` of C in place of a method of Rust.
pub(crate) fn operation(of: &str, function: &'static str) -> String {
    let is_rust =
        of.starts_with("gpu_interop::") || of.contains("::") && of.starts_with(|c: char| c.is_ascii_uppercase());
    if is_rust { function.to_owned() } else { of.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Types and functions that C has no counterpart of: their errors cannot reach it.
    const NOT_IN_C: [&str; 10] = [
        "DmaBufPicture",
        "ExportableBuffer",
        "ExportableImage",
        "FeedFences",
        "ImportedBuffer",
        "PictureFeed",
        "PictureOptions",
        "PlaneStorage",
        "VideoOptions",
        "VulkanInterop::picture_modifiers",
    ];

    /// Functions of Rust that messages name without their type.
    const FUNCTIONS: [&str; 2] = ["map_image_bytes", "map_mipmapped_array"];

    /// The names of Rust in a text: `Type::name`, paths of the crate, and functions.
    fn paths(text: &str) -> impl Iterator<Item = &str> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        words.map(|word| word.trim_matches(':')).filter(|word| {
            let is_path = word.contains("::") && word.starts_with(|c: char| c.is_ascii_uppercase());
            is_path || word.starts_with("gpu_interop::") || FUNCTIONS.contains(word)
        })
    }

    /// Calls `check` for every string literal of the crates behind the C interface that is a message: it has a space.
    fn messages(folder: &Path, check: &mut dyn FnMut(&str)) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("cudarc") && !path.ends_with("tests") {
                messages(&path, check);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                let code = lines.collect::<Vec<_>>().join("\n").replace("\\\"", "'");
                let literals = code.split('"').skip(1).step_by(2).filter(|literal| literal.contains(' '));
                // Without the breaks of lines.
                let whole = |literal: &str| literal.split("\\\n").map(str::trim_start).collect::<String>();
                literals.for_each(|literal| check(&whole(literal)));
            }
        }
    }

    #[test]
    fn names_that_begin_alike_are_apart() {
        let message = "Stream::wait_timeline: failed after Stream::signal_timeline, Stream::wait and Stream::record";
        let shown = "gpi_stream_wait: failed after gpi_stream_signal, gpi_stream_wait and gpi_stream_record";
        assert_eq!(in_c(message), shown);
        assert_eq!(in_c("ExporterTimeline::wait"), "ExporterTimeline::wait");
    }

    #[test]
    fn messages_have_the_names_of_c() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut seen = 0;
        for folder in ["core", "driver", "vulkan"].map(|name| format!("crates/gpu-interop-{name}/src")).iter().chain(
            &["crates/gpu-interop/src", "backends/cuda/src", "backends/hip/src", "backends/host/src"].map(String::from),
        ) {
            messages(&root.join(folder), &mut |message| {
                let shown = in_c(message);
                let left: Vec<_> = paths(&shown).filter(|path| !NOT_IN_C.iter().any(|t| path.starts_with(t))).collect();
                assert!(left.is_empty(), "{left:?} in a message is no name of C; add it to NAMES: {message}");
                seen += 1;
            });
        }
        assert!(seen > 500, "{seen} messages were found");
    }

    #[test]
    fn the_names_of_c_exist() {
        let header = include_str!("../include/gpu_interop.h");
        for (_, c) in NAMES {
            for word in c.split([' ', ';']).filter(|word| word.to_ascii_lowercase().starts_with("gpi_")) {
                assert!(header.contains(word), "{word}");
            }
        }
    }
}
