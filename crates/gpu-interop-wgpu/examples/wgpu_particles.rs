//! Example: compute moves a million particles in vertex buffers that wgpu draws: the discs of two galaxies that pass each
//! other.
//!
//! The particles' state is memory of compute's own. Each frame in flight has a vertex buffer, to which the kernel writes
//! positions. Compute prepares 16 frames at once, since each hand-over lets the GPU switch between two contexts, which
//! takes 0.3 ms on an H200. The kernel is `kernels/particles.c` on CUDA and HIP, and a Rust function on the CPU. `--help` lists the
//! arguments; there is one particle for each pixel. `wgpu_particles_pass` does the same without interop.

mod common;

use std::collections::VecDeque;
use std::slice::from_raw_parts_mut;

use common::galaxies::{Camera, Cores, State, Step, Vertex, states};
use common::{Options, Result, Setup};
use gpu_interop_wgpu::gpu_interop::host::KernelCall;
use gpu_interop_wgpu::gpu_interop::{ExportableMemory, Kernel, KernelArg, LaunchConfig, Stream};
use gpu_interop_wgpu::{HandBack, Interop, Shared, SharedBuffer, gpu_interop, wgpu};

/// Frames that compute prepares at once.
const GROUP: u32 = 16;

struct Particles {
    /// Prepared frames: their vertex buffers, and for the first of a group what hands all of them back.
    pending: VecDeque<(usize, Option<HandBack>)>,
    frames: u32,
    vertices: Vec<SharedBuffer>,
    states: ExportableMemory,
    count: u32,
    cores: Cores,
    kernel: Kernel,
    stream: Stream,
    interop: Interop,
    camera: Camera,
}

impl common::Example for Particles {
    fn new(adapter: &wgpu::Adapter, format: wgpu::TextureFormat, options: &Options) -> Result<Self> {
        let code = common::code!("particles");
        let Setup { kernel, stream, interop } = Setup::new(adapter, c"advance", &code, advance_on_the_cpu)?;
        let count = options.size * options.size;
        let size = u64::from(count) * size_of::<Vertex>() as u64;
        let desc =
            wgpu::BufferDescriptor { label: None, size, usage: wgpu::BufferUsages::VERTEX, mapped_at_creation: false };
        let vertices = (0..2 * GROUP).map(|_| interop.create_buffer(&desc)).collect::<gpu_interop::Result<_>>()?;
        let memory = interop.compute().allocate_exportable(u64::from(count) * size_of::<State>() as u64)?;
        stream.write(memory.slice(..)?, &states(count))?;
        let (pending, cores) = (VecDeque::new(), Cores::new(options));
        let camera = Camera::new(interop.device(), format, options);
        Ok(Self {
            pending,
            frames: options.frames,
            vertices,
            states: memory,
            count,
            cores,
            kernel,
            stream,
            interop,
            camera,
        })
    }

    fn interop(&self) -> &Interop {
        &self.interop
    }

    fn begin(&mut self, number: u32) -> Result<()> {
        if !number.is_multiple_of(GROUP) {
            return Ok(());
        }
        let group = number..self.frames.min(number + GROUP);
        let indices = group.map(|frame| frame as usize % self.vertices.len());
        let objects: Vec<&dyn Shared> = indices.clone().map(|index| &self.vertices[index] as &dyn Shared).collect();
        let compute = self.interop.begin_compute(&self.stream, &objects)?;
        for index in indices.clone() {
            for _ in 0..self.cores.steps {
                let step = self.cores.step();
                let states = KernelArg::Buffer(self.states.slice(..)?);
                let vertices = KernelArg::Buffer((&self.vertices[index]).into());
                let arguments = [states, vertices, KernelArg::U64(self.count.into()), KernelArg::by_value(&step)];
                // SAFETY: the kernel takes two buffers for `count` particles, and a step.
                unsafe { self.stream.launch(&self.kernel, &LaunchConfig::linear(self.count.into()), &arguments) }?;
            }
        }
        let mut back = Some(compute.signal()?);
        self.pending.extend(indices.map(|index| (index, back.take())));
        Ok(())
    }

    fn finish(&mut self, target: &wgpu::TextureView) -> Result<wgpu::SubmissionIndex> {
        let (index, back) = self.pending.pop_front().ok_or("no frame has begun")?;
        let drawing = self.camera.draw(self.interop.device(), self.vertices[index].wgpu(), target)?;
        match back {
            Some(back) => Ok(back.acquire_and_submit([drawing])?),
            None => Ok(self.interop.queue().submit([drawing])),
        }
    }
}

/// `kernels/particles.c`.
fn advance_on_the_cpu(call: &KernelCall<'_>) -> Result<(), String> {
    let (states, vertices) = (call.ptr(0)?.cast::<State>(), call.ptr(1)?.cast::<Vertex>());
    let count = usize::try_from(call.u64(2)?).map_err(|error| error.to_string())?;
    // SAFETY: launches pass a step. Both buffers are for `count` particles, aligned to pages, and used by this kernel only.
    let (step, states, vertices) =
        unsafe { (call.value::<Step>(3)?, from_raw_parts_mut(states, count), from_raw_parts_mut(vertices, count)) };
    for ([px, py, pz, _, vx, vy, vz, _], vertex) in states.iter_mut().zip(vertices) {
        let half = step.seconds * 0.5;
        let (x, y, z) = (*px + *vx * half, *py + *vy * half, *pz + *vz * half);
        for core in &step.cores {
            let (dx, dy, dz) = (core[0] - x, core[1] - y, core[2] - z);
            let square = dx * dx + dy * dy + dz * dz + 0.04;
            let pull = core[3] * step.seconds / (square * square.sqrt());
            (*vx, *vy, *vz) = (*vx + dx * pull, *vy + dy * pull, *vz + dz * pull);
        }
        (*px, *py, *pz) = (x + *vx * half, y + *vy * half, z + *vz * half);
        *vertex = [*px, *py, *pz, (*vx * *vx + *vy * *vy + *vz * *vz).sqrt()];
    }
    Ok(())
}

fn main() -> Result<()> {
    common::run::<Particles>("wgpu_particles", include_bytes!("pictures/wgpu_particles.png"), 3.0)
}
