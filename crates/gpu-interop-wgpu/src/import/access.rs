//! Accesses of wgpu to imported objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpu_interop::{Error, ErrorKind, Result};

#[cfg(unix)]
use super::wait::Given;
use crate::interop::Graphics;
use crate::native::objects::{Resource, Transfer};
use crate::object::{self, Handle};

/// Fences of the producer's work: [`ImportedTexture::begin_access`] waits for them.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Fences<'a> {
    /// The implicit fences of the picture's dma-bufs, which producers such as OpenGL and compositors add. wgpu's queue waits
    /// for them where the kernel returns them as sync files (Linux 6.0) and the device imports these. Elsewhere the CPU waits:
    /// it calls `poll` on the dma-bufs.
    ///
    /// Producers with Vulkan add no implicit fences, unless they add a sync file themselves
    /// (`gpu_interop::vulkan::set_dma_buf_fence`). Without fences nothing waits.
    #[cfg(unix)]
    Implicit,
    /// Sync files, such as the acquire fences of Wayland's explicit synchronisation or PipeWire, or `in_fence_fd`. They are
    /// borrowed: the caller's descriptors stay open. wgpu's queue waits for them, or the CPU where the device does not import
    /// them.
    ///
    /// The kernel signals the fence of a producer that was killed or has lost its device, and the wait ends. On Linux
    /// [`EndedAccess::wait`] and `EndedAccess::check_fences` return the failure.
    #[cfg(unix)]
    SyncFiles(&'a [std::os::fd::BorrowedFd<'a>]),
    /// No fence: the producer's work has completed, for example because the application waited for it.
    Completed,
    /// Has no values. On Windows, no other variant uses the lifetime.
    #[cfg(not(unix))]
    #[doc(hidden)]
    Lifetime(std::marker::PhantomData<&'a ()>, std::convert::Infallible),
}

/// An imported object, shared by its wrapper and its access.
#[derive(Debug)]
pub(super) struct Imported {
    pub(super) graphics: Arc<Graphics>,
    handle: Handle,
    resource: Resource,
    /// wgpu owns the object.
    in_access: AtomicBool,
    /// The dma-bufs, of a picture.
    #[cfg(unix)]
    pub(super) picture: Option<gpu_interop::vulkan::ImportedPicture>,
}

impl Imported {
    pub(super) fn new(graphics: &Arc<Graphics>, handle: Handle, resource: Resource) -> Self {
        Self {
            graphics: graphics.clone(),
            handle,
            resource,
            in_access: AtomicBool::new(false),
            #[cfg(unix)]
            picture: None,
        }
    }

    /// wgpu may write the object, by its usage.
    #[cfg(unix)]
    pub(super) fn writes(&self) -> bool {
        let reads = wgpu::TextureUsages::COPY_SRC | wgpu::TextureUsages::TEXTURE_BINDING;
        match &self.handle {
            Handle::Texture(texture) => !reads.contains(texture.usage()),
            Handle::Buffer(_) => true,
        }
    }

    fn begin(self: &Arc<Self>, operation: &'static str, fences: Fences<'_>) -> Result<Access> {
        if self.in_access.swap(true, Ordering::AcqRel) {
            let message = "an access of the object was begun already; end it first. An access that could not be ended leaves \
                           the object to wgpu: import it again";
            return Err(Error::invalid(operation, message));
        }
        let begun = self.acquire(operation, fences);
        if begun.is_err() {
            self.in_access.store(false, Ordering::Release);
        }
        begun
    }

    /// Waits for the producer, and acquires the object from it.
    fn acquire(self: &Arc<Self>, operation: &'static str, fences: Fences<'_>) -> Result<Access> {
        let Self { graphics, resource, .. } = &**self;
        #[cfg(unix)]
        let given = Given::new(operation, fences)?;
        // Until the submission below has been made, or has failed.
        #[cfg(unix)]
        let _staged = self.wait(operation, fences)?;
        #[cfg(not(unix))]
        let _ = fences;
        graphics.checked(operation, || {
            let barriers = graphics.native.record(&graphics.device, Transfer::Acquire, &[resource])?;
            graphics.queue.submit(barriers.into_iter().chain([self.record_use()]));
            Ok(())
        })?;
        Ok(Access {
            imported: Some(self.clone()),
            #[cfg(unix)]
            given,
        })
    }

