//! Compute programs of the render node's rings, as the registers describe them. The interpreter executes them.

use std::time::Duration;

use gpu_interop_sim_gfx9::{AddressConfig, Dispatch, Launch, Progress};

use crate::drm::GB_ADDR_CONFIG;
use crate::emulation::Emulation;
use crate::kernel::{SLICE, ring, stopped};
use crate::kfd::{LDS_APERTURE, SCRATCH_APERTURE};
use crate::queue::{Backoff, Stop};
use crate::report::say;

/// A launch of a compute program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shader {
    /// Address of the first instruction.
    pub(crate) program: u64,
    /// `COMPUTE_PGM_RSRC1` and `COMPUTE_PGM_RSRC2`.
    pub(crate) resources: [u32; 2],
    /// The first scalar registers.
    pub(crate) scalars: [u32; 16],
    /// The first group, and the one after the last.
    pub(crate) start: [u32; 3],
    pub(crate) end: [u32; 3],
    /// Work items of a group, and of the last group.
    pub(crate) group: [u32; 3],
    pub(crate) last: [u32; 3],
    /// `COMPUTE_TMPRING_SIZE`.
    pub(crate) scratch: u32,
}

/// Time without progress after which the kernel driver takes a launch for hung.
const LIMIT: Duration = Duration::from_secs(60);

/// Executes a launch.
pub(crate) fn dispatch(emulation: &'static Emulation, gpu: usize, shader: &Shader) -> Result<(), Stop> {
    let launch = Launch {
        program: shader.program,
        resources: shader.resources,
        scalars: shader.scalars.to_vec(),
        first: shader.start,
        groups: std::array::from_fn(|axis| shader.end[axis].saturating_sub(shader.start[axis])),
        group: shader.group,
        last: shader.last,
        shared: 0,
        scratch: ring(shader.scratch),
        apertures: [LDS_APERTURE, SCRATCH_APERTURE],
        addresses: AddressConfig(GB_ADDR_CONFIG),
    };
    let mut dispatch = Dispatch::new(launch).map_err(|stop| stopped(gpu, stop))?;
    let mut backoff = Backoff::new();
    loop {
        let progress = emulation.memory.with_space(gpu, shader.program, |space| Ok(dispatch.run(space, SLICE)))?;
        match progress.map_err(|stop| stopped(gpu, stop))? {
            Progress::Done => break,
            Progress::More => backoff.reset(),
            Progress::Asleep if backoff.waited() > LIMIT => return Err(Stop::Hang),
            Progress::Asleep => backoff.pause(),
        }
    }
    say!(2, "program {:#x}: {} instructions", shader.program, dispatch.executed());
    Ok(())
}
