//! The native API beneath wgpu: Vulkan or Direct3D 12.
//!
//! # Contracts of unsafe calls
//! Every call of an unsafe function in this crate, each clause of its contract, and the code that enforces the clause.
//! Safe code of the application cannot break a clause. The last rows are safe functions with requirements of Vulkan or
//! Direct3D 12.
//!
//! | call | clause | enforced by |
//! |---|---|---|
//! | `wgpu::{Adapter, Device, Queue}::as_hal` | nothing destroys the resource | no function here destroys one; guards are dropped, or kept as the owner of a `VulkanInterop` |
//! | | wgpu-hal's own requirements | the rows below |
//! | `wgpu::CommandEncoder::as_hal_mut`, `hal::vulkan::CommandEncoder::raw_handle` | the command buffer is neither ended nor destroyed | `VulkanDevice::record` records barriers only |
//! | | nothing else uses the encoder meanwhile | it is a local variable of `VulkanDevice::record` |
//! | `hal::vulkan::Adapter::open_with_callback` | the adapter has the features and limits | `request::check` |
//! | | the callback adds supported extensions only | `request_vulkan`: required ones are checked, optional ones filtered |
//! | | the callback removes no feature | it changes the list of extensions only |
//! | `wgpu::Adapter::create_device_from_hal` | the device was opened from this adapter | `request_vulkan` opens it from the same adapter |
//! | | `desc` requires features of the device only | both calls get the same `desc.required_features` |
//! | `ImportedPicture::new` | the dma-bufs contain the picture, and keep their size | the caller of `Importer::import_picture` |
//! | | `VK_EXT_queue_family_foreign` is enabled | `VulkanDevice::check_pictures` |
//! | `OwnedSemaphore::assume_signalled` | the signal was submitted, and no wait for it | `VulkanDevice::export_sync_file`: wgpu has taken the staged signal |
//! | `SyncFileSemaphore::export` | all that the submission waits for was submitted, too | wgpu's queue waits for sync files, which are of submitted work, and for timelines by `TimelineInner::stage_wait` |
//! | `VulkanInterop::with_owner` | instance, physical device and device belong together | all are read from one `hal::vulkan::Device` |
//! | | the instance is for Vulkan 1.1 or later | wgpu-hal asks for it wherever the loader has it; `with_owner` detects others |
//! | | `timelineSemaphore` is enabled | wgpu-hal enables it wherever the device has it, and demands the same of applications that bring a `VkDevice`; `with_owner` detects devices without it |
//! | | `bufferDeviceAddress` is enabled for buffers that need it | `check::buffer`: `EXPERIMENTAL_RAY_QUERY`, with which wgpu-hal enables it |
//! | | dma-bufs need their extension | `VulkanDevice::check_pictures` |
//! | | instance and device outlive everything made from them | the owner is the guard of wgpu's device |
//! | `hal::vulkan::Buffer::from_raw_externally_owned` | the `VkBuffer` outlives wgpu's buffer | the drop callback owns a clone of the `OwnedBuffer` |
//! | | wgpu does not map the buffer | `check::buffer` rejects usages that map, and `mapped_at_creation` |
//! | `hal::dx12::Device::buffer_from_raw` | the resource is a buffer of `size` bytes or more | `D3d12Device::create_buffer` creates it; wgpu holds a reference |
//! | `wgpu::Device::create_buffer_from_hal` | the buffer is of this device | `Interop` keeps one wgpu device, and the native device read from it |
//! | | it respects `desc` | `check::buffer`; `buffer_usage`; the size is rounded up |
//! | | it is initialised | Vulkan: `Transfer::Initialize` before the buffer is returned; Direct3D 12 zeroes committed resources; an imported one is the producer's contents |
//! | | its size is not 0 | `check::buffer` |
//! | `hal::vulkan::Device::texture_from_raw` | the `VkImage` respects `desc` | `check::texture`; `image_spec`, `image_usage`, `image_flags`; imports: `check_image`, `check_picture` |
//! | | image and memory live until the drop callback | the callback owns a clone of the `OwnedImage`, which owns its memory |
//! | | view formats only with `MUTABLE_FORMAT` | `other_views` decides both |
//! | `hal::dx12::Device::texture_from_raw` | the resource respects the description | `check::texture`; `texture_spec`; wgpu holds a reference |
//! | `wgpu::Device::create_texture_from_hal` | the texture is of this device | as for buffers |
//! | | it respects `desc`, and so every view that wgpu allows | as `texture_from_raw`; cube views: `image_flags`; other formats: `check::texture`, and an error with Direct3D 12 |
//! | | it is initialised, in `initial_state` | Vulkan: `Transfer::Initialize` before the texture is returned, which ends in `GENERAL`; an imported one is acquired in `GENERAL`; Direct3D 12: `COMMON`, zeroed |
//! | | wgpu need not zero it later: it cannot (`TextureClearMode::None`) | `check::texture` demands `TextureOptions::never_discarded` |
//! | `OwnedBuffer::record_release`, `record_acquire`, the same of `OwnedImage`, `OwnedImage::record_initialize` | the command buffer is of the object's device | `Lent::new` rejects objects of another `Interop` |
//! | | it records, outside of a pass, on one thread | it is of a new encoder, which has its own pool |
//! | | it is submitted to a queue of the named family | wgpu has one queue; `Interop::build` rejects that of another device |
//! | | the object lives until it has completed | `record_use` in the same submission: wgpu's tracker keeps it; wgpu rejects a submission with a destroyed object as a whole |
//! | | the named family owns the object; releases and acquires alternate | `Object::lent`; every failure behind a release acquires (`Owned::acquire`, object by object if one was destroyed); imports: `Imported::in_access` |
//! | | the image is in `GENERAL` | `Native::texture_state`; [`vulkan`] says why |
//! | | `record_initialize`: nothing uses the image before | it is submitted before the constructor returns |
//! | `vkCmdFillBuffer`, `vkCmdClearColorImage`, `vkCmdPipelineBarrier` | usage `TRANSFER_DST` | `create_buffer` and `image_spec` add it |
//! | | size and offset are multiples of 4; the image has a colour format in `GENERAL` | `WHOLE_SIZE` of a rounded size; `format::row`; `record_initialize` in front |
//! | `hal::vulkan::Queue::add_wait_semaphore`, `add_signal_semaphore`, `ID3D12CommandQueue::Wait`, `Signal` | the semaphore lives until the submission has completed | `TimelineInner::drop`: `unstage`, then `on_submitted_work_done` |
//! | | the same, of a binary semaphore | `StagedWaits`, `VulkanDevice::export_sync_file` |
//! | | a submission signals a timeline once | `TimelineInner::signalled` is locked until the submission took the signal |
//! | | the value increases, and is near enough | `TimelineInner::begin_signal`; with Vulkan also `OwnedSemaphore::submit_signal` and `submit_wait`, which the host's signals respect |
//! | | a binary semaphore depends on submitted signals only | `TimelineInner::stage_wait` |

