//! Kernels: their code is executed instruction by instruction.
//!
//! The runtimes' own kernels of large fills and copies are executed as such, by name, because an interpreter takes
//! seconds for them. The name of a kernel object is learnt when the runtime queries the object's address
//! (`interpose`); ROCR's own kernels, which it builds without symbols, are recognised by their arguments.

mod blit;
pub(crate) mod shader;

use std::collections::HashMap;
use std::sync::Mutex;

use gpu_interop_sim_gfx9 as gfx9;
use gpu_interop_sim_gfx9::Progress;

use crate::abi::aql::{Dispatch, KernelDescriptor, queue as queue_field};
use crate::drm::GB_ADDR_CONFIG;
use crate::emulation::Emulation;
use crate::kernel::blit::Effect;
use crate::kfd::{LDS_APERTURE, SCRATCH_APERTURE};
use crate::lock;
use crate::queue::{Queue, Stop};
use crate::report::{enabled, say};
use crate::settings::Acceleration;

type Result<T> = std::result::Result<T, Stop>;

/// Executes a dispatch, whose packet is at an address.
pub(crate) fn run(emulation: &'static Emulation, queue: &Queue, packet: u64, dispatch: &Dispatch) -> Result<()> {
    for (point, stop) in [("packet-hang", Stop::Hang), ("reset", Stop::Reset)] {
        if emulation.faults.at(point).is_some() {
            return Err(stop);
        }
    }
    if emulation.faults.at("page-fault").is_some() {
        return Err(Stop::PageFault(crate::memory::PageFault { gpu: queue.gpu, address: 0, read_only: false }));
    }
    let descriptor = KernelDescriptor::new(&emulation.memory.read(queue.gpu, dispatch.kernel)?);
    let launch = Launch { emulation, gpu: queue.gpu, dispatch: *dispatch, kernarg_size: descriptor.arguments };
    let name = emulation.kernels.name(dispatch.kernel);
    let name = name.as_deref().map(|name| name.strip_suffix(".kd").unwrap_or(name));
    if enabled(2) {
        launch.describe(name);
    }
    emulation.counters.add("kernels", name.unwrap_or("(no name)"));
    if name.is_some_and(blit::waits) && emulation.faults.from("skip-word-waits").is_some() {
        return Ok(());
    }
    let acceleration = emulation.settings.acceleration;
    let effects = match acceleration {
        Acceleration::None => None,
        Acceleration::Large | Acceleration::Check => blit::effects(&launch, name)?,
    };
    match effects {
        Some(effects) if acceleration == Acceleration::Check => {
            let expected = effects.iter().map(|effect| effect.expect(&launch)).collect::<Result<Vec<_>>>()?;
            execute(emulation, queue, packet, dispatch, &descriptor)?;
            for (effect, bytes) in effects.iter().zip(expected) {
                effect.check(&launch, &bytes, name)?;
            }
            emulation.counters.add("checked_kernels", name.unwrap_or("(no name)"));
            Ok(())
        }
        Some(effects) if effects.iter().map(Effect::size).sum::<u64>() >= blit::LARGE => {
            effects.iter().try_for_each(|effect| effect.apply(&launch))
        }
        _ => execute(emulation, queue, packet, dispatch, &descriptor),
    }
}

/// Instructions of a dispatch before the address space may change.
const SLICE: u64 = 50_000;

/// Executes the kernel's instructions.
fn execute(
    emulation: &'static Emulation,
    queue: &Queue,
    packet: u64,
    dispatch: &Dispatch,
    descriptor: &KernelDescriptor,
) -> Result<()> {
    let memory = &emulation.memory;
    let mut program = gfx9::Dispatch::new(prepare(emulation, queue, packet, dispatch, descriptor)?)
        .map_err(|stop| stopped(queue.gpu, stop))?;
    queue.wait_until(|| {
        loop {
            let progress = memory.with_space(queue.gpu, dispatch.kernel, |space| Ok(program.run(space, SLICE)))?;
            match progress.map_err(|stop| stopped(queue.gpu, stop))? {
                Progress::Done => return Ok(true),
                Progress::Asleep => return Ok(false),
                Progress::More if queue.ended() => return Err(Stop::Destroyed),
                Progress::More => {}
            }
        }
    })?;
    say!(2, "queue {}: {} wave instructions", queue.id, program.executed());
    Ok(())
}

fn stopped(gpu: usize, stop: gfx9::Stop) -> Stop {
    match stop {
        gfx9::Stop::PageFault { address, read_only } => {
            Stop::PageFault(crate::memory::PageFault { gpu, address, read_only })
        }
        other => Stop::Invalid(other.to_string()),
    }
}