    /// Releases the object to the producer, behind everything submitted so far.
    fn release(&self, operation: &'static str) -> Result<wgpu::SubmissionIndex> {
        let Self { graphics, resource, .. } = self;
        let submitted = graphics.checked(operation, || {
            let barriers = graphics.native.record(&graphics.device, Transfer::Release, &[resource])?;
            Ok(graphics.queue.submit([self.record_use()].into_iter().chain(barriers)))
        })?;
        self.in_access.store(false, Ordering::Release);
        Ok(submitted)
    }

    /// As `Lent::record_use`.
    fn record_use(&self) -> wgpu::CommandBuffer {
        object::record_use(&self.graphics.device, &self.graphics.native, std::iter::once(&self.handle))
    }
}

/// A `wgpu::Texture` on imported memory. Created by an [`Importer`](super::Importer). The producer owns it, except
/// during an [`Access`].
///
/// May be dropped at any time, before or after clones of the `wgpu::Texture`, with work pending. An access keeps it alive.
#[derive(Debug)]
pub struct ImportedTexture {
    texture: wgpu::Texture,
    imported: Arc<Imported>,
}

impl ImportedTexture {
    pub(super) fn new(texture: wgpu::Texture, imported: Imported) -> Self {
        Self { texture, imported: Arc::new(imported) }
    }

    /// The texture for wgpu. Submit commands that use it during an [`Access`] only.
    #[must_use]
    pub fn wgpu(&self) -> &wgpu::Texture {
        &self.texture
    }

    /// The imported picture, with its dma-bufs; `None` for other memory.
    #[cfg(unix)]
    #[must_use]
    pub fn picture(&self) -> Option<&gpu_interop::vulkan::ImportedPicture> {
        self.imported.picture.as_ref()
    }

    /// Gives the texture to wgpu, behind `fences`: everything that is submitted to wgpu's queue from now on executes after
    /// the producer's work, and sees its results. Submits a barrier that acquires the image from the producer's queue family.
    ///
    /// Blocks only where the device or the kernel cannot wait on the GPU: see [`Fences`]. The wait happens on the GPU if
    /// `importable` of `VulkanInterop::sync_file_features` is `true` for the device. wgpu's queue waits as a whole, so
    /// begin an access as late as possible.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] during another access, for [`Fences::Implicit`] without a picture, for a descriptor that is
    /// not a sync file, and for a texture that was destroyed (`wgpu::Texture::destroy`), with wgpu's error as the source.
    /// [`ErrorKind::Timeout`] if the CPU has waited for a minute. [`ErrorKind::DeviceLost`]. Errors of the driver. After
    /// an error the producer owns the texture.
    #[doc(alias("vkImportSemaphoreFdKHR", "vkCmdPipelineBarrier", "DMA_BUF_IOCTL_EXPORT_SYNC_FILE", "BeginAccess"))]
    pub fn begin_access(&self, fences: Fences<'_>) -> Result<Access> {
        self.imported.begin("ImportedTexture::begin_access", fences)
    }
}

/// A `wgpu::Buffer` on imported memory. Created by [`Importer::import_buffer`](super::Importer::import_buffer). Used as an
/// [`ImportedTexture`]. wgpu cannot map it.
#[derive(Debug)]
pub struct ImportedBuffer {
    buffer: wgpu::Buffer,
    imported: Arc<Imported>,
}

impl ImportedBuffer {
    pub(super) fn new(buffer: wgpu::Buffer, imported: Imported) -> Self {
        Self { buffer, imported: Arc::new(imported) }
    }

