//! Creation of wgpu devices that can share.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use gpu_interop::vulkan::VulkanInterop;
use gpu_interop::{Error, ErrorKind, Result};
use wgpu::hal::api::Vulkan;

use crate::native::unsupported_backend;

const OPERATION: &str = "gpu_interop_wgpu::request_device";

/// Creates a wgpu device and queue as `wgpu::Adapter::request_device` does. In addition to wgpu's own extensions, it
/// enables the Vulkan extensions for sharing memory and timelines. Native devices are created at once, so there is no
/// future.
///
/// A device of `wgpu::Adapter::request_device` shares memory too, where its driver has the extension for that, which
/// the feature `VULKAN_EXTERNAL_MEMORY_FD` (on Windows `VULKAN_EXTERNAL_MEMORY_WIN32`) demands. It lacks the extension
/// for semaphores, so that the host transfers the values of its timelines, which is slower. With Direct3D 12 every
/// device has everything.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the adapter is of another backend than Vulkan (on Windows also Direct3D 12), or lacks
/// an extension, a feature or a limit; otherwise wgpu's error is the source.
#[doc(alias("create_device_from_hal", "vkCreateDevice"))]
pub fn request_device(
    adapter: &wgpu::Adapter,
    desc: &wgpu::DeviceDescriptor<'_>,
) -> Result<(wgpu::Device, wgpu::Queue)> {
    let backend = adapter.get_info().backend;
    match backend {
        wgpu::Backend::Vulkan => request_vulkan(adapter, desc),
        wgpu::Backend::Dx12 if cfg!(windows) => request_plain(adapter, desc),
        _ => Err(unsupported_backend(OPERATION, backend)),
    }
}

/// Without extensions.
fn request_plain(adapter: &wgpu::Adapter, desc: &wgpu::DeviceDescriptor<'_>) -> Result<(wgpu::Device, wgpu::Queue)> {
    let mut requested = std::pin::pin!(adapter.request_device(desc));
    match requested.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(created) => created.map_err(failed),
        Poll::Pending => Err(Error::unsupported(OPERATION, "wgpu creates this device later; await request_device")),
    }
}

fn failed(error: wgpu::RequestDeviceError) -> Error {
    Error::new(ErrorKind::Driver, OPERATION, "wgpu cannot create the device").with_source(error)
}

fn request_vulkan(adapter: &wgpu::Adapter, desc: &wgpu::DeviceDescriptor<'_>) -> Result<(wgpu::Device, wgpu::Queue)> {
    check(adapter, desc)?;
    let open = {
        // SAFETY: the guard destroys nothing.
        let hal = unsafe { adapter.as_hal::<Vulkan>() };
        let hal = hal.ok_or_else(|| Error::invalid(OPERATION, "the adapter is not of wgpu's own Vulkan backend"))?;
        let has = |name: &std::ffi::CStr| hal.physical_device_capabilities().supports_extension(name);
        let missing: Vec<_> = VulkanInterop::required_device_extensions().iter().filter(|name| !has(name)).collect();
        if !missing.is_empty() {
            let message = "the Vulkan driver shares no memory with other APIs; install the GPU vendor's driver";
            return Err(Error::unsupported(OPERATION, message)
                .with_context("missing extensions", format_args!("{missing:?}"))
                .with_context("adapter", adapter.get_info().name));
        }
        let optional = VulkanInterop::optional_device_extensions().iter().filter(|name| has(name));
        let wanted: Vec<_> = VulkanInterop::required_device_extensions().iter().chain(optional).copied().collect();
        let add = |args: wgpu::hal::vulkan::CreateDeviceCallbackArgs<'_, '_, '_>| {
            for name in wanted {
                if !args.extensions.contains(&name) {
                    args.extensions.push(name);
                }
            }
        };
        // SAFETY: the device has the extensions that the callback adds; it changes nothing else. Features and limits
        // are the adapter's (`check`).
        unsafe {
            hal.open_with_callback(
                desc.required_features,
                &desc.required_limits,
                &desc.memory_hints,
                Some(Box::new(add)),
            )
        }
        .map_err(|error| Error::new(ErrorKind::Driver, OPERATION, "wgpu cannot open the device").with_source(error))?
    };
    // SAFETY: the device was opened from this adapter, with these features.
    unsafe { adapter.create_device_from_hal::<Vulkan>(open, desc) }.map_err(failed)
}

/// The checks of `wgpu::Adapter::request_device`.
fn check(adapter: &wgpu::Adapter, desc: &wgpu::DeviceDescriptor<'_>) -> Result<()> {
    let missing = desc.required_features - adapter.features();
    if !missing.is_empty() {
        return Err(Error::unsupported(OPERATION, "the adapter lacks required features; request fewer")
            .with_context("missing", format_args!("{missing:?}")));
    }
    let experimental = desc.required_features & wgpu::Features::all_experimental_mask();
    if !experimental.is_empty() && !desc.experimental_features.is_enabled() {
        let message = "experimental features are not enabled; set `experimental_features` of the device descriptor";
        return Err(Error::invalid(OPERATION, message).with_context("features", format_args!("{experimental:?}")));
    }
    let mut exceeded = Vec::new();
    desc.required_limits.check_limits_with_fail_fn(&adapter.limits(), false, |name, wanted, allowed| {
        exceeded.push(format!("{name}: {wanted}, the adapter has {allowed}"));
    });
    if exceeded.is_empty() {
        return Ok(());
    }
    let message = "the adapter does not reach the required limits; start from `adapter.limits()`";
    Err(Error::unsupported(OPERATION, message).with_context("limits", exceeded.join("; ")))
}
