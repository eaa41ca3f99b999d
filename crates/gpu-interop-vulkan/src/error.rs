//! Conversion of `VkResult` codes to [`Error`].

use ash::vk;
use gpu_interop_core::{Error, ErrorKind, Result};

/// Converts the code of a failed `vk*` call.
pub(crate) fn driver(operation: &'static str, code: vk::Result) -> Error {
    let (kind, message) = match code {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => (ErrorKind::OutOfMemory, "host memory ran out"),
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => (ErrorKind::OutOfMemory, "device memory ran out"),
        vk::Result::ERROR_INVALID_EXTERNAL_HANDLE => {
            (ErrorKind::ImportRejected, "the driver rejects the handle as one of the stated kind")
        }
        vk::Result::ERROR_EXTENSION_NOT_PRESENT => (ErrorKind::Unsupported, "a requested extension is missing"),
        vk::Result::ERROR_FEATURE_NOT_PRESENT => (ErrorKind::Unsupported, "a requested feature is missing"),
        vk::Result::ERROR_LAYER_NOT_PRESENT => (ErrorKind::Unsupported, "a requested layer is missing"),
        vk::Result::ERROR_FORMAT_NOT_SUPPORTED => {
            let message = "the device does not support this image, or not shared as this kind of handle; choose another \
                           format, usage or tiling";
            (ErrorKind::Unsupported, message)
        }
        vk::Result::ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT => {
            let message = "the driver rejects the offset or pitch of a plane for this modifier; pass those of the producer, in \
                           bytes, or have the producer allocate with the device's alignment of rows";
            (ErrorKind::InvalidArgument, message)
        }
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => (
            ErrorKind::DriverNotFound,
            if cfg!(windows) {
                "the Vulkan loader found no usable driver; install your GPU's driver"
            } else {
                "the Vulkan loader found no usable driver; install your GPU's driver, or mesa-vulkan-drivers (Debian) \
                 for one that runs on the CPU"
            },
        ),
        vk::Result::ERROR_DEVICE_LOST => {
            (ErrorKind::DeviceLost, "the device is lost: an earlier command crashed or exceeded the time limit")
        }
        vk::Result::TIMEOUT | vk::Result::NOT_READY => {
            let message = "the wait timed out; wait again, or check that the work was submitted and that what it waits for \
                           is signalled; with validation, read the validation errors";
            (ErrorKind::Timeout, message)
        }
        _ => (ErrorKind::Driver, "the driver reported a failure"),
    };
    Error::new(kind, operation, message).with_code(i64::from(code.as_raw()), name(code))
}

/// Converts the code of a failed import. Drivers report a handle that they reject with various codes (initialisation
/// failed, map failed, unknown), so most codes become `ImportRejected` here.
pub(crate) fn import(operation: &'static str, code: vk::Result) -> Error {
    let general = driver(operation, code);
    match (general.kind(), code) {
        (ErrorKind::Driver, _) => {
            Error::new(ErrorKind::ImportRejected, operation, "the request is well-formed, but the driver rejected it")
                .with_code(i64::from(code.as_raw()), name(code))
        }
        _ => general,
    }
}

/// The code's name in the Vulkan headers; `None` if ash has no name for it.
fn name(code: vk::Result) -> Option<String> {
    let text = format!("{code:?}");
    text.starts_with(|first: char| first.is_ascii_uppercase()).then(|| format!("VK_{text}"))
}

/// Conversion of the error of an ash result.
pub(crate) trait Checked<T> {
    /// Converts the error of the `vk*` function `operation`.
    fn checked(self, operation: &'static str) -> Result<T>;
}

impl<T> Checked<T> for ash::prelude::VkResult<T> {
    fn checked(self, operation: &'static str) -> Result<T> {
        self.map_err(|code| driver(operation, code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_map_to_error_kinds() {
        let kind = |code| driver("vkAllocateMemory", code).kind();
        assert_eq!(kind(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY), ErrorKind::OutOfMemory);
        assert_eq!(kind(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE), ErrorKind::ImportRejected);
        assert_eq!(kind(vk::Result::ERROR_DEVICE_LOST), ErrorKind::DeviceLost);
        // VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT.
        assert_eq!(kind(vk::Result::from_raw(-1_000_158_000)), ErrorKind::InvalidArgument);
        assert_eq!(kind(vk::Result::from_raw(-12345)), ErrorKind::Driver);
    }

    #[test]
    fn unspecific_import_codes_are_rejections() {
        let kind = |code| import("vkAllocateMemory", code).kind();
        assert_eq!(kind(vk::Result::ERROR_UNKNOWN), ErrorKind::ImportRejected);
        assert_eq!(kind(vk::Result::ERROR_INITIALIZATION_FAILED), ErrorKind::ImportRejected);
        assert_eq!(kind(vk::Result::ERROR_OUT_OF_HOST_MEMORY), ErrorKind::OutOfMemory);
        assert_eq!(kind(vk::Result::ERROR_DEVICE_LOST), ErrorKind::DeviceLost);
    }

    #[test]
    fn errors_keep_number_and_name_of_the_code() {
        let error = driver("vkQueueSubmit", vk::Result::ERROR_DEVICE_LOST);
        let code = error.code().expect("a code");
        assert_eq!((code.value, code.name.as_deref()), (-4, Some("VK_ERROR_DEVICE_LOST")));
    }
}
