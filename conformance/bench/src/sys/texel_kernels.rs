//! Launches of the kernels that verify and write a frame.

use gpu_interop::{BufferSlice, ExportableMemory, Kernel, KernelArg, LaunchConfig, Stream, Surface};
use gpu_interop_conformance::{Stop, Verdict, ensure};
use gpu_interop_kernels::SurfaceShape;

/// `verify_pattern` and `fill_pattern`, on memory and, where the device has them, on surfaces.
pub(crate) struct TexelKernels<'a> {
    stream: &'a Stream,
    linear: [Kernel; 2],
    surfaces: Option<([Kernel; 2], Vec<Surface>)>,
    counter: ExportableMemory,
}

impl<'a> TexelKernels<'a> {
    /// Work is enqueued on `stream`. Takes the kernels by their names in `gpu-interop-kernels`, `verify_*` first,
    /// surfaces of images of 4 bytes a texel, and at least 4 bytes for the number of wrong texels.
    pub(crate) fn new(
        stream: &'a Stream,
        linear: [Kernel; 2],
        surfaces: Option<([Kernel; 2], Vec<Surface>)>,
        counter: ExportableMemory,
    ) -> Verdict<Self> {
        ensure!(counter.size() >= 4, "the counter is too small");
        Ok(Self { stream, linear, surfaces, counter })
    }

    pub(crate) fn has_surfaces(&self) -> bool {
        self.surfaces.is_some()
    }

    /// The number of wrong texels.
    pub(crate) fn counter(&self) -> Verdict<BufferSlice<'_>> {
        Ok(self.counter.slice(..4)?)
    }

    /// Enqueues the comparison of words with the pattern of the first seed, and their replacement by that of the
    /// second.
    pub(crate) fn on_buffer(&self, words: BufferSlice<'_>, seeds: [u32; 2]) -> Verdict {
        let count = words.size() / 4;
        let config = LaunchConfig::linear(count);
        let [verified, filled] = seeds.map(KernelArg::U32);
        let (words, found) = (KernelArg::Buffer(words), KernelArg::Buffer(self.counter()?));
        let [verify, fill] = &self.linear;
        // SAFETY: the arguments are those of the kernels, which access `count` words and the counter. Both are buffer
        // arguments, whose mappings launching keeps.
        unsafe {
            self.stream.launch(verify, &config, &[words, KernelArg::U64(count), verified, found])?;
            self.stream.launch(fill, &config, &[words, KernelArg::U64(count), filled])?;
        }
        Ok(())
    }

    /// The same on a surface, of this width and height. The kernels access nothing outside of it.
    pub(crate) fn on_surface(&self, index: usize, size: [u32; 2], seeds: [u32; 2]) -> Verdict {
        let surface = self.surfaces.as_ref().and_then(|(kernels, surfaces)| Some((kernels, surfaces.get(index)?)));
        let ([verify, fill], surface) = surface.ok_or_else(|| Stop::failed(format!("no surface {index}")))?;
        let config = LaunchConfig::linear(u64::from(size[0]) * u64::from(size[1]));
        let [verified, filled] = seeds.map(KernelArg::U32);
        let [shape, width, height, depth, texel] =
            [SurfaceShape::D2.argument(), size[0], size[1], 1, 4].map(KernelArg::U32);
        let arg = surface.as_arg();
        let found = KernelArg::Buffer(self.counter()?);
        // SAFETY: the arguments are those of the kernels, which drop accesses outside of the surface. Surfaces outlive
        // the work: `drop` waits for it first. The counter is a buffer argument.
        unsafe {
            self.stream.launch(verify, &config, &[arg, shape, width, height, depth, texel, verified, found])?;
            self.stream.launch(fill, &config, &[arg, shape, width, height, depth, texel, filled])?;
        }
        Ok(())
    }
}

impl Drop for TexelKernels<'_> {
    fn drop(&mut self) {
        if self.surfaces.is_none() {
            return;
        }
        // Surfaces are not kept by the launches. If the wait fails, so has the device, and nothing runs any more.
        let _ = self.stream.synchronize();
    }
}
