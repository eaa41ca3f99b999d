//! This project's own kernels, as `gpu-interop-kernels` describes them.

use std::sync::atomic::Ordering;

use gpu_interop_kernels::pattern_word;

use crate::kernel::{Launch, Result};
use crate::memory::Access;

/// Executes the kernel if it is one of these.
pub(super) fn run(launch: &Launch<'_>, name: &str) -> Result<bool> {
    let (memory, gpu) = (&launch.emulation.memory, launch.gpu);
    if launch.items() == 0 {
        return Ok(false);
    }
    match name {
        "fill_pattern" => {
            let arguments = launch.arguments::<20>()?;
            let seed = arguments.u32(16);
            each(launch, arguments.u64(0), arguments.u64(8), Access::Write, |word, index| {
                // SAFETY: `each` passes words that are mapped for writing.
                unsafe { word.write_unaligned(pattern_word(seed, index)) };
            })?;
        }
        "verify_pattern" => {
            let arguments = launch.arguments::<32>()?;
            let (seed, mut differing) = (arguments.u32(16), 0_u32);
            each(launch, arguments.u64(0), arguments.u64(8), Access::Read, |word, index| {
                // SAFETY: `each` passes words that are mapped.
                let word = unsafe { word.read_unaligned() };
                differing = differing.wrapping_add(u32::from(word != pattern_word(seed, index)));
            })?;
            if differing != 0 {
                memory.atomic_u32(gpu, arguments.u64(24), Access::Write, |counter| {
                    counter.fetch_add(differing, Ordering::Relaxed)
                })?;
            }
        }
        "increment" => {
            let arguments = launch.arguments::<16>()?;
            each(launch, arguments.u64(0), arguments.u64(8), Access::Write, |word, _| {
                // SAFETY: `each` passes words that are mapped for writing.
                unsafe { word.write_unaligned(word.read_unaligned().wrapping_add(1)) };
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Passes `count` words to a function, each with its number.
fn each(
    launch: &Launch<'_>,
    address: u64,
    count: u64,
    access: Access,
    mut function: impl FnMut(*mut u32, u64),
) -> Result<()> {
    // Mappings are whole pages, so an aligned word is within one.
    launch.emulation.memory.parts(
        launch.gpu,
        address,
        count.saturating_mul(4),
        access,
        |pointer, offset, length| {
            for word in 0..length / 4 {
                function(pointer.cast::<u32>().wrapping_add(word), offset / 4 + word as u64);
            }
        },
    )?;
    Ok(())
}
