//! The device functions that export and import, and the extensions that have them.

use std::ffi::CStr;

#[cfg(unix)]
use ash::khr::external_memory_fd::Device as MemoryFunctions;
#[cfg(windows)]
use ash::khr::external_memory_win32::Device as MemoryFunctions;
#[cfg(unix)]
use ash::khr::external_semaphore_fd::Device as SemaphoreFunctions;
#[cfg(windows)]
use ash::khr::external_semaphore_win32::Device as SemaphoreFunctions;
use gpu_interop_core::{Error, Result};

pub(crate) use names::OPTIONAL_EXTENSIONS;
use names::{MEMORY_EXTENSION, MEMORY_FUNCTIONS, SEMAPHORE_EXTENSION, SEMAPHORE_FUNCTIONS};

#[cfg(unix)]
mod names {
    use std::ffi::CStr;

    use ash::vk;

    pub(crate) const MEMORY_EXTENSION: &CStr = vk::KHR_EXTERNAL_MEMORY_FD_NAME;
    pub(crate) const SEMAPHORE_EXTENSION: &CStr = vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME;
    /// `VK_KHR_image_format_list` is a dependency of the modifiers on devices below Vulkan 1.2.
    pub(crate) const OPTIONAL_EXTENSIONS: &[&CStr] = &[
        SEMAPHORE_EXTENSION,
        vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME,
        vk::EXT_QUEUE_FAMILY_FOREIGN_NAME,
        vk::KHR_IMAGE_FORMAT_LIST_NAME,
        vk::EXT_IMAGE_DRM_FORMAT_MODIFIER_NAME,
    ];

    pub(crate) const MEMORY_FUNCTIONS: [&CStr; 2] = [c"vkGetMemoryFdKHR", c"vkGetMemoryFdPropertiesKHR"];
    pub(crate) const SEMAPHORE_FUNCTIONS: [&CStr; 2] = [c"vkGetSemaphoreFdKHR", c"vkImportSemaphoreFdKHR"];
}

#[cfg(windows)]
mod names {
    use std::ffi::CStr;

    use ash::vk;

    pub(crate) const MEMORY_EXTENSION: &CStr = vk::KHR_EXTERNAL_MEMORY_WIN32_NAME;
    pub(crate) const SEMAPHORE_EXTENSION: &CStr = vk::KHR_EXTERNAL_SEMAPHORE_WIN32_NAME;
    pub(crate) const OPTIONAL_EXTENSIONS: &[&CStr] = &[SEMAPHORE_EXTENSION];

    pub(crate) const MEMORY_FUNCTIONS: [&CStr; 2] =
        [c"vkGetMemoryWin32HandleKHR", c"vkGetMemoryWin32HandlePropertiesKHR"];
    pub(crate) const SEMAPHORE_FUNCTIONS: [&CStr; 2] =
        [c"vkGetSemaphoreWin32HandleKHR", c"vkImportSemaphoreWin32HandleKHR"];
}

pub(crate) const REQUIRED_EXTENSIONS: &[&CStr] = &[MEMORY_EXTENSION];

/// The device functions that export and import.
pub(crate) struct Functions {
    pub(super) memory: MemoryFunctions,
    semaphore: Option<SemaphoreFunctions>,
}

impl Functions {
    /// Loads the functions. `has` reports whether the device has a function.
    ///
    /// # Errors
    /// `Unsupported` if the functions for memory are missing.
    pub(crate) fn load(
        operation: &'static str,
        instance: &ash::Instance,
        device: &ash::Device,
        has: impl Fn(&CStr) -> bool,
    ) -> Result<Self> {
        if !MEMORY_FUNCTIONS.into_iter().all(&has) {
            return Err(missing(operation, MEMORY_FUNCTIONS[0], MEMORY_EXTENSION));
        }
        let semaphore = SEMAPHORE_FUNCTIONS.into_iter().all(has).then(|| SemaphoreFunctions::new(instance, device));
        Ok(Self { memory: MemoryFunctions::new(instance, device), semaphore })
    }

    /// The functions for semaphores.
    ///
    /// # Errors
    /// `Unsupported` if their extension is not enabled.
    pub(crate) fn semaphore(&self, operation: &'static str) -> Result<&SemaphoreFunctions> {
        self.semaphore.as_ref().ok_or_else(|| missing(operation, SEMAPHORE_FUNCTIONS[0], SEMAPHORE_EXTENSION))
    }
}

/// The error for a function that the device lacks.
fn missing(operation: &'static str, function: &CStr, extension: &CStr) -> Error {
    let [function, extension] = [function, extension].map(CStr::to_string_lossy);
    Error::unsupported(operation, format!("the device has no {function}; create it with the extension {extension}"))
}