#[cfg(windows)]
mod d3d12;
pub(crate) mod objects;
pub(crate) mod vulkan;

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
    /// Transfers that this thread recorded.
    pub(crate) static RECORDED: std::cell::RefCell<Vec<Transfer>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Native {
    /// Finds the native device of `device`.
    pub(crate) fn new(operation: &'static str, device: &wgpu::Device) -> Result<Self> {
        if let Some(device) = vulkan::VulkanDevice::new(operation, device)? {
            return Ok(Self::Vulkan(device));
        }
        #[cfg(windows)]
        if let Some(device) = d3d12::D3d12Device::new(device)? {
            return Ok(Self::D3d12(device));
        }
        let backend = device.adapter_info().backend;
        Err(unsupported_backend(operation, backend))
    }

    pub(crate) fn identity(&self) -> &DeviceIdentity {
        each!(self, device => device.identity())
    }

    /// The Vulkan device, for imports.
    ///
    /// # Errors
    /// `Unsupported` with Direct3D 12.
    #[cfg_attr(
        not(windows),
        allow(clippy::unnecessary_wraps, unused_variables, reason = "Windows has another variant")
    )]
    pub(crate) fn vulkan(&self, operation: &'static str) -> Result<&vulkan::VulkanDevice> {
        match self {
            Self::Vulkan(device) => Ok(device),
            #[cfg(windows)]
            Self::D3d12(_) => {
                let message = "imports need wgpu's Vulkan backend (Backends::VULKAN): with Direct3D 12, open the shared handle \
                               with ID3D12Device::OpenSharedHandle, which knows the resource's description, and pass the \
                               resource to wgpu::Device::create_texture_from_hal or create_buffer_from_hal";
                Err(Error::unsupported(operation, message))
            }
        }
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
    Ok(Native::new("gpu_interop_wgpu::identity", device)?.identity().clone())
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

#[cfg(test)]
mod tests {
    /// The source files with unsafe code.
    const SOURCES: [(&str, &str); 6] = [
        ("native/vulkan.rs", include_str!("vulkan.rs")),
        ("native/vulkan/import.rs", include_str!("vulkan/import.rs")),
        ("native/vulkan/import/picture.rs", include_str!("vulkan/import/picture.rs")),
        ("import/picture.rs", include_str!("../import/picture.rs")),
        ("native/d3d12.rs", include_str!("d3d12.rs")),
        ("request.rs", include_str!("../request.rs")),
    ];

    /// Names of the functions in the first column of the table.
    fn listed() -> Vec<&'static str> {
        let rows = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let calls = rows.filter_map(|row| row.split(" | ").next());
        let words = calls.flat_map(|call| call.split(|c: char| !c.is_alphanumeric() && c != '_'));
        words
            .filter(|word| word.starts_with(|c: char| c.is_lowercase() || c == '_') || word.starts_with("vk"))
            .collect()
    }

    /// The text of each unsafe block.
    fn blocks(source: &str) -> impl Iterator<Item = &str> {
        source.match_indices("unsafe {").map(|(start, _)| {
            let mut depth = 0;
            let end = source[start..].find(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == '}' && depth == 0
            });
            &source[start..start + end.expect("closed")]
        })
    }

    /// Safe functions that are called inside of the blocks, as they are called.
    const SAFE: [&str; 13] = [
        "Box::new",
        "as_raw",
        "aspect_mask",
        "cfg",
        "clone",
        "vk::ImageSubresourceRange::default",
        "device",
        "drop",
        "vk::DependencyFlags::empty",
        "layer_count",
        "level_count",
        "ok_or_else",
        "resource",
    ];

    /// The paths of the functions and methods that a block calls. Tuples have capital letters.
    fn calls(block: &str) -> impl Iterator<Item = &str> {
        let in_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        let called = block.match_indices('(').map(move |(at, _)| {
            let text = &block[..at];
            let text = if text.ends_with('>') { text.rsplit_once("::<").map_or(text, |(text, _)| text) } else { text };
            let start = text.rfind(|c| !in_path(c)).map_or(0, |before| before + 1);
            (text[..start].ends_with('.'), &text[start..])
        });
        let is_tuple = |path: &str| path.rsplit("::").next().is_some_and(|name| name.starts_with(char::is_uppercase));
        called
            .filter(move |(is_method, path)| !path.is_empty() && (*is_method || !is_tuple(path)))
            .map(|(_, path)| path)
    }

    #[test]
    fn every_unsafe_call_has_its_contract_in_the_table() {
        let mut listed = listed();
        assert!(listed.len() > 15, "{listed:?}");
        // Functions of this crate, whose callers' promises are the table's, and ash's names.
        listed.extend([
            "import_picture",
            "wgpu_buffer",
            "wgpu_texture",
            "record_one",
            "record_end_of_zeroes",
            "cmd_fill_buffer",
            "cmd_clear_color_image",
            "cmd_pipeline_barrier",
        ]);
        for (file, source) in SOURCES {
            assert!(blocks(source).count() > 0, "{file}");
            for block in blocks(source) {
                let (unsafe_ones, safe): (Vec<_>, Vec<_>) =
                    calls(block).partition(|path| path.rsplit("::").next().is_some_and(|name| listed.contains(&name)));
                assert!(!unsafe_ones.is_empty(), "{file}: list this call in the table of native/mod.rs:\n{block}");
                let unknown: Vec<_> = safe.into_iter().filter(|path| !SAFE.contains(path)).collect();
                assert!(
                    unknown.is_empty(),
                    "{file}: list {unknown:?} in the table of native/mod.rs, or as safe:\n{block}"
                );
            }
        }
    }
}
