//! Errors of the library as Python exceptions, with the names that Python has.

use gpu_interop::{Error, ErrorKind, Result};
use gpu_interop_core::with_names;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Conversion of the library's results into Python's.
pub(crate) trait Raise<T> {
    /// Returns the value, or the exception of the error's kind.
    fn raised(self) -> PyResult<T>;
}

impl<T> Raise<T> for Result<T> {
    fn raised(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}

/// The exception of the error's kind, with the library's message.
pub(crate) fn exception(error: &Error) -> PyErr {
    Python::attach(|py| build(py, error).unwrap_or_else(|failure| failure))
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("gpu_interop._errors").map(Bound::unbind))?.bind(py);
    let operation = operation(error.operation());
    // `Debug` is the message with the sources below.
    let message = format!("{error:?}");
    let rest = message.strip_prefix(error.operation()).unwrap_or(&message);
    let message = format!("{operation}{}", in_python(rest));
    let value = module.getattr(class_name(error.kind()))?.call1((message,))?;
    value.setattr("operation", operation)?;
    value.setattr("code", error.code().map(|code| code.value))?;
    value.setattr("code_name", error.code().and_then(|code| code.name.clone()))?;
    value.setattr("backend", error.backend())?;
    value.setattr("device", error.device())?;
    Ok(PyErr::from_value(value))
}

fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::DriverNotFound => "DriverNotFound",
        ErrorKind::DriverTooOld => "DriverTooOld",
        ErrorKind::SymbolMissing => "SymbolMissing",
        ErrorKind::NoDevice => "NoDevice",
        ErrorKind::DeviceMismatch => "DeviceMismatch",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::InvalidArgument => "InvalidArgument",
        ErrorKind::ImportRejected => "ImportRejected",
        ErrorKind::ReconciliationFailed => "ReconciliationFailed",
        ErrorKind::OutOfMemory => "OutOfMemory",
        ErrorKind::Timeout => "Timeout",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Overtaken => "Overtaken",
        ErrorKind::HostFunctionPanicked => "HostFunctionPanicked",
        ErrorKind::System => "System",
        ErrorKind::DeviceLost => "DeviceLost",
        ErrorKind::Driver => "Driver",
        // Kinds of later versions.
        _ => "Error",
    }
}

/// The error of a call on a closed object.
pub(crate) fn closed(operation: &'static str, what: &str) -> Error {
    Error::invalid(operation, format!("the {what} is closed; use it before `close` or inside its `with` block"))
}

/// Names inside messages, as whole words. A longer text is before one that it contains.
const NAMES: [(&str, &str); 33] = [
    (
        "import each plane as a picture of its own (DmaBufPicture::into_planes)",
        "import each plane: Context.import_planes",
    ),
    ("VulkanInterop::picture_modifiers", "Context.picture_modifiers"),
    ("set PictureOptions::producer to SameDriver", "pass same_driver=True"),
    (
        ", map it as an array (map_mipmapped_array), or have the exporter copy it to a shared buffer; map_image_bytes maps \
         the bytes as the driver stores them",
        ", map it as an array (Image.array), or copy it to a shared buffer",
    ),
    (
        ", copy it to a shared buffer, or map it as an array where the device maps arrays",
        ", map it as an array (Image.array) where the device maps arrays, or copy it to a shared buffer",
    ),
    ("create the image with linear tiling", "create the image with linear=True"),
    (" (gpu_interop::vulkan::SharedHeap)", ""),
    ("(initialize_image, initialize_video)", "(Context.initialize)"),
    (" (MemoryHandle::opaque_from_raw_fd, classify_fd)", ""),
    ("declare one submitted through ash (OwnedSemaphore::assume_signalled)", "leave out the wait"),
    ("declare one or a presentation submitted through ash (OwnedSemaphore::assume_waited)", "leave out the signal"),
    ("create it with ExportableBuffer::new or ImportedBuffer::new", "create it with exportable=True"),
    ("ArrayUsage::SURFACE_LOAD_STORE", "the usage for surfaces"),
    ("`ExportableMemory::size`", "Memory.size"),
    ("`ImportedImage`", "an image in another process"),
    ("MemoryImport::trusted_peer", "trusted_peer=True"),
    ("MemoryPlacement::HostVisible", "host_visible=True"),
    ("ModuleImage::Builtin", "the built-in kernels"),
    ("OwnedImage::subresource_layout", "Image.row_pitch"),
    ("`OwnedSemaphore::timeline`", "Device.timeline"),
    ("Stream::signal", "Timeline.signal"),
    ("Stream::wait", "Timeline.wait"),
    ("or pass TimelineStrategy::HostBridge", "or set it to bridge"),
    ("Timeline::wait", "Timeline.host_wait"),
    ("`Timeline`", "Timeline"),
    ("VkApplicationInfo::apiVersion", "VkApplicationInfo.apiVersion"),
    ("VkMemoryAllocateInfo::allocationSize", "VkMemoryAllocateInfo.allocationSize"),
    ("VulkanInterop::optional_device_extensions", "vulkan.Device.optional_extensions"),
    ("`dedicated`", "dedicated=True"),
    ("`native`", "native=True"),
    ("do not set native=True", "leave out native=True"),
    ("gpu_interop::", "gpu_interop."),
    ("ExporterTimeline::", "Timeline."),
];

