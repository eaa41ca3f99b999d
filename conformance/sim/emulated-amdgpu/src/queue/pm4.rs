//! Executes PM4 packets: commands of the graphics and compute rings. Draws are not emulated.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::abi::pm4::{
    Decoded, EndWrite, Packet, Place, Predicate, SAMPLES_STRIDE, SAMPLES_VALID, SHADER_REGISTER_COUNT,
    SHADER_REGISTERS, compute, decode, initiator,
};
use crate::abi::sdma::holds;
use crate::drm::RENDER_BACKENDS;
use crate::emulation::Emulation;
use crate::gpu;
use crate::kernel::shader::{self, Shader};
use crate::memory::Access;
use crate::queue::Stop;
use crate::queue::ring::{Commands, Engine};
use crate::queue::state::Backoff;
use crate::report::say;

type Result<T> = std::result::Result<T, Stop>;

/// Nested command buffers; the hardware has two levels.
const DEPTH: u32 = 4;

/// The state of a ring between packets.
#[derive(Debug)]
pub(super) struct Processor {
    emulation: &'static Emulation,
    gpu: usize,
    engine: Engine,
    registers: Box<[u32; SHADER_REGISTER_COUNT]>,
    dispatch_base: u64,
    predicate: Option<Predicate>,
}

impl Processor {
    pub(super) fn new(emulation: &'static Emulation, gpu: usize, engine: Engine) -> Self {
        let registers = Box::new([0; SHADER_REGISTER_COUNT]);
        Self { emulation, gpu, engine, registers, dispatch_base: 0, predicate: None }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.emulation, self.gpu, self.engine);
    }

    /// Executes a command buffer of a submission.
    pub(super) fn run(&mut self, commands: Commands) -> Result<()> {
        self.predicate = None;
        self.run_buffer(commands, 0)
    }

    fn run_buffer(&mut self, commands: Commands, depth: u32) -> Result<()> {
        let mut buffer = Some(commands);
        while let Some(Commands { address, words: length }) = buffer.take() {
            let words = self.emulation.memory.read_words(self.gpu, address, length)?;
            let mut rest = words.as_slice();
            while !rest.is_empty() {
                let at = address + 4 * (words.len() - rest.len()) as u64;
                let Some(Decoded { packet, predicated, length }) = decode(rest) else {
                    let header = rest.first().copied().unwrap_or(0);
                    return Err(Stop::Invalid(format!("{header:#010x} at {at:#x} is no whole PM4 packet")));
                };
                let level = if matches!(packet, Packet::Nothing(_)) { 3 } else { 2 };
                say!(level, "PM4 at {at:#x}: {packet:x?}");
                rest = rest.get(length..).unwrap_or_default();
                if predicated && !self.holds_predicate()? {
                    continue;
                }
                match packet {
                    Packet::IndirectBuffer { address, words, chain: true } => {
                        // The rest of this buffer is not executed.
                        buffer = Some(Commands { address, words });
                        break;
                    }
                    Packet::IndirectBuffer { address, words, chain: false } => {
                        if depth >= DEPTH {
                            return Err(Stop::Invalid(format!("command buffers are nested {depth} times")));
                        }
                        self.run_buffer(Commands { address, words }, depth + 1)?;
                    }
                    Packet::Conditional { address, words } => {
                        if self.emulation.memory.read_u32(self.gpu, address)? == 0 {
                            rest = rest.get(usize::try_from(words).unwrap_or(usize::MAX)..).unwrap_or_default();
                        }
                    }
                    packet => self.execute(packet)?,
                }
            }
        }
        Ok(())
    }

    fn holds_predicate(&self) -> Result<bool> {
        let Some(Predicate { address, long, not_zero }) = self.predicate else { return Ok(true) };
        let memory = &self.emulation.memory;
        let value = if long { memory.read_u64(self.gpu, address)? } else { memory.read_u32(self.gpu, address)?.into() };
        Ok((value != 0) == not_zero)
    }

    fn execute(&mut self, packet: Packet<'_>) -> Result<()> {
        let (memory, gpu) = (&self.emulation.memory, self.gpu);
        match packet {
            // Nothing without draws reads their state.
            Packet::Nothing(_) | Packet::DrawState(_) => {}
            Packet::SetShaderRegisters { first, values } => {
                let Some(registers) = self.registers.get_mut(first..first + values.len()) else {
                    return Err(Stop::Invalid(format!("shader register {first:#x} does not exist")));
                };
                registers.copy_from_slice(values);
            }
            Packet::SetDispatchBase { address } => self.dispatch_base = address,
            Packet::SetPredicate(predicate) => self.predicate = predicate,
            Packet::Dispatch { groups, initiator } => self.dispatch(groups, initiator)?,
            Packet::DispatchIndirect { relative, address, initiator } => {
                let address = if relative { self.dispatch_base.wrapping_add(address) } else { address };
                let words = memory.read_words(gpu, address, 3)?;
                let groups = words.try_into().unwrap_or([0; 3]);
                self.dispatch(groups, initiator)?;
            }
            // There are no draws, so the counters are 0.
            Packet::CountSamples { address } => {
                for backend in 0..u64::from(RENDER_BACKENDS) {
                    memory.write_u64(gpu, address.wrapping_add(backend * SAMPLES_STRIDE), SAMPLES_VALID)?;
                }
            }
            Packet::EndOfPipe { address, write } => match write {
                EndWrite::Nothing => {}
                EndWrite::Short(value) => memory.write_u32(gpu, address, value)?,
                EndWrite::Long(value) => memory.write_u64(gpu, address, value)?,
                EndWrite::Clock => memory.write_u64(gpu, address, gpu::gpu_clock())?,
            },
            Packet::Dma { size: 0, .. } | Packet::Dma { to: Place::Nowhere, .. } => {}
            Packet::Dma { from, to: Place::Memory(to), size } => match from {
                Place::Memory(from) => memory.copy(gpu, to, from, size)?,
                Place::Immediate(value) => {
                    let [a, b, c, d, ..] = value.to_le_bytes();
                    memory.fill(gpu, to, size, &[a, b, c, d])?;
                }
                _ => return Err(Stop::Invalid(format!("DMA_DATA from {from:x?}"))),
            },
            Packet::Write { address, values, same_address } => {
                for (index, value) in (0_u64..).zip(values) {
                    let offset = if same_address { 0 } else { index * 4 };
                    memory.write_u32(gpu, address.wrapping_add(offset), *value)?;
                }
            }
            Packet::Copy { from, to, long } => self.copy(from, to, long)?,
            Packet::Wait { address, function, reference, mask } => self.wait(address, function, reference, mask)?,
            Packet::Draw(name) => {
                let why = "draws are not emulated; use a compute queue for copies and clears of images";
                return Err(Stop::Invalid(format!("{name}: {why}")));
            }
            Packet::Unknown { operation, why } => {
                return Err(Stop::Invalid(format!("unknown PM4 packet, operation {operation:#04x}: {why}")));
            }
            Packet::Dma { .. } | Packet::IndirectBuffer { .. } | Packet::Conditional { .. } => {
                return Err(Stop::Invalid(format!("unexpected PM4 packet {packet:x?}")));
            }
        }
        Ok(())
    }

    /// The shader register at a word offset of all registers.
    fn register(&mut self, offset: u32) -> Result<&mut u32> {
        let index = offset.checked_sub(SHADER_REGISTERS).map(|index| index as usize);
        let register = index.and_then(|index| self.registers.get_mut(index));
        register.ok_or_else(|| Stop::Invalid(format!("COPY_DATA with register {offset:#x}, which is not emulated")))
    }

    fn copy(&mut self, from: Place, to: Place, long: bool) -> Result<()> {
        let (memory, gpu) = (&self.emulation.memory, self.gpu);
        let value = match from {
            Place::Memory(address) if long => memory.read_u64(gpu, address)?,
            Place::Memory(address) => memory.read_u32(gpu, address)?.into(),
            Place::Immediate(value) => value,
            Place::Clock => gpu::gpu_clock(),
            Place::Register(offset) => u64::from(*self.register(offset)?),
            Place::Nowhere => 0,
        };
        let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
        let [low, high] = [[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes);
        match to {
            Place::Memory(address) if long => memory.write_u64(gpu, address, value)?,
            Place::Memory(address) => memory.write_u32(gpu, address, low)?,
            Place::Register(offset) => {
                *self.register(offset)? = low;
                if long {
                    *self.register(offset + 1)? = high;
                }
            }
            _ => return Err(Stop::Invalid(format!("COPY_DATA to {to:x?}"))),
        }
        Ok(())
    }

    /// Time after which the kernel driver takes a submission for hung.
    fn limit(&self) -> Duration {
        Duration::from_secs(if self.engine == Engine::Compute { 60 } else { 10 })
    }

    fn wait(&self, address: u64, function: u32, reference: u32, mask: u32) -> Result<()> {
        let mut backoff = Backoff::new();
        loop {
            let read = self
                .emulation
                .memory
                .atomic_u32(self.gpu, address, Access::Read, |word| word.load(Ordering::SeqCst) & mask)?;
            if holds(function, read, reference) {
                return Ok(());
            }
            if backoff.waited() > self.limit() {
                let what = format!("a wait for the word at {address:#x} to be {reference:#x}, it is {read:#x}");
                return Err(Stop::Invalid(format!("{what}: no change for {} s", self.limit().as_secs())));
            }
            backoff.pause();
        }
    }

    fn values<const N: usize>(&self, first: usize) -> [u32; N] {
        self.registers.get(first..first + N).and_then(|values| values.try_into().ok()).unwrap_or([0; N])
    }

    /// Dispatches the compute program of the registers.
    fn dispatch(&mut self, sizes: [u32; 3], initiator: u32) -> Result<()> {
        let [low, high] = self.values(compute::PROGRAM);
        let threads: [u32; 3] = self.values(compute::GROUP);
        let group = threads.map(|size| size & 0xffff);
        let mut last = threads.map(|size| size >> 16);
        let mut groups = sizes;
        if initiator & initiator::SIZES_ARE_ITEMS != 0 {
            for ((groups, last), size) in groups.iter_mut().zip(&mut last).zip(group) {
                let items = *groups;
                (*groups, *last) = (items.div_ceil(size.max(1)), items % size.max(1));
            }
        }
        let partial = initiator & (initiator::PARTIAL_GROUPS | initiator::SIZES_ARE_ITEMS) != 0;
        for (last, size) in last.iter_mut().zip(group) {
            if !partial || *last == 0 {
                *last = size;
            }
        }
        let start = if initiator & initiator::START_AT_ZERO == 0 { self.values(compute::START) } else { [0; 3] };
        let [scratch] = self.values(compute::SCRATCH);
        let shader = Shader {
            program: u64::from(low) << 8 | u64::from(high & 0xff) << 40,
            resources: self.values(compute::RESOURCES),
            scalars: self.values::<{ compute::USER_DATA_COUNT }>(compute::USER_DATA),
            start,
            end: groups,
            group,
            last,
            scratch,
        };
        shader::dispatch(self.emulation, self.gpu, &shader)
    }
}