    /// The buffer for wgpu. Submit commands that use it during an [`Access`] only.
    #[must_use]
    pub fn wgpu(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// As [`ImportedTexture::begin_access`]. A buffer has no implicit fences.
    ///
    /// # Errors
    /// As [`ImportedTexture::begin_access`].
    #[doc(alias("vkImportSemaphoreFdKHR", "vkCmdPipelineBarrier", "BeginAccess"))]
    pub fn begin_access(&self, fences: Fences<'_>) -> Result<Access> {
        self.imported.begin("ImportedBuffer::begin_access", fences)
    }
}

/// The time in which wgpu owns an imported object: between [`ImportedTexture::begin_access`] and [`end`](Self::end).
///
/// Dropping it ends it; a failure is then reported through `tracing`.
///
/// An ended access is gone:
///
/// ```compile_fail,E0382
/// # fn show(access: gpu_interop_wgpu::import::Access) -> gpu_interop_wgpu::gpu_interop::Result<()> {
/// access.end()?;
/// access.end()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the access ends it: bind it to a name, and call `end` behind the submissions that use the object"]
pub struct Access {
    /// `None` once it has ended.
    imported: Option<Arc<Imported>>,
    #[cfg(unix)]
    given: Given,
}

impl Access {
    /// Gives the object back to the producer, behind everything that was submitted to wgpu's queue so far. Submits a barrier
    /// that releases it to the producer's queue family. Does not block: [`EndedAccess`] says when the queue has arrived there.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an object that was destroyed, with wgpu's error as the source;
    /// [`ErrorKind::DeviceLost`]. Errors of the driver. The producer may then find older contents. The object cannot be
    /// accessed again.
    #[doc(alias("vkCmdPipelineBarrier", "EndAccess"))]
    pub fn end(mut self) -> Result<EndedAccess> {
        const OPERATION: &str = "Access::end";
        // Not reachable: an end consumes the access.
        let imported = self.imported.take().ok_or_else(|| Error::invalid(OPERATION, "the access has ended"))?;
        let submission = imported.release(OPERATION)?;
        Ok(EndedAccess {
            imported,
            submission,
            #[cfg(unix)]
            given: std::mem::take(&mut self.given),
        })
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let Some(imported) = self.imported.take() else { return };
        if let Err(error) = imported.release("Access::drop") {
            tracing::error!(%error, "an access could not be ended");
        }
    }
}

/// An access that has ended on the CPU, and ends on the GPU later. Until then the producer must not use its memory.
#[derive(Debug)]
#[must_use = "give the buffer back to its producer by `on_done`, `wait`, `sync_file` or `add_fence`"]
pub struct EndedAccess {
    pub(super) imported: Arc<Imported>,
    submission: wgpu::SubmissionIndex,
    #[cfg(unix)]
    pub(super) given: Given,
}

impl EndedAccess {
    /// The submission that releases the object, for `wgpu::Device::poll`.
    #[must_use]
    pub fn submission(&self) -> &wgpu::SubmissionIndex {
        &self.submission
    }

    /// Calls `callback` when wgpu's queue has completed the release and everything that was submitted before this call, as
    /// `wgpu::Queue::on_submitted_work_done`: in a later call of `wgpu::Device::poll` or `wgpu::Queue::submit`. Give the buffer back
    /// to its producer there.
    ///
    /// The work of a killed producer counts as done: call `check_fences` in the callback.
    pub fn on_done(&self, callback: impl FnOnce() + Send + 'static) {
        self.imported.graphics.queue.on_submitted_work_done(callback);
    }

