//! Compute programs of the render node's rings, as the registers describe them.

use crate::emulation::Emulation;
use crate::queue::Stop;

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

/// Executes a launch.
pub(crate) fn dispatch(_: &'static Emulation, gpu: usize, shader: &Shader) -> Result<(), Stop> {
    Err(Stop::Invalid(format!("compute programs are not emulated: GPU {gpu}, {shader:x?}")))
}
