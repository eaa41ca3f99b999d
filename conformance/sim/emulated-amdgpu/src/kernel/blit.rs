//! The kernels with which AMD's runtimes copy and fill: HIP's by name, in the forms of versions 5.2 to 7.2, and ROCR's
//! own by their arguments, which run before HIP has loaded its own.

use crate::kernel::{Arguments, Launch, Result, has_explicit, words};
use crate::queue::Stop;

/// Executes the kernel if it is one of these, with arguments of a known size.
pub(super) fn run(launch: &Launch<'_>, name: &str) -> Result<bool> {
    let Some(name) = name.strip_prefix("__amd_rocclr_") else { return Ok(false) };
    let has = |sizes: &[u32]| has_explicit(launch.kernarg_size, sizes);
    match name {
        "fillBufferAligned" if has(&[64]) => fill_elements(launch)?,
        "fillBufferAligned" if has(&[36, 40]) => fill_to_end(launch)?,
        "fillBufferAligned2D" if has(&[80]) => fill_rows(launch)?,
        "copyBuffer" if has(&[44, 48]) => copy(launch)?,
        "copyBufferAligned" if has(&[44]) => copy_elements(launch)?,
        "copyBufferRect" if has(&[128]) => copy_rectangle(launch, false)?,
        "copyBufferRectAligned" if has(&[128]) => copy_rectangle(launch, true)?,
        "streamOpsWrite" if has(&[24, 32]) => words::write(launch)?,
        "streamOpsWait" if has(&[40]) => words::wait(launch)?,
        "batchMemOp" if has(&[12]) => words::batch(launch)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn pattern(launch: &Launch<'_>, address: u64, size: u64) -> Result<Vec<u8>> {
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
fn fill_to_end(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<32>()?;
    let (target, end) = (arguments.u64(0), arguments.u64(24));
    let pattern = pattern(launch, arguments.u64(8), u64::from(arguments.u32(16)) * u64::from(arguments.u32(20)))?;
    // The kernel ends where the first element of a repetition reaches the end.
    let size = end.saturating_sub(target).next_multiple_of(pattern.len() as u64);
    launch.emulation.memory.fill(launch.gpu, target, size, &pattern)?;
    Ok(())
}

/// The target of the older fills: one of four pointers, by the size of an element (1, 2, 4, 8).
fn target<const N: usize>(arguments: &Arguments<N>) -> Option<(u64, u64)> {
    let mut targets = [1, 2, 4, 8].into_iter().zip([0, 8, 16, 24].map(|offset| arguments.u64(offset)));
    targets.find(|(_, address)| *address != 0)
}

/// (four targets, pattern, elements of the pattern, first element, repetitions)
fn fill_elements(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<64>()?;
    let Some((width, target)) = target(&arguments) else { return Ok(()) };
    let pattern = pattern(launch, arguments.u64(32), u64::from(arguments.u32(40)) * width)?;
    let start = target.wrapping_add(arguments.u64(48).wrapping_mul(width));
    let size = arguments.u64(56).wrapping_mul(pattern.len() as u64);
    launch.emulation.memory.fill(launch.gpu, start, size, &pattern)?;
    Ok(())
}

/// (four targets, pattern, elements of the pattern, first element, repetitions in a row, rows, elements from row to
/// row)
fn fill_rows(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<80>()?;
    let Some((width, target)) = target(&arguments) else { return Ok(()) };
    let pattern = pattern(launch, arguments.u64(32), u64::from(arguments.u32(40)) * width)?;
    let [first, repetitions, rows, pitch] = [48, 56, 64, 72].map(|offset| arguments.u64(offset));
    for row in 0..rows {
        let start = target.wrapping_add(first.wrapping_add(row.wrapping_mul(pitch)).wrapping_mul(width));
        launch.emulation.memory.fill(launch.gpu, start, repetitions.wrapping_mul(pattern.len() as u64), &pattern)?;
    }
    Ok(())
}

/// Newer runtimes: (source, target, bytes, bytes after the last element, bytes of an element, end of the elements, next
/// chunk). Older ones: as [`copy_elements`], in words, with the bytes of the last word.
fn copy(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<48>()?;
    let (source, target, size) = (arguments.u64(0), arguments.u64(8), arguments.u64(16));
    let (rest, element, end) = (u64::from(arguments.u32(24)), arguments.u32(28), arguments.u64(32));
    if matches!(element, 4 | 16) && end.checked_add(rest) == target.checked_add(size) {
        launch.emulation.memory.copy(launch.gpu, target, source, size)?;
        return Ok(());
    }
    let [source_offset, target_offset, words] = [16, 24, 32].map(|offset| arguments.u64(offset));
    let bytes = words.wrapping_sub(1).wrapping_mul(4).wrapping_add(u64::from(arguments.u32(40)));
    launch.emulation.memory.copy(
        launch.gpu,
        target.wrapping_add(target_offset),
        source.wrapping_add(source_offset),
        bytes,
    )?;
    Ok(())
}

/// (source, target, first element of the source, of the target, elements, bytes of an element)
fn copy_elements(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<44>()?;
    let [source, target, source_offset, target_offset, size] = [0, 8, 16, 24, 32].map(|offset| arguments.u64(offset));
    let element = u64::from(arguments.u32(40));
    let at = |address: u64, offset: u64| address.wrapping_add(offset.wrapping_mul(element));
    let (to, from) = (at(target, target_offset), at(source, source_offset));
    launch.emulation.memory.copy(launch.gpu, to, from, size.wrapping_mul(element))?;
    Ok(())
}

/// (source, target, (row pitch, slice pitch, start) of the source, of the target, extent and bytes of an element), all
/// in elements: bytes, or words of the size stated.
fn copy_rectangle(launch: &Launch<'_>, aligned: bool) -> Result<()> {
    let arguments = launch.arguments::<128>()?;
    let (source, target) = (arguments.u64(0), arguments.u64(8));
    let four = |offset: usize| [0, 8, 16, 24].map(|at| arguments.u64(offset + at));
    let (from, to, [width, rows, slices, element]) = (four(32), four(64), four(96));
    let element = if aligned { element } else { 1 };
    if !matches!(element, 1 | 2 | 4 | 8 | 16) {
        return Err(Stop::Invalid(format!("a rectangular copy in elements of {element} bytes")));
    }
    for slice in 0..slices {
        for row in 0..rows {
            let at = |base: u64, [row_pitch, slice_pitch, start, _]: [u64; 4]| {
                base + (start + row * row_pitch + slice * slice_pitch) * element
            };
            launch.emulation.memory.copy(launch.gpu, at(target, to), at(source, from), width * element)?;
        }
    }
    Ok(())
}

/// Executes the kernel if its arguments match one of these.
pub(super) fn run_unnamed(launch: &Launch<'_>) -> Result<bool> {
    let Ok(arguments) = launch.arguments::<88>() else { return Ok(false) };
    let word = |index: usize| arguments.u64(index * 8);
    let items = launch.dispatch.grid[0];
    let memory = &launch.emulation.memory;
    // Aligned copy in four phases: starts of source and target for each, then their ends, then the number of work
    // items.
    let sources = [0, 2, 4, 6, 8].map(word);
    let targets = [1, 3, 5, 7, 9].map(word);
    let steps = |ends: [u64; 5]| ends.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect::<Vec<_>>();
    if arguments.u32(80) == items && sources.is_sorted() && targets.is_sorted() && steps(sources) == steps(targets) {
        memory.copy(launch.gpu, targets[0], sources[0], sources[4] - sources[0])?;
        launch.emulation.counters.add("kernels", "rocr_copy_aligned");
        return Ok(true);
    }
    // Misaligned copy in two phases.
    let sources = [0, 2, 4].map(word);
    let targets = [1, 3, 5].map(word);
    if arguments.u32(48) == items
        && sources.is_sorted()
        && targets.is_sorted()
        && sources[2] - sources[0] == targets[2] - targets[0]
    {
        memory.copy(launch.gpu, targets[0], sources[0], sources[2] - sources[0])?;
        launch.emulation.counters.add("kernels", "rocr_copy_misaligned");
        return Ok(true);
    }
    // Fill in two phases: starts, end, value, number of work items.
    let targets = [0, 1, 2].map(word);
    if arguments.u32(28) == items && targets.is_sorted() {
        memory.fill(launch.gpu, targets[0], targets[2] - targets[0], &arguments.u32(24).to_le_bytes())?;
        launch.emulation.counters.add("kernels", "rocr_fill");
        return Ok(true);
    }
    Ok(false)
}
