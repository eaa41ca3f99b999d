//! The kernels with which AMD's runtimes copy and fill, as what they do: HIP's by name, in the forms of versions 5.2 to
//! 7.2, and ROCR's own by their arguments, which run before HIP has loaded its own.

use crate::kernel::{Arguments, Launch, Result};
use crate::memory::Access;
use crate::queue::Stop;

/// Bytes from which a fill or a copy is executed without its instructions.
pub(super) const LARGE: u64 = 128 << 10;

/// A part of what a kernel does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Copy { to: u64, from: u64, size: u64 },
    Fill { to: u64, size: u64, pattern: Vec<u8> },
}

impl Effect {
    /// Bytes that are written.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Copy { size, .. } | Self::Fill { size, .. } => *size,
        }
    }

    pub(super) fn apply(&self, launch: &Launch) -> Result<()> {
        let (memory, gpu) = (&launch.emulation.memory, launch.gpu);
        match self {
            Self::Copy { to, from, size } => memory.copy(gpu, *to, *from, *size)?,
            Self::Fill { to, size, pattern } => memory.fill(gpu, *to, *size, pattern)?,
        }
        Ok(())
    }

    /// The bytes that the kernel should write, before it runs.
    pub(super) fn expect(&self, launch: &Launch) -> Result<Vec<u8>> {
        match self {
            Self::Copy { from, size, .. } => bytes(launch, *from, *size),
            Self::Fill { size, pattern, .. } => {
                let size = usize::try_from(*size).unwrap_or(usize::MAX);
                Ok(pattern.iter().copied().cycle().take(size).collect())
            }
        }
    }

    /// Compares the bytes after the kernel ran.
    pub(super) fn check(&self, launch: &Launch, expected: &[u8], name: Option<&str>) -> Result<()> {
        let (Self::Copy { to, .. } | Self::Fill { to, .. }) = self;
        let found = bytes(launch, *to, self.size())?;
        let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
        differs.map_or(Ok(()), |at| {
            let name = name.unwrap_or("(no name)");
            Err(Stop::Invalid(format!("the instructions of {name} wrote a wrong byte at {:#x} + {at:#x}", *to)))
        })
    }
}

fn bytes(launch: &Launch, address: u64, size: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    launch.emulation.memory.parts(launch.gpu, address, size, Access::Read, |pointer, _, length| {
        // SAFETY: `parts` passes `length` readable bytes.
        bytes.extend((0..length).map(|at| unsafe { pointer.add(at).read_volatile() }));
    })?;
    Ok(bytes)
}

/// `true` for the kernels that wait for words in memory.
pub(super) fn waits(name: &str) -> bool {
    matches!(name, "__amd_rocclr_streamOpsWait" | "__amd_rocclr_batchMemOp")
}

/// What the kernel does, if it is one of these with arguments of a known size.
pub(super) fn effects(launch: &Launch, name: Option<&str>) -> Result<Option<Vec<Effect>>> {
    let Some(name) = name else { return unnamed(launch) };
    let Some(name) = name.strip_prefix("__amd_rocclr_") else { return Ok(None) };
    let has = |sizes: &[u32]| has_explicit(launch.kernarg_size, sizes);
    Ok(match name {
        "fillBufferAligned" if has(&[64]) => fill_elements(launch)?,
        "fillBufferAligned" if has(&[36, 40]) => Some(vec![fill_to_end(launch)?]),
        "fillBufferAligned2D" if has(&[80]) => fill_rows(launch)?,
        "copyBuffer" if has(&[44, 48]) => Some(vec![copy(launch)?]),
        "copyBufferAligned" if has(&[44]) => Some(vec![copy_elements(launch)?]),
        "copyBufferRect" if has(&[128]) => Some(copy_rectangle(launch, false)?),
        "copyBufferRectAligned" if has(&[128]) => Some(copy_rectangle(launch, true)?),
        _ => None,
    })
}

/// Sizes of the arguments that compilers append to a kernel's own: none, or the hidden ones of code object versions 4
/// and 5.
const HIDDEN: [u32; 3] = [0, 56, 256];

