//! OpenGL as the third side, besides the exporter and the device under test.

mod draw;
mod transfer;

use glow::HasContext;
use gpu_interop::gl::{
    Barriers, GlInterop, HeadlessContext, HeadlessOptions, ImportedBuffer, ImportedMemory, ImportedSemaphore,
    ImportedTexture, TextureFormat, TextureSpec,
};
use gpu_interop::vulkan::{self, ExportableSemaphore, SemaphoreOp};
use gpu_interop::{
    ErrorKind, Kernel, KernelArg, LaunchConfig, MappedBuffer, MemoryHandleKind, SemaphoreHandleKind, Stream,
};
use gpu_interop_kernels::INCREMENT;

use crate::context::Context;
use crate::ensure;
use crate::exporter::ExportedImage;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};

pub(crate) use draw::Drawing;

/// Mesa's CPU driver requires some memory beyond a buffer's end.
pub(crate) const ROOM: u64 = 4096;

/// An OpenGL context on the exporter's device, current on this thread.
pub(crate) struct GlSide<'a> {
    headless: HeadlessContext,
    gl: glow::Context,
    vulkan: &'a vulkan::HeadlessContext,
    /// `None` if the driver has no semaphores; the host then waits for one side after the other.
    order: Option<Order>,
}

/// Semaphores for hand-overs in both directions, each on both sides.
struct Order {
    to_gl: Shared,
    from_gl: Shared,
}

/// A binary semaphore of Vulkan, imported into OpenGL.
pub(crate) struct Shared {
    pub(crate) exported: ExportableSemaphore,
    pub(crate) gl: ImportedSemaphore,
}

impl Shared {
    pub(crate) fn operation(&self) -> SemaphoreOp<'_> {
        operation(&self.exported)
    }
}

/// A binary semaphore for a submission.
pub(crate) fn operation(semaphore: &ExportableSemaphore) -> SemaphoreOp<'_> {
    SemaphoreOp { semaphore: semaphore.semaphore(), value: 0 }
}

impl<'a> GlSide<'a> {
    /// Opens a context on the device of a Vulkan exporter, with imports of memory by descriptors.
    ///
    /// # Errors
    /// Unsupported with another exporter or without an extension, which is named; skipped with the packages to install.
    pub(crate) fn open(context: &'a Context) -> Verdict<Self> {
        let vulkan = context
            .exporter()?
            .vulkan()
            .ok_or_else(|| Stop::unsupported("OpenGL imports memory of Vulkan only, not of this exporter".into()))?;
        let options = HeadlessOptions::default().device(vulkan.identity().clone());
        let headless = HeadlessContext::new(&options).map_err(|error| match error.kind() {
            ErrorKind::DriverNotFound | ErrorKind::NoDevice => Stop::skipped(error.to_string()),
            _ => Stop::attempted(error),
        })?;
        need(
            headless.interop(),
            "memory import",
            headless.interop().memory_support(MemoryHandleKind::OpaqueFd).reason(),
        )?;
        // SAFETY: the context is current, and the addresses belong to it.
        let gl = unsafe { glow::Context::from_loader_function_cstr(|name| headless.address(name)) };
        let mut side = Self { headless, gl, vulkan, order: None };
        if side.interop().semaphore_support(SemaphoreHandleKind::OpaqueFd).is_supported() {
            side.order = Some(Order { to_gl: side.semaphore()?, from_gl: side.semaphore()? });
        }
        Ok(side)
    }

    /// As [`GlSide::open`], with semaphores.
    pub(crate) fn open_with_semaphores(context: &'a Context) -> Verdict<Self> {
        let side = Self::open(context)?;
        let support = side.interop().semaphore_support(SemaphoreHandleKind::OpaqueFd);
        need(side.interop(), "semaphore import", support.reason())?;
        Ok(side)
    }

    pub(crate) fn interop(&self) -> &GlInterop {
        self.headless.interop()
    }