    /// Blocks until wgpu's queue has completed the release.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`]; [`ErrorKind::DeviceLost`] with wgpu's error as the source. On Linux also
    /// [`ErrorKind::Cancelled`] if a sync file of [`Fences::SyncFiles`] has failed: the release has completed then.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        const OPERATION: &str = "EndedAccess::wait";
        let wait = wgpu::PollType::Wait { submission_index: Some(self.submission.clone()), timeout: Some(timeout) };
        match self.imported.graphics.device.poll(wait) {
            #[cfg(unix)]
            Ok(_) => self.given.check(OPERATION),
            #[cfg(not(unix))]
            Ok(_) => Ok(()),
            Err(wgpu::PollError::Timeout) => {
                let message = "wgpu's queue has not completed the access; wait longer, and look for a producer whose fence is \
                               never signalled";
                Err(Error::new(ErrorKind::Timeout, OPERATION, message)
                    .with_context("timeout", format_args!("{timeout:?}")))
            }
            Err(error) => {
                Err(Error::new(ErrorKind::DeviceLost, OPERATION, "wgpu cannot wait; its error is the source")
                    .with_source(error))
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use gpu_interop::vulkan::ash::vk::BufferUsageFlags as Flags;
    use gpu_interop::vulkan::{
        BufferImportOptions, BufferOptions, DeviceChoice, ExportableBuffer, HeadlessContext, HeadlessOptions,
    };

    use super::*;
    use crate::import::Importer;
    use crate::native::RECORDED;

    /// A buffer that wgpu imports, with its device; `None` without Vulkan.
    fn imported() -> std::result::Result<Option<(ImportedBuffer, HeadlessContext)>, Box<dyn std::error::Error>> {
        let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
        desc.backends = wgpu::Backends::VULKAN;
        desc.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(desc);
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()));
        let Ok(adapter) = adapter.inspect_err(|error| println!("skipped: {error}")) else { return Ok(None) };
        let (device, queue) = crate::request_device(&adapter, &wgpu::DeviceDescriptor::default())?;
        let choice = DeviceChoice::Identity(crate::identity(&device)?);
        let producer = HeadlessContext::new(&HeadlessOptions::default().device(choice))?;
        let usage = Flags::TRANSFER_SRC | Flags::TRANSFER_DST;
        let exported = ExportableBuffer::new(producer.interop(), &BufferOptions::new(64, usage))?;
        let importer = Importer::new(&device, &queue)?;
        let usage_of_wgpu = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let desc = wgpu::BufferDescriptor { label: None, size: 64, usage: usage_of_wgpu, mapped_at_creation: false };
        let request = exported.import_request()?;
        let buffer = importer.import_buffer(request, &desc, &BufferImportOptions::new(64, usage))?;
        Ok(Some((buffer, producer)))
    }

    /// Each way to end an access releases the object once.
    #[test]
    fn an_access_acquires_and_releases() {
        let Some((buffer, _producer)) = imported().expect("an import") else { return };
        assert_eq!(RECORDED.take(), [], "the producer owns the memory");
        drop(buffer.begin_access(Fences::Completed).expect("begun"));
        assert_eq!(RECORDED.take(), [Transfer::Acquire, Transfer::Release]);
        let access = buffer.begin_access(Fences::Completed).expect("begun");
        // The access keeps the buffer alive.
        drop(buffer);
        access.end().expect("ended").wait(Duration::from_secs(20)).expect("completes");
        assert_eq!(RECORDED.take(), [Transfer::Acquire, Transfer::Release]);
    }
    /// The kernel signals the fence of a killed producer, too.
    #[test]
    fn a_failed_sync_file_is_reported_once_the_work_has_ended() {
        use std::os::fd::AsFd as _;

        let Some((buffer, producer)) = imported().expect("an import") else { return };
        if producer.interop().sync_file_features().expect("queried").importable {
            println!("skipped: the device imports sync files, which a pipe is not");
            return;
        }
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::write(&writer, &[1]).expect("written");
        for (failed, fences) in [
            (Some(1), Fences::SyncFiles(&[reader.as_fd(), reader.as_fd()])),
            (Some(2), Fences::SyncFiles(&[reader.as_fd(), reader.as_fd()])),
            // A pipe has no status.
            (None, Fences::SyncFiles(&[reader.as_fd()])),
            (Some(0), Fences::Completed),
        ] {
            crate::import::wait::FAILED.set(failed);
            let ended = buffer.begin_access(fences).expect("begun").end().expect("ended");
            let outcome = ended.wait(Duration::from_secs(20));
            let checked = ended.check_fences();
            assert_eq!(outcome.is_err(), failed == Some(1), "{outcome:?}");
            for error in [outcome, checked].into_iter().filter_map(Result::err) {
                assert_eq!(error.kind(), ErrorKind::Cancelled);
                assert!(error.to_string().contains("sync file: 1"), "{error}");
            }
        }
    }
}