/// Private memory as `COMPUTE_TMPRING_SIZE` describes it: the number of waves, and bytes of each, in units of 256 words.
const fn ring(register: u32) -> (u32, u32) {
    (register & 0xfff, (register >> 12 & 0x1fff) * 1024)
}

/// What the command processor gives a kernel: its first scalar registers, and the shape of its work.
fn prepare(
    emulation: &Emulation,
    queue: &Queue,
    packet: u64,
    dispatch: &Dispatch,
    descriptor: &KernelDescriptor,
) -> Result<gfx9::Launch> {
    let (memory, gpu) = (&emulation.memory, queue.gpu);
    let field = |offset: u64| queue.write_pointer + offset;
    let mut scalars = Vec::new();
    let has = |bit: u32| descriptor.properties >> bit & 1 != 0;
    if has(0) {
        for word in 0..4 {
            scalars.push(memory.read_u32(gpu, field(queue_field::SCRATCH_DESCRIPTOR) + word * 4)?);
        }
    }
    let mut pair =
        |value: u64| scalars.extend([value & 0xffff_ffff, value >> 32].map(|word| u32::try_from(word).unwrap_or(0)));
    if has(1) {
        pair(packet);
    }
    if has(2) {
        pair(queue.write_pointer - queue_field::START);
    }
    if has(3) {
        pair(dispatch.kernarg);
    }
    if has(4) {
        pair(0);
    }
    if has(5) {
        pair(memory.read_u64(gpu, field(queue_field::SCRATCH_ADDRESS))?);
    }
    if has(6) {
        scalars.push(dispatch.private);
    }
    let scratch =
        if descriptor.resources[1] & 1 == 0 { 0 } else { memory.read_u32(gpu, field(queue_field::TMPRING_SIZE))? };
    let group = dispatch.workgroup.map(|size| size.max(1));
    let axes = || group.iter().zip(dispatch.grid);
    let (mut groups, mut last) = ([0; 3], [0; 3]);
    for ((size, grid), (count, rest)) in axes().zip(groups.iter_mut().zip(&mut last)) {
        (*count, *rest) = (grid.div_ceil(*size), grid % size);
    }
    Ok(gfx9::Launch {
        program: dispatch.kernel.wrapping_add_signed(descriptor.entry),
        resources: descriptor.resources,
        scalars,
        first: [0; 3],
        groups,
        group,
        last,
        shared: dispatch.shared.max(descriptor.shared),
        scratch: ring(scratch),
        apertures: [LDS_APERTURE, SCRATCH_APERTURE],
        addresses: gfx9::AddressConfig(GB_ADDR_CONFIG),
    })
}

/// A kernel launch, as the kernels of fills and copies see it.
#[derive(Debug)]
pub(crate) struct Launch {
    emulation: &'static Emulation,
    gpu: usize,
    dispatch: Dispatch,
    /// Size of the arguments according to the kernel's descriptor.
    kernarg_size: u32,
}

impl Launch {
    /// The arguments, of a known size.
    fn arguments<const N: usize>(&self) -> Result<Arguments<N>> {
        Ok(Arguments(self.emulation.memory.read(self.gpu, self.dispatch.kernarg)?))
    }

    fn describe(&self, name: Option<&str>) {
        let Dispatch { grid, workgroup, kernel, kernarg, .. } = self.dispatch;
        let words: Vec<_> = (0..16)
            .map_while(|word| self.emulation.memory.read_u64(self.gpu, kernarg + word * 8).ok())
            .map(|word| format!("{word:x}"))
            .collect();
        let size = self.kernarg_size;
        crate::report::failure(format_args!(
            "kernel {} at {kernel:#x}, grid {grid:?} by {workgroup:?}, {size} bytes of arguments: {}",
            name.unwrap_or("(no name)"),
            words.join(" "),
        ));
    }
}

/// The first `N` bytes of a kernel's arguments.
#[derive(Debug)]
struct Arguments<const N: usize>([u8; N]);

impl<const N: usize> Arguments<N> {
    fn bytes<const M: usize>(&self, offset: usize) -> [u8; M] {
        // An offset out of range is an error in a layout, detected by its first launch.
        self.0.get(offset..offset + M).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; M])
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes(offset))
    }
}

/// Those of a process, by the objects' addresses.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<HashMap<u64, String>>);

impl Kernels {
    /// Records a name. A later module may have its kernel at the address of an earlier one: the last name counts.
    pub(crate) fn learn(&self, object: u64, name: String) {
        say!(1, "kernel object {object:#x} is {name}");
        lock(&self.0).insert(object, name);
    }

    fn name(&self, object: u64) -> Option<String> {
        lock(&self.0).get(&object).cloned()
    }
}