/// `true` if a kernel whose descriptor states `size` bytes has own arguments of one of these sizes.
fn has_explicit(size: u32, explicit: &[u32]) -> bool {
    let whole = |own: u32| own.next_multiple_of(8);
    explicit.iter().any(|own| size == *own || HIDDEN.iter().any(|hidden| size == whole(*own) + hidden))
}

fn pattern(launch: &Launch, address: u64, size: u64) -> Result<Vec<u8>> {
    if size == 0 || size > 256 {
        return Err(Stop::Invalid(format!("a fill with a pattern of {size} bytes")));
    }
    let mut bytes = Vec::new();
    for byte in 0..size {
        bytes.extend(launch.emulation.memory.read::<1>(launch.gpu, address + byte)?);
    }
    Ok(bytes)
}

/// (target, pattern, elements of the pattern, bytes of an element, end, next chunk)
fn fill_to_end(launch: &Launch) -> Result<Effect> {
    let arguments = launch.arguments::<32>()?;
    let (target, end) = (arguments.u64(0), arguments.u64(24));
    let pattern = pattern(launch, arguments.u64(8), u64::from(arguments.u32(16)) * u64::from(arguments.u32(20)))?;
    // The kernel ends where the first element of a repetition reaches the end.
    let size = end.saturating_sub(target).next_multiple_of(pattern.len() as u64);
    Ok(Effect::Fill { to: target, size, pattern })
}

/// The target of the older fills: one of four pointers, by the size of an element (1, 2, 4, 8).
fn target<const N: usize>(arguments: &Arguments<N>) -> Option<(u64, u64)> {
    let mut targets = [1, 2, 4, 8].into_iter().zip([0, 8, 16, 24].map(|offset| arguments.u64(offset)));
    targets.find(|(_, address)| *address != 0)
}

/// (four targets, pattern, elements of the pattern, first element, repetitions)
fn fill_elements(launch: &Launch) -> Result<Option<Vec<Effect>>> {
    let arguments = launch.arguments::<64>()?;
    let Some((width, target)) = target(&arguments) else { return Ok(None) };
    let pattern = pattern(launch, arguments.u64(32), u64::from(arguments.u32(40)) * width)?;
    let start = target.wrapping_add(arguments.u64(48).wrapping_mul(width));
    let size = arguments.u64(56).wrapping_mul(pattern.len() as u64);
    Ok(Some(vec![Effect::Fill { to: start, size, pattern }]))
}

/// (four targets, pattern, elements of the pattern, first element, repetitions in a row, rows, elements from row to
/// row)
fn fill_rows(launch: &Launch) -> Result<Option<Vec<Effect>>> {
    let arguments = launch.arguments::<80>()?;
    let Some((width, target)) = target(&arguments) else { return Ok(None) };
    let pattern = pattern(launch, arguments.u64(32), u64::from(arguments.u32(40)) * width)?;
    let [first, repetitions, rows, pitch] = [48, 56, 64, 72].map(|offset| arguments.u64(offset));
    let row = |row: u64| {
        let start = target.wrapping_add(first.wrapping_add(row.wrapping_mul(pitch)).wrapping_mul(width));
        let size = repetitions.wrapping_mul(pattern.len() as u64);
        Effect::Fill { to: start, size, pattern: pattern.clone() }
    };
    Ok(Some((0..rows).map(row).collect()))
}

/// Newer runtimes: (source, target, bytes, bytes after the last element, bytes of an element, end of the elements, next
/// chunk). Older ones: as [`copy_elements`], in words, with the bytes of the last word.
fn copy(launch: &Launch) -> Result<Effect> {
    let arguments = launch.arguments::<48>()?;
    let (source, target, size) = (arguments.u64(0), arguments.u64(8), arguments.u64(16));
    let (rest, element, end) = (u64::from(arguments.u32(24)), arguments.u32(28), arguments.u64(32));
    if matches!(element, 4 | 16) && end.checked_add(rest) == target.checked_add(size) {
        return Ok(Effect::Copy { to: target, from: source, size });
    }
    let [source_offset, target_offset, words] = [16, 24, 32].map(|offset| arguments.u64(offset));
    let bytes = words.wrapping_sub(1).wrapping_mul(4).wrapping_add(u64::from(arguments.u32(40)));
    let (to, from) = (target.wrapping_add(target_offset), source.wrapping_add(source_offset));
    Ok(Effect::Copy { to, from, size: bytes })
}