    pub(crate) fn vulkan(&self) -> &'a vulkan::HeadlessContext {
        self.vulkan
    }

    /// True if OpenGL imports semaphores that Vulkan exports.
    pub(crate) fn has_semaphores(&self) -> bool {
        self.order.is_some()
    }

    /// A new binary semaphore of Vulkan and OpenGL.
    pub(crate) fn semaphore(&self) -> Verdict<Shared> {
        let exported = ExportableSemaphore::binary(self.vulkan.interop()).map_err(Stop::attempted)?;
        let gl = self.interop().import_semaphore(exported.import_request()?)?;
        Ok(Shared { exported, gl })
    }

    /// Creates a buffer over a range of imported memory.
    pub(crate) fn buffer(&self, memory: &ImportedMemory, offset: u64, size: u64) -> Verdict<ImportedBuffer> {
        memory.map_buffer(offset..offset + size).map_err(Stop::attempted)
    }

    pub(crate) fn texture(&self, image: &dyn ExportedImage) -> Verdict<ImportedTexture> {
        let memory = self.interop().import_memory(image.import_request()?)?;
        let spec = TextureSpec::from_array(&image.array_desc()?)?;
        // The suite shares images in the order red, green, blue, alpha with linear encoding, which arrays have.
        let format = TextureFormat::from_array(image.spec().format.array)?;
        memory.map_texture(&spec.format(format)).map_err(Stop::attempted)
    }

    /// Acquires objects for OpenGL after the exporter's writes, for which the host has waited.
    pub(crate) fn takes_over(&self, barriers: &Barriers<'_>) -> Verdict {
        let Some(order) = &self.order else { return Ok(()) };
        self.vulkan.submit(&[], &[order.to_gl.operation()], |_| Ok(()))?;
        // SAFETY: the signal was just submitted.
        Ok(unsafe { order.to_gl.gl.wait(barriers) }?)
    }

    /// Waits for OpenGL's commands and releases the objects to the other sides.
    pub(crate) fn hands_over(&self, barriers: &Barriers<'_>) -> Verdict {
        let Some(order) = &self.order else {
            // SAFETY: the context is current.
            unsafe { self.gl.finish() };
            return self.succeeded("glFinish");
        };
        order.from_gl.gl.signal(barriers)?;
        Ok(self.vulkan.submit(&[order.from_gl.operation()], &[], |_| Ok(()))?.wait(WAIT_TIMEOUT)?)
    }

    /// Fails if OpenGL has recorded an error.
    pub(crate) fn succeeded(&self, what: &str) -> Verdict {
        // SAFETY: the context is current.
        match unsafe { self.gl.get_error() } {
            glow::NO_ERROR => Ok(()),
            code => Err(Stop::failed(format!("{what}: OpenGL reported {code:#06x} [{}]", self.interop().driver()))),
        }
    }
}

fn need(interop: &GlInterop, what: &str, reason: Option<&str>) -> Verdict {
    let Some(reason) = reason else { return Ok(()) };
    Err(Stop::unsupported(format!("OpenGL, {what}: {reason} [{}]", interop.driver())))
}

/// The kernel that adds 1 to each word of a buffer. Loaded once, because drivers may wait for all pending work when
/// they load it.
pub(crate) struct Increment(Kernel);

impl Increment {
    pub(crate) fn load(context: &Context) -> Verdict<Self> {
        Ok(Self(context.kernels()?.kernel(INCREMENT.name)?))
    }

    /// Enqueues the kernel for the first `size` bytes of a buffer. Does not wait.
    pub(crate) fn run(&self, stream: &Stream, buffer: &MappedBuffer, size: u64) -> Verdict {
        ensure!(size <= buffer.size(), "the buffer has not the {size} bytes to add to");
        let args = [KernelArg::from(buffer), KernelArg::U64(size / 4)];
        // SAFETY: the arguments are those of the kernel, and the buffer has that many words; the scenarios that own it
        // wait for the stream before they drop it, and the library frees objects dropped with work pending after that
        // work.
        Ok(unsafe { stream.launch(&self.0, &LaunchConfig::linear(size / 4), &args) }?)
    }
}

/// The bytes with 1 added to each word.
pub(crate) fn incremented(mut bytes: Vec<u8>) -> Vec<u8> {
    for word in bytes.chunks_exact_mut(4) {
        let value = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        word.copy_from_slice(&value.wrapping_add(1).to_ne_bytes());
    }
    bytes
}
