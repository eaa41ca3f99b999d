//! The one place where a `VkResult` becomes an [`Error`].

use ash::vk;
use gpu_interop_core::{Error, ErrorKind, Result};

/// What a failed `vk*` call means, whichever call it was.
pub(crate) fn driver(operation: &'static str, code: vk::Result) -> Error {
    let (kind, message) = match code {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => (ErrorKind::OutOfMemory, "host memory ran out"),
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => (ErrorKind::OutOfMemory, "device memory ran out"),
        vk::Result::ERROR_INVALID_EXTERNAL_HANDLE => {
            (ErrorKind::ImportRejected, "the driver does not take this handle for one of the stated kind")
        }
        vk::Result::ERROR_EXTENSION_NOT_PRESENT => (ErrorKind::Unsupported, "an extension asked for is not there"),
        vk::Result::ERROR_FEATURE_NOT_PRESENT => (ErrorKind::Unsupported, "a feature asked for is not there"),
        vk::Result::ERROR_LAYER_NOT_PRESENT => (ErrorKind::Unsupported, "a layer asked for is not there"),
        vk::Result::ERROR_FORMAT_NOT_SUPPORTED => {
            (ErrorKind::Unsupported, "the device has no such image, or none that is shared by this kind of handle")
        }
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => (
            ErrorKind::DriverNotFound,
            if cfg!(windows) {
                "the Vulkan loader found no usable driver; install the one of your GPU"
            } else {
                "the Vulkan loader found no usable driver; install the one of your GPU, or mesa-vulkan-drivers (Debian) \
                 for one that runs on the CPU"
            },
        ),
        vk::Result::ERROR_DEVICE_LOST => {
            (ErrorKind::DeviceLost, "the device is lost: an earlier command crashed or ran too long")
        }
        vk::Result::TIMEOUT | vk::Result::NOT_READY => (ErrorKind::Timeout, "the wait ran out of time"),
        _ => (ErrorKind::Driver, "the driver reported a failure"),
    };
    Error::new(kind, operation, message).with_code(i64::from(code.as_raw()), name(code))
}

/// What a failed import call means. Drivers answer a handle that they do not understand with whatever their
/// internals ran into (initialisation failed, map failed, unknown), so most codes mean a refusal here.
pub(crate) fn import(operation: &'static str, code: vk::Result) -> Error {
    let general = driver(operation, code);
    match (general.kind(), code) {
        (ErrorKind::Driver, _) => {
            Error::new(ErrorKind::ImportRejected, operation, "the request is well-formed, but the driver refused it")
                .with_code(i64::from(code.as_raw()), name(code))
        }
        _ => general,
    }
}

/// The code as the Vulkan header spells it; `None` for one that ash does not know.
fn name(code: vk::Result) -> Option<String> {
    let text = format!("{code:?}");
    text.starts_with(|first: char| first.is_ascii_uppercase()).then(|| format!("VK_{text}"))
}

/// Translates the error side of a result of ash.
pub(crate) trait Checked<T> {
    /// Names the `vk*` function that gave the result.
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
    fn codes_get_the_kind_that_says_what_to_do() {
        let kind = |code| driver("vkAllocateMemory", code).kind();
        assert_eq!(kind(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY), ErrorKind::OutOfMemory);
        assert_eq!(kind(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE), ErrorKind::ImportRejected);
        assert_eq!(kind(vk::Result::ERROR_DEVICE_LOST), ErrorKind::DeviceLost);
        assert_eq!(kind(vk::Result::from_raw(-12345)), ErrorKind::Driver);
    }

    #[test]
    fn imports_read_unspecific_codes_as_a_refusal() {
        let kind = |code| import("vkAllocateMemory", code).kind();
        assert_eq!(kind(vk::Result::ERROR_UNKNOWN), ErrorKind::ImportRejected);
        assert_eq!(kind(vk::Result::ERROR_INITIALIZATION_FAILED), ErrorKind::ImportRejected);
        assert_eq!(kind(vk::Result::ERROR_OUT_OF_HOST_MEMORY), ErrorKind::OutOfMemory);
        assert_eq!(kind(vk::Result::ERROR_DEVICE_LOST), ErrorKind::DeviceLost);
    }

    #[test]
    fn the_number_and_name_survive() {
        let error = driver("vkQueueSubmit", vk::Result::ERROR_DEVICE_LOST);
        let code = error.code().expect("a code");
        assert_eq!((code.value, code.name.as_deref()), (-4, Some("VK_ERROR_DEVICE_LOST")));
    }
}