/// (source, target, first element of the source, of the target, elements, bytes of an element)
fn copy_elements(launch: &Launch) -> Result<Effect> {
    let arguments = launch.arguments::<44>()?;
    let [source, target, source_offset, target_offset, size] = [0, 8, 16, 24, 32].map(|offset| arguments.u64(offset));
    let element = u64::from(arguments.u32(40));
    let at = |address: u64, offset: u64| address.wrapping_add(offset.wrapping_mul(element));
    let (to, from) = (at(target, target_offset), at(source, source_offset));
    Ok(Effect::Copy { to, from, size: size.wrapping_mul(element) })
}

/// (source, target, (row pitch, slice pitch, start) of the source, of the target, extent and bytes of an element), all
/// in elements: bytes, or words of the size stated.
fn copy_rectangle(launch: &Launch, aligned: bool) -> Result<Vec<Effect>> {
    let arguments = launch.arguments::<128>()?;
    let (source, target) = (arguments.u64(0), arguments.u64(8));
    let four = |offset: usize| [0, 8, 16, 24].map(|at| arguments.u64(offset + at));
    let (from, to, [width, rows, slices, element]) = (four(32), four(64), four(96));
    let element = if aligned { element } else { 1 };
    if !matches!(element, 1 | 2 | 4 | 8 | 16) {
        return Err(Stop::Invalid(format!("a rectangular copy in elements of {element} bytes")));
    }
    let mut effects = Vec::new();
    for slice in 0..slices {
        for row in 0..rows {
            let at = |base: u64, [row_pitch, slice_pitch, start, _]: [u64; 4]| {
                base + (start + row * row_pitch + slice * slice_pitch) * element
            };
            effects.push(Effect::Copy { to: at(target, to), from: at(source, from), size: width * element });
        }
    }
    Ok(effects)
}

/// What a kernel without a name does, if its arguments match one of these.
fn unnamed(launch: &Launch) -> Result<Option<Vec<Effect>>> {
    let Ok(arguments) = launch.arguments::<88>() else { return Ok(None) };
    let word = |index: usize| arguments.u64(index * 8);
    let items = launch.dispatch.grid[0];
    // Aligned copy in four phases: starts of source and target for each, then their ends, then the number of work
    // items.
    let sources = [0, 2, 4, 6, 8].map(word);
    let targets = [1, 3, 5, 7, 9].map(word);
    let steps = |ends: [u64; 5]| ends.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect::<Vec<_>>();
    if arguments.u32(80) == items && sources.is_sorted() && targets.is_sorted() && steps(sources) == steps(targets) {
        return Ok(Some(vec![Effect::Copy { to: targets[0], from: sources[0], size: sources[4] - sources[0] }]));
    }
    // Misaligned copy in two phases.
    let sources = [0, 2, 4].map(word);
    let targets = [1, 3, 5].map(word);
    if arguments.u32(48) == items
        && sources.is_sorted()
        && targets.is_sorted()
        && sources[2] - sources[0] == targets[2] - targets[0]
    {
        return Ok(Some(vec![Effect::Copy { to: targets[0], from: sources[0], size: sources[2] - sources[0] }]));
    }
    // Fill in two phases: starts, end, value, number of work items.
    let targets = [0, 1, 2].map(word);
    if arguments.u32(28) == items && targets.is_sorted() {
        let pattern = arguments.u32(24).to_le_bytes().to_vec();
        return Ok(Some(vec![Effect::Fill { to: targets[0], size: targets[2] - targets[0], pattern }]));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes in the descriptors of the runtimes 5.2.3, 5.7.1, 6.4.3 and 7.2.4.
    #[test]
    fn the_runtimes_sizes_are_recognised() {
        for (size, explicit) in [(120, 64), (320, 64), (296, 40), (40, 40), (136, 80), (336, 80), (44, 44)] {
            assert!(has_explicit(size, &[12, explicit]), "{size}");
        }
        for (size, explicit) in [(120, 40), (41, 40), (296, 64), (64, 40)] {
            assert!(!has_explicit(size, &[explicit]), "{size}");
        }
    }
}