/// Functions of Rust that Python has under another name.
const OPERATIONS: [(&str, &str); 51] = [
    ("ArrayRegion::region", "Array.region"),
    ("BackendChoice::from_str", "gpu_interop.open"),
    ("BackendName::from_str", "gpu_interop.open"),
    ("Device::allocate_exportable", "Device.allocate"),
    ("Device::open", "gpu_interop.open"),
    ("Device::open_matching", "gpu_interop.open"),
    ("DmaBufPicture::from_objects", "Context.import_picture"),
    ("DmaBufPicture::into_planes", "Context.import_planes"),
    ("DmaBufPicture::objects", "Context.import_picture"),
    ("ExportableBuffer::new", "Context.buffer"),
    ("ExportableImage::new", "Context.image"),
    ("ExportableSemaphore::timeline", "Context.timeline"),
    ("ExternalMemory::map_buffer", "Memory.tensor"),
    ("ExternalMemory::map_mipmapped_array", "Memory.array"),
    ("GlInterop::new", "gl.Context"),
    ("HeadlessContext::new", "vulkan.Context"),
    ("ImportedBuffer::new", "Context.import_buffer"),
    ("ImportedMemory::map_buffer", "Context.import_buffer"),
    ("ImportedMemory::map_texture", "Context.import_texture"),
    ("ImportedPicture::new", "Context.import_picture"),
    ("KmtHandle::new", "Device.import_memory"),
    ("MappedMipmappedArray::level", "Array.region"),
    ("MemoryHandle::opaque_from_raw_fd", "Device.import_memory"),
    ("NtHandle::from_raw", "Device.import_memory"),
    ("ObjectName::new", "Device.import_memory"),
    ("OwnedBuffer::new", "Context.buffer"),
    ("OwnedImage::array_desc", "Image.array"),
    ("OwnedImage::subresource_layout", "Image.row_pitch"),
    ("OwnedSemaphore::timeline", "Context.timeline"),
    ("Recording::acquire_image", "Recording.acquire"),
    ("Recording::initialize_image", "Recording.initialize"),
    ("Recording::release_image", "Recording.release"),
    ("Stream::copy_array", "Stream.copy"),
    ("Stream::copy_from_array", "Stream.copy"),
    ("Stream::copy_to_array", "Stream.copy"),
    ("Stream::fill_u32", "Stream.fill"),
    ("Stream::is_idle", "Stream.idle"),
    ("Stream::read_array", "Stream.read"),
    ("Stream::signal_timeline", "Timeline.signal"),
    ("Stream::synchronize_timeout", "Stream.synchronize"),
    ("Stream::wait_timeline", "Timeline.wait"),
    ("Stream::write_array", "Stream.write"),
    ("TexelFormat::from_vulkan", "Context.image"),
    ("Timeline::is_reached", "Timeline.reached"),
    ("Timeline::new", "Device.timeline"),
    ("Timeline::signal", "Timeline.host_signal"),
    ("Timeline::wait", "Timeline.host_wait"),
    ("TimelineStrategy::from_str", "Device.timeline"),
    ("VulkanInterop::picture_modifiers", "Context.picture_modifiers"),
    ("gpu_interop::device_for", "gpu_interop.open"),
    ("gpu_interop::select", "gpu_interop.open"),
];

/// Types of Rust that Python has under another name.
const TYPES: [(&str, &str); 18] = [
    ("BackendDevice", "Device"),
    ("ExportableBuffer", "Buffer"),
    ("ExportableImage", "Image"),
    ("ExportableMemory", "Memory"),
    ("ExportableSemaphore", "Timeline"),
    ("ExternalMemory", "Memory"),
    ("HeadlessContext", "Context"),
    ("HostBackend", "Device"),
    ("HostSemaphore", "Timeline"),
    ("ImageSpec", "Image"),
    ("GlInterop", "Context"),
    ("ImportedBuffer", "Buffer"),
    ("ImportedSemaphore", "Timeline"),
    ("MappedBuffer", "Memory"),
    ("OwnedBuffer", "Buffer"),
    ("OwnedImage", "Image"),
    ("OwnedSemaphore", "Timeline"),
    ("VulkanInterop", "vulkan.Device"),
];

/// A message with the names of Python.
pub(crate) fn in_python(message: &str) -> String {
    let text = with_names(message, &NAMES);
    // Functions of earlier errors.
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let pieces = text.split_inclusive(|c| !in_name(c)).map(|piece| {
        let name = piece.trim_end_matches(|c| !in_name(c) || c == ':');
        let is_rust = name.contains("::") && name.starts_with(|c: char| c.is_ascii_uppercase());
        if is_rust { operation(name) + &piece[name.len()..] } else { piece.to_owned() }
    });
    pieces.collect()
}

/// The failed function: the driver's, or Python's in place of one of Rust.
pub(crate) fn operation(of: &str) -> String {
    if let Some((_, python)) = OPERATIONS.iter().find(|(rust, _)| *rust == of) {
        return (*python).to_owned();
    }
    let Some((class, method)) = of.split_once("::") else { return of.to_owned() };
    let class = TYPES.iter().find(|(rust, _)| *rust == class).map_or(class, |(_, python)| python);
    format!("{class}.{method}")
}
