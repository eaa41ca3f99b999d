//! Loading of the Vulkan loader at run time, and the validation layer that it loads.

use std::error::Error as StdError;
use std::ffi::{CStr, OsStr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use gpu_interop_core::{Error, ErrorKind, LoadAttempt, Result};

use crate::identity::version;

/// The Vulkan loader's library name on this operating system.
#[cfg(windows)]
pub const LOADER_LIBRARY: &str = "vulkan-1.dll";
/// The Vulkan loader's library name on this operating system.
#[cfg(any(target_os = "android", target_os = "fuchsia"))]
pub const LOADER_LIBRARY: &str = "libvulkan.so";
/// The Vulkan loader's library name on this operating system.
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub const LOADER_LIBRARY: &str = "libvulkan.dylib";
/// The Vulkan loader's library name on this operating system.
#[cfg(not(any(windows, target_os = "android", target_os = "fuchsia", target_os = "macos", target_os = "ios")))]
pub const LOADER_LIBRARY: &str = "libvulkan.so.1";

const OPERATION: &str = "load the Vulkan loader";

/// Message for a missing loader.
const NO_LOADER: &str = if cfg!(windows) {
    "the Vulkan loader is missing; install your GPU's driver, which includes it"
} else {
    "the Vulkan loader is missing; install it and a driver (Debian: libvulkan1, and your GPU's driver or \
     mesa-vulkan-drivers)"
};

/// Loads the system's Vulkan loader, [`LOADER_LIBRARY`].
///
/// The library is unloaded when the entry and its clones are dropped; keep one as long as anything made from it. The
/// last instance unloads the drivers: keep one in a program that creates and destroys many. NVIDIA's driver 580 could
/// not be loaded again after 12 to some hundred times in one process, for want of static TLS.
/// [`HeadlessContext`](crate::HeadlessContext) keeps one.
///
/// # Errors
/// [`ErrorKind::DriverNotFound`] if the library is not installed or does not load; [`Error::attempts`] has the name
/// tried and the dynamic linker's text. [`ErrorKind::SymbolMissing`] if the library is not a Vulkan loader.
#[doc(alias = "vkGetInstanceProcAddr")]
pub fn load_entry() -> Result<ash::Entry> {
    // SAFETY: the name is that of the system's Vulkan loader, which is safe to load at run time.
    unsafe { load_entry_from(LOADER_LIBRARY) }
}

/// Loads the Vulkan loader from a library name or path of the caller's choice.
///
/// # Errors
/// As [`load_entry`].
///
/// # Safety
/// If `library` exists, it must be a Vulkan loader, or at least safe to load: its initialisers run, and its
/// `vkGetInstanceProcAddr` is called as Vulkan's.
pub unsafe fn load_entry_from(library: impl AsRef<OsStr>) -> Result<ash::Entry> {
    let library = library.as_ref();
    // SAFETY: the caller promises that the library is safe to load.
    let loaded = unsafe { ash::Entry::load_from(library) };
    loaded.map_err(|failure| {
        let attempt = LoadAttempt::new(library.to_string_lossy().into_owned(), error_texts(&failure));
        let error = match failure {
            ash::LoadingError::LibraryLoadFailure(_) => Error::new(ErrorKind::DriverNotFound, OPERATION, NO_LOADER),
            ash::LoadingError::MissingEntryPoint(_) => {
                Error::new(ErrorKind::SymbolMissing, OPERATION, "the library has no vkGetInstanceProcAddr")
            }
        };
        error.with_attempts([attempt]).with_source(failure)
    })
}

/// Keeps the drivers loaded to the process's end, by an instance that is never destroyed. Without one, each new context
/// would load them again, which takes NVIDIA's driver most of the time of an instance's creation, and fails after a dozen
/// times ([`load_entry`]).
pub(crate) fn keep_drivers(entry: &ash::Entry, application: &vk::ApplicationInfo<'_>) {
    static KEPT: OnceLock<Option<(ash::Entry, ash::Instance)>> = OnceLock::new();
    KEPT.get_or_init(|| {
        let info = vk::InstanceCreateInfo::default().application_info(application);
        // SAFETY: the structures live to the end of the call, and the entry as long as the instance.
        let instance = unsafe { entry.create_instance(&info, None) }.ok()?;
        Some((entry.clone(), instance))
    });
}

/// Joins the texts of an error and its sources. Some errors of the dynamic linker have the reason in the source.
fn error_texts(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

pub(crate) const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// The first version that does not wait for itself where one thread signals a timeline and another waits.
const FIXED: u32 = vk::make_api_version(0, 1, 4, 304);

/// Warns, once a process, of a loaded validation layer that stalls if a bridge signals timelines. Vulkan cannot report
/// the layers of an instance, so this searches the process for the layer's library.
pub(crate) fn warn_beside_bridge() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if WARNED.load(Ordering::Relaxed) {
        return;
    }
    let Some(found) = loaded().filter(|found| *found < FIXED) else { return };
    if WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    tracing::warn!(
        layer = version(found),
        "this validation layer may stall for 10 s wherever a bridge signals a timeline, and report \
         UNASSIGNED-VkSemaphore-state-timeout; install version 1.4.304 or later (Debian 13's vulkan-validationlayers, or the \
         Vulkan SDK), or turn validation off"
    );
}

/// The version of the validation layer if its library is loaded.
fn loaded() -> Option<u32> {
    let mapped = std::fs::read("/proc/self/maps").ok()?;
    let name = b"VkLayer_khronos_validation";
    if !mapped.windows(name.len()).any(|window| window == name) {
        return None;
    }
    let entry = load_entry().ok()?;
    // SAFETY: the entry is a Vulkan loader's.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.ok()?;
    let layer = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(LAYER))?;
    Some(layer.spec_version)
}
