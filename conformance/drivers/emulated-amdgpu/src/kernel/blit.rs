//! The kernels by which AMD's runtime copies and fills.

use super::{Launch, Result, words};
use crate::log::say;
use crate::queue::Stop;

/// Executes the kernel if it is one of these.
pub(super) fn run(launch: &Launch<'_>, name: &str) -> Result<bool> {
    let Some(name) = name.strip_prefix("__amd_rocclr_") else { return Ok(false) };
    match name {
        "fillBufferAligned" => fill(launch),
        "copyBuffer" => copy(launch),
        "copyBufferAligned" => copy_scaled(launch, true),
        "streamOpsWrite" => words::write(launch).map(|()| true),
        "streamOpsWait" => words::wait(launch).map(|()| true),
        _ => Ok(false),
    }
}

/// The pattern at an address of the GPU.
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

fn fill(launch: &Launch<'_>) -> Result<bool> {
    let arguments = launch.arguments::<64>()?;
    let (memory, gpu) = (&launch.emulation.memory, launch.gpu);
    // Younger runtimes pass the end of the range: (target, pattern, pattern size, element, end, next chunk).
    let (target, end) = (arguments.u64(0), arguments.u64(24));
    if arguments.u64(8) != 0 && end > target && arguments.u32(20) <= 16 {
        let pattern = pattern(launch, arguments.u64(8), u64::from(arguments.u32(16)) * u64::from(arguments.u32(20)))?;
        memory.fill(gpu, target, end - target, &pattern)?;
        return Ok(true);
    }
    // Older ones pass one of four pointers by the size of an element, (u8, u16, u32, u64), and count elements:
    // (.., pattern, pattern size, offset, size).
    let Some((width, target)) =
        [1, 2, 4, 8].into_iter().zip(0..4).map(|(w, at)| (w, arguments.u64(at * 8))).find(|(_, target)| *target != 0)
    else {
        return Ok(false);
    };
    let elements = u64::from(arguments.u32(40));
    let (offset, count) = (arguments.u64(48), arguments.u64(56));
    let pattern = pattern(launch, arguments.u64(32), elements * width)?;
    let size = count.wrapping_mul(elements).wrapping_mul(width);
    say!(2, "fill {target:#x} + {offset} x {width}, {size} bytes");
    memory.fill(gpu, target.wrapping_add(offset.wrapping_mul(width)), size, &pattern)?;
    Ok(true)
}

fn copy(launch: &Launch<'_>) -> Result<bool> {
    let arguments = launch.arguments::<48>()?;
    // Younger runtimes: (source, target, size, remainder, aligned size, end, next chunk).
    let (source, target, size, end) = (arguments.u64(0), arguments.u64(8), arguments.u64(16), arguments.u64(32));
    let aligned = arguments.u32(28);
    if end >= target && end <= target.saturating_add(size) && (aligned == 16 || aligned == 4) {
        launch.emulation.memory.copy(launch.gpu, target, source, size)?;
        return Ok(true);
    }
    copy_scaled(launch, false)
}

/// (source, target, source offset, target offset, size, remainder or element): in elements, or in bytes of which the last
/// word's are apart.
fn copy_scaled(launch: &Launch<'_>, aligned: bool) -> Result<bool> {
    let arguments = launch.arguments::<48>()?;
    let [source, target, source_offset, target_offset, size] = [0, 8, 16, 24, 32].map(|offset| arguments.u64(offset));
    let last = u64::from(arguments.u32(40));
    let (unit, bytes) = if aligned {
        (last, size.wrapping_mul(last))
    } else {
        (1, size.wrapping_sub(1).wrapping_mul(4).wrapping_add(last))
    };
    let at = |address: u64, offset: u64| address.wrapping_add(offset.wrapping_mul(unit));
    launch.emulation.memory.copy(launch.gpu, at(target, target_offset), at(source, source_offset), bytes)?;
    Ok(true)
}
