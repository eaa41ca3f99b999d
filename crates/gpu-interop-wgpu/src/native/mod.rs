//! The native API beneath wgpu: what Vulkan and Direct3D 12 do differently.

#[cfg(windows)]
mod d3d12;
pub(crate) mod objects;
mod vulkan;

use gpu_interop::{Device, DeviceIdentity, Error, Result, Timeline};

use crate::tiling::TextureOptions;
use objects::{NativeTimeline, NewBuffer, NewTexture, Resource, Transfer};

/// The device beneath a wgpu device.
#[derive(Debug)]
pub(crate) enum Native {
    Vulkan(vulkan::VulkanDevice),
    #[cfg(windows)]
    D3d12(d3d12::D3d12Device),
}

/// Calls the same method of either API.
macro_rules! each {
    ($native:expr, $device:ident => $call:expr) => {
        match $native {
            Native::Vulkan($device) => $call,
            #[cfg(windows)]
            Native::D3d12($device) => $call,
        }
    };
}

#[cfg(test)]
thread_local! {
    /// What this thread recorded.
    pub(crate) static RECORDED: std::cell::RefCell<Vec<Transfer>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Native {
    /// Finds the native device of `device`.
    pub(crate) fn new(device: &wgpu::Device) -> Result<Self> {
        const OPERATION: &str = "Interop::new";
        if let Some(device) = vulkan::VulkanDevice::new(OPERATION, device)? {
            return Ok(Self::Vulkan(device));
        }
        #[cfg(windows)]
        if let Some(device) = d3d12::D3d12Device::new(device)? {
            return Ok(Self::D3d12(device));
        }
        let backend = device.adapter_info().backend;
        Err(unsupported_backend(OPERATION, backend))
    }

    pub(crate) fn identity(&self) -> &DeviceIdentity {
        each!(self, device => device.identity())
    }

    /// Creates a buffer. The caller has checked usage and size.
    pub(crate) fn create_buffer(
        &self,
        device: &wgpu::Device,
        desc: &wgpu::BufferDescriptor<'_>,
        size: u64,
    ) -> Result<NewBuffer> {
        each!(self, native => native.create_buffer(device, desc, size))
    }

    /// Creates a texture. The caller has checked what does not depend on the API; `linear` is the tiling.
    pub(crate) fn create_texture(
        &self,
        device: &wgpu::Device,
        desc: &wgpu::TextureDescriptor<'_>,
        options: TextureOptions,
        linear: bool,
    ) -> Result<NewTexture> {
        each!(self, native => native.create_texture(device, desc, options, linear))
    }

    /// Creates a timeline and shares it with the streams of `compute`.
    pub(crate) fn create_timeline(&self, compute: &Device, initial: u64) -> Result<(NativeTimeline, Timeline)> {
        each!(self, device => device.create_timeline(compute, initial))
    }

    /// The state that wgpu's tracker has for a texture before a release and after an acquire.
    pub(crate) fn texture_state(&self) -> wgpu::TextureUses {
        match self {
            // The layout GENERAL, in which other APIs access an image, and which every image may have.
            Self::Vulkan(_) => wgpu::TextureUses::STORAGE_READ_WRITE,
            // D3D12_RESOURCE_STATE_COMMON.
            #[cfg(windows)]
            Self::D3d12(_) => wgpu::TextureUses::PRESENT,
        }
    }

    /// As [`texture_state`](Self::texture_state), of buffers.
    pub(crate) fn buffer_state(&self) -> wgpu::BufferUses {
        match self {
            // Buffers have no layout: any use that writes, so that wgpu orders what follows behind it.
            Self::Vulkan(_) => wgpu::BufferUses::STORAGE_READ_WRITE,
            // D3D12_RESOURCE_STATE_COMMON.
            #[cfg(windows)]
            Self::D3d12(_) => wgpu::BufferUses::empty(),
        }
    }

    /// Records the barriers that wgpu does not know, into a command buffer of their own; `None` if there are none.
    pub(crate) fn record(
        &self,
        device: &wgpu::Device,
        transfer: Transfer,
        resources: &[&Resource],
    ) -> Result<Option<wgpu::CommandBuffer>> {
        #[cfg(test)]
        RECORDED.with_borrow_mut(|recorded| recorded.push(transfer));
        match self {
            Self::Vulkan(native) => native.record(device, transfer, resources),
            #[cfg(windows)]
            Self::D3d12(_) => Ok(None),
        }
    }

    /// `true` if wgpu's queue may wait for a value whose signal is not submitted yet.
    pub(crate) fn waits_before_signals(&self) -> bool {
        match self {
            // `TimelineInner::stage_wait` has the reason.
            Self::Vulkan(_) => false,
            #[cfg(windows)]
            Self::D3d12(_) => true,
        }
    }

    /// Makes wgpu's next submission, from any thread, and all later submissions wait for `value`.
    pub(crate) fn stage_wait(&self, queue: &wgpu::Queue, timeline: &NativeTimeline, value: u64) -> Result<()> {
        each!(self, device => device.stage_wait(queue, timeline, value))
    }

    /// Removes the waits and signals staged for an unused timeline. A submission that wgpu rejected leaves its waits
    /// staged.
    pub(crate) fn unstage(queue: &wgpu::Queue, timeline: &NativeTimeline) {
        match timeline {
            NativeTimeline::Vulkan(semaphore) => vulkan::unstage(queue, semaphore),
            // Waits and signals are in the command queue.
            #[cfg(windows)]
            NativeTimeline::D3d12(_) => {}
        }
    }

    /// Fails for the queue of another device.
    pub(crate) fn check_queue(&self, operation: &'static str, queue: &wgpu::Queue) -> Result<()> {
        if each!(self, device => device.owns(queue)) {
            return Ok(());
        }
        Err(Error::invalid(operation, "the queue is not the device's; pass the queue that was created with the device"))
    }

    /// Signals `value` behind every submission so far. One thread at a time signals a timeline.
    pub(crate) fn signal(&self, queue: &wgpu::Queue, timeline: &NativeTimeline, value: u64) -> Result<()> {
        each!(self, device => device.signal(queue, timeline, value))
    }
}

/// The identity of the GPU of a wgpu device, to find the compute device that is the same hardware:
/// [`gpu_interop::device_for`] or [`gpu_interop::device_for_with_host`].
///
/// # Errors
/// [`ErrorKind::Unsupported`](gpu_interop::ErrorKind::Unsupported) as for [`Interop::new`](crate::Interop::new).
pub fn identity(device: &wgpu::Device) -> Result<DeviceIdentity> {
    Ok(Native::new(device)?.identity().clone())
}

/// The error for backends of wgpu that cannot share.
pub(crate) fn unsupported_backend(operation: &'static str, backend: wgpu::Backend) -> Error {
    let usable = if cfg!(windows) { "VULKAN or DX12" } else { "VULKAN" };
    let message = format!(
        "wgpu's backend {backend} cannot share memory with a compute API; create the wgpu instance with \
         `backends: Backends::{}`",
        if cfg!(windows) { "VULKAN | Backends::DX12" } else { "VULKAN" }
    );
    Error::unsupported(operation, message).with_context("usable", usable)
}
